"""The machines of a cluster: raft, controller, broker, and what composes and hosts them."""
