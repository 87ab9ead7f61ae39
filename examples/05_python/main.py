"""Python: every rank fills an array, everyone gets the sum.   wreath run -n 4 python3 main.py"""

import argparse

import numpy
import wreath

# The parser refuses all arguments.
argparse.ArgumentParser(description=__doc__).parse_args()
# This process is the rank that a launcher started, or the only rank without a launcher.
communicator = wreath.init()
values = numpy.full(4, communicator.rank + 1.0)
communicator.all_reduce(values)
print(f"rank {communicator.rank} of {communicator.ranks}: {values}")
