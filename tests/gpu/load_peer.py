#!/usr/bin/env python3
"""Loads of a file to the GPU: ckpt_bench beside PyTorch and safetensors, in one run; prints one table.

usage: load_peer.py CKPT_BENCH CKPT WORK [GIB]
The file (GIB, 2 unless said, in tensors of 16 MiB) is written into WORK and read warm, from the page cache.
"""
import json
import os
import subprocess
import sys
import time

import torch

bench, tool, work = sys.argv[1:4]
# Not PyTorch's: its libraries lie beside it.
OURS = {**os.environ, "LD_LIBRARY_PATH": os.environ.get("KIT_LIBRARY_PATH", "")}
count = int(float(sys.argv[4] if len(sys.argv) > 4 else 2) * 64)
FILE = {kind: os.path.join(work, "weights." + kind) for kind in ("pth", "safetensors", "ckpt")}


def best(load, rounds=5):
    """Seconds of the fastest round; what a round loaded is freed before the next."""
    seconds = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        state = load()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        del state
    return min(seconds)


def ours(*arguments):
    runs = [subprocess.run([bench, *arguments], env=OURS, capture_output=True, text=True, check=True) for _ in range(5)]
    return min(json.loads(run.stdout.splitlines()[-1])["seconds"] for run in runs)


def make_files():
    state = {f"layer{i}.weight": torch.randn(2048, 2048).mul_(0.02) for i in range(count)}
    torch.save(state, FILE["pth"])
    subprocess.run([tool, "convert", FILE["pth"], FILE["safetensors"], "-q"], env=OURS, check=True)
    subprocess.run([tool, "convert", FILE["pth"], FILE["ckpt"], "--codec", "zstd", "-q"], env=OURS, check=True)


def peers():
    source = torch.zeros(count << 24, dtype=torch.uint8).pin_memory()
    target = torch.empty(count << 24, dtype=torch.uint8, device="cuda")
    yield "pinned copy of as many bytes", best(lambda: target.copy_(source, non_blocking=True))
    del source, target
    mapped = lambda: torch.load(FILE["pth"], mmap=True, weights_only=True)
    yield "torch.load(mmap), pinned copies", best(
        lambda: {k: v.pin_memory().to("cuda", non_blocking=True) for k, v in mapped().items()})
    try:
        import safetensors.torch
        yield "safetensors load_file(device=cuda)", best(lambda: safetensors.torch.load_file(FILE["safetensors"], device="cuda"))
    except ImportError:
        print("safetensors is not installed", file=sys.stderr)


make_files()
times = dict(peers())
print("| ours | seconds | " + " | ".join(times) + " |\n|---|--:|" + "--:|" * len(times))
for name, path in (("safetensors to the device", FILE["safetensors"]), ("native, zstd, to the device", FILE["ckpt"])):
    seconds = ours("load_device", path)
    print(f"| {name} | {seconds:.3f} | " + " | ".join(f"{peer:.3f} ({peer / seconds:.2f}x)" for peer in times.values()) + " |")
seconds = ours("save_async", FILE["safetensors"], os.path.join(work, "saved.ckpt"), "--device", "cuda:0")
print(f"| save_async from the device, the call | {seconds:.4f} |" + " |" * len(times))
