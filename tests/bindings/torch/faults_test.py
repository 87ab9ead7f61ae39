"""Jobs that end badly end soon and say why: ranks die, never come or are late, and groups are aborted. No arguments."""

import datetime
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import unittest

import torch
import torch.distributed as dist

# The seconds are far below the group's timeout, and far above what a loaded machine needs.
SOON = 250


def start(rank, ranks, folder, timeout=1000):
    import wreath_torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("wreath", init_method=f"file://{folder}/store", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=timeout))


def message_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return "no error"


def one_dies(rank, ranks, folder):
    start(rank, ranks, folder)
    tensor = torch.ones(100_000)
    if rank == 1:
        dist.all_reduce(tensor)
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(tensor)
    yield message_of(lambda: dist.all_reduce(tensor))
    yield message_of(dist.barrier)


def one_dies_in_a_training_step(rank, ranks, folder):
    start(rank, ranks, folder)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1000, 100))
    for step in range(3):
        if rank == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield message_of(lambda: model(torch.ones(4, 1000)).sum().backward())


def the_sender_dies(rank, ranks, folder):
    start(rank, ranks, folder)
    tensor = torch.ones(10)
    if rank == 1:
        dist.send(tensor, 0)
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        dist.recv(tensor, 1)
        yield message_of(lambda: dist.recv(tensor, 1))


def one_is_late(rank, ranks, folder):
    start(rank, ranks, folder)
    if rank == 0:
        yield message_of(lambda: dist.barrier(timeout=datetime.timedelta(seconds=1)))
        yield message_of(dist.barrier)
    else:
        time.sleep(3)
        yield message_of(dist.barrier)


def one_is_later_than_the_group_allows(rank, ranks, folder):
    start(rank, ranks, folder, timeout=20 if rank == 0 else 1000)
    begin = time.monotonic()
    if rank == 0:
        yield message_of(dist.barrier)
        yield str(time.monotonic() - begin)
    else:
        time.sleep(25)


def one_aborts(rank, ranks, folder):
    start(rank, ranks, folder)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    if rank == 0:
        # Rank 1 never sends this message.
        work = dist.irecv(torch.ones(1), 1)
        backend.abort()
        yield message_of(work.wait)
    yield message_of(dist.barrier)


def one_leaves_with_calls_in_flight(rank, ranks, folder):
    start(rank, ranks, folder)
    if rank == 0:
        work = dist.all_reduce(torch.ones(10), async_op=True)
        begin = time.monotonic()
        dist.destroy_process_group()
        yield str(time.monotonic() - begin)
        yield message_of(work.wait)
    else:
        time.sleep(10)


def one_ends_without_a_word(rank, ranks, folder):
    """The program's end is no failure: the other rank still gets the data that was being sent."""
    start(rank, ranks, folder)
    tensor = torch.ones(3_000_000)
    dist.all_reduce(tensor)
    if rank != 0:
        dist.all_reduce(tensor[:0])
    yield str(tensor[0].item())


def a_child_of_fork_calls(rank, ranks, folder):
    start(rank, ranks, folder)
    dist.all_reduce(torch.ones(1), async_op=True).wait()
    if os.fork() == 0:
        said = message_of(lambda: dist.all_reduce(torch.ones(1), async_op=True).wait())
        os._exit(0 if "made before the fork" in said else 1)
    _, status = os.wait()
    yield str(status)
    dist.barrier()


def store_of_rank_0(rank, ranks, folder):
    """Returns a store that the process of rank 0 serves, as in a job that torchrun did not start."""
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, ranks, is_master=True, wait_for_workers=False)
        with open(f"{folder}/draft", "w", encoding="utf-8") as file:
            file.write(str(store.port))
        os.rename(f"{folder}/draft", f"{folder}/port")
        return store
    while not os.path.exists(f"{folder}/port"):
        time.sleep(0.01)
    with open(f"{folder}/port", encoding="utf-8") as file:
        return dist.TCPStore("127.0.0.1", int(file.read()), ranks, is_master=False)


def a_pair_meets_after_rank_0_has_left(rank, ranks, folder):
    import wreath_torch  # noqa: F401

    store, tensor = store_of_rank_0(rank, ranks, folder), torch.ones(1)
    dist.init_process_group("wreath", store=store, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=1000))
    if rank > 0:
        dist.send(tensor, 2, tag=5) if rank == 1 else dist.recv(tensor, 1, tag=5)
    dist.barrier()
    if rank == 0:
        os._exit(0)
    while "no error" == message_of(lambda: store.check(["anything"])):
        time.sleep(0.01)
    yield message_of(lambda: dist.send(tensor, 2, tag=5) if rank == 1 else dist.recv(tensor, 1, tag=5))
    yield message_of(lambda: dist.send(tensor, 2, tag=6) if rank == 1 else dist.recv(tensor, 1, tag=6))
    yield message_of(lambda: dist.send(tensor, 1, tag=6) if rank == 2 else dist.recv(tensor, 2, tag=6))


