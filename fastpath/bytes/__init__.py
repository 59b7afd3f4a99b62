"""Numbers, checksums and memory of bytes."""
