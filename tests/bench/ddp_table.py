#!/usr/bin/env python3
"""Steps of DistributedDataParallel beside PyTorch's: ddp_table.py BUILD [--rounds N].

Each round runs PyTorch and ddp_steps one after the other, as two processes of one thread over Gloo. Prints medians of the
rounds, their ratios, how much of the sums the backward pass hides, and sums of 64 MiB (needs: pip install torch numpy).
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

RANKS = 2
CASES = [("32,64,64,10", 8, 300), ("784,1024,1024,10", 64, 40), ("1024,2048,2048,2048,10", 32, 15)]
WARM = 5  # steps that are not measured
BUCKETS, LARGE = (1 << 18, 25 << 18), 64 << 18  # floats


def torch_rank(widths, batch, steps):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [torch.nn.ReLU()] * bool(layers) + [torch.nn.Linear(inputs, outputs)]
    net = torch.nn.Sequential(*layers)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(batch, widths[0]), torch.zeros(batch, dtype=torch.int64)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    def median_seconds(call):
        for _ in range(WARM):
            call()
        taken = []
        for _ in range(steps):
            dist.barrier()
            start = time.monotonic()
            call()
            taken.append(time.monotonic() - start)
        return statistics.median(taken)

    before = time.process_time()
    found = {"ddp_s": median_seconds(step)}
    found["cpu_s"] = (time.process_time() - before) / (WARM + steps)
    with model.no_sync():
        found["no_sync_s"] = median_seconds(step)
    left = sum(p.numel() for p in net.parameters())
    buckets = []
    while left > 0:
        buckets.append(torch.zeros(min(left, BUCKETS[bool(buckets)])))
        left -= buckets[-1].numel()
    found["all_reduce_s"] = median_seconds(lambda: [dist.all_reduce(bucket) for bucket in buckets])
    large = torch.zeros(LARGE)
    steps = min(steps, 20)
    found["large_s"] = median_seconds(lambda: dist.all_reduce(large))
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def run_ranks(words):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                                       MASTER_PORT=str(port), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"), text=True)
             for rank in range(RANKS)]
    said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"{words[0]}: a rank failed")
    return json.loads([line for text in said for line in text.splitlines() if line.startswith("{")][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    program = pathlib.Path(arguments.build) / "bin/ddp_steps"
    print("| perceptron, batch | step here | PyTorch | ratio | its processor time | PyTorch | without sums | PyTorch | sums alone | PyTorch | hidden | PyTorch |")
    print("|---|" + "--:|" * 11)
    large = ([], [])
    for widths, batch, steps in CASES:
        here, peer = [], []
        for _ in range(arguments.rounds):
            peer.append(run_ranks([sys.executable, __file__, "--rank", widths, batch, steps]))
            here.append(run_ranks([program, widths, batch, steps]))

        for all_runs, runs in zip(large, (here, peer)):
            all_runs.extend(runs)

        def median(runs, name):
            return statistics.median(run[name] for run in runs)

        def hidden(runs):
            """Of the time that the sums take by themselves, what a step does not show."""
            return 1 - (median(runs, "ddp_s") - median(runs, "no_sync_s")) / median(runs, "all_reduce_s")

        cells = [f"{1e3 * median(runs, name):.3g} ms" for name in ("ddp_s", "cpu_s", "no_sync_s", "all_reduce_s") for runs in (here, peer)]
        cells.insert(2, f"{median(here, 'ddp_s') / median(peer, 'ddp_s'):.2f}")
        print(f"| {widths.replace(',', '-')}, {batch} | " + " | ".join(cells) + f" | {hidden(here):.0%} | {hidden(peer):.0%} |", flush=True)
    a, b = (1e3 * statistics.median(run["large_s"] for run in runs) for runs in large)
    print(f"\nall_reduce of 64 MiB: {a:.3g} ms here, {b:.3g} PyTorch, {a / b:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        torch_rank([int(width) for width in sys.argv[2].split(",")], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
