"""The change of ISR and leader of one partition, as bulk passes write it into a block."""

from libc.stdint cimport int32_t, uint8_t, uint32_t

from fastpath.image.blocks cimport Block, Row
from fastpath.image.views cimport Table


cdef inline int add_isr_change(
    Block block,
    const Table* table,
    Py_ssize_t at,
    const uint8_t* topic_id,
    const int32_t* replicas,
    uint32_t isr_bits,
    int32_t leader,
    int32_t leader_epoch,
) except -1:
    """Write the change of the partition at `at`. `replicas`: their count, then their ids. `isr_bits`: which of them are in the
    ISR. The partition epoch moves by one."""
    cdef Py_ssize_t size = 0
    cdef int32_t i
    cdef int32_t* isr
    cdef Row* change
    for i in range(replicas[0]):
        size += isr_bits >> i & 1
    isr = block.add_values(size)
    change = block.add(topic_id)
    change.isr_at = <int32_t>(block.values_count - size)
    change.isr_size = <int32_t>size
    change.number = table.number[at]
    change.leader = leader
    change.leader_epoch = leader_epoch
    change.partition_epoch = table.partition_epoch[at] + 1
    size = 0
    for i in range(replicas[0]):
        if isr_bits >> i & 1:
            isr[size] = replicas[1 + i]
            size += 1
    return 0
