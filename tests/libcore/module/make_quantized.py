#!/usr/bin/env python3
"""Makes tests/golden/quantized.tar.xz with PyTorch: Linear and LSTM through torch.ao.quantization.quantize_dynamic with the engine
fbgemm. Usage: make_quantized.py FOLDER [--seed N] (needs: pip install torch safetensors).

FOLDER/quantized/cases.json         "op", its arguments, the names of the arrays: "state" of the float module, "inputs", "outputs";
                                    "numbers" and "scales" of the weights as 8-bit numbers; "text": what printing gives
FOLDER/quantized/cases.safetensors  the arrays
"""

import json
import pathlib
import random
import sys
import warnings

import torch
from safetensors.torch import save_file

warnings.simplefilter("ignore")
torch.backends.quantized.engine = "fbgemm"
FOLDER = pathlib.Path(sys.argv[1]) / "quantized"
SEED = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
rng = random.Random(SEED)
torch.manual_seed(SEED)
arrays, cases = {}, []


def keep(tensor):
    name = "a%d" % len(arrays)
    arrays[name] = tensor.detach().clone().contiguous()
    return name


def kept(tensors):
    return {name: keep(tensor) for name, tensor in tensors.items()}


def record(op, args, module, inputs, run):
    quantized = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(module), {type(module)}, dtype=torch.qint8)[0]
    weights = {}
    if op == "Linear":
        weights["weight"] = quantized.weight()
    else:
        for name, _ in module.named_parameters():
            if name.startswith("weight"):
                observer = torch.ao.quantization.default_weight_observer()
                observer(getattr(module, name))
                scale, zero = observer.calculate_qparams()
                weights[name] = torch.quantize_per_tensor(getattr(module, name).detach(), float(scale), int(zero), torch.qint8)
    with torch.no_grad():
        outputs = run(quantized, *inputs.values())
    cases.append({"id": "%s_%d" % (op, len(cases)), "op": op, "args": args, "state": kept(dict(module.named_parameters())),
                  "inputs": kept(inputs), "outputs": kept(outputs), "text": repr(quantized),
                  "numbers": kept({name: w.int_repr() for name, w in weights.items()}),
                  "scales": {name: w.q_scale() for name, w in weights.items()}})


def linear():
    kinds = [lambda x: x, lambda x: x.abs(), lambda x: -x.abs() - 1, lambda x: x * 0, lambda x: x * 1e-7, lambda x: x * 300 + 50, lambda x: x.abs() * 1e-6]
    for kind in kinds:
        for sizes in ((3,), (1, 2), (2, 3, 1)):
            n, k, bias = rng.choice([1, 3, 17, 32]), rng.choice([1, 5, 16, 33]), rng.random() < 0.7
            module = torch.nn.Linear(k, n, bias=bias)
            record("Linear", {"in": k, "out": n, "bias": bias}, module, {"x": kind(torch.randn(*sizes, k))}, lambda q, x: {"y": q(x)})


def lstm():
    for layers, both, first, bias in ((1, False, False, True), (2, False, True, True), (1, True, False, True), (2, True, True, True)):
        for with_state in (False, True):
            k, hidden, time, batch = rng.choice([3, 8]), rng.choice([4, 7]), rng.choice([1, 5]), rng.choice([1, 3])
            module = torch.nn.LSTM(k, hidden, layers, bias=bias, batch_first=first, bidirectional=both)
            inputs = {"x": torch.randn(*((batch, time) if first else (time, batch)), k)}
            if with_state:
                sizes = (layers * (2 if both else 1), batch, hidden)
                inputs.update(h=torch.randn(sizes), c=torch.randn(sizes))

            def run(q, x, *state):
                y, (h, c) = q(x, tuple(state)) if state else q(x)
                return {"y": y, "h": h, "c": c}

            args = {"in": k, "hidden": hidden, "num_layers": layers, "bias": bias, "batch_first": first, "bidirectional": both}
            record("LSTM", args, module, inputs, run)


linear()
lstm()
FOLDER.mkdir(parents=True, exist_ok=True)
(FOLDER / "cases.json").write_text(json.dumps({"cases": cases}, indent=0))
save_file(arrays, FOLDER / "cases.safetensors")
print(len(cases), "cases")
