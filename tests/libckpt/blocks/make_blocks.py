#!/usr/bin/env python3
"""Makes tests/golden/blocks.tar.xz with gguf-py: blocks of every quantised type with the values that it gives them, and
values with the blocks that it packs them into; Q2_K to Q6_K, which it does not pack, with those of ggml.
Usage: make_blocks.py FOLDER LIBGGML (needs: pip install gguf numpy, and ggml-quants.c and ggml.c of llama.cpp as a
shared library, compiled for plain x86-64: gcc -O2 -shared -fPIC -ffp-contract=off)

FOLDER/blocks/NAME.gguf        tensors in blocks, named by their type
FOLDER/blocks/NAME.values.npz  the same names: what gguf-py unpacks them to
FOLDER/blocks/NAME.plain.npz   f32 values, named TYPE/what
FOLDER/blocks/NAME.packed.npz  the same names: the bytes that they are packed into
"""

import ctypes
import os
import pathlib
import sys

import gguf
import numpy as np

PACKED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
PACKED_BY_GGML = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
# Where blocks of a type keep 16-bit floats, which are to be finite here: what a NaN becomes is the processor's choice.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
    "Q5_K": [0, 2], "Q6_K": [208], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ3_XXS": [0], "IQ1_S": [0], "IQ4_NL": [0], "IQ3_S": [0],
    "IQ2_S": [0], "IQ4_XS": [0], "IQ1_M": [], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [], "NVFP4": [],
}


def blocks_of(name, rows, random):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    per_row = 2 if elements > 64 else 4
    blocks = random.integers(0, 256, (rows * per_row, size), dtype=np.uint8)
    for at in HALVES[name]:
        scales = random.normal(0, 0.05, len(blocks)).astype(np.float16)
        scales[:3] = [0, 6e-8, -65504]  # none, the smallest, the largest
        blocks[:, at:at + 2] = scales.view(np.uint8).reshape(-1, 2)
    if name == "IQ1_M":  # its scale lies in the high bits of four numbers: an exponent that is not the largest
        blocks[:, 55] &= 0x3F
    return blocks.reshape(rows, per_row * size)


def write_unpacked(folder, name, rows, seed):
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(folder / f"{name}.gguf", "blocks")
    values = {}
    for type_name in HALVES:
        kind = gguf.GGMLQuantizationType[type_name]
        blocks = blocks_of(type_name, rows, random)
        writer.add_tensor(type_name, blocks, raw_dtype=kind)
        values[type_name] = gguf.dequantize(blocks, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    np.savez(folder / f"{name}.values.npz", **values)


def write_packed(folder, name, seed):
    random = np.random.default_rng(seed)
    plain = {
        "normal": random.normal(0, 0.02, (6, 64)), "wide": random.normal(0, 1, (4, 32)) * np.logspace(-6, 4, 32),
        "zero": np.zeros((1, 32)), "one_sign": random.uniform(1, 2, (2, 64)), "ties": np.tile(np.arange(-4, 4, 0.5), (1, 4)),
        "constant": np.full((1, 32), -0.75),
    }
    values, blocks = {}, {}
    for type_name in PACKED:
        for what, array in plain.items():
            array = array.astype(np.float32)
            values[f"{type_name}/{what}"] = array
            blocks[f"{type_name}/{what}"] = gguf.quantize(array, gguf.GGMLQuantizationType[type_name])
    np.savez(folder / f"{name}.plain.npz", **values)
    np.savez(folder / f"{name}.packed.npz", **blocks)


def pack_by_ggml(library, type_name, array):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_name]]
    blocks = np.zeros((len(array), array.shape[1] // elements * size), np.uint8)
    pack = getattr(library, f"quantize_row_{type_name.lower().replace('k', 'K')}_ref")
    pack(array.ctypes.data_as(ctypes.c_void_p), blocks.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(array.size))
    return blocks


def write_packed_by_ggml(folder, name, library, seed):
    random = np.random.default_rng(seed)
    spread = np.concatenate([random.normal(0, scale, (1, 256)) for scale in (1e-7, 1e-3, 1, 300)])
    plain = {
        "normal": random.normal(0, 0.02, (6, 512)), "spread": spread, "zero": np.zeros((1, 256)),
        "wide": random.normal(0, 1, (2, 256)) * np.logspace(-6, 4, 256), "positive": random.uniform(1, 2, (1, 512)),
        "negative": -random.exponential(1, (1, 512)), "ties": np.tile(np.arange(-4, 4, 0.5), (1, 16)),
        "constant": np.full((1, 256), -0.75), "below": np.full((1, 256), 1e-16), "steps": np.arange(-128, 128).reshape(1, 256),
        "sparse": random.normal(0, 1, (2, 256)) * (random.uniform(0, 1, (2, 256)) < 0.05),
        "parts": random.normal(0, 1, (2, 256)) * np.repeat(random.choice([0, 1e-12, 1, 100], 32), 16).reshape(2, 256),
        "outlier": np.where(np.arange(256) == 77, 1000, random.normal(0, 1, (1, 256))),
    }
    values, blocks = {}, {}
    for type_name in PACKED_BY_GGML:
        for what, array in plain.items():
            array = np.ascontiguousarray(array, np.float32)
            values[f"{type_name}/{what}"] = array
            blocks[f"{type_name}/{what}"] = pack_by_ggml(library, type_name, array)
    np.savez(folder / f"{name}.plain.npz", **values)
    np.savez(folder / f"{name}.packed.npz", **blocks)


def main():
    folder = pathlib.Path(sys.argv[1]) / "blocks"
    folder.mkdir(parents=True, exist_ok=True)
    write_unpacked(folder, "types", 3, 7)
    write_packed(folder, "types", 11)
    write_packed_by_ggml(folder, "parts", ctypes.CDLL(sys.argv[2], mode=os.RTLD_LAZY), 13)


main()
