"""Topics of any Kafka as Arrow, by address: what `rayft.read` gives."""
