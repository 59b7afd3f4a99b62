"""What a log knows of its producers: sequences, open transactions, aborted ones and their markers (KIP-98)."""
