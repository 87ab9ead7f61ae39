"""Trains by torch's DistributedDataParallel and FSDP2 over wreath and over Gloo: the losses are equal within 1e-6.

Start it by `wreath run -n 2 python3 training_test.py`, or by two_hosts, torchrun or srun.
The launcher must set RANK, WORLD_SIZE and MASTER_ADDR.
"""

import datetime
import os
import sys
import unittest
import warnings

warnings.simplefilter("ignore", FutureWarning)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import wreath_torch  # noqa: F401

if not dist.is_gloo_available():
    print("this torch is built without Gloo, which losses are held against")
    sys.exit(77)
torch.set_num_threads(1)
for ours, slurms in (("RANK", "SLURM_PROCID"), ("WORLD_SIZE", "SLURM_NTASKS")):
    if ours not in os.environ and slurms in os.environ:
        os.environ[ours] = os.environ[slurms]
dist.init_process_group("cpu:wreath", timeout=datetime.timedelta(seconds=100))
ME, RANKS = dist.get_rank(), dist.get_world_size()
GROUPS = {"wreath": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
STEPS = 8


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.words = torch.nn.Embedding(50, 32)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0, batch_first=True) for _ in range(2)
        )
        self.norm = torch.nn.BatchNorm1d(32)
        self.unused = torch.nn.Linear(3, 3)
        self.scores = torch.nn.Linear(32, 50)

    def forward(self, words):
        x = self.words(words)
        for layer in self.layers:
            x = layer(x)
        return self.scores(self.norm(x.mean(1)))


def losses_of(model, optimizer):
    """Returns the losses of every step. Gloo averages them over the ranks, so that all compare the same numbers."""
    words = torch.randint(50, (8, 12), generator=torch.Generator().manual_seed(100 + ME))
    losses = []
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(model(words), words[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, group=GROUPS["gloo"])
        losses.append(mean.item() / RANKS)
    return losses


def of_data_parallel(group, **options):
    model = DistributedDataParallel(Model(), process_group=group, **options)
    return losses_of(model, torch.optim.AdamW(model.parameters(), 1e-2))


class Training(unittest.TestCase):
    def hold(self, run):
        losses = {name: run(group) for name, group in GROUPS.items()}
        self.assertLess(losses["gloo"][-1], losses["gloo"][0])
        for mine, theirs in zip(losses["wreath"], losses["gloo"]):
            self.assertAlmostEqual(mine, theirs, delta=1e-6)
        return losses["wreath"]

    def test_data_parallel(self):
        for options in ({"bucket_cap_mb": 0.01}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
            losses = self.hold(lambda group: of_data_parallel(group, find_unused_parameters=not options.get("static_graph"), **options))
            if ME == 0:
                print(f"DDP {options}, {RANKS} ranks: losses {losses[0]:.6f} to {losses[-1]:.6f}, as Gloo's", flush=True)

    def test_data_parallel_with_a_hook(self):
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        def run(group):
            model = DistributedDataParallel(Model(), process_group=group, find_unused_parameters=True)
            model.register_comm_hook(group, default_hooks.fp16_compress_hook)
            return losses_of(model, torch.optim.SGD(model.parameters(), 1e-1))

        # The sums of more ranks in float16 depend on their order.
        self.hold(run) if RANKS == 2 else None

    def test_fully_sharded(self):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        def run(group):
            mesh = DeviceMesh.from_group(group, "cpu")
            model = Model()
            model.norm, model.unused = torch.nn.LayerNorm(32), torch.nn.Identity()
            for layer in model.layers:
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
            return losses_of(model, torch.optim.AdamW(model.parameters(), 3e-3, foreach=False))

        losses = self.hold(run)
        if ME == 0:
            print(f"FSDP2, {RANKS} ranks: losses {losses[0]:.6f} to {losses[-1]:.6f}, as Gloo's", flush=True)

    def test_hybrid_sharded_over_a_mesh(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        rows = 2 if RANKS % 2 == 0 else 1
        mesh = init_device_mesh("cpu", (rows, RANKS // rows), mesh_dim_names=("replicas", "shards"))
        model = Model()
        model.norm, model.unused = torch.nn.LayerNorm(32), torch.nn.Identity()
        fully_shard(model, mesh=mesh)
        losses = losses_of(model, torch.optim.AdamW(model.parameters(), 3e-3, foreach=False))
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    program = unittest.main(exit=False, warnings="ignore", verbosity=2 if os.environ.get("WREATH_TEST_LONG") == "1" else 1)
    dist.destroy_process_group()
    sys.exit(not program.result.wasSuccessful())
