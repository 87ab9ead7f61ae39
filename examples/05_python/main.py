"""Python: every rank fills an array, everyone gets the sum.   wreath run -n 4 python3 main.py"""

import argparse

import numpy
import wreath

argparse.ArgumentParser(description=__doc__).parse_args()  # no arguments: says so
communicator = wreath.init()  # the rank that a launcher started this process as; alone without one
values = numpy.full(4, communicator.rank + 1.0)
communicator.all_reduce(values)
print(f"rank {communicator.rank} of {communicator.ranks}: {values}")
