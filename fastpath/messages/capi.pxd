"""CPython's C API with bare pointers, as far as it is needed here. References are counted by hand."""

from cpython.object cimport PyObject, PyTypeObject

cdef extern from "Python.h":
    int PyType_IS_GC(PyTypeObject*)
    void PyObject_GC_UnTrack(void*)
    PyTypeObject* Py_TYPE(PyObject*)
    void Py_INCREF(PyObject*)
    void Py_DECREF(PyObject*)
    void Py_XDECREF(PyObject*)
    PyObject* Py_None
    PyObject* Py_True
    PyObject* Py_False
    PyObject* PyErr_Occurred()
    void PyErr_Clear()
    int PyErr_ExceptionMatches(PyObject*)
    PyObject* PyExc_MemoryError
    PyObject* PyExc_TypeError
    void PyErr_SetString(PyObject*, const char*)
    PyObject* PyList_New(Py_ssize_t)
    void PyList_SET_ITEM(PyObject*, Py_ssize_t, PyObject*)
    int PyList_Append(PyObject*, PyObject*)
    PyObject* PyLong_FromLong(long)
    PyObject* PyLong_FromLongLong(long long)
    PyObject* PyLong_FromSsize_t(Py_ssize_t)
    long long PyLong_AsLongLong(PyObject*)
    PyObject* PyFloat_FromDouble(double)
    double PyFloat_AsDouble(PyObject*)
    PyObject* PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)
    const char* PyUnicode_AsUTF8AndSize(PyObject*, Py_ssize_t*)
    int PyUnicode_Check(PyObject*)
    int PyUnicode_IS_COMPACT_ASCII(PyObject*)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject*)
    void* PyUnicode_DATA(PyObject*)
    PyObject* PyBytes_FromStringAndSize(const char*, Py_ssize_t)
    char* PyBytes_AS_STRING(PyObject*)
    Py_ssize_t PyBytes_GET_SIZE(PyObject*)
    int PyBytes_Check(PyObject*)
    int _PyBytes_Resize(PyObject**, Py_ssize_t)
    PyObject* PySequence_Fast(PyObject*, const char*)
    Py_ssize_t PySequence_Fast_GET_SIZE(PyObject*)
    PyObject* PySequence_Fast_GET_ITEM(PyObject*, Py_ssize_t)
    int PyList_Check(PyObject*)
    int PyTuple_Check(PyObject*)
    PyObject* PySlice_New(PyObject*, PyObject*, PyObject*)
    PyObject* PyObject_GetItem(PyObject*, PyObject*)
    Py_ssize_t PyObject_Size(PyObject*)
    int PyObject_IsTrue(PyObject*)
    int PyObject_RichCompareBool(PyObject*, PyObject*, int)
    int Py_EQ
    PyObject* PyTuple_GET_ITEM(PyObject*, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(PyObject*)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    PyObject* _PyType_Lookup(PyTypeObject*, PyObject*)
    int PyUnicode_Compare(PyObject*, PyObject*)

cdef extern from *:
    """
    static inline PyObject* rayft_alloc(PyTypeObject* type) { return type->tp_alloc(type, 0); }

    /* PyLong_AsLongLong, without a call where the number has one digit: as nearly all of a message have. */
    static inline long long rayft_as_long_long(PyObject* o) {
        if (PyLong_CheckExact(o)) {
    #if PY_VERSION_HEX >= 0x030C0000
            if (PyUnstable_Long_IsCompact((PyLongObject*)o)) return PyUnstable_Long_CompactValue((PyLongObject*)o);
    #else
            Py_ssize_t size = Py_SIZE(o);
            if (size == 1) return ((PyLongObject*)o)->ob_digit[0];
            if (size == 0) return 0;
            if (size == -1) return -(long long)((PyLongObject*)o)->ob_digit[0];
    #endif
        }
        return PyLong_AsLongLong(o);
    }
    """
    PyObject* rayft_alloc(PyTypeObject*)
    long long rayft_as_long_long(PyObject*)
