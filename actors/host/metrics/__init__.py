"""The page of metrics of one node over HTTP (setting `rayft.metrics.listen`)."""
