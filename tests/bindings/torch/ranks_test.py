"""Tests every call of torch.distributed's backend with two ranks or more: `wreath run -n 2 python3 ranks_test.py`.

Each result is compared with Gloo's on the same tensors, or with a known one where Gloo has none.
"""

import datetime
import threading
import unittest

import torch
import torch.distributed as dist

from job import BACKEND, BEFORE, COMPLEX, EIGHT_BITS, FLOATS, GLOO, INTEGERS, ME, NEXT, OPS, RANKS, TOTAL, UNSIGNED, every, own, varied, run_tests


class Vectors(unittest.TestCase):
    def test_all_reduce_of_every_dtype_and_operator(self):
        for dtype in INTEGERS + UNSIGNED + FLOATS:
            for name, combine in OPS.items():
                tensor = own(dtype)
                dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
                expected = combine(list(range(1, RANKS + 1)))
                self.assertTrue((tensor.to(torch.float64) == expected).all(), (dtype, name, tensor[0]))
        for dtype in EIGHT_BITS:
            tensor = own(dtype)
            dist.all_reduce(tensor)
            self.assertEqual(tensor[0].float().item(), torch.tensor(float(TOTAL)).to(dtype).float().item(), dtype)

    @unittest.skipIf(GLOO is None, "this torch is built without Gloo, which results are held against")
    def test_all_reduce_as_gloo(self):
        for shape in [(), (1,), (1000,), (3, 4, 5), (100_000,)]:
            for name in OPS:
                mine, theirs = (varied(shape=shape) for _ in range(2))
                dist.all_reduce(mine, op=getattr(dist.ReduceOp, name))
                dist.all_reduce(theirs, op=getattr(dist.ReduceOp, name), group=GLOO)
                self.assertTrue(torch.equal(mine, theirs), (shape, name))

    def test_averages_and_factors(self):
        for dtype in FLOATS:
            tensor = own(dtype)
            dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
            self.assertEqual(tensor[0].item(), TOTAL / RANKS)
        for factor in (2.0, torch.tensor([2.0])):
            tensor = own()
            dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(factor))
            self.assertEqual(tensor[0].item(), 2 * TOTAL)

    def test_truth_values(self):
        ops = dist.ReduceOp
        for op, expected in [(ops.SUM, True), (ops.MAX, True), (ops.BOR, True), (ops.PRODUCT, False), (ops.MIN, False), (ops.BAND, False)]:
            tensor = torch.tensor([ME == 0, True, False])
            dist.all_reduce(tensor, op=op)
            self.assertEqual(tensor.tolist(), [expected if RANKS > 1 else True, True, False], op)

    def test_complex_numbers_are_pairs(self):
        for dtype in COMPLEX:
            tensor = torch.full((10,), complex(ME + 1, 1), dtype=dtype)
            dist.all_reduce(tensor)
            self.assertEqual(tensor[0].item(), complex(TOTAL, RANKS))
            dist.broadcast(tensor[:5], 0)
            direct = [torch.full((10,), complex(ME + 1, 1), dtype=dtype)]
            BACKEND.allreduce(direct).wait()
            self.assertEqual(direct[0][3].item(), complex(TOTAL, RANKS))
            conjugated = direct[0].conj()
            BACKEND.allreduce([conjugated]).wait()
            self.assertEqual(direct[0][3].item(), RANKS * complex(TOTAL, RANKS))

    def test_broadcast_moves_any_dtype(self):
        for dtype in INTEGERS + UNSIGNED + FLOATS + EIGHT_BITS + COMPLEX + [torch.bool]:
            for root in {0, RANKS - 1}:
                tensor = own(dtype) if ME == root else torch.zeros(1000, dtype=dtype)
                dist.broadcast(tensor, root)
                expected = torch.full((1000,), root + 1, dtype=dtype)
                self.assertTrue(torch.equal(tensor.view(torch.uint8), expected.view(torch.uint8)), dtype)

    def test_reduce_gives_the_root_alone(self):
        for root in {0, RANKS - 1}:
            tensor = own()
            dist.reduce(tensor, root)
            self.assertEqual(tensor[0].item(), TOTAL if ME == root else ME + 1)

    def test_tensors_that_are_not_contiguous(self):
        whole = torch.zeros(6, 8)
        part = whole[::2, 1::3]
        part.copy_(varied(shape=part.shape))
        dist.all_reduce(part)
        self.assertTrue(torch.equal(part, every(sum, shape=part.shape)))
        self.assertEqual(whole[1].abs().sum().item(), 0)
        turned = varied(shape=(4, 6)).t()
        dist.broadcast(turned, 0)
        self.assertTrue(torch.equal(turned, varied(shape=(4, 6), rank=0).t()))
        image = varied(shape=(2, 3, 4, 5)).to(memory_format=torch.channels_last)
        dist.all_reduce(image)
        self.assertTrue(torch.equal(image, every(sum, shape=(2, 3, 4, 5))))

    def test_nothing_is_moved_too(self):
        for shape in [(0,), (3, 0)]:
            tensor = torch.zeros(shape)
            dist.all_reduce(tensor)
            dist.broadcast(tensor, 0)
            outputs = [torch.zeros(shape) for _ in range(RANKS)]
            dist.all_gather(outputs, tensor)
            dist.all_to_all(outputs, [tensor] * RANKS) if RANKS > 1 else None
        dist.all_to_all_single(torch.zeros(0, 2), torch.zeros(0, 2))

    def test_tensors_that_need_gradients(self):
        parameter = torch.nn.Parameter(own())
        with torch.no_grad():
            dist.all_reduce(parameter.t())
            dist.all_reduce(parameter)
        with torch.inference_mode():
            tensor = varied(shape=(4, 4))[:, ::2]
            dist.all_reduce(tensor)
        self.assertTrue(torch.equal(tensor, every(sum, shape=(4, 4))[:, ::2]))

    def test_coalesced(self):
        tensors = [varied(shape=(count,)) for count in (1, 1000, 0, 77)]
        work = dist.all_reduce_coalesced(tensors, async_op=True)
        work.wait()
        for tensor in tensors:
            self.assertTrue(torch.equal(tensor, every(sum, shape=tensor.shape)))
        with dist.distributed_c10d._coalescing_manager() as manager:
            for tensor in tensors:
                dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        del manager

    def test_barrier(self):
        dist.barrier()
        dist.barrier(async_op=True).wait()


