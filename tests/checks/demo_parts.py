#!/usr/bin/env python3
"""Checks that what the demo's programs are linked from (tools/demo) needs nothing that is left out there. The linker sees
that for what is used alone; in united builds an unused source is part of one that is. Usage: demo_parts.py BUILD (where
demo_ckpt and demo_lenet are built)."""

import pathlib
import re
import subprocess
import sys

# Each method of Tensor takes its family with it; the linker drops those that are not called.
OWN_SECTIONS = "tensor_methods.cpp"
OURS = re.compile(r"^_Z(N|NK|T[IVS]N)(4core|4ckpt|3cli|3zoo|7samples)")


def parts_of(build, program):
    """Objects and our archives that a program is linked from."""
    text = subprocess.run(["ninja", "-C", build, "-t", "query", program], capture_output=True, text=True, check=True).stdout
    inputs = text.split("outputs:")[0].split("||")[0].splitlines()
    names = [line.strip(" |") for line in inputs]
    return [name for name in names if name.endswith(".o") or re.match(r"lib/.*\.a$", name)]


def symbols(build, parts):
    defined, needed = set(), {}
    for line in subprocess.run(["nm", "-A", *parts], cwd=build, capture_output=True, text=True, check=True).stdout.splitlines():
        where, rest = line.rsplit(":", 1) if ":" in line else ("", line)
        if len(rest.split()) < 2:
            continue
        kind, name = rest.split()[-2:]
        if kind != "U":
            defined.add(name)
        elif OURS.match(name) and OWN_SECTIONS not in where and ".a:" not in where:
            needed.setdefault(name, where)
    return defined, needed


def main():
    build, missing = sys.argv[1], 0
    for program in ("bin/demo/ckpt", "bin/demo/fashion_lenet"):
        parts = parts_of(build, program)
        defined, needed = symbols(build, parts)
        if len(parts) < 20 or not needed:
            sys.exit(f"{program}: found {len(parts)} objects that need {len(needed)} symbols; is it built?")
        for name in sorted(needed.keys() - defined):
            print(f"{program}: {pathlib.PurePath(needed[name]).name} needs {name}, which tools/demo/left_out.txt leaves out")
            missing += 1
    print(f"demo_parts: {missing} names are missing" if missing else "demo_parts: what is kept needs nothing that is left out")
    return 1 if missing else 0


sys.exit(main())
