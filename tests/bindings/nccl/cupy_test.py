"""Tests CuPy's nccl module on libnccl.so.2 and host memory: `cupy_test.py LIBRARY`. Exits with 77 where CuPy is
missing."""

import os
import pickle
import sys
import warnings

if os.environ.get("LD_PRELOAD") != sys.argv[1]:
    os.execve(sys.executable, [sys.executable, "-B", *sys.argv], {**os.environ, "LD_PRELOAD": sys.argv[1]})

# CuPy warns that there is no GPU.
warnings.simplefilter("ignore")
try:
    import numpy
    from cupy.cuda import nccl

    nccl.get_version()
except (ImportError, AttributeError):
    print("CuPy is not here: install cupy-cuda13x with its cuda-pathfinder, which need no GPU for this")
    sys.exit(77)

COUNT = 1000


def address(values):
    return values.ctypes.data


def run(unique_id, rank):
    communicator = nccl.NcclCommunicator(2, unique_id, rank)
    own = numpy.arange(COUNT, dtype="float32") + rank
    got = numpy.zeros(2 * COUNT, "float32")
    communicator.allReduce(address(own), address(got), COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0)
    assert (got[:COUNT] == 2 * numpy.arange(COUNT) + 1).all()
    communicator.allGather(address(own), address(got), COUNT, nccl.NCCL_FLOAT32, 0)
    assert got[0] == 0 and got[COUNT] == 1
    nccl.groupStart()
    communicator.send(address(own), 10, nccl.NCCL_FLOAT32, 1 - rank, 0)
    communicator.recv(address(got), 10, nccl.NCCL_FLOAT32, 1 - rank, 0)
    nccl.groupEnd()
    assert got[0] == 1 - rank
    try:
        communicator.allReduce(0, address(got), COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0)
        raise AssertionError("a null pointer was taken")
    except nccl.NcclError as error:
        assert "INVALID_ARGUMENT" in str(error), error
    communicator.check_async_error()
    assert (communicator.rank_id(), communicator.size()) == (rank, 2)
    communicator.destroy()


def main():
    ids, tell = os.pipe()
    other = os.fork()  # before the library is used
    if other == 0:
        run(pickle.loads(os.read(ids, 1 << 16)), 1)
        return
    unique_id = nccl.get_unique_id()
    os.write(tell, pickle.dumps(unique_id))
    run(unique_id, 0)
    _, status = os.waitpid(other, 0)
    assert status == 0
    print(f"CuPy adds, gathers and sends as 2 ranks on NCCL {nccl.get_version()}")


main()
