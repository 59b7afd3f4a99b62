"""Attacks on real nodes: what a misbehaving peer costs the node and the other clients."""
