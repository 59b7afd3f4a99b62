"""Leaders out of the ISR for partitions that have none, in bulk.

This file alone decides how that is done fast. The rule is in `actors/controller/partitions/leader_election.py`, whose
`elect` is the slow twin of the loop below: the first usable replica of the ISR in the order of preference leads. Some rows are
not changed but listed for the caller: those where no member of the ISR could lead, of topics that `unclean` names; those
without a leader that have rare fields or more than 32 replicas; and reassignments whose adding replicas are all in the ISR.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t

from fastpath.image.blocks cimport Block
from fastpath.image.broker_marks cimport Marks, free_marks, make_marks, mark_of, put_mark
from fastpath.image.columns cimport Columns
from fastpath.image.isr_change cimport add_isr_change
from fastpath.image.slice_cost cimport JUDGED_COST, LOOKED_AT, RARE_COST
from fastpath.image.views cimport CHUNK, LIVE, RARE, Table


def elections(
    Columns columns, usable, Py_ssize_t from_row, Py_ssize_t to_row, Py_ssize_t cost_max, unclean, aside=None
):
    """(Block of changes, rows for the caller to judge, next row or -1 at the end, cost), from `from_row` to before `to_row`.

    `usable`: ids of brokers that may lead. A slice ends when it has cost `cost_max`. `unclean(topic row)`: whether partitions
    of a topic are listed where no member of the ISR could lead. `aside(row)`: whether a partition is listed if it has no leader.
    """
    cdef Block block = Block()
    cdef Table* table
    cdef const int32_t* replicas
    cdef uint32_t isr_bits
    cdef int32_t leader, topic = -1, asked = -1, i
    cdef Py_ssize_t row = from_row, at, cost = 0
    cdef const uint8_t* topic_id = NULL
    cdef bytes held = b""
    cdef Marks marks
    cdef bint may_be_unclean = False
    judged = []
    if to_row > columns.row_end:
        to_row = columns.row_end
    make_marks(&marks, len(usable))
    try:
        for broker in usable:
            put_mark(&marks, broker, 1)
        while row < to_row and cost + (row - from_row) // LOOKED_AT < cost_max:
            table = columns.chunk_of(row)
            at = row & (CHUNK - 1)
            row += 1
            if table.flags[at] & LIVE == 0 or (table.leader[at] >= 0 and table.flags[at] & RARE == 0):
                continue
            if table.flags[at] & RARE:
                cost += RARE_COST
                if table.leader[at] < 0 or is_complete(columns, row - 1):
                    judged.append(row - 1)
                    cost += JUDGED_COST
                continue
            if aside is not None and aside(row - 1):
                judged.append(row - 1)
                cost += JUDGED_COST
                continue
            cost += 1
            replicas = columns.lists.at(table.replicas[at])
            isr_bits = table.isr[at]
            leader = -1
            for i in range(replicas[0]):
                if isr_bits >> i & 1 and mark_of(&marks, replicas[1 + i]):
                    leader = replicas[1 + i]
                    break
            if leader < 0:
                if table.topic[at] != asked:
                    asked = table.topic[at]
                    may_be_unclean = unclean(asked)
                if may_be_unclean:
                    judged.append(row - 1)
                    cost += JUDGED_COST
                continue
            if table.topic[at] != topic:
                topic = table.topic[at]
                held = columns.topic_ids.get(topic)
                topic_id = <const uint8_t*><const char*>held
            add_isr_change(block, table, at, topic_id, replicas, isr_bits, leader, table.leader_epoch[at] + 1)
    finally:
        free_marks(&marks)
    return block, judged, (row if row < to_row else -1), cost + (row - from_row) // LOOKED_AT


cdef bint is_complete(Columns columns, Py_ssize_t row) except -1:
    """Whether a partition with rare fields has a reassignment whose adding replicas are all in the ISR."""
    extra = columns.rare_at(row)[0]
    if extra is None or not (extra.adding or extra.removing):
        return False
    isr = columns.isr(row)
    for broker in extra.adding or ():
        if broker not in isr:
            return False
    return True
