"""A share partition: its records in the hands of the members of a group, one member a record (KIP-932)."""
