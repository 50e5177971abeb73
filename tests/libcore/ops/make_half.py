#!/usr/bin/env python3
"""Makes tests/golden/half.tar.xz with PyTorch: the operations of runtime/ops.json in float16 and bfloat16, with results
and gradients or, where PyTorch has none, its error. Usage: make_half.py MAKE FOLDER [--seed N]
(needs: pip install torch safetensors), where MAKE is the folder of the generators of the golden data of the runtime.

FOLDER/half/ops.json         cases as in runtime/ops.json; "rooms": how far the numbers of an array are at most from those
                             that float64 gives; "error": the text, in place of "outputs"; "autocast": the type
                             of mixed precision that forward ran in, on f32
FOLDER/half/ops.safetensors  their arrays
FOLDER/half/scaler.json      "settings"; steps with a GradScaler: the scale and the parameter after each
FOLDER/half/float8.json      what each of the 256 codes means, and the codes of given floats
"""

import pathlib
import struct
import sys

MAKE, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, MAKE)

import gen_ops as ops  # noqa: E402
from common import HEAD, Arrays, args, dump, torch  # noqa: E402

# Operations of which mixed precision knows nothing.
PLAIN = ("Tensor.", "inplace.", "list.", "getitem", "scalar.", "rscalar.", "to")
# Layers of many steps, where roundings meet by chance: each array has the room of the one that needs most.
STEPS = ("nn.RNN", "nn.GRU", "nn.LSTM", "nn.TransformerEncoderLayer")
LINALG = ["det", "inv", "cholesky", "qr", "svdvals", "eigvalsh", "slogdet", "matrix_rank", "pinv"]


def more(r):
    """What ops.json has not: three dimensions, sizes whose sums show the rule of rounding, what PyTorch refuses."""
    f, i, uniq, tr, pos = ops.f, ops.i, ops.uniq, ops.tr, ops.pos
    yield "F.max_pool3d", [uniq(2, 3, 4, 4, 6)], {"kernel_size": 2}
    yield "F.avg_pool3d", [f(2, 3, 4, 4, 6)], {"kernel_size": 2}
    yield "F.avg_pool3d", [f(2, 3, 4, 4, 6)], {"kernel_size": 3, "stride": 1, "padding": 1}
    yield "F.adaptive_avg_pool3d", [f(2, 3, 4, 4, 6)], {"output_size": 2}
    yield "F.conv_transpose3d", [f(1, 2, 3, 3, 4), f(2, 3, 2, 2, 2), f(3)], {"stride": 2}
    yield "F.conv2d", [f(2, 16, 8, 8), f(16, 16, 3, 3), f(16)], {"padding": 1}
    yield "F.conv2d", [f(2, 16, 7, 7), f(16, 4, 3, 3), f(16)], {"padding": 1, "groups": 4}
    yield "F.conv1d", [f(2, 8, 40), f(8, 8, 5), f(8)], {"stride": 2}
    yield "F.linear", [f(17, 70), f(24, 70), f(24)], {}
    yield "F.linear", [f(4, 300), f(16, 300), f(16)], {}
    yield "torch.matmul", [f(17, 70), f(70, 24)], {}
    yield "torch.bmm", [f(3, 10, 40), f(3, 40, 10)], {}
    yield "torch.matmul", [f(300), f(300)], {}
    yield "torch.matmul", [f(10, 300), f(300)], {}
    yield "F.layer_norm", [f(3, 300), pos(300), f(300)], {"normalized_shape": [300]}
    yield "F.softmax", [f(3, 300)], {"dim": 1}
    yield "F.log_softmax", [f(3, 300)], {"dim": 1}
    yield "F.cross_entropy", [f(20, 30), i(0, 30, 20)], {}
    yield "F.nll_loss", [f(400, 3), i(0, 3, 400)], {}
    yield "torch.sum", [f(3000)], {}
    yield "torch.sum", [f(70, 20)], {"dim": 0}
    yield "torch.mean", [f(10, 90)], {"dim": 1}
    yield "torch.var", [f(10, 90)], {"dim": 1}
    yield "torch.norm", [f(10, 90)], {}
    yield "torch.cumsum", [f(3, 200)], {"dim": 1}
    yield "torch.index_add", [f(5, 8), i(0, 5, 60), f(60, 8)], {"dim": 0}, None, "mid1"
    yield "torch.scatter_add", [f(5, 4), i(0, 5, 60, 4), f(60, 4)], {"dim": 0}, None, "mid1"
    yield "torch.gather", [f(5, 4), i(0, 5, 60, 4)], {"dim": 0}, None, "mid1"
    yield "torch.index_select", [f(5, 8), i(0, 5, 60)], {"dim": 0}, None, "mid1"
    yield "embedding", [i(0, 7, 60), f(7, 8)], {}
    yield "batch_norm", [f(4, 6, 8, 8), f(6), pos(6), pos(6), f(6)], {"training": True}
    yield "group_norm", [f(2, 12, 6, 6), pos(12), f(12)], {"num_groups": 3}
    yield "F.scaled_dot_product_attention", [f(1, 2, 24, 8), f(1, 2, 24, 8), f(1, 2, 24, 8)], {"is_causal": True}
    for kind in ("GRU", "LSTM"):
        yield "nn." + kind, [f(8, 3, 6)], {"input_size": 6, "hidden_size": 10}
    for name in LINALG:
        yield "torch.linalg." + name, [f(3, 3)], {}


