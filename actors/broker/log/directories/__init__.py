"""A log directory: its names and small files, what is missing from it, and when it is full."""
