"""Values in Protobuf's encoding to columns."""

from libc.stdint cimport int32_t

from fastpath.arrow.value_work cimport Node, Plan, Work


cdef bint file(Work* w, const Node* node) noexcept nogil
cdef const int32_t* name_of(const Plan* plan, const Node* node, int32_t number) noexcept nogil
