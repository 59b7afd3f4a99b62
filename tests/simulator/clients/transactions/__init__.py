"""Clients whose records are in transactions, and readers of committed records."""
