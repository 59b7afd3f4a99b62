"""What must always be true, one file a property."""
