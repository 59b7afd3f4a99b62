"""What can be wrong with a record batch: one list for everything that reads batches.

Rule: up to STALE the stored bytes are damaged or old; from NOT_CONTIGUOUS on the bytes are whole and only a client can be
wrong.
"""

cdef enum Fault:
    FINE = 0
    CUT                         # the bytes end inside the batch
    BAD_SIZE                    # below HEADER_BYTES, or beyond 2 GiB
    BAD_MAGIC
    BAD_OFFSETS                 # negative, past 63 bits, or not what the segment needs next
    BAD_COUNT                   # more records than offsets, or fewer than none
    BAD_CRC
    STALE                       # reaches the offset where the next segment begins
    NOT_CONTIGUOUS              # from here on only clients can be wrong: count and offsets disagree
    CLIENT_CONTROL
    CLIENT_CODEC
    CLIENT_TIME
    BAD_RECORD                  # a record's bytes make no sense; the position says where
    BAD_RECORD_OFFSET
    NO_KEY
    BAD_TIME                    # a record's timestamp is outside of what the topic accepts
    TOO_LONG                    # bytes behind the last record
