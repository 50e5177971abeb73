#!/usr/bin/env python3
"""Makes tests/golden/sequences.tar.xz with PyTorch: torch.nn.utils.rnn, and RNN, LSTM and GRU over packed sequences, with
gradients, errors and printed text. Usage: make_sequences.py FOLDER [--seed N] (needs: pip install torch safetensors).

FOLDER/sequences/cases.json         "op" and its arguments, the names of arrays of inputs and outputs; "error": the text in
                                    place of outputs; "text": what printing a PackedSequence gives. Gradients are those of
                                    sum(output * cos(0, 1, 2, ...)) over all outputs of floats
FOLDER/sequences/cases.safetensors  the arrays
"""

import json
import pathlib
import random
import sys

import torch
from safetensors.torch import save_file
from torch.nn.utils import rnn

FOLDER = pathlib.Path(sys.argv[1]) / "sequences"
SEED = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
arrays, cases = {}, []


def keep(tensor):
    """The name under which an array is kept; none for none."""
    if tensor is None:
        return None
    name = "a%d" % len(arrays)
    arrays[name] = tensor.detach().clone().contiguous()
    return name


def loss(outputs):
    total = 0
    for out in outputs:
        if out is not None and out.dtype.is_floating_point:
            total = total + (out * torch.cos(torch.arange(out.numel(), dtype=out.dtype)).reshape(out.shape)).sum()
    return total


def record(op, arguments, inputs, function):
    """inputs: those whose gradients are kept, by name. function gives outputs by name."""
    case = {"id": "%s_%d" % (op, sum(c["op"] == op for c in cases)), "op": op, **arguments,
            "inputs": {name: keep(tensor) for name, tensor in inputs.items()}}
    wanted = {name: t for name, t in inputs.items() if t.dtype.is_floating_point}
    for tensor in wanted.values():
        tensor.requires_grad_()
    try:
        outputs = function()
    except (RuntimeError, ValueError) as error:
        cases.append({**case, "error": str(error)})
        return
    case["text"] = outputs.pop("text", None)
    case["outputs"] = {name: keep(tensor) for name, tensor in outputs.items()}
    total = loss(outputs.values())
    if wanted and torch.is_tensor(total) and total.requires_grad:
        grads = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
        case["grads"] = {name: keep(grad) for name, grad in zip(wanted, grads)}
    cases.append(case)


def packed_parts(packed, text=None):
    return {"data": packed.data, "batch_sizes": packed.batch_sizes, "sorted_indices": packed.sorted_indices,
            "unsorted_indices": packed.unsorted_indices, "text": text}


def padded(lengths, tail, batch_first, dtype=torch.float32):
    sizes = (len(lengths), max(lengths)) if batch_first else (max(lengths), len(lengths))
    return torch.randn(*sizes, *tail).mul(10).round().to(dtype) if dtype == torch.int64 else torch.randn(*sizes, *tail, dtype=dtype)


def packing(rng):
    rows = [([5, 4, 4, 1], True), ([2, 1, 3], False), ([3, 3, 3], True), ([1], True), ([4, 2, 4, 2, 7], False), ([6, 6, 2, 2, 1], True)]
    for lengths, is_sorted in rows:
        for tail in ((), (3,), (2, 2)):
            batch_first = rng.random() < 0.5
            dtype = rng.choice([torch.float32, torch.float64, torch.int64])
            x = padded(lengths, tail, batch_first, dtype)
            how = {"lengths": lengths, "batch_first": batch_first, "enforce_sorted": is_sorted}

            def pack(x, how=how):
                return rnn.pack_padded_sequence(x, torch.tensor(how["lengths"]), how["batch_first"], how["enforce_sorted"])

            def printed(x=x, how=how):
                return str(rnn.pack_padded_sequence(x.detach(), how["lengths"], how["batch_first"], how["enforce_sorted"]))

            record("pack_padded_sequence", how, {"x": x}, lambda: packed_parts(pack(x), printed()))
            for value, extra in ((0.0, 0), (-2.0, 3)):
                total = max(lengths) + extra if extra else None
                first = rng.random() < 0.5
                record("pad_packed_sequence", {**how, "padding_value": value, "total_length": total, "result_batch_first": first},
                       {"x": x}, lambda: dict(zip(("padded", "lengths"), rnn.pad_packed_sequence(pack(x), first, value, total))))


def lists(rng):
    for lengths in ([4, 3, 1], [2, 5, 3, 1], [3], [2, 2]):
        for tail in ((), (2,)):
            sequences = {"s%d" % i: torch.randn(n, *tail) for i, n in enumerate(lengths)}
            for side in ("right", "left"):
                first = rng.random() < 0.5
                record("pad_sequence", {"batch_first": first, "padding_value": 1.5, "padding_side": side}, dict(sequences),
                       lambda: {"padded": rnn.pad_sequence(list(sequences.values()), first, 1.5, side)})
            record("pack_sequence", {"enforce_sorted": False}, dict(sequences),
                   lambda: packed_parts(rnn.pack_sequence(list(sequences.values()), False)))
            record("unpack_sequence", {"enforce_sorted": False}, dict(sequences),
                   lambda: {"s%d" % i: s for i, s in enumerate(rnn.unpack_sequence(rnn.pack_sequence(list(sequences.values()), False)))})
        whole = torch.randn(len(lengths), max(lengths), 2)
        record("unpad_sequence", {"lengths": lengths}, {"x": whole},
               lambda: {"s%d" % i: s for i, s in enumerate(rnn.unpad_sequence(whole, torch.tensor(lengths), True))})


