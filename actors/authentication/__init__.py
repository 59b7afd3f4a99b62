"""SASL's exchanges, which say whose client is at the other end of a connection, as values (KIP-43, KIP-84, KIP-152,
KIP-368).

An exchange takes the tokens of a peer one by one, and says what to answer and, in the end, which principal the peer is.
It opens nothing and waits for nothing: where users and keys come from is a function that is handed in."""
