"""Work that the real client (`actors/client`) does in a simulated cluster."""
