"""Sockets: listening, dialling, frames, TLS, and how much is read between two turns."""
