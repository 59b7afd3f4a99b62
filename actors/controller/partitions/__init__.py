"""Topics and partitions in the metadata: made, placed, changed, elected, moved and deleted."""