def layers(rng):
    settings = [{}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True}, {"bias": False},
                {"num_layers": 3, "batch_first": True}, {"proj_size": 2}, {"proj_size": 2, "num_layers": 2, "bidirectional": True},
                {"nonlinearity": "relu"}, {"num_layers": 2, "dtype": "f64"}]
    for kind in ("RNN", "LSTM", "GRU"):
        for kwargs in settings:
            if "proj_size" in kwargs and kind != "LSTM" or "nonlinearity" in kwargs and kind != "RNN":
                continue
            for lengths, is_sorted in (([5, 4, 4, 1], True), ([2, 6, 3], False), ([3, 3], True)):
                layer_case(kind, dict(kwargs), lengths, is_sorted, rng.random() < 0.5)


def layer_case(kind, kwargs, lengths, is_sorted, with_state):
    dtype = torch.float64 if kwargs.pop("dtype", None) else torch.float32
    layer = getattr(torch.nn, kind)(3, 4, **kwargs).to(dtype)
    x = padded(lengths, (3,), False, dtype)
    count = kwargs.get("num_layers", 1) * (2 if kwargs.get("bidirectional") else 1)
    inputs = {"x": x, **{"param." + name: p for name, p in layer.named_parameters()}}
    if with_state:
        inputs["h0"] = torch.randn(count, len(lengths), kwargs.get("proj_size") or 4, dtype=dtype)
        if kind == "LSTM":
            inputs["c0"] = torch.randn(count, len(lengths), 4, dtype=dtype)

    def run():
        packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=is_sorted)
        state = inputs.get("h0") if kind != "LSTM" else (inputs["h0"], inputs["c0"]) if with_state else None
        out, last = layer(packed, state)
        h, c = last if kind == "LSTM" else (last, None)
        return {**packed_parts(out), "h": h, **({"c": c} if c is not None else {})}

    record(kind, {"kwargs": {**kwargs, **({"dtype": "f64"} if dtype == torch.float64 else {})}, "lengths": lengths,
                  "enforce_sorted": is_sorted}, inputs, run)


def errors():
    x = torch.randn(4, 3, 2)
    for lengths, is_sorted in (([4, 2], True), ([1, 2, 3], True), ([4, 2, 0], True), ([4, 2, -1], False)):
        record("pack_padded_sequence", {"lengths": lengths, "batch_first": False, "enforce_sorted": is_sorted}, {"x": x.clone()},
               lambda: packed_parts(rnn.pack_padded_sequence(x, lengths, enforce_sorted=is_sorted)))
    empty = torch.zeros(0, 3, 2)
    record("pack_padded_sequence", {"lengths": [1, 1, 1], "batch_first": False, "enforce_sorted": True}, {"x": empty},
           lambda: packed_parts(rnn.pack_padded_sequence(empty, [1, 1, 1])))
    record("pad_packed_sequence", {"lengths": [4, 3, 1], "batch_first": False, "enforce_sorted": True, "padding_value": 0.0,
                                   "total_length": 3, "result_batch_first": False}, {"x": x.clone()},
           lambda: {"padded": rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [4, 3, 1]), total_length=3)})
    two = {"s0": torch.ones(2), "s1": torch.ones(3)}
    record("pack_sequence", {"enforce_sorted": True}, two, lambda: packed_parts(rnn.pack_sequence(list(two.values()))))
    odd = {"s0": torch.ones(2), "s1": torch.ones(3, 2)}
    for side, sequences in (("right", odd), ("up", two), ("right", {})):
        record("pad_sequence", {"batch_first": False, "padding_value": 0.0, "padding_side": side}, dict(sequences),
               lambda: {"padded": rnn.pad_sequence(list(sequences.values()), padding_side=side)})
    for lengths in ([1], [1, 2, 3, 4]):
        whole = torch.ones(3, 4)
        record("unpad_sequence", {"lengths": lengths}, {"x": whole},
               lambda: {"s": rnn.unpad_sequence(whole, torch.tensor(lengths), True)})
    layer_errors()


def layer_errors():
    for kind, sizes, state in (("GRU", (4, 3, 3), None), ("GRU", (4, 3, 2), (1, 2, 4)), ("GRU", (4, 3), None), ("RNN", (4, 3, 3), None),
                               ("RNN", (4, 3, 2), (2, 3, 4))):
        layer, x = getattr(torch.nn, kind)(2, 4), torch.randn(*sizes)
        inputs = {"x": x, **{"param." + name: p for name, p in layer.named_parameters()}}
        if state:
            inputs["h0"] = torch.randn(*state)
        record(kind, {"kwargs": {"input_size": 2}, "lengths": [4, 3, 1], "enforce_sorted": True}, inputs,
               lambda: packed_parts(layer(rnn.pack_padded_sequence(x, [4, 3, 1]), inputs.get("h0"))[0]))
    # An LSTM does not check packed rows: what it says is a product's error.
    for kind in ("RNN", "GRU"):
        layer, x = getattr(torch.nn, kind)(3, 4), torch.randn(4, 3, 3, dtype=torch.float64)
        record(kind, {"kwargs": {}, "lengths": [4, 3, 1], "enforce_sorted": True},
               {"x": x, **{"param." + name: p for name, p in layer.named_parameters()}},
               lambda: packed_parts(layer(rnn.pack_padded_sequence(x, [4, 3, 1]))[0]))


def main():
    rng = random.Random(SEED)
    torch.manual_seed(SEED)
    packing(rng)
    lists(rng)
    layers(rng)
    errors()
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "cases.json").write_text(json.dumps({"torch": torch.__version__, "cases": cases}))
    save_file(arrays, str(FOLDER / "cases.safetensors"))
    print(len(cases), "cases,", sum("error" in case for case in cases), "of them errors")


if __name__ == "__main__":
    main()
