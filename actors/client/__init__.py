"""A client of any Kafka, sans-IO: bytes and time in; dials, bytes and results out.

What it speaks is Kafka's own protocol, so its servers are this project's nodes and Apache Kafka's (2.1 and newer) alike.
`actors.host.client` has the drivers with sockets. A node loads none of it."""
