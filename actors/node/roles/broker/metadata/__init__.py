"""Committed metadata on its way to the replicas of this broker."""