def record(name, row, seed, dtype, arrays):
    """The case of a row, or the case of its error."""
    mine = Arrays()
    generator = torch.Generator().manual_seed(seed)
    try:
        case = ops.record(name, row, generator, dtype, mine)
        if dtype != torch.float32:
            case["rooms"] = rooms(mine.d, exact(name, row, seed, dtype))
            if row[0] in STEPS:
                case["rooms"] = dict.fromkeys(case["rooms"], max(case["rooms"].values()))
    except (RuntimeError, NotImplementedError, ValueError) as error:
        case = refused(name, row, seed, dtype, mine, str(error).split("\n")[0])
    arrays.d.update(mine.d)
    return case


def exact(name, row, seed, dtype):
    """The arrays of a row on the same inputs, computed in float64."""
    randn, make = torch.randn, ops.make

    def rounded(*sizes, **options):
        return randn(*sizes, **options).to(dtype).to(torch.float64)

    def made(spec, generator, _):
        t = make(spec, generator, dtype)
        return t.to(torch.float64) if t.dtype.is_floating_point else t

    torch.randn, ops.make, arrays = rounded, made, Arrays()
    try:
        ops.record(name, row, torch.Generator().manual_seed(seed), torch.float64, arrays)
    finally:
        torch.randn, ops.make = randn, make
    return arrays.d


def rooms(arrays, wanted):
    """The largest finite distance of each array; none where it is nothing."""
    result = {}
    for key, value in arrays.items():
        if not value.dtype.is_floating_point or value.numel() == 0 or key not in wanted or "/in" in key or "/param" in key:
            continue
        off = (value.double() - wanted[key].double()).abs()
        off = off[off.isfinite()]
        if off.numel() and 0 < off.max() < 1e30:
            result[key] = float("%.3g" % off.max().item())
    return result


def refused(name, row, seed, dtype, arrays, text):
    arrays.d = {key: value for key, value in arrays.d.items() if "/in" in key or "/param." in key}
    inputs = []
    for k, spec in enumerate(row[1]):
        key = "%s/in%d" % (name, k)
        known = key in arrays.d
        wants = known and arrays.d[key].dtype.is_floating_point and ops.differentiable(row[0], k, spec)
        inputs.append({"array": key, "requires_grad": wants, "swap_last_two_dims": spec[0] == "normal_t"} if known else None)
    positional = row[3] if len(row) > 3 and row[3] is not None else []
    case = {"id": name, "op": row[0], "dtype": ops.DT_NAME[dtype], "inputs": inputs, "args": ops.clean(positional),
            "kwargs": ops.clean(row[2]), "error": text}
    if row[0].startswith("nn."):
        module = getattr(torch.nn, row[0][3:])(**row[2])
        case["params"] = {n: "%s/param.%s" % (name, n) for n, _ in module.named_parameters()}
    return case


def under_autocast(name, row, seed, lower, arrays):
    """The case of a row on f32, forward in mixed precision."""
    grad = torch.autograd.grad

    def plain_grad(*args, **kwargs):
        with torch.autocast("cpu", enabled=False):
            return grad(*args, **kwargs)

    torch.autograd.grad = plain_grad
    try:
        with torch.autocast("cpu", dtype=lower):
            case = record(name, row, seed, torch.float32, arrays)
    finally:
        torch.autograd.grad = grad
    return dict(case, autocast=ops.DT_NAME[lower])


SCALER = {"start": [0.5, -1.0, 2.0], "init_scale": 1024.0, "growth_interval": 3, "max_norm": 1.0, "lr": 0.1, "momentum": 0.9}


