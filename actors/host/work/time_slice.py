"""The time slice of a loop's thread, which says how soon the kernel wakes it when all cores are busy.

Linux lets the thread that runs go on for a time slice, 1.4 ms and more, before it wakes a thread that something has
arrived for. One that has asked for shorter slices need not wait for those that have longer ones; its share of the cores
stays what it was. That is for threads that do little and that others wait for. This file alone knows the system call:
sched_setattr(2), whose `sched_runtime` is the slice since Linux 6.12; older kernels ignore it.
"""

import ctypes
import os
import platform

SHORT_NS = 500_000
"""A slice in ns, shorter than the default one and enough for a turn of a controller: with 0.1 ms the thread is woken no
sooner, and is stopped in the middle of its turns."""
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
"""The number of the system call, by machine: the C library has no function for it."""


class _Attributes(ctypes.Structure):
    """struct sched_attr, as of its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


def ask_for(slice_ns: int) -> bool:
    """Ask for slices of so many nanoseconds for the calling thread. False: this machine has none to give, or the thread
    has another policy than the usual one, which then stays."""
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None or platform.system() != "Linux" or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = _Attributes(ctypes.sizeof(_Attributes), os.SCHED_OTHER, 0, nice, 0, slice_ns, 0, 0)
    return bool(ctypes.CDLL(None).syscall(number, 0, ctypes.byref(wanted), 0) == 0)