def _run(case, rank, ranks, folder):
    with open(f"{folder}/{rank}", "w", encoding="utf-8") as file:
        for words in case(rank, ranks, folder):
            print(words.replace("\n", " "), file=file, flush=True)


class Faults(unittest.TestCase):
    def run_ranks(self, case, ranks=2, limit=SOON):
        with tempfile.TemporaryDirectory() as folder:
            context = multiprocessing.get_context("spawn")
            processes = [context.Process(target=_run, args=(case, rank, ranks, folder)) for rank in range(ranks)]
            begin = time.monotonic()
            for process in processes:
                process.start()
            for process in processes:
                process.join(max(1, begin + limit - time.monotonic()))
            hung = [rank for rank, process in enumerate(processes) if process.is_alive()]
            for process in processes:
                process.kill()
                process.join()
            self.assertEqual(hung, [], "ranks that did not end")
            said = []
            for rank in range(ranks):
                with open(f"{folder}/{rank}", encoding="utf-8") as file:
                    said.append(file.read().splitlines())
            return said

    def test_a_dead_rank_is_named(self):
        for ranks in (2, 3):
            for said in [each for rank, each in enumerate(self.run_ranks(one_dies, ranks)) if rank != 1]:
                self.assertRegex(said[0], r"wreath: .*all_reduce #.*peer lost: (rank . .* to )?rank 1 \(host .*, pid")
                self.assertRegex(said[1], "rank 1")

    def test_a_dead_rank_is_named_in_training(self):
        said = self.run_ranks(one_dies_in_a_training_step)
        self.assertEqual(said[0][:2], ["no error"] * 2)
        self.assertRegex(said[0][2], "wreath: .*rank 1")

    def test_a_dead_sender_is_named(self):
        said = self.run_ranks(the_sender_dies)
        self.assertRegex(said[0][0], r"wreath: .*peer lost: (rank . .* to )?rank 0 .*; ranks 0, 1 of group .* from rank 1 to rank 0, tag 0 are ranks 1, 0 of all")

    def test_a_pair_that_meets_without_the_store_says_so(self):
        for said in self.run_ranks(a_pair_meets_after_rank_0_has_left, 3)[1:]:
            self.assertEqual(said[0], "no error")  # the ranks had met before
            for line, (sender, receiver) in zip(said[1:], ((1, 2), (2, 1))):
                self.assertRegex(line, f"wreath: ranks {sender} and {receiver} of group .*, for their first message from {sender} to "
                                 f"{receiver} with tag 6, have not met: torch's store, by which they meet, cannot be asked: .*rank 0 .* must live")

    def test_a_call_has_its_own_timeout(self):
        said = self.run_ranks(one_is_late)
        self.assertRegex(said[0][0], "not over after 1000 ms, its timeout")
        self.assertNotEqual(said[0][1], "no error")
        self.assertRegex(said[1][0], "rank 0")

    def test_a_rank_that_is_late_is_named(self):
        said = self.run_ranks(one_is_later_than_the_group_allows)
        self.assertRegex(said[0][0], "rank 1")
        self.assertGreater(float(said[0][1]), 18)

    def test_an_abort_reaches_all(self):
        said = self.run_ranks(one_aborts)
        self.assertRegex(said[0][0], "aborted")
        self.assertRegex(said[0][1], "aborted")
        self.assertRegex(said[1][0], "rank 0")

    def test_a_group_ends_with_calls_in_flight(self):
        said = self.run_ranks(one_leaves_with_calls_in_flight)
        self.assertLess(float(said[0][0]), 20)
        self.assertRegex(said[0][1], "abort")

    def test_the_end_of_a_program_is_no_death(self):
        self.assertEqual(self.run_ranks(one_ends_without_a_word), [["2.0"], ["2.0"]])

    def test_a_child_of_fork_is_refused(self):
        self.assertEqual(self.run_ranks(a_child_of_fork_calls), [["0"], ["0"]])


class Alone(unittest.TestCase):
    def test_ranks_that_never_come_are_an_error(self):
        import wreath_torch  # noqa: F401

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(RuntimeError, "rank 1 waited .* ms for rank 0 of 2, which has not come"):
                store = dist.FileStore(f"{folder}/store", 2)
                dist.init_process_group("wreath", store=store, rank=1, world_size=2, timeout=datetime.timedelta(seconds=2))


if __name__ == "__main__":
    unittest.main(warnings="ignore", verbosity=2 if os.environ.get("WREATH_TEST_LONG") == "1" else 1)
