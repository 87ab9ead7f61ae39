"""Measures all_reduce and DDP steps of the backends wreath and Gloo, in turns within one run.

Run it as: wreath run -n 2 python3 backends.py. Rank 0 prints a table and writes --json. For each size and backend they
have the median of the rounds' times of a call, and of a training step of gpt.py's model under DistributedDataParallel.
A round measures both backends, one after the other, in alternating order.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from gpt import Gpt
from torch.nn.parallel import DistributedDataParallel

import wreath_torch  # noqa: F401


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="8,1024,16384,262144,4194304,67108864", help="bytes of float32 vectors")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=3, help="training steps of each backend in a round; 0: none")
    parser.add_argument("--json", default="")
    return parser.parse_args()


def seconds_of(call, count, group):
    dist.barrier(group=group)
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def count_for(bytes_):
    """Returns the calls of a turn, which take about 50 ms."""
    return max(2, min(500, 20_000_000 // (bytes_ + 40_000)))


def all_reduce(groups, bytes_, asynchronous):
    tensor = torch.zeros(bytes_ // 4)

    def calls(group):
        if asynchronous:
            return lambda: dist.all_reduce(tensor, group=group, async_op=True).wait()
        return lambda: dist.all_reduce(tensor, group=group)

    return {name: (calls(group), count_for(bytes_), group) for name, group in groups.items()}


def training(groups, steps):
    def step_of(group):
        torch.manual_seed(1)
        model = DistributedDataParallel(Gpt(65, 4, 4, 128, 64), process_group=group)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        tokens = torch.randint(65, (12, 64))

        def step():
            optimizer.zero_grad(set_to_none=True)
            model(tokens, tokens).backward()
            optimizer.step()

        return step

    return {name: (step_of(group), steps, group) for name, group in groups.items()}


def measure(work, rounds):
    """Times a call of each backend, and returns the slowest rank's time for each round."""
    times = {name: [] for name in work}
    for number in range(rounds + 1):
        for name in sorted(work, reverse=number % 2 == 1):
            slowest = torch.tensor(seconds_of(*work[name]), dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            times[name].append(slowest.item())
    return {name: each[1:] for name, each in times.items()}  # the first round warms up


def row(what, bytes_, times):
    medians = {name: statistics.median(each) for name, each in times.items()}
    ratio = statistics.median(theirs / mine for mine, theirs in zip(times["wreath"], times["gloo"]))
    return {"what": what, "bytes": bytes_, "gloo_over_wreath": ratio, "median_us": {n: 1e6 * m for n, m in medians.items()},
            "rounds_us": {name: [1e6 * t for t in each] for name, each in times.items()}}


def tell(rows):
    print(f"{'what':24} {'bytes':>10} {'wreath us':>12} {'gloo us':>12} {'gloo/wreath':>12}")
    for each in rows:
        medians = each["median_us"]
        print(f"{each['what']:24} {each['bytes']:>10} {medians['wreath']:12.1f} {medians['gloo']:12.1f} {each['gloo_over_wreath']:12.2f}")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(": ", 1)[1].strip() for line in file if line.startswith("model name")]
    return {"processor": models[0] if models else "", "processors": len(models)}


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("wreath")
    groups = {"wreath": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    rows = []
    for asynchronous in (False, True):
        what = "all_reduce, asynchronous" if asynchronous else "all_reduce"
        for bytes_ in [int(size) for size in options.sizes.split(",")]:
            rows.append(row(what, bytes_, measure(all_reduce(groups, bytes_, asynchronous), options.rounds)))
    if options.steps > 0:
        work = training(groups, options.steps)
        parameters = sum(p.numel() for p in Gpt(65, 4, 4, 128, 64).parameters())
        rows.append(row("DDP step", 4 * parameters, measure(work, options.rounds)))
    if dist.get_rank() == 0:
        tell(rows)
        if options.json:
            about = {"torch": torch.__version__, "ranks": dist.get_world_size(), **machine()}
            about["transport"] = os.environ.get("WREATH_TRANSPORT", "automatic")
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({**about, "rounds": options.rounds, "results": rows}, file, indent=1)
                file.write("\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
