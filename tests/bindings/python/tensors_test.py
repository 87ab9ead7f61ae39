"""Tests tensors of other packages: DLPack and CUDA's array interface. The objects are made here, or are numpy's, or
PyTorch's if it is there.

Only one rank runs. A pre-multiplied sum with factor 2 doubles its own values, so that a call shows which memory it
wrote.
"""

import array
import ctypes
import gc
import unittest

import wreath
from wreath import _tensors

ALONE = wreath.init()


def double(tensor, output=None):
    return ALONE.all_reduce(tensor, output, op="premultiplied_sum", factor=2)


DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Tensor:
    """A DLPack tensor of int32, in which tests make single fields wrong."""

    def __init__(self, values, shape=None, strides=None, **fields):
        self.memory = array.array("i", values)
        self.shape = shape or (len(values),)
        self.strides = strides
        self.device = fields.pop("device", (_tensors.CPU, 0))
        self.versioned = fields.pop("versioned", True)
        self.managed = _tensors._Versioned(major=fields.pop("major", 1), flags=fields.pop("flags", 0))
        self.gives = fields.pop("gives", [])
        self.words = []
        tensor = self.managed.tensor
        tensor.data = self.memory.buffer_info()[0]
        tensor.code, tensor.bits, tensor.lanes = 0, 32, 1
        tensor.ndim = len(self.shape)
        self.extents = (ctypes.c_int64 * len(self.shape))(*self.shape)
        tensor.shape = fields.pop("extents", self.extents)
        if strides is not None:
            self.steps = (ctypes.c_int64 * len(strides))(*strides)
            tensor.strides = self.steps
        for name, value in fields.items():
            setattr(tensor, name, value)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **words):
        self.words.append(words)
        if self.gives:
            return self.gives[0]
        if self.versioned:
            return new_capsule(ctypes.addressof(self.managed), b"dltensor_versioned", None)
        return new_capsule(ctypes.addressof(self.managed.tensor), b"dltensor", None)


