"""Tests the backend's refusals and its groups, with one rank or more: `wreath run -n 2 python3 groups_test.py`."""

import datetime
import unittest

import torch
import torch.distributed as dist

from job import BACKEND, ME, RANKS, TOTAL, own, run_tests


class Refusals(unittest.TestCase):
    """A refused mistake does no harm: the calls after it work."""

    def refuse(self, words, call, error=Exception):
        with self.assertRaisesRegex(error, words):
            call()

    def test_operators_that_are_not_there(self):
        ops = dist.ReduceOp
        self.refuse("there is no BXOR for tensors of Int", lambda: dist.all_reduce(own(torch.int32), op=ops.BXOR), NotImplementedError)
        self.refuse("there is no BAND for tensors of Int", lambda: dist.all_reduce(own(torch.int32), op=ops.BAND))
        self.refuse("there is no AVG for tensors of Bool", lambda: dist.all_reduce(own(torch.bool), op=ops.AVG))
        maximum = dist.AllreduceOptions()
        maximum.reduceOp = ops.MAX
        self.refuse("there is no MAX for tensors of ComplexFloat", lambda: BACKEND.allreduce([own(torch.complex64)], maximum))

    def test_tensors_that_are_elsewhere(self):
        self.refuse("is on meta, and this backend moves CPU tensors; .*cpu:wreath,cuda:nccl",
                    lambda: BACKEND.allreduce([torch.zeros(3, device="meta")]), ValueError)
        self.refuse("layout is Sparse; dense tensors only", lambda: BACKEND.allreduce([torch.eye(3).to_sparse()]), ValueError)

    def test_shapes_that_do_not_fit(self):
        block = torch.zeros(4)
        self.refuse("one tensor a call, not 2", lambda: BACKEND.allreduce([block, block]))
        self.refuse(f"a list of {RANKS + 1} tensors for {RANKS} ranks", lambda: BACKEND.allgather([[block] * (RANKS + 1)], [block]))
        self.refuse("4 elements, this rank's tensor 3", lambda: BACKEND.allgather([[block] * RANKS], [torch.zeros(3)]))
        self.refuse("tensors of Float and Int in one call", lambda: BACKEND.allgather([[block] * RANKS], [own(torch.int32, 4)]))
        self.refuse("one tensor has 5 elements, the other 4", lambda: BACKEND._allgather_base(torch.zeros(5), block))
        self.refuse(f"rank {ME} sends 3 elements to itself and receives 6",
                    lambda: dist.all_to_all_single(torch.zeros(2 * RANKS, 3), torch.zeros(RANKS, 3)))
        self.refuse("root = 99: there are", lambda: BACKEND.broadcast(block, 99))
        self.refuse("rank 99: there are", lambda: BACKEND.send([block], 99, 0))
        self.refuse(f"rank {ME} is this one", lambda: BACKEND.send([block], ME, 0))
        dist.barrier()

    def test_pg_options_are_refused(self):
        self.refuse("the backend wreath takes none", lambda: dist.new_group(pg_options=object()), ValueError)

    @unittest.skipIf(RANKS == 1, "one rank agrees with itself; run it with more")
    def test_blocks_that_differ_are_an_error_of_all(self):
        group = dist.new_group()
        blocks = own(count=RANKS * (10 if ME == 0 else 11))
        with self.assertRaisesRegex(RuntimeError, "wreath: .*all_to_all"):
            dist.all_to_all_single(torch.zeros_like(blocks), blocks, group=group)
        with self.assertRaises(RuntimeError):
            dist.barrier(group=group)

    @unittest.skipIf(RANKS == 1, "one rank agrees with itself; run it with more")
    def test_calls_that_differ_are_an_error_of_all(self):
        group = dist.new_group()
        dist.barrier()
        with self.assertRaisesRegex(RuntimeError, "rank . .* called all_reduce #. float32 x 10, |called all_reduce #. float32 x 11"):
            dist.all_reduce(own(count=10 if ME == 0 else 11), group=group)
        with self.assertRaises(RuntimeError):
            dist.barrier(group=group)


