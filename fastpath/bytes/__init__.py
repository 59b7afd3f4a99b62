"""Bytes: numbers, checksums, and memory for them."""
