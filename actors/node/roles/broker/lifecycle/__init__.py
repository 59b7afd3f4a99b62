"""The broker and its controller: heartbeats, and topics that it asks for (KIP-631)."""