class Groups(unittest.TestCase):
    def test_the_name(self):
        self.assertEqual(dist.get_backend(), "wreath")
        self.assertEqual(BACKEND.name(), "wreath")
        self.assertTrue(BACKEND.supports_splitting)

    def test_only_members_make_a_group(self):
        last = list(range(RANKS // 2, RANKS))
        group = dist.new_group(last)
        if ME not in last:
            self.assertEqual(group, dist.GroupMember.NON_GROUP_MEMBER)
            return
        tensor = own()
        dist.all_reduce(tensor, group=group)
        self.assertEqual(tensor[0].item(), sum(rank + 1 for rank in last))
        dist.broadcast(tensor, last[0], group=group)
        dist.destroy_process_group(group)

    def test_groups_come_and_go(self):
        for _ in range(20):
            group = dist.new_group()
            dist.barrier(group=group)
            dist.destroy_process_group(group)

    def test_a_batch_with_a_mistake_leaves_the_group_as_it_was(self):
        with self.assertRaises(ValueError):
            dist.batch_isend_irecv([dist.P2POp(dist.isend, own(), ME)])
        tensor = own()
        dist.all_reduce(tensor)
        self.assertEqual(tensor[0].item(), sum(rank + 1 for rank in range(RANKS)))
        if RANKS > 1:
            arrived = own()
            batch = [dist.P2POp(dist.isend, own(), (ME + 1) % RANKS), dist.P2POp(dist.irecv, arrived, (ME - 1) % RANKS)]
            for work in dist.batch_isend_irecv(batch):
                work.wait()
            self.assertEqual(arrived[0].item(), (ME - 1) % RANKS + 1)

    def test_a_negative_split_is_an_error_of_the_call_alone(self):
        splits = [-1, 5] + [0] * (RANKS - 2)
        if RANKS > 1:
            with self.assertRaisesRegex(ValueError, "a split of -1"):
                dist.all_to_all_single(own(count=4), own(count=4), splits, splits)
        dist.barrier()

    def test_a_destroyed_group_refuses(self):
        backend = dist.new_group()._get_backend(torch.device("cpu"))
        backend.shutdown()
        for call in (lambda: backend.barrier().wait(), lambda: backend.allreduce([own()]).wait()):
            with self.assertRaisesRegex(RuntimeError, "the process group was destroyed"):
                call()

    def test_a_mesh(self):
        rows = 2 if RANKS % 2 == 0 else 1
        mesh = dist.device_mesh.init_device_mesh("cpu", (rows, RANKS // rows), mesh_dim_names=("rows", "columns"))
        for name in ("rows", "columns"):
            tensor = own()
            dist.all_reduce(tensor, group=mesh.get_group(name))
            members = dist.get_process_group_ranks(mesh.get_group(name))
            self.assertEqual(tensor[0].item(), sum(rank + 1 for rank in members))

    def test_a_split_of_the_backend(self):
        store = dist.PrefixStore("split of a test", dist.distributed_c10d._get_default_store())
        part = [rank for rank in range(RANKS) if rank % 2 == ME % 2]
        made = BACKEND.split(dist.PrefixStore(str(ME % 2), store), part, None) if hasattr(BACKEND, "split") else None
        if made is not None:
            tensor = own()
            made.allreduce([tensor]).wait()
            self.assertEqual(tensor[0].item(), sum(rank + 1 for rank in part))

    def test_functional_collectives(self):
        import torch.distributed._functional_collectives as functional

        self.assertEqual(functional.all_reduce(own(), "sum", dist.group.WORLD)[0].item(), TOTAL)
        gathered = functional.all_gather_tensor(own(count=2), 0, dist.group.WORLD)
        self.assertEqual(gathered.tolist(), [rank + 1 for rank in range(RANKS) for _ in range(2)])

    def test_options_say_what_was_asked(self):
        if hasattr(BACKEND, "options"):
            self.assertEqual(BACKEND.options._timeout, datetime.timedelta(seconds=60))


if __name__ == "__main__":
    run_tests()
