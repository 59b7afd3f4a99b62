"""Appends and fetches of this broker's partitions, and what follows from them."""
