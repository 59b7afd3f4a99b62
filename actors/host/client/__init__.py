"""The drivers of `actors.client`: sockets, TLS, clocks and files for it. Nothing else of the product loads them."""
