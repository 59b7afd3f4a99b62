"""Sinks that write each row once: the protocol between a driver, its tasks and a ledger, and how it is carried out."""
