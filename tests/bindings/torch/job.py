"""Gives the job, its tensors and the end of a rank to the tests that run as ranks of a job."""

import datetime
import os
import sys
import unittest
import warnings

# torch renames its calls.
warnings.simplefilter("ignore", FutureWarning)

import torch
import torch.distributed as dist

import wreath_torch  # noqa: F401

dist.init_process_group("wreath", timeout=datetime.timedelta(seconds=60))
ME, RANKS = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo") if dist.is_gloo_available() else None
BACKEND = dist.group.WORLD._get_backend(torch.device("cpu"))
TOTAL = RANKS * (RANKS + 1) // 2
NEXT, BEFORE = (ME + 1) % RANKS, (ME - 1) % RANKS

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
EIGHT_BITS = [torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]
OPS = {"SUM": sum, "PRODUCT": lambda values: torch.tensor(values).prod().item(), "MIN": min, "MAX": max}


def own(dtype=torch.float32, count=1000):
    return torch.full((count,), ME + 1, dtype=dtype)


def varied(dtype=torch.float32, shape=(7, 5), rank=ME):
    """Returns a tensor that differs on each rank, and whose sums are exact in every dtype."""
    numbers = torch.arange(int(torch.tensor(shape).prod())).reshape(shape)
    return ((numbers * (rank + 2)) % 5 + rank).to(dtype)


def every(function, **arguments):
    """Returns the result of `function` for the list of all ranks' `varied`."""
    return function([varied(rank=rank, **arguments) for rank in range(RANKS)])


def run_tests():
    """Runs the tests of the program that calls it, as one rank of several."""
    torch.set_num_threads(1)
    program = unittest.main(exit=False, warnings="ignore", verbosity=2 if os.environ.get("WREATH_TEST_LONG") == "1" else 1)
    dist.destroy_process_group()
    sys.exit(not program.result.wasSuccessful())
