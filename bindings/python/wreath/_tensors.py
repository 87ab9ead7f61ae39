"""Reads memory of other packages' tensors: by DLPack, with ctypes, and by CUDA's array interface."""

import ctypes
import sys

from wreath import _dtypes, _library
from wreath._library import Error, InvalidArgument

# These are DLPack's device types.
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
# This version of DLPack is read here; other minor versions have the same layout.
NEWEST = (1, 1)

_CODES = ("int", "uint", "float", "opaque", "bfloat", "complex", "bool")
# Maps kinds in the type strings of array interfaces to the library's words.
_KINDS = {"i": "int", "u": "uint", "f": "float"}
_NATIVE = "<" if sys.byteorder == "little" else ">"
_READ_ONLY, _COPIED = 1, 2


class _Tensor(ctypes.Structure):
    """Mirrors DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """Mirrors DLManagedTensorVersioned. The older DLManagedTensor begins with its DLTensor."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


def _python(name, result, *arguments):
    function = getattr(ctypes.pythonapi, name)
    function.restype = result
    function.argtypes = arguments
    return function


_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)


def has_dlpack(obj):
    return hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__")


def has_cuda_interface(obj):
    return hasattr(obj, "__cuda_array_interface__")


# These are CUDA's streams that have no handle of their own.
_LEGACY, _PER_THREAD = 1, 2


def _await_device(name, where, address, stream):
    """Waits until the work that the producer's stream holds is over, for calls begin at once.

    With `address` None CUDA moves the memory itself.
    """
    try:
        _library.call("await_cuda", address, None if stream == _LEGACY else stream)
    except Error as refusal:
        raise type(refusal)(f"{name}: its memory is {where}: {refusal}") from None


def _count(shape, name):
    count = 1
    for extent in shape:
        if extent < 0:
            raise InvalidArgument(f"{name}: shape {shape} has a negative extent")
        count *= extent
    if count > sys.maxsize:
        raise InvalidArgument(f"{name}: shape {shape} is larger than memory can be")
    return count


def _hold_contiguous(shape, strides, unit, name):
    """Raises unless the tensor is contiguous. `strides` are in `unit`s of the caller: 1, or the bytes of an element."""
    expected = unit
    if 0 in shape:
        return
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent > 1 and stride != expected:
            raise InvalidArgument(f"{name}: the tensor (shape {shape}, strides {strides}) is not contiguous")
        expected *= extent


# ---- DLPack ----


def _capsule(obj, device, name):
    """Returns what the object's __dlpack__ gives, asked as newer and as older packages know it."""
    stream = {"stream": _LEGACY} if device in (CUDA, CUDA_MANAGED) else {}
    wrong = None
    for words in ({"max_version": NEWEST, "copy": False}, {"max_version": NEWEST}, {}):
        try:
            return obj.__dlpack__(**stream, **words)
        except TypeError as unknown:
            wrong = unknown
        except Exception as refusal:
            wrong = refusal
            break
    raise InvalidArgument(f"{name}: the {type(obj).__name__}'s __dlpack__ refuses: {wrong}") from wrong


def _tensor_of(capsule, name):
    """Returns the DLTensor and its flags."""
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if managed.major != NEWEST[0]:
            raise InvalidArgument(f"{name}: DLPack {managed.major}.{managed.minor}, but only {NEWEST[0]}.x can be read")
        return managed.tensor, managed.flags
    if _is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(_pointer(capsule, b"dltensor")), 0
    if _is_valid(capsule, b"used_dltensor") or _is_valid(capsule, b"used_dltensor_versioned"):
        raise InvalidArgument(f"{name}: its DLPack capsule was used before")
    raise InvalidArgument(f"{name}: its __dlpack__ gives {type(capsule).__name__}, no capsule of DLPack")


def _dlpack_dtype(tensor, name):
    dtype = _dtypes.BY_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        kind = _CODES[tensor.code] if tensor.code < len(_CODES) else f"code {tensor.code}"
        lanes = "" if tensor.lanes == 1 else f" in {tensor.lanes} lanes"
        raise InvalidArgument(f"{name}: DLPack's {kind} of {tensor.bits} bits{lanes} is none of the library's dtypes")
    return dtype


