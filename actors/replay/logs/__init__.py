"""The files of logs: which are read, which copy is the log, and their sound batches."""
