"""The header of a record batch for C callers: its sizes, and the bits of its attributes.

The layout is drawn in batch.pyx. Files that read or write batches cimport this one; it cimports none of them.
"""

cdef enum:
    HEADER_BYTES = 61           # up to the first record
    SIZE_BYTES = 12             # base offset and batch length: what the batch length does not count
    CRC_FROM = 21               # the CRC covers from the attributes to the end
    CODEC = 0x07                # attributes: compression codec
    LOG_APPEND_TIME = 0x08      # attributes: every record has the time max_timestamp
    CONTROL = 0x20              # attributes: written by the cluster, not by a client