def read_dlpack(obj, name, writable):
    """Returns (address, count, dtype's name, owner) of a tensor; the memory is there while the owner lives."""
    device = obj.__dlpack_device__()
    try:
        kind, number = int(device[0]), int(device[1])
    except (TypeError, ValueError, IndexError):
        raise InvalidArgument(f"{name}: its __dlpack_device__ gives {device!r}, no pair of a type and a number") from None
    if kind not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise InvalidArgument(f"{name}: its memory is on a device of DLPack's type {kind}, neither the host's nor CUDA's")
    capsule = _capsule(obj, kind, name)
    tensor, flags = _tensor_of(capsule, name)
    if tensor.ndim < 0 or (tensor.ndim > 0 and not tensor.shape):
        raise InvalidArgument(f"{name}: its DLPack tensor has {tensor.ndim} dimensions and no shape")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    count = _count(shape, name)
    dtype = _dlpack_dtype(tensor, name)
    if tensor.ndim > 0 and tensor.strides:
        _hold_contiguous(shape, tuple(tensor.strides[i] for i in range(tensor.ndim)), 1, name)
    if writable and flags & _READ_ONLY:
        raise InvalidArgument(f"{name}: the tensor is read-only")
    if writable and flags & _COPIED:
        raise InvalidArgument(f"{name}: the {type(obj).__name__} gives a copy of its memory, where nothing can be written for it")
    if count > 0 and not tensor.data:
        raise InvalidArgument(f"{name}: its DLPack tensor has {count} elements and no memory")
    address = (tensor.data or 0) + tensor.byte_offset
    if kind in (CUDA, CUDA_MANAGED) and count > 0:
        _await_device(name, f"on CUDA device {number}", address if kind == CUDA else None, _LEGACY)
    # The capsule is not marked as used: it frees the tensor at its own end.
    return address, count, dtype, (obj, capsule)


# ---- CUDA's array interface ----


def _interface_dtype(typestr, name):
    order, kind, size = str(typestr)[:1], str(typestr)[1:2], str(typestr)[2:]
    dtype = f"{_KINDS.get(kind, '?')}{8 * int(size)}" if size.isdigit() else ""
    if dtype not in _dtypes.NAMES or (order != _NATIVE and not (order == "|" and size == "1")):
        raise InvalidArgument(f"{name}: the type string {typestr!r} is none of the library's dtypes in this machine's byte order")
    return dtype, int(size)


def read_cuda_interface(obj, name, writable):
    """Returns the same of an object with __cuda_array_interface__, whose memory is a device's."""
    interface = obj.__cuda_array_interface__
    try:
        shape = tuple(int(extent) for extent in interface["shape"])
        strides = interface.get("strides")
        strides = None if strides is None else tuple(int(stride) for stride in strides)
        address, read_only = int(interface["data"][0]), bool(interface["data"][1])
        typestr = interface["typestr"]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise InvalidArgument(f"{name}: its __cuda_array_interface__ is not whole: {wrong!r}") from None
    if interface.get("mask") is not None:
        raise InvalidArgument(f"{name}: an array with a mask")
    count = _count(shape, name)
    dtype, size = _interface_dtype(typestr, name)
    if strides is not None:
        if len(strides) != len(shape):
            raise InvalidArgument(f"{name}: {len(shape)} dimensions and {len(strides)} strides")
        _hold_contiguous(shape, strides, size, name)
    if writable and read_only:
        raise InvalidArgument(f"{name}: the array is read-only")
    if count > 0 and address == 0:
        raise InvalidArgument(f"{name}: an array of {count} elements and no memory")
    if count > 0:
        stream = interface.get("stream")
        if stream is not None and (not isinstance(stream, int) or stream < _LEGACY):
            raise InvalidArgument(f"{name}: stream {stream!r} of its __cuda_array_interface__ is none")
        _await_device(name, f"CUDA's, at {address:#x}", address, stream)
    return address, count, dtype, obj
