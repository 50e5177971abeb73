#!/usr/bin/env python3
"""Steps of DistributedDataParallel beside PyTorch's: ddp_table.py BUILD [--rounds N] [--link RATE,RATE...].

Each round runs PyTorch and ddp_steps one after the other, as two processes of one thread over Gloo. Prints medians of the
rounds, their ratios, how much of the sums the backward pass hides, and sums of 64 MiB (needs: pip install torch numpy).

With --link the two are machines (network namespaces) joined by a wire of that rate, as --link 1gbit,2gbit, so that sums
are mostly waiting, and only what the backward pass hides of them is printed. Needs root and ip and tc (Debian: iproute2).
"""

import argparse
import contextlib
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
DEEP = ",".join(["1024"] * 11 + ["10"])
LINK_CASES = [(DEEP, batch, steps, cap) for batch, steps in ((256, 7), (1024, 5)) for cap in (0, 4)]  # 10 M parameters
WARM = 5  # steps that are not measured
BUCKETS, LARGE = (1 << 18, 25 << 18), 64 << 18  # floats
MACHINES, WIRE, ADDRESS = ("ckpt-bench-a", "ckpt-bench-b"), "wire", "10.231.8.%d"


def torch_rank(widths, batch, steps, cap=0):
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
    model = DistributedDataParallel(net, bucket_cap_mb=cap or None)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(batch, widths[0]), torch.zeros(batch, dtype=torch.int64)
    backward = []

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        start = time.monotonic()
        loss.backward()
        backward.append(time.monotonic() - start)
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
        backward.clear()
        found["no_sync_s"] = median_seconds(step)
        found["backward_s"] = statistics.median(backward)
    left = sum(p.numel() for p in net.parameters())
    buckets = []
    while left > 0:
        buckets.append(torch.zeros(min(left, cap << 18 or BUCKETS[bool(buckets)])))
        left -= buckets[-1].numel()
    found["all_reduce_s"] = median_seconds(lambda: [dist.all_reduce(bucket) for bucket in buckets])
    large = torch.zeros(LARGE)
    steps = min(steps, 20)
    found["large_s"] = median_seconds(lambda: dist.all_reduce(large))
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def run_ranks(words, machines=None):
    """On this machine, or each on its own; other machines cannot read this one's memory, so ranks here do not either."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    setting = dict(os.environ, WORLD_SIZE=str(RANKS), MASTER_ADDR=ADDRESS % 1 if machines else "127.0.0.1",
                   MASTER_PORT=str(port), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if machines:
        setting.update(CORE_DIST_NEAR="0", GLOO_SOCKET_IFNAME=WIRE)
    ranks = [subprocess.Popen((["ip", "netns", "exec", machines[rank]] if machines else []) + [str(word) for word in words],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(setting, RANK=str(rank)), text=True)
             for rank in range(RANKS)]
    said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"{words[0]}: a rank failed")
    return json.loads([line for text in said for line in text.splitlines() if line.startswith("{")][0])


def call(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def two_machines():
    try:
        for machine in MACHINES:
            call("ip", "netns", "add", machine)
        call("ip", "-n", MACHINES[0], "link", "add", WIRE, "type", "veth", "peer", "name", WIRE, "netns", MACHINES[1])
        for number, machine in enumerate(MACHINES, 1):
            call("ip", "-n", machine, "addr", "add", ADDRESS % number + "/24", "dev", WIRE)
            for device in (WIRE, "lo"):
                call("ip", "-n", machine, "link", "set", device, "up")
        yield MACHINES
    finally:
        for machine in MACHINES:
            subprocess.run(["ip", "netns", "del", machine], stderr=subprocess.DEVNULL)


def set_rate(machines, rate):
    for machine in machines:
        call("tc", "-n", machine, "qdisc", "replace", "dev", WIRE, "root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms")


def in_turns(program, case, rounds, machines=None):
    here, peer = [], []
    for _ in range(rounds):
        peer.append(run_ranks([sys.executable, __file__, "--rank", *case], machines))
        here.append(run_ranks([program, *case], machines))
    return here, peer


def median(runs, name):
    return statistics.median(run[name] for run in runs)


def hidden(runs):
    """Of the time that the sums take by themselves, what a step does not show."""
    return 1 - (median(runs, "ddp_s") - median(runs, "no_sync_s")) / median(runs, "all_reduce_s")


def title(case):
    return f"{case[0].replace(',', '-')}, {case[1]}"


def print_steps(program, rounds):
    print("| perceptron, batch | step here | PyTorch | ratio | its processor time | PyTorch | without sums | PyTorch | sums alone | PyTorch | hidden | PyTorch |")
    print("|---|" + "--:|" * 11)
    large = ([], [])
    for case in CASES:
        here, peer = in_turns(program, case, rounds)
        for all_runs, runs in zip(large, (here, peer)):
            all_runs.extend(runs)
        cells = [f"{1e3 * median(runs, name):.3g} ms" for name in ("ddp_s", "cpu_s", "no_sync_s", "all_reduce_s") for runs in (here, peer)]
        cells.insert(2, f"{median(here, 'ddp_s') / median(peer, 'ddp_s'):.2f}")
        print(f"| {title(case)} | " + " | ".join(cells) + f" | {hidden(here):.0%} | {hidden(peer):.0%} |", flush=True)
    a, b = (1e3 * median(runs, "large_s") for runs in large)
    print(f"\nall_reduce of 64 MiB: {a:.3g} ms here, {b:.3g} PyTorch, {a / b:.2f}")


def print_overlap(program, rounds, rates):
    print("| batch | buckets | wire | | without sums | its backward | sums alone | step | hidden |\n|--:|---|---|---|" + "--:|" * 5)
    with two_machines() as machines:
        for case in LINK_CASES:
            for rate in rates:
                set_rate(machines, rate)
                for who, runs in zip(("here", "PyTorch"), in_turns(program, case, rounds, machines)):
                    cells = [f"{1e3 * median(runs, name):.0f} ms" for name in ("no_sync_s", "backward_s", "all_reduce_s", "ddp_s")]
                    print(f"| {case[1]} | {case[3] or '1, 25'} MiB | {rate} | {who} | " + " | ".join(cells) + f" | {hidden(runs):.0%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--link", metavar="RATE,RATE...")
    arguments = parser.parse_args()
    program = pathlib.Path(arguments.build) / "bin/ddp_steps"
    if arguments.link:
        print_overlap(program, arguments.rounds, arguments.link.split(","))
    else:
        print_steps(program, arguments.rounds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        torch_rank([int(width) for width in sys.argv[2].split(",")], *map(int, sys.argv[3:]))
    else:
        main()
