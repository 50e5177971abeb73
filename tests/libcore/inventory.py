#!/usr/bin/env python3
"""Counts, module by module of PyTorch, how many of its public names stand in the headers of libcore, and lists the
others. A name counts where it is a word of a header or of methods.inc, also with an underscore behind or `to_` before
it: whether it does what PyTorch's does is what the golden tests show. Usage: inventory.py (needs: pip install torch)."""

import inspect
import pathlib
import re
import textwrap
import warnings

warnings.simplefilter("ignore")
import torch

LIBCORE = pathlib.Path(__file__).resolve().parents[2] / "libcore"
WORDS = {word for pattern in ("*.h", "*.inc") for path in LIBCORE.rglob(pattern)
         for word in re.findall(r"[A-Za-z_]\w*", path.read_text())}


def public(module, classes=False):
    found = {name: getattr(module, name, None) for name in dir(module) if not name.startswith("_")}
    return sorted(name for name, value in found.items() if callable(value) and inspect.isclass(value) == classes)


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
for module, names in MODULES.items():
    missing = [name for name in names if not {name, name + "_", "to_" + name} & WORDS]
    print(f"{module}: {len(names) - len(missing)} of {len(names)}")
    print(textwrap.fill(" ".join(missing), 120, initial_indent="  ", subsequent_indent="  "))
