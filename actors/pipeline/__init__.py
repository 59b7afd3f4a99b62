"""Spark and Ray Data where the cluster is: topics of any Kafka by address, planned once and read where the work runs."""
