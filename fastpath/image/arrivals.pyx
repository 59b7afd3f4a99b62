"""Topics that are new, with their first partitions, as they come together: what a node reads when it looks at a cluster for
the first time.

A cluster of a million partitions has a hundred thousand topics, and an object for each of them on its way into an image costs
more than its partitions do. So a run of topics is one value: names, ids, and one block with the partitions of all.

Rule: it is filled by the code that makes it. Once it has been handed on, it never changes.
"""

from fastpath.image.copy_on_write cimport PagedList
from fastpath.image.name_order cimport NameOrder
from fastpath.image.row_table cimport RowTable


cdef class Arrivals:
    """A run of new topics, none of them hidden, each with the records of partitions that follow it."""

    def __init__(self):
        self.names = []
        self.topic_ids = []
        self.begins = []
        self.block = Block()
        self.last_id = NULL

    def __len__(self):
        """The number of records."""
        return len(self.names) + self.block.count

    cdef int add(self, str name, bytes topic_id) except -1:
        """Add a topic; what is added to the block from now on are partitions of it."""
        self.names.append(name)
        self.topic_ids.append(topic_id)
        self.begins.append(self.block.count)
        self.last_id = <const uint8_t*><const char*>topic_id
        return 0

    def one_by_one(self):
        """(name, topic id, block of its partitions or None) of each topic."""
        cdef Py_ssize_t i, begin, end, count = len(self.names)
        for i in range(count):
            begin = self.begins[i]
            end = self.begins[i + 1] if i + 1 < count else self.block.count
            yield self.names[i], self.topic_ids[i], self.block.part(begin, end) if end > begin else None

    def named(self, RowTable by_id, RowTable by_name, PagedList names, NameOrder order, int32_t first):
        """Note the topics in the tables of an image under rows from `first` on. `order` None: they are put in order later."""
        cdef Py_ssize_t i
        cdef int32_t row = first
        cdef str name
        for i in range(len(self.names)):
            name = self.names[i]
            by_id.put(self.topic_ids[i], row)
            by_name.put(name, row)
            names.append(name)
            if order is not None:
                order.put(name, row)
            row += 1
