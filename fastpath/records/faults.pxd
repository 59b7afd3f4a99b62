"""The possible faults of a record batch: one list for all code that reads batches.

Rule: up to STALE the stored bytes are damaged or old. From NOT_CONTIGUOUS on the bytes are whole, and only a client can
have made the mistake.
"""

cdef enum Fault:
    FINE = 0
    CUT                         # the bytes end inside the batch
    BAD_SIZE                    # below HEADER_BYTES, or beyond 2 GiB
    BAD_MAGIC
    BAD_OFFSETS                 # negative, past 63 bits, or not the offset that the segment needs next
    BAD_COUNT                   # more records than offsets, or fewer than none
    BAD_CRC
    STALE                       # reaches the offset where the next segment begins
    NOT_CONTIGUOUS              # from here on only clients make the mistake: count and offsets disagree
    CLIENT_CONTROL
    CLIENT_CODEC
    BAD_RECORD                  # a record's bytes are invalid; the position says where
    BAD_RECORD_OFFSET
    NO_KEY
    BAD_TIME                    # a record's timestamp is outside the range that the topic accepts
    TOO_LONG                    # bytes after the last record
