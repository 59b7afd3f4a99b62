"""Values in Avro's encoding to columns."""

from fastpath.arrow.value_work cimport Node, Work


cdef bint avro(Work* w, const Node* node) noexcept nogil
