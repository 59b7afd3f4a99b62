"""What a slice of bulk work costs, counted in partitions that are changed, without the GIL, in one pass (0.5 microseconds).
A partition that could be changed and is not costs as much: its topic may have to be asked for a setting."""

cdef enum:
    JUDGED_COST = 50                    # a partition that the caller judges by itself
    RARE_COST = 2                       # a partition with rare fields that is looked at
    LOOKED_AT = 256                     # so many partitions that are only passed cost as much as one that is changed
