"""Brokers as the controller sees them: registered, fenced, shutting down, unregistered (KIP-631)."""