class Blocks(unittest.TestCase):
    def test_all_gather(self):
        for dtype in [torch.float32, torch.int16, torch.bool, torch.complex64]:
            outputs = [torch.zeros(7, 5, dtype=dtype) for _ in range(RANKS)]
            dist.all_gather(outputs, varied(dtype))
            for rank, output in enumerate(outputs):
                self.assertTrue(torch.equal(output, varied(dtype, rank=rank)))

    def test_all_gather_into_slices_of_one_tensor(self):
        whole = torch.zeros(RANKS, 7, 5)
        whole[ME] = varied()
        dist.all_gather(list(whole.unbind()), whole[ME])
        self.assertTrue(torch.equal(whole, every(torch.stack)))
        whole = torch.zeros(RANKS, 7, 5)
        whole[0] = varied()
        # This is an in-place form on rank 0 only.
        dist.all_gather(list(whole.unbind()), whole[0])
        self.assertTrue(torch.equal(whole, every(torch.stack)))

    def test_blocks_of_different_sizes(self):
        outputs = [torch.zeros(rank + 1) for rank in range(RANKS)]
        dist.all_gather(outputs, torch.full((ME + 1,), float(ME)))
        for rank, output in enumerate(outputs):
            self.assertEqual(output.tolist(), [rank] * (rank + 1))
        output = torch.zeros(ME + 1)
        dist.reduce_scatter(output, [torch.full((rank + 1,), float(ME + 1)) for rank in range(RANKS)])
        self.assertEqual(output.tolist(), [TOTAL] * (ME + 1))

    def test_all_gather_into_tensor(self):
        output = torch.zeros(RANKS * 7, 5)
        dist.all_gather_into_tensor(output, varied())
        self.assertTrue(torch.equal(output, every(torch.cat)))
        in_place = torch.zeros(RANKS, 7, 5)
        in_place[ME] = varied()
        dist.all_gather_into_tensor(in_place, in_place[ME])
        self.assertTrue(torch.equal(in_place, every(torch.stack)))

    def test_reduce_scatter(self):
        for op, combine in [(dist.ReduceOp.SUM, sum), (dist.ReduceOp.MAX, lambda all: torch.stack(all).amax(0))]:
            output = torch.zeros(2, 5)
            dist.reduce_scatter(output, list(varied(shape=(2 * RANKS, 5)).chunk(RANKS)), op=op)
            expected = every(combine, shape=(2 * RANKS, 5)).chunk(RANKS)[ME]
            self.assertTrue(torch.equal(output, expected))
            dist.reduce_scatter_tensor(output, varied(shape=(2 * RANKS, 5)), op=op)
            self.assertTrue(torch.equal(output, expected))
        whole = varied(shape=(RANKS, 5))
        dist.reduce_scatter_tensor(whole[ME], whole.clone())
        in_place = varied(shape=(RANKS, 5))
        dist.reduce_scatter_tensor(in_place[ME], in_place)
        self.assertTrue(torch.equal(in_place[ME], whole[ME]))
        average = torch.zeros(5)
        dist.reduce_scatter_tensor(average, own(count=5 * RANKS), op=dist.ReduceOp.AVG)
        self.assertEqual(average[0].item(), TOTAL / RANKS)

    def test_gather_and_scatter(self):
        for root in {0, RANKS - 1}:
            outputs = [torch.zeros(7, 5) for _ in range(RANKS)] if ME == root else None
            dist.gather(varied(), outputs, dst=root)
            if ME == root:
                self.assertTrue(torch.equal(torch.stack(outputs), every(torch.stack)))
            got = torch.zeros(7, 5)
            dist.scatter(got, [varied(rank=rank) for rank in range(RANKS)] if ME == root else None, src=root)
            self.assertTrue(torch.equal(got, varied()))

    def test_all_to_all(self):
        outputs = [torch.zeros(sender + ME + 1) for sender in range(RANKS)]
        dist.all_to_all(outputs, [torch.full((ME + receiver + 1,), float(ME)) for receiver in range(RANKS)])
        for sender, output in enumerate(outputs):
            self.assertEqual(output.tolist(), [sender] * (sender + ME + 1))

    def test_all_to_all_single(self):
        output = torch.zeros(RANKS, 3)
        dist.all_to_all_single(output, varied(shape=(RANKS, 3)))
        expected = torch.stack([varied(shape=(RANKS, 3), rank=rank)[ME] for rank in range(RANKS)])
        self.assertTrue(torch.equal(output, expected))
        in_place = varied(shape=(RANKS, 3))
        dist.all_to_all_single(in_place, in_place)
        self.assertTrue(torch.equal(in_place, expected))
        sent = [ME + receiver for receiver in range(RANKS)]
        received = [sender + ME for sender in range(RANKS)]
        output = torch.zeros(sum(received), 2)
        dist.all_to_all_single(output, own(count=2 * sum(sent)).view(-1, 2), received, sent)
        self.assertEqual(output[:, 0].tolist(), [sender + 1 for sender in range(RANKS) for _ in range(received[sender])])

    def hold_forms(self, expected, *forms):
        """Expects that all forms of one call fill a tensor like `expected`. Each rank takes another form, in turn."""
        for shift in range(len(forms)):
            output = torch.zeros_like(expected)
            forms[(ME + shift) % len(forms)](output)
            self.assertTrue(torch.equal(output, expected), (shift, output, expected))

    def test_ranks_may_take_different_forms_of_one_call(self):
        blocks, one = varied(shape=(RANKS, 3)), [1] * RANKS
        self.hold_forms(
            torch.stack([varied(shape=(RANKS, 3), rank=rank)[ME] for rank in range(RANKS)]),
            lambda output: dist.all_to_all_single(output, blocks),
            lambda output: dist.all_to_all_single(output, blocks, one, one),
            lambda output: dist.all_to_all(list(output.unbind()), list(blocks.unbind())),
            lambda output: dist.all_to_all_single(output, blocks, one, None),
            lambda output: dist.all_to_all_single(output, blocks, async_op=True).wait(),
        )
        own_block, world = varied(shape=(3,)), dist.group.WORLD
        self.hold_forms(
            every(torch.stack, shape=(3,)),
            lambda output: dist.all_gather(list(output.unbind()), own_block),
            lambda output: dist.all_gather_into_tensor(output, own_block),
            lambda output: world.allgather_into_tensor_coalesced([output], [own_block]).wait(),
            lambda output: dist.all_gather_coalesced([[block] for block in output.unbind()], [own_block]),
        )
        self.hold_forms(
            every(sum, shape=(RANKS, 3))[ME],
            lambda output: dist.reduce_scatter(output, list(blocks.unbind())),
            lambda output: dist.reduce_scatter_tensor(output, blocks),
            lambda output: world.reduce_scatter_tensor_coalesced([output], [blocks]).wait(),
        )
        self.hold_forms(
            every(sum, shape=(2, 3)),
            lambda output: [dist.all_reduce(part) for part in output.copy_(varied(shape=(2, 3)))],
            lambda output: dist.all_reduce_coalesced(list(output.copy_(varied(shape=(2, 3))))),
            lambda output: [dist.all_reduce(part, async_op=True).wait() for part in output.copy_(varied(shape=(2, 3)))],
        )
        dist.barrier() if ME == 0 else dist.barrier(timeout=datetime.timedelta(seconds=50))

    def test_coalesced(self):
        inputs = [varied(shape=(count,)) for count in (3, 100)]
        outputs = [torch.zeros(RANKS * each.numel()) for each in inputs]
        dist.group.WORLD.allgather_into_tensor_coalesced(outputs, inputs).wait()
        for each, output in zip(inputs, outputs):
            self.assertTrue(torch.equal(output, every(torch.cat, shape=each.shape)))
        sums = [torch.zeros(count) for count in (3, 100)]
        dist.group.WORLD.reduce_scatter_tensor_coalesced(sums, outputs).wait()
        for count, each, whole in zip((3, 100), sums, outputs):
            self.assertTrue(torch.equal(each, RANKS * whole.view(RANKS, count)[ME]))

    def test_objects(self):
        everyones = [None] * RANKS
        dist.all_gather_object(everyones, {"rank": ME, "text": "x" * ME})
        self.assertEqual(everyones, [{"rank": rank, "text": "x" * rank} for rank in range(RANKS)])
        objects = [ME, "of rank 0" if ME == 0 else None]
        dist.broadcast_object_list(objects, 0)
        self.assertEqual(objects, [0, "of rank 0"])


