"""Dashboards and alert rules for a cluster, and what they are made of."""
