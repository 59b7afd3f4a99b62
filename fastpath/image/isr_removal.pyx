"""The removal of brokers from ISRs, in bulk: for every partition whose ISR holds some of them, the ISR without them and the
next leader.

This file alone decides how that is done fast. The rule is in `actors/controller/partitions/leader_election.py`, whose
`leave` is the slow twin of the loop below. Brokers leave one after the other, and what comes out is written once: the leader
stays while it is in the ISR; else the first usable replica of the ISR in the order of preference leads; else there is no
leader. Where all members leave, the last one to leave stays in the ISR and does not lead. Some rows are not changed but
listed for the caller: of those where all members leave, the ones of topics that `judges_last` names; those with rare fields
or with more than 32 replicas; and `aside`.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t

from fastpath.image.blocks cimport Block
from fastpath.image.broker_marks cimport Marks, free_marks, make_marks, mark_of, put_mark
from fastpath.image.columns cimport Columns
from fastpath.image.isr_change cimport add_isr_change
from fastpath.image.slice_cost cimport JUDGED_COST, LOOKED_AT
from fastpath.image.views cimport CHUNK, LIVE, RARE, Table

cdef enum:
    USABLE = -1                         # mark of a broker that may lead; one that leaves has its turn, from 1


def departures(
    Columns columns, leaving, usable, Py_ssize_t from_row, Py_ssize_t cost_max, bint one_epoch, aside=(), judges_last=None
):
    """(Block of changes, rows for the caller to judge, next row or -1 at the end, cost), beginning at `from_row`.

    `leaving`: ids of the brokers that leave, in order. `usable`: ids of brokers that may lead, none of which leaves. A slice
    ends when it has cost `cost_max`. `one_epoch`: the leader epoch moves with every change, as the partition epoch does
    (A33); else only where the leader changes. `aside`: a set of rows that are listed for the caller in any case.
    `judges_last(topic row)`: whether partitions of a topic are listed where all members leave; None: always.
    """
    cdef Block block = Block()
    cdef Table* table
    cdef const int32_t* replicas
    cdef uint32_t isr_bits, rest
    cdef int32_t leader, leader_epoch, turn, latest, topic = -1, asked = -1, i
    cdef Py_ssize_t row = from_row, at, cost = 0
    cdef const uint8_t* topic_id = NULL
    cdef bytes held = b""
    cdef Marks marks
    cdef bint some_aside = len(aside) > 0, judges = True
    judged = []
    make_marks(&marks, len(leaving) + len(usable))
    try:
        for broker in usable:
            put_mark(&marks, broker, USABLE)
        for turn, broker in enumerate(leaving, 1):
            put_mark(&marks, broker, turn)
        while row < columns.row_end and cost + (row - from_row) // LOOKED_AT < cost_max:
            table = columns.chunk_of(row)
            at = row & (CHUNK - 1)
            row += 1
            if table.flags[at] & LIVE == 0:
                continue
            if table.flags[at] & RARE or (some_aside and row - 1 in aside):
                judged.append(row - 1)
                cost += JUDGED_COST
                continue
            replicas = columns.lists.at(table.replicas[at])
            isr_bits = rest = table.isr[at]
            latest = 0
            for i in range(replicas[0]):
                if isr_bits >> i & 1:
                    turn = mark_of(&marks, replicas[1 + i])
                    if turn > 0:
                        rest &= ~(<uint32_t>1 << i)
                        latest = turn if turn > latest else latest
            if rest == isr_bits:
                continue
            cost += 1
            if rest == 0:
                if table.topic[at] != asked:
                    asked = table.topic[at]
                    judges = judges_last is None or judges_last(asked)
                if judges:
                    judged.append(row - 1)
                    cost += JUDGED_COST
                    continue
                for i in range(replicas[0]):
                    if isr_bits >> i & 1 and mark_of(&marks, replicas[1 + i]) == latest:
                        rest = <uint32_t>1 << i
                if rest == isr_bits and table.leader[at] < 0:
                    continue
                leader = -1
            else:
                leader = table.leader[at]
                if leader < 0 or mark_of(&marks, leader) > 0:
                    leader = -1
                    for i in range(replicas[0]):
                        if rest >> i & 1 and mark_of(&marks, replicas[1 + i]) == USABLE:
                            leader = replicas[1 + i]
                            break
            if table.topic[at] != topic:
                topic = table.topic[at]
                held = columns.topic_ids.get(topic)
                topic_id = <const uint8_t*><const char*>held
            leader_epoch = table.leader_epoch[at] + (one_epoch or leader != table.leader[at])
            add_isr_change(block, table, at, topic_id, replicas, rest, leader, leader_epoch)
    finally:
        free_marks(&marks)
    return block, judged, (row if row < columns.row_end else -1), cost + (row - from_row) // LOOKED_AT
