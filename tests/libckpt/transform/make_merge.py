#!/usr/bin/env python3
"""Makes tests/golden/merge.tar.xz with mergekit's merge methods.
Usage: make_merge.py FOLDER (needs: pip install torch mergekit safetensors)

FOLDER/merge/CASE.json               method, weights, densities, t, lambda, normalize, rescale (absent: mergekit's own),
                                     and the files: base (of methods with one) and models
FOLDER/merge/CASE.safetensors        what mergekit merges them to
FOLDER/merge/inputs/NAME.safetensors base, and models that were trained on from it
"""

import json
import pathlib
import sys

import torch
from mergekit.merge_methods import registry
from mergekit.merge_methods.base import TensorGroup
from safetensors.torch import save_file

CASES = {
    "linear": {"method": "linear", "weights": [0.7, 0.3]},
    "linear_sum": {"method": "linear", "weights": [0.7, 0.6], "normalize": False},
    "linear_three": {"method": "linear", "weights": [1, 2, -0.5]},
    "linear_f64": {"method": "linear", "weights": [0.7, 0.3], "dtype": "f64"},
    "linear_bf16": {"method": "linear", "weights": [0.7, 0.3], "dtype": "bf16"},
    "slerp": {"method": "slerp", "t": 0.3},
    "slerp_end": {"method": "slerp", "t": 1.0},
    "slerp_f64": {"method": "slerp", "t": 0.45, "dtype": "f64"},
    "slerp_f16": {"method": "slerp", "t": 0.6, "dtype": "f16"},
    "task": {"method": "task-arithmetic", "weights": [0.5, 0.8]},
    "task_lambda": {"method": "task-arithmetic", "weights": [0.5, -0.8], "lambda": 1.7},
    "task_normalized": {"method": "task-arithmetic", "weights": [0.5, 0.8, 0.2], "normalize": True},
    "ties": {"method": "ties", "weights": [0.6, 0.4], "densities": [0.5, 0.3]},
    "ties_three": {"method": "ties", "weights": [1, 1, 0.5], "densities": [0.2], "lambda": 0.8},
    "ties_rescaled": {"method": "ties", "weights": [1, 1], "densities": [0.4, 0.7], "rescale": True, "normalize": False},
    "ties_nothing": {"method": "ties", "weights": [1, 1], "densities": [0.0, 0.1]},
    "ties_all": {"method": "ties", "weights": [1, 0.5]},
    "ties_f64": {"method": "ties", "weights": [1, 1], "densities": [0.4, 0.7], "dtype": "f64"},
    "dare_all": {"method": "dare-ties", "weights": [0.5, 1], "densities": [1.0]},
    "dare_linear_all": {"method": "dare-linear", "weights": [0.5, 1], "densities": [1.0]},
}
TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


def inputs():
    torch.manual_seed(3)
    base = {"embed.weight": torch.randn(7, 12), "fc.weight": torch.randn(33, 40) * 0.02, "fc.bias": torch.zeros(33),
            "norm.weight": torch.ones(12), "scalar": torch.tensor([0.25])}
    models = {"base": base}
    for name in "abc":
        models[name] = {key: value + 0.01 * torch.randn_like(value) * (torch.rand_like(value) < 0.8)
                        for key, value in base.items()}
    models["b"]["fc.bias"] = base["fc.bias"].clone()  # no difference at all
    return models


def merged(case, base, tensors):
    """By the function that mergekit itself calls; its models are numbered, and the base is number 0."""
    method = registry.get(case["method"].replace("-", "_"))
    with_base = case["method"] not in ("linear", "slerp")
    numbers = range(1, len(tensors) + 1)
    parameters = {key: case[key] for key in ("t", "lambda", "normalize", "rescale") if key in case}
    if "weights" in case:
        parameters["weight"] = dict(zip(numbers, case["weights"]))
    if "densities" in case:
        densities = case["densities"] * len(tensors) if len(case["densities"]) == 1 else case["densities"]
        parameters["density"] = dict(zip(numbers, densities))
    group = TensorGroup.from_tensors([base, *tensors] if with_base else tensors, ids=[0, *numbers] if with_base else numbers,
                                     base_index=None if case["method"] == "linear" else 0)
    return method([group], parameters=parameters)[0]


def main():
    folder = pathlib.Path(sys.argv[1]) / "merge"
    (folder / "inputs").mkdir(parents=True, exist_ok=True)
    models = inputs()
    for kind, dtype in TYPES.items():
        for name, state in models.items():
            save_file({key: value.to(dtype) for key, value in state.items()}, folder / "inputs" / f"{name}.{kind}.safetensors")
    for name, case in CASES.items():
        kind = case.get("dtype", "f32")
        count = len(case["weights"]) if "weights" in case else 2
        state = {key: {model: models[model][key].to(TYPES[kind]) for model in models} for key in models["base"]}
        result = {key: merged(case, of["base"], [of[model] for model in "abc"[:count]]) for key, of in state.items()}
        save_file(result, folder / f"{name}.safetensors")
        files = {"models": [f"inputs/{model}.{kind}.safetensors" for model in "abc"[:count]]}
        if case["method"] not in ("linear", "slerp"):
            files["base"] = f"inputs/base.{kind}.safetensors"
        (folder / f"{name}.json").write_text(json.dumps({**{k: v for k, v in case.items() if k != "dtype"}, **files}))


main()
