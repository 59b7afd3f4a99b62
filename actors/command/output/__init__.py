"""What commands print: the state of a cluster, batches, tables, damage."""
