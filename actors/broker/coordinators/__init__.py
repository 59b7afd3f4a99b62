"""What all coordinators have in common: partitions of an internal topic, and writes to them on their way."""
