"""Implements communicators: every method is one call of the C API."""

import ctypes
import threading
import time
import weakref

from wreath import _library
from wreath._arrays import View, like
from wreath._dtypes import is_integer
from wreath._library import Blocks, Call, Id, InvalidArgument

OPS = ("sum", "prod", "min", "max", "avg", "premultiplied_sum")
COLLECTIVES = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "reduce",
    "all_to_all",
    "gather",
    "scatter",
    "barrier",
)
# A wait returns so often to Python, which then sees Ctrl-C.
SLICE_MS = 200

# Its `groups` counts the groups that this thread has open.
_thread = threading.local()


def _options(options):
    """Returns name=value texts with a null at the end; lists are joined by commas, truth is 1 or 0."""
    texts = []
    for name, value in options.items():
        if isinstance(value, (list, tuple)):
            value = ",".join(value)
        elif isinstance(value, bool):
            value = int(value)
        texts.append(f"{name}={value}".encode())
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


def _counts(counts, ranks, name):
    counts = [int(count) for count in counts]
    if len(counts) != ranks or min(counts, default=0) < 0:
        raise InvalidArgument(f"{name} = {counts}: must be {ranks} counts, one for each rank")
    return (ctypes.c_size_t * ranks)(*counts), sum(counts)


def _hold(view, count, name):
    if view.count != count:
        raise InvalidArgument(f"{name}: {view.count} elements, but the call moves {count}")
    return view


class UniqueId:
    """Holds the token that one rank makes and gives to the others, over a private channel, so that they meet."""

    def __init__(self, raw):
        self._raw = raw

    @classmethod
    def create(cls, address=None):
        """Makes an id. `address` is an IP of this host, so that ranks of other hosts can join."""
        raw = Id()
        _library.call("unique_id_create", None if address is None else address.encode(), ctypes.byref(raw))
        return cls(raw)

    @classmethod
    def parse(cls, text):
        raw = Id()
        _library.call("unique_id_parse", text.encode(), ctypes.byref(raw))
        return cls(raw)

    def __str__(self):
        text = ctypes.create_string_buffer(257)
        _library.call("unique_id_format", ctypes.byref(self._raw), text, len(text))
        return text.value.decode()


class Work:
    """Represents a call in flight. It keeps its buffers alive until the call is over, also where it is dropped."""

    # Maps handles to buffers, for works that were dropped before they were over.
    _pending = {}

    def __init__(self, handle, buffers, result):
        self._handle = handle
        self._buffers = buffers
        self.result = result

    def done(self):
        """Returns whether the call is over, successfully or not. Never blocks."""
        return bool(_library.plain["work_done"](self._handle))

    def wait(self, timeout_ms=None):
        """Waits until the call is over and returns its result; NotReady after timeout_ms harms nothing."""
        end = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while True:
            left = SLICE_MS if end is None else max(0, min(SLICE_MS, int((end - time.monotonic()) * 1000)))
            code = _library.checked["work_wait"](self._handle, left)
            if code != _library.NOT_READY or (end is not None and time.monotonic() >= end):
                _library.raise_for(code)
                return self.result

    def __del__(self):
        Work._pending[self._handle.value] = self._buffers
        Work._prune()

    @classmethod
    def _prune(cls):
        # Code that has popped a handle is alone with it; a collection in between may prune, too.
        for handle in list(cls._pending):
            buffers = cls._pending.pop(handle, None)
            if buffers is None:
                continue
            if _library.plain["work_done"](handle):
                _library.plain["work_free"](handle)
            else:
                cls._pending[handle] = buffers


class group:
    """Launches calls of this thread inside `with wreath.group():` as one at its end; they are done then.

    Sends and receives among them run at once, in any order. An exception inside drops all calls.
    """

    def __enter__(self):
        self._handle = ctypes.c_void_p()
        _library.call("group_begin", ctypes.byref(self._handle))
        _thread.groups = getattr(_thread, "groups", 0) + 1
        return self

    def __exit__(self, kind, value, trace):
        _thread.groups -= 1
        if kind is not None:
            _library.plain["group_cancel"](self._handle)
            return
        handle = ctypes.c_void_p()
        _library.call("group_end", self._handle, ctypes.byref(handle))
        Work(handle, (), None).wait()


