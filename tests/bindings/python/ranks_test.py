"""Tests the Python package with two ranks or more: `wreath run -n 2 python3 ranks_test.py`. Exits with 77 without
numpy."""

import array
import gc
import os
import sys
import threading
import unittest

try:
    import numpy
except ImportError:
    print("numpy is not here")
    sys.exit(77)

import wreath
from wreath._dtypes import NAMES

ALL = wreath.init(stall_ms=20_000, arrival_ms=20_000, late_warning_ms=15_000)
ME, RANKS = ALL.rank, ALL.ranks
TOTAL = RANKS * (RANKS + 1) // 2


def own(dtype="float32", count=1000):
    return numpy.full(count, ME + 1, dtype)


class Collectives(unittest.TestCase):
    def test_all_reduce_in_place_and_out_of_place(self):
        for dtype in (name for name in NAMES if hasattr(numpy, name)):
            values = own(dtype)
            self.assertIs(ALL.all_reduce(values), values)
            self.assertTrue((values == TOTAL).all(), dtype)
            source, target = own(dtype), numpy.zeros(1000, dtype)
            self.assertIs(ALL.all_reduce(source, target, op="max"), target)
            self.assertTrue((target == RANKS).all() and (source == ME + 1).all(), dtype)

    def test_operators(self):
        expected = {"sum": TOTAL, "min": 1, "max": RANKS, "avg": TOTAL / RANKS, "premultiplied_sum": 2 * TOTAL}
        for op, value in expected.items():
            result = ALL.all_reduce(own("float64"), op=op, factor=2)
            self.assertTrue((result == value).all(), op)
        self.assertTrue((ALL.all_reduce(own("int32"), op="premultiplied_sum", factor=2) == 2 * TOTAL).all())

    def test_buffers_of_other_kinds(self):
        for letter in "bBiIlLqQfd":
            values = array.array(letter, [ME + 1] * 10)
            ALL.all_reduce(values)
            self.assertEqual(list(values), [TOTAL] * 10, letter)
        target = bytearray(3)
        ALL.all_reduce(bytes([ME + 1] * 3), target)
        self.assertEqual(target, bytes([TOTAL] * 3))

    def test_blocks(self):
        rows = numpy.full((3, 2), ME, "int32")
        gathered = ALL.all_gather(rows)
        self.assertEqual(gathered.shape, (RANKS, 3, 2))
        self.assertEqual(gathered[:, 0, 0].tolist(), list(range(RANKS)))
        at_root = ALL.gather(rows, root=RANKS - 1)
        self.assertTrue((at_root == gathered).all() if ME == RANKS - 1 else at_root is None)
        numbers = numpy.arange(RANKS, dtype="int64") + 100 * ME
        self.assertEqual(ALL.all_to_all(numbers).tolist(), [100 * rank + ME for rank in range(RANKS)])
        got = numpy.zeros(1, "int64")
        ALL.scatter(numbers if ME == 0 else None, got)
        self.assertEqual(got[0], ME)
        self.assertEqual(ALL.reduce_scatter(numpy.arange(RANKS) * (ME + 1)).tolist(), [TOTAL * ME])
        self.assertTrue((ALL.broadcast(own(), root=RANKS - 1) == RANKS).all())
        reduced = ALL.reduce(own(), root=0)
        self.assertTrue((reduced == (TOTAL if ME == 0 else ME + 1)).all())
        ALL.barrier()

    def test_blocks_that_vary(self):
        counts = [rank + 1 for rank in range(RANKS)]
        everyones = [float(rank + 1) for rank in range(RANKS) for _ in range(rank + 1)]
        target = numpy.zeros(sum(counts))
        ALL.all_gather_v(own("float64", ME + 1), target, counts)
        self.assertEqual(target.tolist(), everyones)
        ALL.gather_v(own("float64", ME + 1), target if ME == 0 else None, counts)
        got = numpy.zeros(ME + 1)
        ALL.scatter_v(target if ME == 0 else None, got, counts)
        self.assertTrue((got == ME + 1).all())
        ALL.reduce_scatter_v(numpy.ones(sum(counts)), got, counts)
        self.assertTrue((got == RANKS).all())
        exchanged = [rank + ME + 1 for rank in range(RANKS)]
        got = numpy.zeros(sum(exchanged))
        ALL.all_to_all_v(own("float64", sum(exchanged)), exchanged, got, exchanged)
        self.assertEqual(got.tolist(), [float(rank + 1) for rank in range(RANKS) for _ in range(exchanged[rank])])

    def test_bfloat16_where_it_has_a_type(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not here")
        for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
            self.assertTrue((ALL.all_reduce(own(dtype)) == TOTAL).all())

    def test_an_output_of_bytes_must_be_given(self):
        for call in (ALL.all_gather, ALL.all_to_all):
            with self.assertRaisesRegex(wreath.InvalidArgument, "output must be given where the input is no numpy array"):
                call(bytearray(8 * RANKS))
        ALL.barrier()

    def test_memory_that_peers_map(self):
        values = wreath.empty((1024, 1024))
        values[:] = ME + 1
        self.assertTrue((ALL.all_reduce(values) == TOTAL).all())
        part = values[3]
        del values
        gc.collect()
        self.assertTrue((part == TOTAL).all())


class Works(unittest.TestCase):
    def test_a_work_gives_the_result(self):
        work = ALL.all_reduce(own(count=200_000), wait=False)
        self.assertTrue((work.wait() == TOTAL).all())
        self.assertTrue(work.done())

    def test_dropped_works_keep_their_arrays(self):
        for _ in range(50):
            ALL.all_reduce(own(count=20_000), wait=False)
            gc.collect()
        ALL.barrier()
        gc.collect()
        self.assertLessEqual(len(wreath.Work._pending), 50)

    def test_a_wait_that_ends_harms_nothing(self):
        if RANKS == 1:
            self.skipTest("nobody to wait for")
        other = ALL.duplicate()
        if ME == 0:
            got = numpy.zeros(10)
            work = ALL.recv(got, 1, wait=False)
            with self.assertRaises(wreath.NotReady):
                work.wait(timeout_ms=20)
            other.barrier()
            self.assertEqual(work.wait()[0], 7)
        else:
            other.barrier()
            if ME == 1:
                ALL.send(numpy.full(10, 7.0), 0)
        other.close()

    def test_a_group_exchanges(self):
        held, following = numpy.array([ME]), numpy.array([-1])
        with wreath.group():
            ALL.send(held, (ME + 1) % RANKS)
            ALL.recv(following, (ME - 1) % RANKS)
        self.assertEqual(following[0], (ME - 1) % RANKS)
        with self.assertRaises(KeyError), wreath.group():
            ALL.barrier()
            raise KeyError
        ALL.barrier()


class Refusals(unittest.TestCase):
    def refuse(self, words, call):
        with self.assertRaises(wreath.InvalidArgument) as caught:
            call()
        self.assertIn(words, str(caught.exception))

    def test_arrays_that_cannot_be_used_are_named(self):
        self.refuse("array: the array (shape (3, 4), strides (8, 24)) is not", lambda: ALL.all_reduce(numpy.zeros((4, 3)).T))
        self.refuse("array: the array", lambda: ALL.all_reduce(numpy.zeros(10)[::2]))
        self.refuse("output: dtype float64, but the input's is float32", lambda: ALL.all_reduce(own(), own("float64")))
        self.refuse("array: dtype complex128", lambda: ALL.all_reduce(numpy.zeros(3, "complex128")))
        self.refuse("array: a float is neither", lambda: ALL.all_reduce(3.0))
        self.refuse("array: the buffer is read-only", lambda: ALL.all_reduce(numpy.float64(3)))
        self.refuse("array: the buffer is read-only", lambda: ALL.all_reduce(b"12"))
        self.refuse("output: 3 elements, but the call moves 4", lambda: ALL.all_reduce(numpy.zeros(4), numpy.zeros(3)))
        self.refuse("array: dtype >f4 is in another byte order", lambda: ALL.all_reduce(numpy.zeros(3, ">f4")))
        self.refuse("op = 'mean'", lambda: ALL.all_reduce(own(), op="mean"))
        self.refuse("counts = [1]" if RANKS > 1 else "counts = []", lambda: ALL.all_gather_v(own(), own(), [1] * (RANKS > 1)))
        self.refuse("option 'lane' does not exist", lambda: wreath.Communicator.local(1, lane=2))

    def test_the_mistake_of_one_rank_fails_all_and_the_rest_goes_on(self):
        doomed = ALL.duplicate()
        with self.assertRaises(wreath.InvalidArgument) as caught:
            doomed.broadcast(own(), root=-1 if ME == 0 else 0)
        self.assertIn("root = -1", str(caught.exception))
        self.assertEqual(caught.exception.failed_rank, 0)
        with self.assertRaises(wreath.InvalidArgument):
            doomed.check()
        rest = doomed.shrink()
        self.assertEqual((rest.rank, rest.ranks), (ME, RANKS))
        rest.barrier()

    def test_a_closed_communicator_refuses(self):
        with ALL.duplicate() as other:
            other.barrier()
        with self.assertRaises(wreath.InvalidArgument):
            other.barrier()


class Others(unittest.TestCase):
    def test_split_by_color(self):
        part = ALL.split(ME % 2, key=-ME)
        self.assertEqual(part.ranks, (RANKS + 1 - ME % 2) // 2)
        part.barrier()
        self.assertIs(ALL.split(-1), None)
        self.assertEqual(ALL.transport_to(ME), "self")

    def test_ranks_that_are_threads_run_while_others_wait(self):
        parts = wreath.Communicator.local(3)
        results = [None] * 3

        def rank(number):
            results[number] = parts[number].all_reduce(numpy.full(100_000, number + 1.0))

        threads = [threading.Thread(target=rank, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(all((result == 6).all() for result in results))

    def test_an_id_as_text(self):
        made = wreath.UniqueId.create()
        self.assertEqual(str(wreath.UniqueId.parse(str(made))), str(made))
        alone = wreath.Communicator.create(made, 0, 1)
        self.assertEqual(repr(alone), "<wreath.Communicator rank 0 of 1>")


if __name__ == "__main__":
    unittest.main(verbosity=2 if os.environ.get("WREATH_TEST_LONG") == "1" else 1)
