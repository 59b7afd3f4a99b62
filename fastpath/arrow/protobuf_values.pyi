"""Values in Protobuf's encoding to columns; for compiled code only."""
