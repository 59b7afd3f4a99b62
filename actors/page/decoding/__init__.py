"""Values with a schema: Avro and Protobuf as they are in topics, with the schemas of a registry."""
