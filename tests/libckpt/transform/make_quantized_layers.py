#!/usr/bin/env python3
"""Makes tests/golden/quantized_layers.tar.xz: layers as GPTQ, AWQ and compressed-tensors pack them, and the weights that
their own code makes of them. Usage: make_quantized_layers.py GPTQMODEL AUTOAWQ FOLDER (the first two: source trees of
the packages; needs: pip install torch numpy safetensors compressed-tensors)

FOLDER/quantized_layers/CASE.safetensors        the parts of one layer "layer", or of several
FOLDER/quantized_layers/CASE.weights.safetensors  the weights, rounded as the package rounds them
GPTQ's cases whose names end in "_v2" keep zero points as they are.
"""

import ast
import pathlib
import sys
import types

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file


def functions(path, names, scope):
    """Functions and methods of a source file without importing the package around it."""
    tree = ast.parse(pathlib.Path(path).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            node.decorator_list = []
            exec(compile(ast.Module([node], []), path, "exec"), scope)
    return scope


def gptq(root, out):
    scope = functions(f"{root}/gptqmodel/nn_modules/qlinear/__init__.py", {"dequantize_weight", "_dequantize_from_codes"},
                      {"t": torch, "torch": torch, "_torch_right_shift": torch.bitwise_right_shift,
                       "_torch_left_shift": torch.bitwise_left_shift})
    for bits, group, order, second in [(4, 32, False, False), (4, 32, True, False), (8, 64, False, False),
                                       (2, 16, False, False), (3, 32, False, False), (4, 128, False, True)]:
        width, height = 128, 96
        groups = width // group
        codes = torch.randint(0, 2 ** bits, (width, height))
        zeros = torch.randint(0, 2 ** bits - 1, (groups, height))
        layer = {"qweight": pack(codes, bits), "qzeros": pack(zeros.T, bits).T.contiguous(),
                 "scales": (torch.rand(groups, height) * 0.1 + 0.01).half(),
                 "g_idx": (torch.randperm(width) if order else torch.arange(width)).div(group, rounding_mode="floor").int()}
        layer["bias"] = torch.randn(height).half()
        shifts = torch.arange(0, 32, bits, dtype=torch.int32)[None]
        if bits == 3:
            shifts = torch.tensor([[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0], [0, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31],
                                   [0, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0]], dtype=torch.int32).reshape(1, 3, 12)
        self = types.SimpleNamespace(
            planar=False, bits=bits, maxq=2 ** bits - 1, in_features=width, g_idx=layer["g_idx"], scales=layer["scales"],
            qweight=layer["qweight"], pack_factor=32 // bits, dequant_dtype=torch.int16 if bits == 8 else torch.int8,
            _init_wf_unsqueeze_buffers=lambda: None, wf_unsqueeze_zero=shifts.unsqueeze(0) if bits != 3 else shifts[None],
            wf_unsqueeze_neg_one=shifts.unsqueeze(-1))
        # The first format keeps zero points less one; the package adds one to them all when it loads a file.
        self.qzeros = layer["qzeros"] if second else pack(zeros.T + 1, bits).T.contiguous()
        self._dequantize_from_codes = types.MethodType(scope["_dequantize_from_codes"], self)
        weight = types.MethodType(scope["dequantize_weight"], self)()
        name = f"gptq_{bits}bit_{group}" + ("_order" if order else "") + ("_v2" if second else "")
        save_file({f"layer.{key}": value.contiguous() for key, value in layer.items()}, out / f"{name}.safetensors")
        save_file({"layer.weight": weight.T.contiguous(), "layer.bias": layer["bias"]}, out / f"{name}.weights.safetensors")


def pack(codes, bits):
    """Numbers of each column one behind the other, from the lowest bit on, in words of 32 bits."""
    rows, columns = codes.shape
    words = torch.zeros(rows * bits // 32, columns, dtype=torch.int64)
    for row in range(rows):
        for bit in range(bits):
            at = row * bits + bit
            words[at // 32] |= (codes[row].long() >> bit & 1) << (at % 32)
    return torch.where(words >= 2 ** 31, words - 2 ** 32, words).int()


def awq(root, out):
    scope = {"torch": torch, "AWQ_REVERSE_ORDER": [0, 4, 1, 5, 2, 6, 3, 7]}
    functions(f"{root}/awq/utils/packing_utils.py", {"unpack_awq", "reverse_awq_order", "dequantize_gemm"}, scope)
    for group, height in [(32, 96), (128, 40)]:
        width = 128
        layer = {"qweight": torch.randint(-2 ** 31, 2 ** 31, (width, height // 8)).int(),
                 "qzeros": torch.randint(-2 ** 31, 2 ** 31, (width // group, height // 8)).int(),
                 "scales": (torch.rand(width // group, height) * 0.1 + 0.01).half()}
        weight = scope["dequantize_gemm"](layer["qweight"], layer["qzeros"], layer["scales"], 4, group)
        save_file({f"model.layer.{key}": value for key, value in layer.items()}, out / f"awq_{group}.safetensors")
        save_file({"model.layer.weight": weight.T.contiguous()}, out / f"awq_{group}.weights.safetensors")


def compressed(out):
    cases = {
        "int8_channel": ("int-quantized", dict(num_bits=8, type="int", strategy="channel", symmetric=True)),
        "int8_channel_zeros": ("int-quantized", dict(num_bits=8, type="int", strategy="channel", symmetric=False)),
        "int8_tensor": ("int-quantized", dict(num_bits=8, type="int", strategy="tensor", symmetric=True)),
        "int4_group": ("pack-quantized", dict(num_bits=4, type="int", strategy="group", group_size=32, symmetric=True)),
        "int4_group_zeros": ("pack-quantized",
                             dict(num_bits=4, type="int", strategy="group", group_size=32, symmetric=False)),
        "int4_channel": ("pack-quantized", dict(num_bits=4, type="int", strategy="channel", symmetric=True)),
        "int8_packed": ("pack-quantized", dict(num_bits=8, type="int", strategy="group", group_size=64, symmetric=True)),
        "int3_packed": ("pack-quantized", dict(num_bits=3, type="int", strategy="group", group_size=64, symmetric=True)),
        "fp8_tensor": ("float-quantized", dict(num_bits=8, type="float", strategy="tensor", symmetric=True)),
        "fp8_channel": ("float-quantized", dict(num_bits=8, type="float", strategy="channel", symmetric=True)),
        "fp8_block": ("float-quantized",
                      dict(num_bits=8, type="float", strategy="block", block_structure=[128, 128], symmetric=True)),
        "nvfp4": ("nvfp4-pack-quantized",
                  dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)),
        "mxfp4": ("mxfp4-pack-quantized", dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True)),
    }
    for name, (kind, arguments) in cases.items():
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments), format=kind)
        height, width = (200, 256) if name == "fp8_block" else (72, 128)
        weight = torch.randn(height, width).bfloat16()
        layer = {"weight": weight, "weight_scale": scales(arguments, height, width).bfloat16()}
        bits = arguments["num_bits"]
        if not arguments["symmetric"]:
            layer["weight_zero_point"] = torch.randint(-2 ** (bits - 1), 2 ** (bits - 1), layer["weight_scale"].shape).to(torch.int8)
        if name == "nvfp4":
            layer["weight_global_scale"] = torch.tensor([37.5])
            layer["weight_scale"] = (layer["weight_scale"] * 37.5).to(torch.float8_e4m3fn).bfloat16()
        if name == "mxfp4":
            layer["weight_scale"] = torch.exp2(torch.randint(-6, 2, (height, width // 32))).bfloat16()
        compressor = BaseCompressor.get_value_from_registry(kind)
        stored = compressor.compress(layer, scheme)
        whole = compressor.decompress(stored, scheme)
        stored = {f"layer.{key}": value.contiguous() for key, value in stored.items() if value is not None}
        save_file(stored, out / f"{name}.safetensors")
        save_file({"layer.weight": whole["weight"].contiguous()}, out / f"{name}.weights.safetensors")
        print(name, {key: (tuple(value.shape), str(value.dtype)) for key, value in stored.items()}, whole["weight"].dtype)


def scales(arguments, height, width):
    strategy = arguments["strategy"]
    shape = {"tensor": (1,), "channel": (height, 1), "block": (-(-height // 128), -(-width // 128))}.get(strategy)
    if shape is None:
        shape = (height, width // arguments["group_size"])
    return torch.rand(shape) * 0.1 + 0.02


def main():
    torch.manual_seed(3)
    out = pathlib.Path(sys.argv[3]) / "quantized_layers"
    out.mkdir(parents=True, exist_ok=True)
    gptq(sys.argv[1], out)
    awq(sys.argv[2], out)
    compressed(out)


main()
