"""Records and images as Arrow columns."""
