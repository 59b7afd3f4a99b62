"""Logs and snapshots as Arrow, for Python, Spark, Ray Data and the command line. `rayft.replay` is `tables` in here.

Reads only what nodes wrote, rayft's or Apache Kafka's, and never writes into it. Importing this package loads neither
pyarrow nor Ray nor Spark.
"""
