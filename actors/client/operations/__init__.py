"""What a client can do, as generators of steps (`actors.client.asks`): each runs under any driver."""
