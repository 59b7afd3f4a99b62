"""Commands that read the metadata log of a cluster by its address."""
