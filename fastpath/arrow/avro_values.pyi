"""Values in Avro's encoding to columns; for compiled code only."""
