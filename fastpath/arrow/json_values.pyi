"""Values in JSON to columns; for compiled code only."""
