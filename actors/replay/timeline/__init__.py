"""A metadata log over time: any moment of it, what changed, and when."""
