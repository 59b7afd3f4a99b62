"""Share groups (KIP-932): members that share partitions, and which partitions have begun for a group. No I/O."""
