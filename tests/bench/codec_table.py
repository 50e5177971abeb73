#!/usr/bin/env python3
"""Sizes and speeds of packed weights beside zstd, zipnn and memcpy, in one run, as Markdown tables.

usage: codec_table.py BUILD [--mib N] [--keep FOLDER] [--deltas]

One thread, in memory. The weights are eight tensors of normal values (sigma 0.008 to 0.05), N MiB of bf16 and as much
of f32 (256). Needs numpy and the program zstd; zipnn (PyPI) where it is installed. "floor" is noise as it is and the
entropy of single exponents. --deltas times, instead, nine such bf16 checkpoints each of which was trained on from the one before
(every weight moved by a normal value of sigma 1e-4 or 1e-5): the differences, and what comes back of all eight, with two
threads. Every figure is the fastest of several passes; speeds are of the plain bytes.
"""
import argparse
import json
import os
import re
import subprocess
import tempfile
import time

import numpy

PASSES = 5


def weights(kind, mib):
    random = numpy.random.default_rng(1)
    width = 2 if kind == "bf16" else 4
    count = (mib << 20) // width // 8
    for sigma in numpy.geomspace(0.008, 0.05, 8):
        bits = (random.standard_normal(count, dtype=numpy.float32) * numpy.float32(sigma)).view(numpy.uint32)
        yield bits if width == 4 else ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def write_safetensors(path, kind, tensors):
    header, at = {}, 0
    for i, tensor in enumerate(tensors):
        name = {"bf16": "BF16", "f32": "F32"}[kind]
        header[f"layer{i}.weight"] = {"dtype": name, "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            file.write(tensor.tobytes())


def floor_of(kind, tensors):
    """Size over plain size where exponents take their entropy and all other bits one each."""
    shift, rest = (7, 8) if kind == "bf16" else (23, 24)
    bits = 0
    for tensor in tensors:
        share = numpy.bincount((tensor >> shift & 0xff).astype(numpy.int64)) / tensor.size
        share = share[share > 0]
        bits += tensor.size * (rest - (share * numpy.log2(share)).sum())
    return bits / sum(8 * tensor.nbytes for tensor in tensors)


def ours(build, path, codec):
    figures = {}
    for what in ("compress", "decompress"):
        done = subprocess.run([f"{build}/bin/ckpt_bench", what, path, "--codec", codec, "--threads", "1"], check=True,
                              capture_output=True, text=True)
        figures[what] = json.loads(done.stdout.splitlines()[-1])
    size = figures["compress"]["bytes"]
    speed = lambda key, seconds: size / figures[key][seconds] / 1e9
    copy = max(speed("compress", "copy_seconds"), speed("decompress", "copy_seconds"))
    return figures["compress"]["stored_ratio"], speed("compress", "seconds"), speed("decompress", "seconds"), copy


def zstd(path):
    done = subprocess.run(["zstd", "-b1", "-i3", "-T1", path], check=True, capture_output=True, text=True)
    found = re.findall(r"->\s*(\d+)\s*\(x?[\d.]+\),\s*([\d.]+)\s*MB/s,\s*([\d.]+)\s*MB/s", done.stdout + done.stderr)[-1]
    return int(found[0]) / os.path.getsize(path), float(found[1]) / 1e3, float(found[2]) / 1e3


def zipnn(kind, tensors):
    from zipnn import ZipNN
    codec = ZipNN(input_format="byte", bytearray_dtype={"bf16": "bfloat16", "f32": "float32"}[kind], threads=1)
    plain = b"".join(tensor.tobytes() for tensor in tensors)
    up = down = 1e30
    for _ in range(PASSES):
        blob = bytearray(plain)  # it reorders the caller's bytes
        begin = time.perf_counter()
        packed = codec.compress(blob)
        up = min(up, time.perf_counter() - begin)
        begin = time.perf_counter()
        back = codec.decompress(packed)
        down = min(down, time.perf_counter() - begin)
    if bytes(back) != plain:
        raise SystemExit("zipnn gave other bytes back")
    return len(packed) / len(plain), len(plain) / up / 1e9, len(plain) / down / 1e9


def trained(mib, rate, folder):
    """Files of a base and eight later checkpoints."""
    random = numpy.random.default_rng(2)
    count = (mib << 20) // 2 // 8
    masters = [random.standard_normal(count, dtype=numpy.float32) * numpy.float32(sigma)
               for sigma in numpy.geomspace(0.008, 0.05, 8)]
    for step in range(9):
        bits = [master.view(numpy.uint32) for master in masters]
        path = os.path.join(folder, f"{rate}-{step}.safetensors")
        write_safetensors(path, "bf16", [((b + 0x7fff + (b >> 16 & 1)) >> 16).astype(numpy.uint16) for b in bits])
        yield path
        for master in masters:
            master += random.standard_normal(count, dtype=numpy.float32) * numpy.float32(rate)


def deltas(build, mib, folder):
    print(f"bf16, {mib} MiB, two threads\n")
    print("| step | difference | make one, GB/s | restore through 1, GB/s | through 8, GB/s |\n|---|--:|--:|--:|--:|")
    for rate in (1e-4, 1e-5):
        files = list(trained(mib, rate, folder))

        def figures(what, count):
            done = subprocess.run([f"{build}/bin/ckpt_bench", what, *files[:count + 1], "--threads", "2"], check=True,
                                  capture_output=True, text=True)
            return json.loads(done.stdout.splitlines()[-1])
        made, one, eight = figures("delta_compress", 1), figures("delta_apply", 1), figures("delta_apply", 8)
        print(f"| {rate:g} | {made['stored_ratio']:.3f} | {made['gb_per_s']:.2f} | {one['gb_per_s']:.2f} "
              f"| {eight['gb_per_s']:.2f} |", flush=True)


def table(build, kind, mib, folder):
    tensors = list(weights(kind, mib))
    path = os.path.join(folder, kind + ".safetensors")
    write_safetensors(path, kind, tensors)
    rows, copy = [], 0
    for codec in ("tight", "fast", "gzip"):
        *row, copied = ours(build, path, codec)
        copy = max(copy, copied)
        rows.append((f"`--codec {codec}`", row))
    rows.append(("`zstd -1`", zstd(path)))
    try:
        rows.append(("zipnn", zipnn(kind, tensors)))
    except ImportError:
        rows.append(("zipnn (not installed)", (float("nan"),) * 3))
    print(f"\n{kind}, {mib} MiB; floor {floor_of(kind, tensors):.4f}; memcpy {copy:.2f} GB/s\n")
    print("| | size | pack, GB/s | unpack, GB/s | unpack / memcpy |\n|---|--:|--:|--:|--:|")
    for name, (size, up, down) in rows:
        print(f"| {name} | {size:.4f} | {up:.2f} | {down:.2f} | {down / copy:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--keep", help="folder for the files of weights")
    parser.add_argument("--deltas", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.deltas:
            return deltas(given.build, given.mib, given.keep or folder)
        for kind in ("bf16", "f32"):
            table(given.build, kind, given.mib, given.keep or folder)


if __name__ == "__main__":
    main()