@unittest.skipIf(RANKS == 1, "one rank has nobody to send to; run it with more")
class Messages(unittest.TestCase):
    def test_send_and_recv(self):
        for dtype in [torch.float32, torch.int16, torch.bool]:
            tensor = torch.zeros(7, 5, dtype=dtype)
            if ME == 0:
                for rank in range(1, RANKS):
                    dist.send(varied(dtype), rank)
            else:
                self.assertEqual(dist.recv(tensor, 0), 0)
                self.assertTrue(torch.equal(tensor, varied(dtype, rank=0)))

    def test_large_ones_pass_each_other(self):
        sent, got = own(count=2_000_000), torch.zeros(2_000_000)
        work = dist.isend(sent, NEXT)
        dist.recv(got, BEFORE)
        work.wait()
        self.assertEqual((got[0].item(), got[-1].item()), (BEFORE + 1, BEFORE + 1))

    def test_tags_tell_messages_apart(self):
        first, second = torch.zeros(3), torch.zeros(3)
        works = [dist.isend(torch.full((3,), float(tag)), NEXT, tag=tag) for tag in (1, 2)]
        dist.recv(second, BEFORE, tag=2)
        dist.recv(first, BEFORE, tag=1)
        for work in works:
            work.wait()
        self.assertEqual((first[0].item(), second[0].item()), (1, 2))

    def test_a_batch_in_any_order(self):
        got = [torch.zeros(1000) for _ in range(RANKS)]
        others = [rank for rank in range(RANKS) if rank != ME]
        for first, second in [(dist.irecv, dist.isend), (dist.isend, dist.irecv)]:
            calls = [dist.P2POp(call, own() if call is dist.isend else got[rank], rank) for call in (first, second) for rank in others]
            for work in dist.batch_isend_irecv(calls):
                work.wait()
            for rank in others:
                self.assertEqual(got[rank][0].item(), rank + 1)
                got[rank].zero_()

    def test_a_batch_meets_single_calls(self):
        got = torch.zeros(1000)
        if ME == 0:
            [work.wait() for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, own(), 1)])]
        elif ME == 1:
            dist.recv(got, 0)
            self.assertEqual(got[0].item(), 1)

    def test_messages_do_not_wait_for_collectives(self):
        tensor, got = own(), torch.zeros(10)
        if ME == 0:
            work = dist.all_reduce(tensor, async_op=True)
            dist.send(torch.ones(10), 1)
            work.wait()
        else:
            if ME == 1:
                dist.recv(got, 0)
            dist.all_reduce(tensor)
        self.assertEqual(tensor[0].item(), TOTAL)

    def test_any_source_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, "recv from any source .tag 3.: a receive names the rank that sends"):
            dist.recv(torch.zeros(3), tag=3)

    def test_too_many_tags_are_refused(self):
        group = dist.new_group([0, 1])
        if ME > 1:
            return
        works = [dist.irecv(torch.zeros(1), 1 - ME, group=group, tag=1000 + tag) for tag in range(256)]
        with self.assertRaisesRegex(RuntimeError, "tag = 7 would be one more: use fewer tags"):
            dist.irecv(torch.zeros(1), 1 - ME, group=group, tag=7)
        group._get_backend(torch.device("cpu")).abort()
        for work in works:
            with self.assertRaisesRegex(RuntimeError, "aborted"):
                work.wait()


