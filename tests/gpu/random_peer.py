#!/usr/bin/env python3
"""Compares the numbers of random_probe with PyTorch's CUDA generator on this GPU; prints one table.

usage: random_peer.py PROBE.json
"""
import json
import sys

import torch

DEVICE = torch.device("cuda")


def kept_weights(dtype, rows):
    """Which weights dropout of attention keeps, by the kernel whose rule the probe follows."""
    zeros = lambda *sizes: torch.zeros(1, 1, *sizes, dtype=dtype, device=DEVICE)
    v = torch.eye(64, dtype=dtype, device=DEVICE).view(1, 1, 64, 64)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        y = torch.nn.functional.scaled_dot_product_attention(zeros(rows, 64), zeros(64, 64), v, dropout_p=0.3)
    return y > 0


def drawing(kind, dtype, n):
    """What PyTorch draws for one row of the probe."""
    fresh = lambda: torch.empty(n, dtype=dtype, device=DEVICE)
    return {
        "uniform": lambda: torch.rand(n, dtype=dtype, device=DEVICE),
        "uniform-0.1": lambda: fresh().uniform_(-0.1, 0.1),
        "normal": lambda: torch.randn(n, dtype=dtype, device=DEVICE),
        "bernoulli": lambda: fresh().bernoulli_(0.3),
        "exponential": lambda: fresh().exponential_(2),
        "geometric": lambda: fresh().geometric_(0.2),
        "cauchy": lambda: fresh().cauchy_(0, 1),
        "log_normal": lambda: fresh().log_normal_(0, 1),
        "dropout": lambda: torch.nn.functional.dropout(torch.ones(n, dtype=dtype, device=DEVICE), 0.3, True),
        "attention": lambda: kept_weights(dtype, n // 64),
        "randint100": lambda: torch.randint(0, 100, (n,), device=DEVICE),
        "randint2^40": lambda: torch.randint(0, 1 << 40, (n,), device=DEVICE),
        "randperm": lambda: torch.randperm(n, device=DEVICE),
    }[kind]


def compare(key, ours):
    kind, dtype, n = key.split(" ")
    n = int(n)
    draw = drawing(kind, getattr(torch, dtype), n)
    torch.manual_seed(1234)
    draw()  # as the probe does: the second draw shows how far the first one moved the generator
    want = draw().flatten().cpu().double()
    want = want[:: len(want) // 1000 if len(want) > 2000 else 1]
    have = torch.tensor(ours, dtype=torch.float64)
    if len(have) != len(want):
        return f"{len(have)} numbers, expected {len(want)}", ""
    same = 100 * (have == want).double().mean().item()
    far = ((have - want).abs() / want.abs().clamp_min(1e-3)).max().item()
    return f"{same:.1f} %", f"{far:.3g}"


print("| draw | identical | largest relative difference |\n|---|--:|--:|")
for name, numbers in json.load(open(sys.argv[1])).items():
    print("| {} | {} | {} |".format(name, *compare(name, numbers)))