class Communicator:
    """Holds one rank of a communicator; communicator.hpp says what each call does.

    Arrays are numpy's or any buffer's, contiguous. Where `output` may be left out, it is a new numpy array, or the
    input itself for calls that keep its size. With wait=False a call returns a Work at once, whose wait() gives the
    result. Inside a group() nothing is waited for: results are there when the group is over.
    """

    def __init__(self, handle):
        self._handle = handle
        self._end = weakref.finalize(self, _library.plain["communicator_destroy"], handle)
        self.rank = _library.plain["communicator_rank"](handle)
        self.ranks = _library.plain["communicator_ranks"](handle)

    # ---- the meeting of ranks ----

    @classmethod
    def from_environment(cls, **options):
        handle = ctypes.c_void_p()
        _library.call("communicator_from_environment", _options(options), ctypes.byref(handle))
        return cls(handle)

    @classmethod
    def create(cls, unique_id, rank, ranks, **options):
        handle = ctypes.c_void_p()
        raw = ctypes.byref(unique_id._raw)
        _library.call("communicator_create", raw, rank, ranks, _options(options), ctypes.byref(handle))
        return cls(handle)

    @classmethod
    def local(cls, ranks, **options):
        """Returns a list of `ranks` communicators, for threads of this process."""
        handles = (ctypes.c_void_p * max(ranks, 1))()
        _library.call("communicator_local", ranks, _options(options), handles)
        return [cls(ctypes.c_void_p(handle)) for handle in handles]

    def close(self):
        """Waits up to 5 s for calls in flight, then aborts them. `with` and the last reference's end do so, too."""
        self._end()
        self._handle = None
        Work._prune()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<wreath.Communicator rank {self.rank} of {self.ranks}>"

    # ---- collectives ----

    def all_reduce(self, array, output=None, op="sum", factor=1, wait=True):
        return self._vector("all_reduce", array, output, (op, factor), None, wait)

    def reduce(self, array, output=None, op="sum", root=0, factor=1, wait=True):
        return self._vector("reduce", array, output, (op, factor), root, wait)

    def broadcast(self, array, output=None, root=0, wait=True):
        return self._vector("broadcast", array, output, None, root, wait)

    def reduce_scatter(self, array, output=None, op="sum", factor=1, wait=True):
        """Returns this rank's block of the sum; `array` holds a block for each rank."""
        source = View(array, "array", False)
        if output is None:
            output = like(array, self._block_shape(array, "array"), "output")
        target = source.same_dtype(View(output, "output", True), "output")
        _hold(source, target.count * self.ranks, "array")
        return self._run("reduce_scatter", source, target, target.count, output, wait, reduction=(op, factor))

    def all_gather(self, array, output=None, wait=True):
        """Returns an array of the shape (ranks, *array.shape)."""
        return self._gathered("all_gather", array, output, 0, True, wait)

    def gather(self, array, output=None, root=0, wait=True):
        """Returns an array of the shape (ranks, *array.shape) at the root, else None."""
        return self._gathered("gather", array, output, root, self.rank == root, wait)

    def scatter(self, array, output, root=0, wait=True):
        """Returns this rank's block. At the root `array` holds a block for each rank; elsewhere it may be None."""
        target = View(output, "output", True)
        source = None
        if self.rank == root:
            source = _hold(target.same_dtype(View(array, "array", False), "array"), target.count * self.ranks, "array")
        return self._run("scatter", source, target, target.count, output, wait, root=root)

    def all_to_all(self, array, output=None, wait=True):
        """Returns a block from each rank; `array` holds a block for each rank."""
        source = View(array, "array", False)
        if source.count % self.ranks:
            raise InvalidArgument(f"array: {source.count} elements cannot be {self.ranks} blocks of one size")
        if output is None:
            output = like(array, getattr(array, "shape", ()), "output")
        target = _hold(source.same_dtype(View(output, "output", True), "output"), source.count, "output")
        return self._run("all_to_all", source, target, source.count // self.ranks, output, wait)

    def barrier(self, wait=True):
        return self._run("barrier", None, None, 0, None, wait)

    # ---- blocks that differ in size: a list of counts, one for each rank ----

    def reduce_scatter_v(self, array, output, counts, op="sum", factor=1, wait=True):
        source, target, blocks = self._varying(array, output, counts, None)
        return self._run("reduce_scatter", source, target, 0, output, wait, (op, factor), blocks=blocks)

    def all_gather_v(self, array, output, counts, wait=True):
        source, target, blocks = self._varying(array, output, None, counts)
        return self._run("all_gather", source, target, 0, output, wait, blocks=blocks)

    def gather_v(self, array, output, counts, root=0, wait=True):
        source, target, blocks = self._varying(array, output if self.rank == root else None, None, counts)
        return self._run("gather", source, target, 0, output, wait, root=root, blocks=blocks)

    def scatter_v(self, array, output, counts, root=0, wait=True):
        source, target, blocks = self._varying(array if self.rank == root else None, output, counts, None)
        return self._run("scatter", source, target, 0, output, wait, root=root, blocks=blocks)

    def all_to_all_v(self, array, send_counts, output, receive_counts, wait=True):
        source, target, blocks = self._varying(array, output, send_counts, receive_counts)
        return self._run("all_to_all", source, target, 0, output, wait, blocks=blocks)

    # ---- one rank to another ----

    def send(self, array, to, wait=True):
        return self._message("send", View(array, "array", False), to, None, wait)

    def recv(self, array, source, wait=True):
        return self._message("recv", View(array, "array", True), source, array, wait)

    # ---- other communicators, and failure ----

    def split(self, color, key=0):
        """Returns a communicator of the ranks that gave the same color; None for a negative one."""
        child = self._derive("split", color, key)
        return child if child.ranks > 0 else None

    def duplicate(self):
        return self._derive("duplicate")

    def shrink(self, timeout_ms=60_000):
        """Returns, after a failure, a new communicator of the ranks that live."""
        return self._derive("shrink", timeout_ms)

    def abort(self):
        """Fails the communicator on this rank at once, and tells the others. Any thread may call it."""
        _library.call("communicator_abort", self._handle)

    def check(self):
        """Raises the communicator's first error, if there is one. Any thread may call it."""
        _library.call("communicator_error", self._handle)

    def transport_to(self, peer):
        text = ctypes.create_string_buffer(512)
        _library.call("communicator_transport", self._handle, peer, text, len(text))
        return text.value.decode(errors="replace")

    # ---- the making of calls ----

    def _derive(self, name, *arguments):
        child = ctypes.c_void_p()
        _library.call("communicator_" + name, self._handle, *arguments, ctypes.byref(child))
        return Communicator(child)

    def _block_shape(self, array, name):
        shape = getattr(array, "shape", (0,))
        if not shape or shape[0] % self.ranks:
            raise InvalidArgument(f"{name}: the first dimension of {shape} cannot be {self.ranks} blocks of one size")
        return (shape[0] // self.ranks, *shape[1:])

    def _vector(self, collective, array, output, reduction, root, wait):
        in_place = output is None
        writes = root is None or collective == "broadcast" or self.rank == root
        source = View(array, "array", in_place and writes)
        target = source
        if not in_place:
            target = _hold(source.same_dtype(View(output, "output", writes), "output"), source.count, "output")
        result = array if in_place else output
        return self._run(collective, source, target, source.count, result, wait, reduction, root or 0)

    def _gathered(self, collective, array, output, root, gets, wait):
        source = View(array, "array", False)
        if gets and output is None:
            output = like(array, (self.ranks, *getattr(array, "shape", ())), "output")
        target = None
        if gets:
            target = source.same_dtype(View(output, "output", True), "output")
            _hold(target, source.count * self.ranks, "output")
        return self._run(collective, source, target, source.count, output if gets else None, wait, root=root)

    def _varying(self, array, output, send_counts, receive_counts):
        """Returns views and tables of a v-form; the side without counts holds this rank's block."""
        source = None if array is None else View(array, "array", False)
        target = None if output is None else View(output, "output", True)
        if source is not None and target is not None:
            source.same_dtype(target, "output")
        tables = []
        for counts, own, whole, name in (
            (send_counts, target, source, "send_counts" if receive_counts is not None else "counts"),
            (receive_counts, source, target, "receive_counts" if send_counts is not None else "counts"),
        ):
            if counts is None:
                tables.append(None)
                continue
            table, total = _counts(counts, self.ranks, name)
            tables.append(table)
            if whole is not None:
                _hold(whole, total, "array" if whole is source else "output")
            if own is not None and (send_counts is None or receive_counts is None):
                _hold(own, table[self.rank], "array" if own is source else "output")
        return source, target, tables

    def _run(self, collective, source, target, count, result, wait, reduction=None, root=0, blocks=(None, None)):
        call = Call(collective=COLLECTIVES.index(collective), root=root, count=count)
        buffer = source or target
        if buffer is not None:
            call.dtype = buffer.dtype
        if reduction is not None:
            op, factor = reduction
            if op not in OPS:
                raise InvalidArgument(f"op = {op!r}: must be one of {' '.join(OPS)}")
            call.op = OPS.index(op)
            call.factor = factor
            call.integer_factor = int(factor) if is_integer(call.dtype) else 1
        call.input = None if source is None else source.address
        call.output = None if target is None else target.address
        for field, table in zip(("input_blocks", "output_blocks"), blocks):
            if table is not None:
                setattr(call, field, Blocks(counts=ctypes.cast(table, ctypes.POINTER(ctypes.c_size_t))))
        handle = ctypes.c_void_p()
        _library.call("run", self._handle, ctypes.byref(call), ctypes.byref(handle))
        return self._finish(Work(handle, (source, target, result), result), wait)

    def _message(self, name, view, peer, result, wait):
        handle = ctypes.c_void_p()
        _library.call(name, self._handle, view.address, view.count, view.dtype, peer, ctypes.byref(handle))
        return self._finish(Work(handle, (view,), result), wait)

    @staticmethod
    def _finish(work, wait):
        if not wait:
            return work
        if getattr(_thread, "groups", 0) > 0:
            # The dropped Work keeps the buffers until the group is over.
            return work.result
        return work.wait()


def init(**options):
    """Returns the communicator of all ranks that a launcher started (`wreath run`, torchrun, Slurm), or of one."""
    return Communicator.from_environment(**options)