class Works(unittest.TestCase):
    def test_futures_carry_the_result(self):
        work = dist.all_reduce(own(), async_op=True)
        self.assertEqual(work.get_future().then(lambda future: future.value()[0][0].item() + 1).wait(), TOTAL + 1)
        self.assertTrue(work.is_completed() and work.is_success())
        self.assertEqual(work.get_future().wait()[0][0].item(), TOTAL)
        self.assertEqual(work.result()[0][0].item(), TOTAL)

    def test_a_callback_may_call(self):
        other = own()

        def call(future):
            dist.all_reduce(other)
            return future.value()

        dist.all_reduce(own(), async_op=True).get_future().then(call).wait()
        self.assertEqual(other[0].item(), TOTAL)

    def test_many_in_flight_end_in_order(self):
        tensors = [own() for _ in range(300)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        last = own()
        dist.all_reduce(last)
        self.assertTrue(all(work.is_completed() for work in works))
        self.assertTrue(all(tensor[0].item() == TOTAL for tensor in tensors))

    def test_dropped_works_keep_their_tensors(self):
        for _ in range(50):
            dist.all_reduce(own(count=100_000), async_op=True)
        dist.barrier()

    @unittest.skipIf(RANKS == 1, "one rank waits for nobody; run it with more")
    def test_a_wait_that_ends_harms_nothing(self):
        tensor = own()
        if ME == 0:
            work = dist.all_reduce(tensor, async_op=True)
            with self.assertRaisesRegex(RuntimeError, "wreath:all_reduce is not over after 50 ms"):
                work.wait(datetime.timedelta(milliseconds=50))
            dist.send(torch.ones(1), 1)
            work.wait()
        else:
            if ME == 1:
                dist.recv(torch.zeros(1), 0)
            dist.all_reduce(tensor)
        self.assertEqual(tensor[0].item(), TOTAL)

    def test_threads_take_turns(self):
        groups = [dist.new_group() for _ in range(4)]
        results = [None] * 4

        def run(number):
            tensors = [own() for _ in range(20)]
            for tensor in tensors:
                dist.all_reduce(tensor, group=groups[number])
            results[number] = {tensor[0].item() for tensor in tensors}

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(results, [{TOTAL}] * 4)

    def test_the_profiler_names_calls(self):
        with torch.profiler.profile() as profile:
            dist.all_reduce(own())
        self.assertIn("wreath:all_reduce", {event.name for event in profile.events()})


if __name__ == "__main__":
    run_tests()
