"""Provides collective communication over numpy arrays and everything that has Python's buffer protocol.

    import numpy, wreath

    communicator = wreath.init()                        # the rank that a launcher started this process as
    values = numpy.full(4, communicator.rank + 1.0)
    communicator.all_reduce(values)                     # in place: every rank has the sum

Such a program starts with `wreath run -n 4 python3 program.py`. Buffers are contiguous. Other threads run while a call
waits.
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

# Messages and tracebacks name types as users write them.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = "wreath"
