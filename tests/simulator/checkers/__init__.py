"""Properties that must always hold, one in each file."""
