"""The bytes of numbers, checksums, and memory for them."""
