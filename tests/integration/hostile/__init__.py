"""Attacks by address on real nodes: what a peer that misbehaves costs, and whom."""