def scaler():
    """Steps of optimizers on one parameter, some of which meet an infinite gradient; momentum is that of SGD."""
    lr, result = SCALER["lr"], []
    makers = {
        "SGD": lambda p: torch.optim.SGD(p, lr=lr, momentum=SCALER["momentum"]),
        "Adam": lambda p: torch.optim.Adam(p, lr=lr),
        "AdamW": lambda p: torch.optim.AdamW(p, lr=lr),
        "RMSprop": lambda p: torch.optim.RMSprop(p, lr=lr),
        "Adagrad": lambda p: torch.optim.Adagrad(p, lr=lr),
        "Adamax": lambda p: torch.optim.Adamax(p, lr=lr),
        "NAdam": lambda p: torch.optim.NAdam(p, lr=lr),
        "RAdam": lambda p: torch.optim.RAdam(p, lr=lr),
        "Rprop": lambda p: torch.optim.Rprop(p, lr=lr),
        "ASGD": lambda p: torch.optim.ASGD(p, lr=lr),
        "Adadelta": lambda p: torch.optim.Adadelta(p, lr=lr),
    }
    for name, make in makers.items():
        for clips in (False, True):
            weight = torch.tensor(SCALER["start"], requires_grad=True)
            optimizer, steps = make([weight]), []
            amp = torch.amp.GradScaler("cpu", init_scale=SCALER["init_scale"], growth_interval=SCALER["growth_interval"])
            for factor in (1.0, 2.0, float("inf"), 0.5, 1.0, float("nan"), 3.0, 1.0, 1.0, 1.0, 1.0, 1.0):
                optimizer.zero_grad()
                amp.scale((weight * weight).sum() * factor).backward()
                if clips:
                    amp.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_([weight], SCALER["max_norm"])
                amp.step(optimizer)
                amp.update()
                steps.append({"factor": ops.clean(factor), "scale": amp.get_scale(), "weight": weight.tolist(),
                              "growth_tracker": amp.state_dict()["_growth_tracker"]})
            result.append({"optimizer": name, "clips": clips, "steps": steps})
    return result


def has_floats(row):
    return row[0].startswith("nn.") or any(spec and spec[0] not in ("int", "bool") for spec in row[1])


def words(values):
    return [struct.pack(">f", value).hex() for value in values]


def float8():
    random = torch.Generator().manual_seed(8)
    given = torch.cat([
        torch.randn(400, generator=random), torch.randn(400, generator=random) * 300,
        torch.randn(300, generator=random) * 1e-2, torch.randn(300, generator=random) * 2e-5,
        torch.tensor([0.0, -0.0, 448.0, 449.0, 463.9, 464.0, 464.1, 480.0, 57344.0, 61439.0, 61440.0, 61441.0, 65536.0, 1e30, -1e30,
                      float("inf"), -float("inf"), float("nan"), 2.0**-9, 2.0**-10, 2.0**-16, 2.0**-17, 1e-45, -1e-45])])
    result = {}
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu):
        codes = torch.arange(256).to(torch.uint8).view(dtype)
        positive = given.abs() if dtype == torch.float8_e8m0fnu else given
        halves = [positive.to(t).to(dtype).view(torch.uint8).tolist() for t in (torch.float16, torch.bfloat16)]
        result[str(dtype)[6:]] = {"values": words(codes.float().tolist()), "given": words(positive.tolist()),
                                  "codes": positive.to(dtype).view(torch.uint8).tolist(), "codes_f16": halves[0],
                                  "codes_bf16": halves[1]}
    return result


def main():
    sys.argv = [sys.argv[0], "--out", str(FOLDER / "half")] + sys.argv[3:]
    a = args(__doc__)
    arrays, cases = Arrays(), []
    rows = [row for row in ops.table(a.rng) if has_floats(row) and not row[0].startswith("factory.")]
    for row in rows + list(more(a.rng)):
        base = row[0].replace("torch.", "").replace("F.", "").replace("Tensor.", "").replace("*", "")
        for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
            number = sum(case["id"].startswith("%s_%s_" % (base, name)) for case in cases)
            cases.append(record("%s_%s_%d" % (base, name, number), row, a.rng.randrange(2**31), dtype, arrays))
    seen = set()
    for row in rows + list(more(a.rng)):
        if row[0] in seen or row[0].startswith(("nn.GRU", "nn.LSTMCell", "torch.linalg", *PLAIN)):
            continue
        seen.add(row[0])
        cases.append(under_autocast("autocast_" + row[0].replace("*", ""), row, a.rng.randrange(2**31), torch.bfloat16, arrays))
    dump(str(FOLDER / "half" / "ops.json"), HEAD, cases=cases)
    dump(str(FOLDER / "half" / "scaler.json"), HEAD, settings=SCALER, runs=scaler())
    arrays.save(str(FOLDER / "half" / "ops.safetensors"))
    dump(str(FOLDER / "half" / "float8.json"), HEAD, types=float8())
    print(len(cases), "cases,", sum("error" in case for case in cases), "of them refused")


if __name__ == "__main__":
    main()
