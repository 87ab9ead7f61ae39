"""Collective communication over numpy arrays and everything that has Python's buffer protocol.

    import numpy, wreath

    communicator = wreath.init()                        # the rank that a launcher started this process as
    values = numpy.full(4, communicator.rank + 1.0)
    communicator.all_reduce(values)                     # in place: every rank has the sum

Start it with `wreath run -n 4 python3 program.py`. Buffers are contiguous; other threads run while a call waits.
"""

from wreath._arrays import allocate, empty
from wreath._communicator import Communicator, UniqueId, Work, group, init
from wreath._library import (
    Aborted,
    Error,
    InvalidArgument,
    InvalidUsage,
    Mismatch,
    NotReady,
    PeerLost,
    StartupFailed,
    SystemRefused,
    Timeout,
    Unavailable,
    library_path,
    library_version,
)

__version__ = "0.1.0"

__all__ = [
    "Aborted",
    "Communicator",
    "Error",
    "InvalidArgument",
    "InvalidUsage",
    "Mismatch",
    "NotReady",
    "PeerLost",
    "StartupFailed",
    "SystemRefused",
    "Timeout",
    "Unavailable",
    "UniqueId",
    "Work",
    "allocate",
    "empty",
    "group",
    "init",
    "library_path",
    "library_version",
]

for _name in __all__:  # as users write them, in messages and tracebacks
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = "wreath"
