#!/usr/bin/env python3
"""Prints what torch.cuda draws on this GPU, for gpu_random_test.cpp to compare: lines of operation, dtype, number of
elements, and up to 64 of them spread evenly over the second draw from seed 1234. Ends with 77 where there is no torch,
or no GPU for it."""

import sys

try:
    import torch

    if not torch.cuda.is_available():
        sys.exit(77)
except ImportError:
    sys.exit(77)

DRAWS = {
    "uniform": lambda x: x.uniform_(),
    "normal": lambda x: x.normal_(),
    "log_normal": lambda x: x.log_normal_(0, 1),
    "bernoulli": lambda x: x.bernoulli_(0.3),
    "exponential": lambda x: x.exponential_(2),
    "geometric": lambda x: x.geometric_(0.2),
    "cauchy": lambda x: x.cauchy_(0, 1),
    "dropout": lambda x: torch.nn.functional.dropout(torch.ones_like(x), 0.3, True),
}
WHOLE = {
    "randint100": lambda n: torch.randint(0, 100, (n,), device="cuda"),
    "randint2^40": lambda n: torch.randint(0, 1 << 40, (n,), device="cuda"),
    "randperm": lambda n: torch.randperm(n, device="cuda"),
}


def show(name, dtype, count, draw):
    torch.manual_seed(1234)
    draw()
    drawn = draw().double().cpu()
    step = max(count // 64, 1)
    print(name, dtype, count, *(repr(v) for v in drawn[::step][:64].tolist()))


for count in (1000, 3000001):
    for name, draw in DRAWS.items():
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            show(name, str(dtype)[6:], count, lambda: draw(torch.empty(count, dtype=dtype, device="cuda")))
    for name, draw in WHOLE.items():
        show(name, "int64", count, lambda: draw(count))
