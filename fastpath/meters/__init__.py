"""Counters of the hot path: a call each, without an object for what is counted."""
