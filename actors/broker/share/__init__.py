"""Share groups (KIP-932): a partition's records in the hands of the members of a group, one member a record."""
