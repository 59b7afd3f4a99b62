"""Clusters of processes, on this machine or on Ray: planned, started, watched, changed."""
