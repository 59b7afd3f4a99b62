"""What the bridge carries between ZooKeeper and the metadata log: topics, settings, rules, brokers."""
