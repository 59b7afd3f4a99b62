"""The removal of a broker from ISRs, in bulk: for every partition whose ISR holds it, the ISR without it and the next
leader.

This file alone decides how that is done fast. The rule is in `actors/controller/partitions/partition_changes.py`, whose `leave` is the slow
twin of the loop below: the leader stays while it is in the ISR; else the first usable replica of the ISR in the order
of preference leads; else there is no leader. Some rows are not changed but listed for the caller: those whose ISR has
the broker as its sole member, and those with rare fields or with more than 32 replicas.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from fastpath.image.blocks cimport Block, Row
from fastpath.image.columns cimport Columns
from fastpath.image.views cimport CHUNK, LIVE, RARE, Table


cdef bint _holds(const int32_t* ids, Py_ssize_t count, int32_t broker) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if ids[i] == broker:
            return True
    return False


def departures(
    Columns columns, int32_t broker, usable, Py_ssize_t from_row, Py_ssize_t rows_max, bint one_epoch, aside=()
):
    """(Block of changes, rows for the caller to judge, next row or -1 at the end), beginning at `from_row`.

    `usable`: ids of brokers that may lead. At most `rows_max` rows are changed or listed. `one_epoch`: the leader epoch
    moves with every change, as the partition epoch does (A33); else only where the leader changes. `aside`: a set of rows
    that are listed for the caller in any case.
    """
    cdef Block block = Block()
    cdef Table* table
    cdef Row* change
    cdef const int32_t* replicas
    cdef int32_t* isr
    cdef uint32_t bit, rest
    cdef int32_t leader, topic = -1, i
    cdef Py_ssize_t row = from_row, at, count = 0, size, ids_count = len(usable)
    cdef const uint8_t* topic_id = NULL
    cdef bytes held = b""
    cdef int32_t* ids = <int32_t*>malloc((ids_count + 1) * sizeof(int32_t))
    cdef uint32_t* bits
    cdef bint some_aside = len(aside) > 0
    judged = []
    if ids == NULL:
        raise MemoryError
    for at, known in enumerate(usable):
        ids[at] = known
    try:
        bits = columns.bits_of(broker)
        try:
            while row < columns.row_end and count < rows_max:
                table = columns.chunk_of(row)
                at = row & (CHUNK - 1)
                row += 1
                if table.flags[at] & LIVE == 0:
                    continue
                if table.flags[at] & RARE or (some_aside and row - 1 in aside):
                    judged.append(row - 1)
                    count += 1
                    continue
                bit = bits[table.replicas[at]]
                if table.isr[at] & bit == 0:
                    continue
                count += 1
                rest = table.isr[at] & ~bit
                if rest == 0:
                    judged.append(row - 1)
                    continue
                replicas = columns.lists.at(table.replicas[at])
                leader = table.leader[at]
                if leader < 0 or leader == broker:
                    leader = -1
                    for i in range(replicas[0]):
                        if rest >> i & 1 and _holds(ids, ids_count, replicas[1 + i]):
                            leader = replicas[1 + i]
                            break
                if table.topic[at] != topic:
                    topic = table.topic[at]
                    held = columns.topic_ids.get(topic)
                    topic_id = <const uint8_t*><const char*>held
                size = 0
                for i in range(replicas[0]):
                    size += rest >> i & 1
                isr = block.add_values(size)
                change = block.add(topic_id)
                change.isr_at = <int32_t>(block.values_count - size)
                change.isr_size = <int32_t>size
                change.number = table.number[at]
                change.leader = leader
                change.leader_epoch = table.leader_epoch[at] + (one_epoch or leader != table.leader[at])
                change.partition_epoch = table.partition_epoch[at] + 1
                size = 0
                for i in range(replicas[0]):
                    if rest >> i & 1:
                        isr[size] = replicas[1 + i]
                        size += 1
        finally:
            free(bits)
    finally:
        free(ids)
    return block, judged, (row if row < columns.row_end else -1)
