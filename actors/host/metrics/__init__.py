"""The metrics of one node: a page over HTTP (`rayft.metrics.listen`), and what is sent to a collector
(`rayft.metrics.otlp.endpoint`)."""
