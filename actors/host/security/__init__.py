"""A cluster's certificates and secrets, in files."""
