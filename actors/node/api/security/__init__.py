"""A peer's principal and what it may do: logins, rights, and the answers to peers that are not let in."""
