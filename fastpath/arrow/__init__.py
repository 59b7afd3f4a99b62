"""Records and metadata as Arrow columns."""
