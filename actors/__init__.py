"""The parts of a node: raft, controller and broker, the node that combines them, and the hosts that run it."""