class DLPack(unittest.TestCase):
    def refused(self, words, tensor, kind=wreath.InvalidArgument, output=None):
        with self.assertRaises(kind) as caught:
            double(tensor, output)
        self.assertIn(words, str(caught.exception))

    def test_in_place_and_out_of_place(self):
        for versioned in (True, False):
            tensor = Tensor([1, 2, 3], versioned=versioned)
            self.assertIs(double(tensor), tensor)
            self.assertEqual(list(tensor.memory), [2, 4, 6])
            output = Tensor([0, 0, 0], versioned=versioned)
            double(tensor, output)
            self.assertEqual((list(tensor.memory), list(output.memory)), ([2, 4, 6], [4, 8, 12]))
        self.assertEqual(tensor.words[0], {"max_version": _tensors.NEWEST, "copy": False})

    def test_beside_other_kinds_of_buffers(self):
        output = array.array("i", [0, 0])
        double(Tensor([5, 6]), output)
        self.assertEqual(list(output), [10, 12])

    def test_offsets_and_shapes(self):
        tensor = Tensor([1, 2, 3, 4], shape=(2,), byte_offset=4)
        double(tensor)
        self.assertEqual(list(tensor.memory), [1, 4, 6, 4])
        for shape, strides in (((2, 2), (2, 1)), ((4, 1), (1, 77)), ((1, 4), (9, 1)), ((2, 2), None)):
            tensor = Tensor([1, 2, 3, 4], shape, strides)
            double(tensor)
            self.assertEqual(list(tensor.memory), [2, 4, 6, 8], (shape, strides))
        double(Tensor([], shape=(0, 3), strides=(7, 9)))
        scalar = Tensor([4], shape=())
        scalar.managed.tensor.ndim = 0
        double(scalar)
        self.assertEqual(list(scalar.memory), [8])

    def test_pinned_memory_is_the_hosts(self):
        tensor = Tensor([1], device=(_tensors.CUDA_HOST, 3))
        double(tensor)
        self.assertEqual(list(tensor.memory), [2])

    def test_dtypes(self):
        kinds = {(0, 8): "int8", (4, 16): "bfloat16", (10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2", (2, 64): "float64"}
        for (code, bits), name in kinds.items():
            tensor = Tensor([0], code=code, bits=bits)
            self.assertEqual(_tensors.read_dlpack(tensor, "array", True)[2], name)
            double(tensor)
        self.refused("array: DLPack's bool of 8 bits is none", Tensor([0], code=6, bits=8))
        self.refused("array: DLPack's complex of 64 bits is none", Tensor([0], code=5, bits=64))
        self.refused("array: DLPack's code 14 of 8 bits is none", Tensor([0], code=14, bits=8))
        self.refused("array: DLPack's float of 32 bits in 4 lanes is none", Tensor([0], code=2, lanes=4))
        self.refused("output: dtype uint32, but the input's is int32", Tensor([0]), output=Tensor([0], code=1))

    def test_what_is_not_contiguous(self):
        for shape, strides in (((2, 2), (1, 2)), ((2,), (2,)), ((2, 1), (0, 1)), ((3,), (-1,))):
            self.refused(f"array: the tensor (shape {shape}, strides {strides}) is not contiguous", Tensor([0] * 6, shape, strides))

    def test_what_is_read_only_or_a_copy(self):
        tensor = Tensor([1], flags=_tensors._READ_ONLY)
        self.refused("array: the tensor is read-only", tensor)
        self.refused("output: the tensor is read-only", Tensor([1]), output=tensor)
        self.refused("output: the Tensor gives a copy", Tensor([1]), output=Tensor([1], flags=_tensors._COPIED))
        output = array.array("i", [0])
        double(tensor, output)
        self.assertEqual(list(output), [2])

    def test_devices(self):
        # There is no CUDA here, or the address is not in its memory.
        tensor = Tensor([1], device=(_tensors.CUDA, 3))
        self.refused("array: its memory is on CUDA device 3: ", tensor, (wreath.Unavailable, wreath.InvalidArgument))
        self.assertEqual(tensor.words[0]["stream"], 1)
        self.refused("array: its memory is on a device of DLPack's type 10", Tensor([1], device=(10, 0)))
        self.refused("array: its __dlpack_device__ gives 'cpu'", Tensor([1], device="cpu"))

    def test_bad_capsules(self):
        self.refused("array: DLPack 2.0, but only 1.x can be read", Tensor([1], major=2))
        self.refused("array: its DLPack tensor has 2 elements and no memory", Tensor([1, 2], data=None))
        self.refused("array: its DLPack tensor has -1 dimensions", Tensor([1], ndim=-1))
        self.refused("array: its DLPack tensor has 1 dimensions and no shape", Tensor([1], extents=None))
        self.refused("array: shape (-1,) has a negative extent", Tensor([1], shape=(-1,)))
        self.refused("is larger than memory can be", Tensor([1], shape=(1 << 40, 1 << 40)))
        for gives, words in ((None, "gives NoneType"), (b"", "gives bytes"), (1, "gives int")):
            self.refused(f"array: its __dlpack__ {words}, no capsule of DLPack", Tensor([1], gives=[gives]))
        other = new_capsule(1, b"other", None)
        self.refused("no capsule of DLPack", Tensor([1], gives=[other]))
        used = new_capsule(1, b"used_dltensor", None)
        self.refused("array: its DLPack capsule was used before", Tensor([1], gives=[used]))

    def test_older_and_unwilling_packages(self):
        class Older(Tensor):
            def __dlpack__(self):
                return super().__dlpack__()

        tensor = Older([3], versioned=False)
        double(tensor)
        self.assertEqual(list(tensor.memory), [6])

        class Unwilling(Tensor):
            def __dlpack__(self, **words):
                raise BufferError("it needs gradients")

        self.refused("array: the Unwilling's __dlpack__ refuses: it needs gradients", Unwilling([1]))
        self.refused("array: a object is neither an array nor a tensor nor a buffer", object())

    def test_memory_lives_as_long_as_the_call(self):
        ended = []
        tensor = Tensor([1, 2])
        destructor = DESTRUCTOR(lambda capsule: ended.append(capsule))
        tensor.gives.append(new_capsule(ctypes.addressof(tensor.managed), b"dltensor_versioned", destructor))
        work = ALONE.all_reduce(tensor, op="premultiplied_sum", factor=2, wait=False)
        tensor.gives.clear()
        gc.collect()
        self.assertEqual(ended, [])
        work.wait()
        del work
        # This call frees the work that was dropped before it was over.
        double(Tensor([1]))
        gc.collect()
        self.assertEqual(len(ended), 1)
        self.assertEqual(list(tensor.memory), [2, 4])


class CudaInterface(unittest.TestCase):
    def read(self, writable=True, **fields):
        interface = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3, "strides": None}
        owner = type("Array", (), {"__cuda_array_interface__": {**interface, **fields}})()
        return lambda: _tensors.read_cuda_interface(owner, "array", writable)

    def refused(self, words, reads, kind=wreath.InvalidArgument):
        with self.assertRaises(kind) as caught:
            reads()
        self.assertIn(words, str(caught.exception))

    def test_memory_of_no_device_is_checked_and_then_refused(self):
        words = "array: its memory is CUDA's, at 0x1000: "
        # There is no CUDA here, or the address is not in its memory.
        kinds = (wreath.Unavailable, wreath.InvalidArgument)
        for fields in ({}, {"strides": (12, 4)}, {"typestr": "|u1"}, {"typestr": "<i8", "strides": (24, 8)}):
            self.refused(words, self.read(**fields), kinds)
        self.refused(words, self.read(False, data=(4096, True)), kinds)
        owner = type("Array", (), {"__cuda_array_interface__": {"shape": (2,), "typestr": "<f4", "data": (4096, False)}})()
        with self.assertRaises(kinds):
            double(owner)

    def test_nothing_needs_no_device(self):
        self.assertEqual(self.read(shape=(0,), data=(0, False))()[:3], (0, 0, "float32"))

    def test_mistakes(self):
        self.refused("array: the array is read-only", self.read(data=(4096, True)))
        self.refused("(shape (2, 3), strides (4, 8)) is not contiguous", self.read(strides=(4, 8)))
        self.refused("2 dimensions and 1 strides", self.read(strides=(4,)))
        self.refused("an array with a mask", self.read(mask=object()))
        for stream in (0, -1, "a"):
            self.refused(f"array: stream {stream!r} of its __cuda_array_interface__ is none", self.read(stream=stream))
        self.refused("an array of 6 elements and no memory", self.read(data=(0, False)))
        self.refused("has a negative extent", self.read(shape=(-2, 3)))
        for typestr in (">f4", "<c8", "<V2", "|b1", "<f3", "", "f", 7, "<i", "|f4"):
            self.refused(f"array: the type string {typestr!r} is none of", self.read(typestr=typestr))
        for name, value in (("data", None), ("data", ("x", 1)), ("shape", 3), ("shape", ("a",)), ("strides", 7)):
            self.refused("array: its __cuda_array_interface__ is not whole", self.read(**{name: value}))
        owner = type("Array", (), {"__cuda_array_interface__": {}})()
        self.refused("is not whole: KeyError('shape')", lambda: _tensors.read_cuda_interface(owner, "array", True))


class Packages(unittest.TestCase):
    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not here: install python3-numpy")

        class Wrapped:
            def __init__(self, values):
                self.values = values

            def __dlpack_device__(self):
                return self.values.__dlpack_device__()

            def __dlpack__(self, **words):
                return self.values.__dlpack__(**words)

        if not hasattr(numpy.ndarray, "__dlpack__"):
            self.skipTest("this numpy has no DLPack: install 1.22 or later")
        for dtype in ("int8", "uint64", "float16", "float32", "float64"):
            values = numpy.arange(12, dtype=dtype).reshape(3, 4)
            double(Wrapped(values))
            self.assertEqual(values.ravel().tolist(), [2 * i for i in range(12)])
        with self.assertRaisesRegex(wreath.InvalidArgument, "is not contiguous"):
            double(Wrapped(numpy.zeros((3, 4)).T))

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not here: install torch")
        for dtype in (torch.int32, torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.float8_e5m2):
            values = torch.ones(5).to(dtype)
            double(values)
            self.assertTrue((values.float() == 2).all(), dtype)
        with self.assertRaisesRegex(wreath.InvalidArgument, "is not contiguous"):
            double(torch.zeros(3, 4).T)
        with self.assertRaisesRegex(wreath.InvalidArgument, "__dlpack__ refuses: .*grad"):
            double(torch.zeros(3, requires_grad=True))
        with self.assertRaisesRegex(wreath.InvalidArgument, "bool of 8 bits is none"):
            double(torch.zeros(3, dtype=torch.bool))


if __name__ == "__main__":
    unittest.main()
