"""Consumer groups of the classic protocol: state machine, offsets, and their records in `__consumer_offsets`."""
