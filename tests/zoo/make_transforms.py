#!/usr/bin/env python3
"""Makes tests/golden/transforms.tar.xz with torchvision: transforms.v2 on tensors, each from a seed. Usage:
make_transforms.py FOLDER [--seed N] (needs: pip install torch torchvision safetensors).

FOLDER/transforms/cases.json         "op", its arguments, the seed, the names of the arrays that go in and come out; "next": the
                                     number that the generator gives behind it; "error": the text in place of both
FOLDER/transforms/cases.safetensors  the arrays
"""

import json
import pathlib
import random
import sys

import torch
from safetensors.torch import save_file
from torchvision.transforms import v2

FOLDER = pathlib.Path(sys.argv[1]) / "transforms"
SEED = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
rng = random.Random(SEED)
arrays, cases = {}, []
DTYPES = {"u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "f32": torch.float32, "f64": torch.float64}


def image(kind="u8", channels=3, height=13, width=17, batch=()):
    shape = (*batch, channels, height, width)
    if kind == "u8":
        return torch.randint(0, 256, shape, dtype=torch.uint8)
    smooth = torch.rand(shape, dtype=torch.float64)
    return smooth.to(DTYPES[kind]) if kind.startswith("f") else (smooth * 20000).to(DTYPES[kind])


def keep(tensor):
    for name, other in arrays.items():
        if other.dtype == tensor.dtype and other.shape == tensor.shape and torch.equal(other, tensor):
            return name
    name = "a%d" % len(arrays)
    arrays[name] = tensor.contiguous().clone()
    return name


def built(op, args):
    args = dict(args)
    if "transforms" in args:
        args["transforms"] = [built(part["op"], part["args"]) for part in args["transforms"]]
    if "dtype" in args:
        args["dtype"] = DTYPES[args["dtype"]]
    if op == "RandomErasing" and args.get("value") == []:
        args["value"] = "random"
    if "policy" in args:
        args["policy"] = v2.AutoAugmentPolicy(args["policy"])
    if args.get("fill") == []:
        args["fill"] = None
    return getattr(v2, op)(**args)


def record(op, args, x):
    seed = rng.randrange(10**6)
    case = {"id": "%s_%d" % (op, sum(c["op"] == op for c in cases)), "op": op, "args": args, "seed": seed, "input": keep(x)}
    try:
        transform = built(op, args)
        torch.manual_seed(seed)
        case["output"] = keep(transform(x.clone()))
        case["next"] = torch.rand(1, dtype=torch.float64).item()
    except (RuntimeError, ValueError, TypeError) as error:
        case["error"] = str(error)
    cases.append(case)


def images():
    return [image("u8"), image("f32", 3, 9, 12), image("u8", 1), image("u8", 3, 11, 11, (2,)), image("f64", 1, 10, 8)]


def geometry():
    for x in images():
        for interpolation in ("nearest", "nearest-exact", "bilinear", "bicubic"):
            mode = getattr(v2.InterpolationMode, interpolation.upper().replace("-", "_"))
            for size in ([7, 5], [24, 31], [6], [16]):
                for antialias in (True, False):
                    if interpolation.startswith("nearest") and not antialias:
                        continue
                    record("Resize", {"size": size, "interpolation": mode.value, "antialias": antialias}, x)
        record("Resize", {"size": [6], "max_size": 9}, x)
        for size in ([8, 8], [20, 15], [5, 30], [7]):
            record("CenterCrop", {"size": size}, x)
        for mode in ("constant", "edge", "reflect", "symmetric"):
            for padding in ([2], [1, 3], [0, 1, 2, 3]):
                record("Pad", {"padding": padding, "fill": [rng.choice([0, 1])] if mode == "constant" else [0], "padding_mode": mode}, x)
        if x.shape[-3] == 3:
            record("Pad", {"padding": [1, 2, 0, 3], "fill": [0.25, 0.5, 1.0]}, x)
        for args in ({"size": [8, 8]}, {"size": [9, 8], "padding": [4]}, {"size": [30, 6], "pad_if_needed": True, "padding_mode": "edge"},
                     {"size": [8, 7], "padding": [1, 2, 3, 4], "padding_mode": "reflect"}, {"size": [8], "padding": [2, 1], "fill": [1]}):
            for _ in range(2):
                record("RandomCrop", args, x)
        for args in ({"size": [8, 8]}, {"size": [10, 6], "interpolation": "bicubic"}, {"size": [5], "scale": [0.3, 0.5], "ratio": [1.5, 2.5]},
                     {"size": [6, 6], "interpolation": "nearest"}, {"size": [7, 7], "scale": [2.0, 3.0]}, {"size": [12, 12], "antialias": False}):
            for _ in range(3):
                record("RandomResizedCrop", args, x)
        for op in ("RandomHorizontalFlip", "RandomVerticalFlip"):
            for p in (0.0, 0.5, 0.5, 1.0):
                record(op, {"p": p}, x)
        for args in ({"degrees": [-30, 30]}, {"degrees": [90, 90]}, {"degrees": [180, 180]}, {"degrees": [270, 270], "expand": True},
                     {"degrees": [0, 0]}, {"degrees": [-180, 180], "interpolation": "bilinear", "fill": [1]},
                     {"degrees": [10, 80], "expand": True}, {"degrees": [10, 80], "center": [2, 3], "interpolation": "bilinear", "fill": []}):
            record("RandomRotation", args, x)
        for args in ({"degrees": [0, 0], "translate": [0.3, 0.2]}, {"degrees": [-20, 20], "scale": [0.7, 1.4]},
                     {"degrees": [0, 0], "shear": [-15, 15]}, {"degrees": [-9, 9], "shear": [-15, 15, -10, 10], "translate": [0.1, 0.4]},
                     {"degrees": [-90, 90], "interpolation": "bilinear", "scale": [0.5, 2.0], "fill": [1], "center": [4, 1]}):
            for _ in range(2):
                record("RandomAffine", args, x)


def colours():
    for x in images():
        for args in ({"brightness": [0.5, 1.5]}, {"contrast": [0.2, 2.0]}, {"saturation": [0.0, 3.0]}, {"hue": [-0.5, 0.5]},
                     {"brightness": [0.6, 1.4], "contrast": [0.6, 1.4], "saturation": [0.6, 1.4], "hue": [-0.1, 0.1]}, {"brightness": [1, 1]}):
            for _ in range(3):
                record("ColorJitter", args, x)
        for channels in (1, 3):
            record("Grayscale", {"num_output_channels": channels}, x)
        for p in (0.0, 0.5, 1.0):
            record("RandomGrayscale", {"p": p}, x)
        for size in ([3], [5, 3], [1, 7]):
            record("GaussianBlur", {"kernel_size": size, "sigma": [0.3, 2.5]}, x)
        for args in ({"p": 1.0}, {"p": 0.5}, {"p": 1.0, "value": []}, {"p": 1.0, "value": [0.5] if x.shape[-3] == 1 else [0.1, 0.5, 0.9]},
                     {"p": 1.0, "scale": [0.1, 0.2], "ratio": [0.5, 0.6]}):
            for _ in range(2):
                record("RandomErasing", args, x)


def levels():
    for x in images():
        white = 1.0 if x.is_floating_point() else 255.0
        for op in ("RandomInvert", "RandomEqualize", "RandomAutocontrast"):
            for p in (0.5, 1.0):
                record(op, {"p": p}, x)
        for bits in (0, 3, 8):
            record("RandomPosterize", {"bits": bits, "p": 1.0}, x)
        for part in (0.0, 0.4, 1.0):
            record("RandomSolarize", {"threshold": part * white, "p": 1.0}, x)
        for factor in (0.0, 0.7, 2.5):
            record("RandomAdjustSharpness", {"sharpness_factor": factor, "p": 1.0}, x)
    record("RandomEqualize", {"p": 1.0}, (image("u8", 3, 40, 30) // 5 + 90).to(torch.uint8))
    record("RandomAutocontrast", {"p": 1.0}, torch.full((3, 4, 4), 7, dtype=torch.uint8))
    record("RandomInvert", {"p": 1.0}, image("i16"))
    record("RandomPosterize", {"bits": 9, "p": 1.0}, image("u8"))
    record("RandomSolarize", {"threshold": 300.0, "p": 1.0}, image("u8", 1, 3, 3))


def policies():
    x, grey = image("u8", 3, 12, 14), image("u8", 1, 9, 9)
    for _ in range(25):
        record("AutoAugment", {"policy": rng.choice(["imagenet", "cifar10", "svhn"])}, x)
        record("RandAugment", {"num_ops": 2, "magnitude": rng.choice([0, 9, 30])}, x)
        record("TrivialAugmentWide", {}, rng.choice([x, grey]))
    record("RandAugment", {"num_ops": 3, "magnitude": 3, "num_magnitude_bins": 5, "interpolation": "bilinear", "fill": [128.0]}, x)
    record("TrivialAugmentWide", {"fill": [1.0, 2.0, 3.0]}, x)
    record("RandAugment", {"num_ops": -1}, x)


def types():
    for kind in ("u8", "i16", "f32", "f64"):
        for to in ("u8", "i16", "i32", "f32", "f64"):
            for scale in (False, True):
                record("ToDtype", {"dtype": to, "scale": scale}, image(kind, 3, 4, 5))
    for kind, channels in (("f32", 3), ("f64", 1)):
        record("Normalize", {"mean": [0.485, 0.456, 0.406][:channels], "std": [0.229, 0.224, 0.225][:channels]}, image(kind, channels))
    record("Normalize", {"mean": [0.5], "std": [0.5]}, image("u8"))
    record("Normalize", {"mean": [0.5], "std": [0.0]}, image("f32"))


def several():
    flip = {"op": "RandomHorizontalFlip", "args": {"p": 0.5}}
    crop = {"op": "RandomCrop", "args": {"size": [8, 8], "padding": [2]}}
    jitter = {"op": "ColorJitter", "args": {"brightness": [0.8, 1.2], "hue": [-0.1, 0.1]}}
    to_float = {"op": "ToDtype", "args": {"dtype": "f32", "scale": True}}
    normalize = {"op": "Normalize", "args": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}
    erase = {"op": "RandomErasing", "args": {"p": 0.5}}
    for _ in range(6):
        x = image("u8", 3, 12, 12)
        record("Compose", {"transforms": [crop, flip, jitter, to_float, normalize, erase]}, x)
        record("RandomApply", {"transforms": [jitter, flip], "p": 0.6}, x)
        record("RandomChoice", {"transforms": [crop, flip, jitter]}, x)
        record("RandomChoice", {"transforms": [crop, flip, jitter], "p": [0.2, 0.5, 3.0]}, x)
        record("RandomOrder", {"transforms": [flip, crop, jitter]}, x)


def refused():
    x = image("u8")
    record("RandomCrop", {"size": [40, 8]}, x)
    record("RandomCrop", {"size": [40, 8], "padding": [1]}, x)
    record("Resize", {"size": [9], "max_size": 8}, x)
    record("Resize", {"size": [9, 9], "max_size": 12}, x)
    record("RandomHorizontalFlip", {"p": 1.5}, x)
    record("Grayscale", {"num_output_channels": 2}, x)
    record("GaussianBlur", {"kernel_size": [4]}, x)
    record("RandomErasing", {"p": 1.0, "value": [0.1, 0.2]}, x)
    record("RandomErasing", {"p": 1.0, "scale": [-1.0, 1.0]}, x)
    record("RandomAffine", {"degrees": [0, 0], "translate": [2.0, 0.0]}, x)
    record("RandomAffine", {"degrees": [0, 0], "scale": [0.0, 1.0]}, x)
    record("RandomRotation", {"degrees": [3, 4], "fill": [1.0, 2.0]}, x)
    record("Compose", {"transforms": []}, x)
    record("RandomApply", {"transforms": []}, x)
    record("RandomChoice", {"transforms": [{"op": "RandomHorizontalFlip", "args": {"p": 0.5}}], "p": [0.5, 0.5]}, x)
    record("ColorJitter", {"brightness": [0.5, 1.5]}, image("u8", 2))


torch.manual_seed(SEED)
for part in (geometry, colours, levels, policies, types, several, refused):
    part()
FOLDER.mkdir(parents=True, exist_ok=True)
(FOLDER / "cases.json").write_text(json.dumps({"cases": cases}, indent=0))
save_file(arrays, FOLDER / "cases.safetensors")
print(len(cases), "cases,", len(arrays), "arrays,", sum("error" in c for c in cases), "refused")
