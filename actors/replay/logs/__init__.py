"""The files of logs: the ones that are read, the copy that is the log, and its sound batches."""
