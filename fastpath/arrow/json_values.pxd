"""Values in JSON to columns."""

from fastpath.arrow.value_work cimport Node, Work


cdef bint whole_json(Work* w, const Node* node) noexcept nogil
