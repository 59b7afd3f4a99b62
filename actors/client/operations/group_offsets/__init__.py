"""Where groups read on, of every kind, and moving it."""
