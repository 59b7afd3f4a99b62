"""What `rayft bridge` makes and reads of a cluster with ZooKeeper: directories, settings, state."""
