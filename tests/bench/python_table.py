#!/usr/bin/env python3
"""The Python package beside safetensors, h5py and torch, in one run, as a Markdown table.

usage: python_table.py [--entries N] [--gib N] [--rounds N] [--keep FOLDER]

To be run by a Python that has ckpt (the wheel), numpy, safetensors, h5py and torch. Every figure is the median of fresh processes
that take turns (seven), files in the page cache, in milliseconds of the operation alone: imports are done before, except where
the import is what is timed. Files: 100,000 tensors of one float, and tensors of 64 MiB of f32 that make up 4 GiB. "read" has every
value of every array added up by NumPy.
"""
import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile

MAKE_SMALL = """
import ckpt, numpy, sys
one = numpy.ones(1, "float32")
state = {f"layers.{i}.weight": one + i % 7 for i in range(int(sys.argv[2]))}
for kind in ("safetensors", "ckpt"):
    ckpt.save(state, sys.argv[1] + "." + kind)
"""
MAKE_LARGE = """
import ckpt, numpy, sys
count = int(float(sys.argv[2]) * 16)
part = numpy.arange(1 << 24, dtype="float32")
ckpt.save({f"layers.{i}.weight": part for i in range(count)}, sys.argv[1] + ".safetensors")
ckpt.save({f"layers.{i}.weight": part for i in range(count)}, sys.argv[1] + ".pth")
"""
PACKAGES = ("ckpt", "numpy", "safetensors", "h5py", "torch")
# What is timed stands between these two, and the second prints milliseconds.
CLOCK = "import time; begin = time.perf_counter()\n"
REPORT = "\nprint(1e3 * (time.perf_counter() - begin))"


def program(before, timed):
    return f"import sys\n{before}\n{CLOCK}{timed}{REPORT}"


def read(arrays):
    return f"total = 0.0\nfor array in {arrays}: total += float(array.sum())"


def last(arrays):
    return f"for array in {arrays}: pass"


CKPT_ARRAYS = "(c[key].numpy() for c in [ckpt.open(sys.argv[1])] for key in c)"
CKPT_COPIES = CKPT_ARRAYS.replace("numpy()", "numpy(copy=True)")
SAFE = "import numpy; from safetensors import safe_open"
SAFE_ARRAYS = "(f.get_tensor(key) for f in [safe_open(sys.argv[1], 'np')] for key in f.keys())"
TORCH_ARRAYS = "(t.numpy() for t in torch.load(sys.argv[1], mmap=True).values())"
LIST_H5 = "names = []\nwith h5py.File(sys.argv[1]) as f: f.visit(names.append)"


def rows(small, large):
    """(work, [(who, file, program)]), ckpt first."""
    def safetensors(timed):
        return ("safetensors", large + ".safetensors", program(SAFE, timed))

    def ckpt(timed, path=large + ".safetensors"):
        return ("ckpt", path, program("import ckpt, numpy", timed))
    names = "names = list(ckpt.open(sys.argv[1]))"
    safe_names = "with safe_open(sys.argv[1], 'np') as f: names = list(f.keys())"
    return [
        ("import", [("ckpt", "", program("", "import ckpt")), ("safetensors", "", program("", SAFE)),
                    ("h5py", "", program("", "import h5py")), ("torch", "", program("", "import torch"))]),
        ("names of a `.safetensors`", [ckpt(names, small + ".safetensors"),
                                       ("safetensors", small + ".safetensors", program(SAFE, safe_names))]),
        ("names of a `.ckpt`", [ckpt(names, small + ".ckpt"), ("h5py", small + ".ckpt", program("import h5py", LIST_H5))]),
        ("arrays of a `.safetensors`", [ckpt(last(CKPT_ARRAYS)), safetensors(last(SAFE_ARRAYS))]),
        ("arrays of memory of their own (`copy=True`)", [ckpt(last(CKPT_COPIES)), safetensors(last(SAFE_ARRAYS))]),
        ("arrays, read", [ckpt(read(CKPT_ARRAYS)), safetensors(read(SAFE_ARRAYS))]),
        ("arrays of a `.pth`, read", [ckpt(read(CKPT_ARRAYS), large + ".pth"),
                                      ("torch, mapped", large + ".pth", program("import torch", read(TORCH_ARRAYS)))]),
    ]


def run(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"python_table: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--entries", type=int, default=100000, help="tensors of the file whose names are listed")
    parser.add_argument("--gib", type=float, default=4, help="size of the file whose arrays are read")
    parser.add_argument("--rounds", type=int, default=7, help="fresh processes of each program")
    parser.add_argument("--keep", metavar="FOLDER", help="where the files lie, and stay")
    options = parser.parse_args()
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit("python_table: this Python lacks " + ", ".join(missing) + "; into one of your own: "
                         "pip install ./tools/python numpy safetensors h5py torch")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        small, large = os.path.join(folder, "small"), os.path.join(folder, "large")
        if not os.path.exists(small + ".ckpt"):
            run(MAKE_SMALL, small, str(options.entries))
        if not os.path.exists(large + ".pth"):
            run(MAKE_LARGE, large, str(options.gib))
        print("| work | who | ms | ckpt's time of theirs |\n|---|---|--:|--:|")
        for work, programs in rows(small, large):
            times = {who: [] for who, _, _ in programs}
            for _ in range(options.rounds):
                for who, path, code in programs:
                    times[who].append(float(run(code, path)))
            mine = statistics.median(times["ckpt"])
            for who in times:
                median = statistics.median(times[who])
                ratio = "" if who == "ckpt" else f"{mine / median:.2f}"
                print(f"| {work} | {who} | {median:.1f} | {ratio} |", flush=True)


main()
