"""The metadata that the page shows, at any moment: read from files, or told by brokers."""
