"""Reads arrays as the library sees them: an address, a count of elements and a dtype."""

import ctypes
import sys
import weakref

from wreath import _dtypes, _library, _tensors
from wreath._library import InvalidArgument

# Letters of the buffer protocol, beside the element's size.
_KINDS = {"b": "int", "h": "int", "i": "int", "l": "int", "q": "int", "n": "int"}
_KINDS.update({letter.upper(): "uint" for letter in "bhilqn"})
_KINDS.update({"c": "uint", "e": "float", "f": "float", "d": "float"})


class _PyBuffer(ctypes.Structure):
    """Mirrors Py_buffer, for objects that have no array interface."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def _dtype(name, word, text):
    if text not in _dtypes.NAMES:
        raise InvalidArgument(f"{name}: dtype {word} is none of the library's; these are: {' '.join(_dtypes.NAMES)}")
    return _dtypes.NAMES.index(text)


def is_array(obj):
    """Returns whether `obj` is one of numpy's, without importing numpy for programs that do not use it."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(obj, numpy.ndarray)


class View:
    """Holds memory of an object, which it keeps alive. `name` is the argument's, for messages."""

    def __init__(self, obj, name, writable):
        self.owner = obj
        if is_array(obj):
            self._read_array(obj, name, writable)
        elif _tensors.has_dlpack(obj):
            self._take(_tensors.read_dlpack(obj, name, writable), name)
        elif _tensors.has_cuda_interface(obj):
            self._take(_tensors.read_cuda_interface(obj, name, writable), name)
        else:
            self._read_buffer(obj, name, writable)

    def _take(self, tensor, name):
        self.address, self.count, dtype, self.owner = tensor
        self.dtype = _dtype(name, dtype, dtype)

    def _read_array(self, array, name, writable):
        if not array.flags.c_contiguous:
            raise InvalidArgument(
                f"{name}: the array (shape {array.shape}, strides {array.strides}) is not contiguous; "
                "numpy.ascontiguousarray makes a copy that is"
            )
        if writable and not array.flags.writeable:
            raise InvalidArgument(f"{name}: the array is read-only")
        if not array.dtype.isnative:
            raise InvalidArgument(f"{name}: dtype {array.dtype} is in another byte order than this machine's")
        self.dtype = _dtype(name, array.dtype, array.dtype.name)
        self.count = array.size
        self.address = array.ctypes.data

    def _read_buffer(self, obj, name, writable):
        try:
            view = memoryview(obj)
        except TypeError:
            raise InvalidArgument(f"{name}: a {type(obj).__name__} is neither an array nor a tensor nor a buffer") from None
        if not view.c_contiguous:
            raise InvalidArgument(f"{name}: the buffer (strides {view.strides}) is not contiguous")
        if writable and view.readonly:
            raise InvalidArgument(f"{name}: the buffer is read-only")
        letter = view.format.lstrip("@=<")
        self.dtype = _dtype(name, f"'{view.format}'", f"{_KINDS.get(letter, '?')}{8 * view.itemsize}")
        self.count = view.nbytes // view.itemsize
        # While the view lives, the object does not move its memory.
        self.owner = view
        raw = _PyBuffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(raw), 0)
        self.address = raw.buf
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))

    def same_dtype(self, other, name):
        """Returns `other`, the argument `name`, or raises where its dtype is another."""
        if other.dtype != self.dtype:
            raise InvalidArgument(f"{name}: dtype {_dtypes.NAMES[other.dtype]}, but the input's is {_dtypes.NAMES[self.dtype]}")
        return other


def like(array, shape, name):
    """Returns a new array of this shape, of the dtype of `array`, which is one of numpy's."""
    if not is_array(array):
        raise InvalidArgument(f"{name} must be given where the input is no numpy array")
    import numpy

    return numpy.empty(shape, array.dtype)


def allocate(size):
    """Returns `size` bytes that peers of this host map, as a writable memoryview; they read data from it in place."""
    address = ctypes.c_void_p()
    _library.call("allocate", size, ctypes.byref(address))
    memory = (ctypes.c_char * size).from_address(address.value)
    # Arrays may live on while the interpreter ends, and the system takes the memory back then.
    weakref.finalize(memory, _library.checked["free"], address.value).atexit = False
    return memoryview(memory).cast("B")


def empty(shape, dtype="float32"):
    """Returns a numpy array of zeros in memory of allocate()."""
    import numpy

    dtype = numpy.dtype(dtype)
    count = int(numpy.prod(shape, dtype="int64"))
    if count == 0:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer(allocate(count * dtype.itemsize), dtype, count).reshape(shape)
