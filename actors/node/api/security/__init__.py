"""Who a peer is and what it may do: logins, rights, and the answers to those who are not let in."""
