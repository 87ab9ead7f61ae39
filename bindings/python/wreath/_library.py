"""Finds libwreath.so, declares its functions (include/wreath/wreath.h), and makes its errors exceptions."""

import ctypes
import os
import pathlib
import sys
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p

NAME = "libwreath.so.0"


class Error(RuntimeError):
    """Says what the library says went wrong. `failed_rank` is the rank at fault, or -1."""

    def __init__(self, message, failed_rank=-1):
        super().__init__(message)
        self.failed_rank = failed_rank


class InvalidArgument(Error, ValueError):
    """The caller's value is wrong; the message names it."""


class InvalidUsage(Error):
    """The call is not allowed now: two calls at once, after a fork."""


class PeerLost(Error):
    """A rank's process or host is gone."""


class Timeout(Error):
    """A clock ran out: start-up, arrival or stall."""


class Mismatch(Error):
    """The ranks disagree on a call."""


class StartupFailed(Error):
    """The ranks could not meet at start-up."""


class Aborted(Error):
    """The function abort() was called, here or on another rank."""


class NotReady(Error):
    """A wait ended before the work did; nothing is lost."""


class Unavailable(Error):
    """This machine or build lacks what the call needs."""


class SystemRefused(Error):
    """The operating system refused memory or descriptors."""


# These are in the order of enum wreath_code; 0 is success.
EXCEPTIONS = (
    None,
    InvalidArgument,
    InvalidUsage,
    PeerLost,
    Timeout,
    Mismatch,
    StartupFailed,
    Aborted,
    NotReady,
    Unavailable,
    SystemRefused,
)
NOT_READY = EXCEPTIONS.index(NotReady)


class Blocks(ctypes.Structure):
    """Mirrors struct wreath_blocks."""

    _fields_ = [("counts", POINTER(c_size_t)), ("displacements", POINTER(c_size_t))]


class Call(ctypes.Structure):
    """Mirrors struct wreath_call."""

    _fields_ = [
        ("collective", c_int),
        ("dtype", c_int),
        ("op", c_int),
        ("root", c_int),
        ("factor", c_double),
        ("integer_factor", c_int64),
        ("input", c_void_p),
        ("output", c_void_p),
        ("count", c_size_t),
        ("input_blocks", Blocks),
        ("output_blocks", Blocks),
    ]


class Id(ctypes.Structure):
    """Mirrors struct wreath_unique_id."""

    _fields_ = [("bytes", ctypes.c_ubyte * 128)]


HANDLE = c_void_p
OPTIONS = POINTER(c_char_p)

# Maps functions to what they take. All of these return an enum wreath_code.
CHECKED = {
    "unique_id_create": (c_char_p, POINTER(Id)),
    "unique_id_format": (POINTER(Id), c_char_p, c_size_t),
    "unique_id_parse": (c_char_p, POINTER(Id)),
    "communicator_from_environment": (OPTIONS, POINTER(HANDLE)),
    "communicator_create": (POINTER(Id), c_int, c_int, OPTIONS, POINTER(HANDLE)),
    "communicator_local": (c_int, OPTIONS, POINTER(HANDLE)),
    "communicator_error": (HANDLE,),
    "communicator_abort": (HANDLE,),
    "communicator_split": (HANDLE, c_int, c_int, POINTER(HANDLE)),
    "communicator_duplicate": (HANDLE, POINTER(HANDLE)),
    "communicator_shrink": (HANDLE, c_int64, POINTER(HANDLE)),
    "communicator_transport": (HANDLE, c_int, c_char_p, c_size_t),
    "run": (HANDLE, POINTER(Call), POINTER(HANDLE)),
    "send": (HANDLE, c_void_p, c_size_t, c_int, c_int, POINTER(HANDLE)),
    "recv": (HANDLE, c_void_p, c_size_t, c_int, c_int, POINTER(HANDLE)),
    "work_wait": (HANDLE, c_int64),
    "group_begin": (POINTER(HANDLE),),
    "group_end": (HANDLE, POINTER(HANDLE)),
    "allocate": (c_size_t, POINTER(c_void_p)),
    "free": (c_void_p,),
    "await_cuda": (c_void_p, c_void_p),
}

# Maps functions to what they return and what they take.
PLAIN = {
    "version": (c_char_p, ()),
    "last_error": (c_char_p, ()),
    "last_error_rank": (c_int, ()),
    "communicator_destroy": (None, (HANDLE,)),
    "communicator_rank": (c_int, (HANDLE,)),
    "communicator_ranks": (c_int, (HANDLE,)),
    "work_done": (c_int, (HANDLE,)),
    "work_free": (None, (HANDLE,)),
    "group_cancel": (None, (HANDLE,)),
}


def _candidates():
    """Yields places where the library may be, in the order of preference, each with a word of what the place is."""
    named = os.environ.get("WREATH_LIBRARY", "")
    if named:
        path = pathlib.Path(named)
        yield (path / NAME if path.is_dir() else path), "WREATH_LIBRARY"
        return
    package = pathlib.Path(__file__).resolve().parent
    yield package / NAME, "beside the package"
    # This is the tree of the sources, where the package is used from them.
    tree = package.parent.parent.parent
    if (tree / "include" / "wreath" / "wreath.h").exists():
        for preset in ("release", "dev"):
            yield tree / "build" / preset / "lib" / NAME, "the build tree"
    for folder in dict.fromkeys((sys.prefix, "/usr/local", "/usr")):
        yield pathlib.Path(folder) / "lib" / NAME, "installed"
    yield pathlib.Path(NAME), "wherever the system's loader looks"


def _load():
    looked = []
    for path, place in _candidates():
        if path.is_absolute() and not path.exists():
            looked.append(f"  {path} ({place}): not there")
            continue
        try:
            return ctypes.CDLL(str(path)), path
        except OSError as failure:
            looked.append(f"  {path} ({place}): {failure}")
    raise ImportError(
        "the Wreath library is not found; it was looked for at\n"
        + "\n".join(looked)
        + f"\nBuild it (cmake --build build/release --target wreath_shared) or set WREATH_LIBRARY to {NAME} or its folder"
    )


_library, library_path = _load()


def raise_for(code):
    """Raises the exception for a code that is not success."""
    if code == 0:
        return
    kind = EXCEPTIONS[code] if 0 < code < len(EXCEPTIONS) else Error
    raise kind(plain["last_error"]().decode(errors="replace"), plain["last_error_rank"]())


def _function(name, result, arguments):
    try:
        function = getattr(_library, "wreath_" + name)
    except AttributeError:
        raise ImportError(f"{library_path} is another version: it has no wreath_{name}") from None
    function.restype = result
    function.argtypes = arguments
    return function


plain = {name: _function(name, *row) for name, row in PLAIN.items()}
checked = {name: _function(name, c_int, arguments) for name, arguments in CHECKED.items()}
library_version = plain["version"]().decode()


def call(name, *arguments):
    """Calls wreath_NAME and raises the error that it returns."""
    raise_for(checked[name](*arguments))
