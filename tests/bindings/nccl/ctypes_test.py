# The test uses libnccl.so.2 from Python by ctypes, as vLLM's pynccl does: `ctypes_test.py LIBRARY`. Ranks are threads.
import ctypes
import sys
import threading

RANKS = 2
COUNT = 1000
FLOAT, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def check(library, result):
    if result != 0:
        raise RuntimeError(library.ncclGetLastError(None).decode())


def run_rank(library, unique_id, rank, sums):
    communicator = ctypes.c_void_p()
    check(library, library.ncclCommInitRank(ctypes.byref(communicator), RANKS, unique_id, rank))
    data = (ctypes.c_float * COUNT)(*[rank + 1] * COUNT)
    check(library, library.ncclAllReduce(data, data, ctypes.c_size_t(COUNT), FLOAT, SUM, communicator, None))
    sums[rank] = set(data)
    check(library, library.ncclCommDestroy(communicator))


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.ncclGetLastError.restype = ctypes.c_char_p
    library.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    unique_id = UniqueId()
    check(library, library.ncclGetUniqueId(ctypes.byref(unique_id)))
    sums = [None] * RANKS
    threads = [threading.Thread(target=run_rank, args=(library, unique_id, rank, sums)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [{3.0}] * RANKS, sums
    print("sums of", RANKS, "ranks are right")


main()
