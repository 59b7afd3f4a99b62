"""The log of one partition: its segments and indexes, what is appended, read, cut and deleted. No I/O but through a port."""
