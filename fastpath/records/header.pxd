"""The header of a record batch for C callers: its sizes, where its fields are, and the bits of its attributes.

The layout is drawn in batch.pyx. Files that read or write batches cimport this one; it cimports none of them.
"""

cdef enum:
    HEADER_BYTES = 61           # up to the first record
    SIZE_BYTES = 12             # base offset and batch length: what the batch length does not count
    CRC_FROM = 21               # the CRC covers from the attributes to the end

    LENGTH_AT = 8               # int32: of what follows it
    EPOCH_AT = 12               # int32, of the leader
    MAGIC_AT = 16               # int8
    CRC_AT = 17                 # uint32
    ATTRIBUTES_AT = 21          # int16
    LAST_OFFSET_DELTA_AT = 23   # int32
    BASE_TIMESTAMP_AT = 27      # int64
    MAX_TIMESTAMP_AT = 35       # int64
    PRODUCER_ID_AT = 43         # int64
    PRODUCER_EPOCH_AT = 51      # int16
    BASE_SEQUENCE_AT = 53       # int32
    COUNT_AT = 57               # int32

    CODEC = 0x07                # attributes: compression codec
    LOG_APPEND_TIME = 0x08      # attributes: every record has the time max_timestamp
    CONTROL = 0x20              # attributes: written by the cluster, not by a client
