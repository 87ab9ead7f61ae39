"""Tests memory of a CUDA device by both of its protocols, on the driver that stands in for libcuda.so.1.

Two ranks are threads. The driver's own copies fill and read its memory.
"""

import array
import ctypes
import threading
import unittest

COUNT = 5000


class Driver:
    """Does what a package that owns GPU memory does with the driver."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.call("cuInit", ctypes.c_uint(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.make_current()

    def make_current(self):
        self.call("cuCtxPushCurrent", self.context)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {result}")

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream

    def allocate(self, size):
        address = ctypes.c_ulonglong()
        self.call("cuMemAlloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def copy(self, target, source, size, stream=None):
        self.call("cuMemcpyAsync", *map(ctypes.c_ulonglong, (target, source)), ctypes.c_size_t(size), stream)
        if stream is None:
            self.call("cuStreamSynchronize", stream)


DRIVER = Driver()

# The import comes after the driver, as in a program that has used a GPU before.
import wreath  # noqa: E402
from wreath import _tensors  # noqa: E402


class OnDevice:
    """COUNT values of float32 in memory of device 0."""

    def __init__(self, value, stream=None):
        self.values = array.array("f", [value] * COUNT)
        self.address = DRIVER.allocate(4 * COUNT)
        self.stream = stream
        DRIVER.copy(self.address, self.values.buffer_info()[0], 4 * COUNT, stream)

    def read(self):
        values = array.array("f", [0] * COUNT)
        DRIVER.copy(values.buffer_info()[0], self.address, 4 * COUNT)
        return set(values)


class CudaArray(OnDevice):
    @property
    def __cuda_array_interface__(self):
        stream = None if self.stream is None else self.stream.value
        return {"shape": (COUNT,), "typestr": "<f4", "data": (self.address, False), "version": 3, "stream": stream}


class DlpackTensor(OnDevice):
    def __dlpack_device__(self):
        return (_tensors.CUDA, 0)

    def __dlpack__(self, stream=None, **_words):
        assert stream == 1
        self.shape = (ctypes.c_int64 * 1)(COUNT)
        self.managed = _tensors._Versioned(major=1)
        tensor = self.managed.tensor
        tensor.data, tensor.device_type, tensor.ndim = self.address, _tensors.CUDA, 1
        tensor.code, tensor.bits, tensor.lanes = 2, 32, 1
        tensor.shape = self.shape
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.managed), b"dltensor_versioned", None)


class Ranks(unittest.TestCase):
    def run_ranks(self, body):
        failures = []

        def run(communicator):
            try:
                DRIVER.make_current()
                body(communicator)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=run, args=(each,)) for each in wreath.Communicator.local(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for failure in failures:
            raise failure

    def test_sums_in_place_and_out_of_place(self):
        for kind in (CudaArray, DlpackTensor):

            def body(communicator, kind=kind):
                own = kind(communicator.rank + 1)
                target = kind(0)
                communicator.all_reduce(own, target)
                self.assertEqual(target.read(), {3})
                communicator.all_reduce(own)
                self.assertEqual(own.read(), {3})
                work = communicator.all_reduce(own, wait=False)
                work.wait()
                self.assertEqual(own.read(), {6})

            self.run_ranks(body)

    def test_waits_for_the_stream_that_made_the_values(self):
        def body(communicator):
            own = CudaArray(communicator.rank + 1, DRIVER.stream())
            communicator.all_reduce(own)
            self.assertEqual(own.read(), {3})

        self.run_ranks(body)

    def test_sends_beside_memory_of_the_host(self):
        def body(communicator):
            if communicator.rank == 0:
                communicator.send(CudaArray(5), 1)
            else:
                target = array.array("f", [0] * COUNT)
                communicator.recv(target, 0)
                self.assertEqual(set(target), {5})

        self.run_ranks(body)

    def test_refuses_memory_that_is_no_devices(self):
        own = CudaArray(1)
        own.address = own.values.buffer_info()[0]
        (alone,) = wreath.Communicator.local(1)
        with self.assertRaises(wreath.InvalidArgument) as caught:
            alone.all_reduce(own)
        self.assertIn("not memory of a CUDA device", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
