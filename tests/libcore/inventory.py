#!/usr/bin/env python3
"""Counts, module by module of PyTorch, how many of its public names stand in the headers of libcore, and lists the
others, each of which inventory_reasons.txt must give a reason. A name counts where it is a word of a header or of
methods.inc, also with an underscore behind or `to_` before it: whether it does what PyTorch's does is what the golden
tests show. Fails (exit status 1) on a name without a reason and on a reason for what is there.
Usage: inventory.py (needs: pip install torch)."""

import inspect
import pathlib
import re
import sys
import textwrap
import warnings

warnings.simplefilter("ignore")
import torch

HERE = pathlib.Path(__file__).resolve().parent
LIBCORE = HERE.parents[1] / "libcore"
WORDS = {word for pattern in ("*.h", "*.inc") for path in LIBCORE.rglob(pattern)
         for word in re.findall(r"[A-Za-z_]\w*", path.read_text())}


def public(module, classes=False):
    found = {name: getattr(module, name, None) for name in dir(module) if not name.startswith("_")}
    return sorted(name for name, value in found.items() if callable(value) and inspect.isclass(value) == classes)


def read_reasons():
    """Name -> reason: lines without an indent are reasons, those with one their names."""
    reasons, reason, names_before = {}, "", True
    for line in (HERE / "inventory_reasons.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        is_names = line.startswith(" ")
        if not is_names:
            reason = line if names_before else reason + " " + line
        for name in line.split() if is_names else ():
            reasons[name] = reason
        names_before = is_names
    return reasons


MODULES = {
    "torch": [name for name in dir(torch._C._VariableFunctions) if not name.startswith("_")],
    "torch.Tensor": public(torch.Tensor),
    "torch.linalg": public(torch.linalg),
    "torch.special": public(torch.special),
    "torch.fft": public(torch.fft),
    "torch.func": public(torch.func),
    "torch.nn": public(torch.nn, classes=True),
    "torch.nn.functional": public(torch.nn.functional),
    "torch.nn.init": public(torch.nn.init),
    "torch.nn.utils": public(torch.nn.utils),
    "torch.optim": public(torch.optim, classes=True),
    "torch.optim.lr_scheduler": public(torch.optim.lr_scheduler, classes=True),
    "torch.distributions": public(torch.distributions, classes=True),
}
reasons = read_reasons()
all_missing, without_reason = set(), []
for module, names in MODULES.items():
    missing = [name for name in names if not {name, name + "_", "to_" + name} & WORDS]
    all_missing.update(missing)
    print(f"{module}: {len(names) - len(missing)} of {len(names)}")
    by_reason = {}
    for name in missing:
        if name in reasons:
            by_reason.setdefault(reasons[name], []).append(name)
        else:
            without_reason.append(f"{module}.{name}")
    for reason, group in by_reason.items():
        print(textwrap.fill(f"{len(group)}: {reason}", 120, initial_indent="  ", subsequent_indent="    "))
        print(textwrap.fill(" ".join(group), 120, initial_indent="    ", subsequent_indent="    "))
idle = sorted(set(reasons) - all_missing)
if without_reason:
    print("without a reason:", " ".join(without_reason), file=sys.stderr)
if idle:
    print("with a reason, though they are here or PyTorch has them no more:", " ".join(idle), file=sys.stderr)
sys.exit(bool(without_reason or idle))
