#!/usr/bin/env python3
"""Makes tests/golden/inventory.tar.xz with PyTorch: operations that only tests/libcore/inventory.py asks for, among them
orthogonal polynomials, Hermitian transforms, LDL factors, copies of views, segments, groups of products and rounding to
8-bit steps, with results and gradients or, where PyTorch refuses, its error.
Usage: make_inventory.py FOLDER [--seed N] (needs: pip install torch safetensors).

FOLDER/inventory/ops.json         cases as in complex/ops.json
FOLDER/inventory/ops.safetensors  their arrays
"""

import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

FOLDER = pathlib.Path(sys.argv[1])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 11
f32, f64, c64, c128, i64, i32 = torch.float32, torch.float64, torch.complex64, torch.complex128, torch.int64, torch.int32
half, bf16 = torch.float16, torch.bfloat16
generator = torch.Generator().manual_seed(SEED)
arrays, cases = {}, []
REFUSALS = (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError)


def make(dtype, *sizes):
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) > 0.5
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(-4, 5, sizes, generator=generator).to(dtype)
    wide = f32 if dtype in (half, bf16) else dtype
    return torch.randn(sizes, generator=generator, dtype=wide).to(dtype)


def keep(name, t):
    t = t.detach().resolve_conj().resolve_neg()
    if t.is_complex():
        name, t = name + "~", torch.view_as_real(t)
    arrays[name] = t.contiguous().clone()
    return name


def case(op, call, inputs, kwargs=None, grads=True):
    """One case; what PyTorch refuses is one of its error."""
    kwargs = kwargs or {}
    name = "%04d.%s" % (len(cases), op)
    inputs = [None if x is None else x.clone().requires_grad_(grads and (x.is_floating_point() or x.is_complex()))
              for x in inputs]
    record = {"id": name, "op": op, "args": [], "kwargs": kwargs, "inputs": []}
    for k, x in enumerate(inputs):
        record["inputs"].append(None if x is None else {"array": keep("%s/in%d" % (name, k), x),
                                "requires_grad": x.requires_grad, "swap_last_two_dims": False})
    cases.append(record)
    try:
        outputs = call(*inputs)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        for y in outputs:
            if y.requires_grad and "NotImplemented" in str(y.grad_fn):
                y.sum().backward()
    except REFUSALS as error:
        record["error"] = str(error).split("\n")[0]
        return
    record["outputs"] = [keep("%s/out%d" % (name, k), y) for k, y in enumerate(outputs)]
    record["grad_outputs"] = None
    roots = [(k, y) for k, y in enumerate(outputs) if y.requires_grad]
    wanted = [(k, x) for k, x in enumerate(inputs) if x is not None and x.requires_grad]
    if not roots or not wanted:
        return
    ups = {k: make(y.dtype, *y.shape) for k, y in roots}
    found = torch.autograd.grad([y for _, y in roots], [x for _, x in wanted], [ups[k] for k, _ in roots],
                                allow_unused=True)
    record["grad_outputs"] = [keep("%s/up%d" % (name, k), ups[k]) if k in ups else None for k in range(len(outputs))]
    record["grads"] = [None] * len(inputs)
    for (k, _), g in zip(wanted, found):
        record["grads"][k] = None if g is None else keep("%s/grad%d" % (name, k), g)


def plain(op, *inputs, grads=True, **kwargs):
    """torch.X of tensors and keywords that both sides read alike."""
    function = torch
    for part in op.split(".")[1:]:
        function = getattr(function, part)
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in kwargs.items()}
    case(op, lambda *x: function(*x, **given), inputs, kwargs, grads)


POLYNOMIALS = ["chebyshev_polynomial_" + k for k in "tuvw"] + ["shifted_chebyshev_polynomial_" + k for k in "tuvw"] + [
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]


def polynomials():
    for name in POLYNOMIALS:
        op, function = "torch.special." + name, getattr(torch.special, name)
        degrees = torch.tensor([-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 20])
        points = torch.tensor([-2.5, -1, -0.999, -0.5, -0.2, 0, 0.1, 0.3, 0.5, 0.75, 0.999, 1, 1.5])
        for dtype in (f32, f64):
            plain(op, points.to(dtype).unsqueeze(1), degrees.to(dtype))
            plain(op, points.to(dtype).unsqueeze(1), degrees)
            case(op + ".of_number", lambda n, f=function: f(0.4, n), [degrees.to(dtype)], {"x": 0.4})
            case(op + ".by_number", lambda x, f=function: f(x, 5), [points.to(dtype)], {"n": 5})
        plain(op, points[:3].to(f64), torch.tensor([3.0, 4.7, -0.5]))
        plain(op, torch.tensor([-3, 0, 1, 2]), torch.tensor([3, 4, 2, 5], dtype=i32))
        plain(op, torch.tensor([float("nan"), 0.5, float("inf")]), torch.tensor([3, 140, 2]))
        plain(op, torch.tensor([0.2, 0.01], dtype=f64), torch.tensor([400, 513]))
        case(op + ".by_number", lambda x, f=function: f(x, 2.5), [torch.tensor([3, 4])], {"n": 2.5})
        for dtype in (half, bf16, c64):
            plain(op, make(dtype, 2), make(dtype, 2))
        plain(op, make(f32, 2), make(f32, 3))
    for dtype in (f32, f64):
        x = torch.linspace(-30, 10, 121, dtype=f64)
        near = (x > -6) & (x < -2.09)  # where PyTorch's values are wrong by up to 7e-7
        plain("torch.special.airy_ai", (x[~near] if dtype is f64 else x).to(dtype))
        plain("torch.special.airy_ai", torch.tensor([0, -2.08, 2.09, 104, 103.8, float("inf"), float("-inf"), float("nan")],
                                                    dtype=dtype))
    plain("torch.special.airy_ai", torch.tensor([-3, 0, 1, 2]))
    for dtype in (half, bf16, c64):
        plain("torch.special.airy_ai", make(dtype, 2))


def transforms():
    for norm in ("backward", "ortho", "forward", "x"):
        for op in ("hfft2", "hfftn"):
            plain("torch.fft." + op, make(c64, 2, 4, 5), norm=norm)
            plain("torch.fft." + op, make(c128, 3, 4, 5), norm=norm, dim=[0, 2], s=[4, 3])
            plain("torch.fft." + op, make(f64, 3, 4, 6), norm=norm, s=[-1, 8])
        for op in ("ihfft2", "ihfftn"):
            plain("torch.fft." + op, make(f32, 2, 4, 5), norm=norm)
            plain("torch.fft." + op, make(f64, 3, 4, 5), norm=norm, dim=[0, 2], s=[4, 3])
            plain("torch.fft." + op, make(f32, 3, 4, 6), norm=norm, s=[-1, 8])
    for op in ("hfft2", "hfftn", "ihfft2", "ihfftn"):
        plain("torch.fft." + op, make(i64, 3, 4))
        plain("torch.fft." + op, make(c64, 3, 1))
        plain("torch.fft." + op, make(half, 3, 4))
        plain("torch.fft." + op, make(f32, 3, 4), dim=[0, 0])
        plain("torch.fft." + op, make(f32, 3, 4), dim=[1], s=[7])
    plain("torch.fft.hfft2", make(c64, 4))
    plain("torch.fft.ihfft2", make(f32, 4))


def matrices():
    l = torch.linalg
    for dtype in (f32, f64, c64, c128):
        for batch in ((), (2,)):
            a = make(dtype, *batch, 4, 4)
            b = make(dtype, *batch, 4, 2)
            for hermitian in (False, True):
                given = {"hermitian": hermitian}
                symmetric = a + (a.mH if hermitian else a.mT)
                case("linalg.ldl_factor_ex", lambda x, k=given: l.ldl_factor_ex(x, **k), [symmetric], given, grads=False)
                case("linalg.ldl_factor", lambda x, k=given: l.ldl_factor(x, **k), [symmetric], given, grads=False)
                case("linalg.ldl_solve", lambda x, y, k=given: l.ldl_solve(*l.ldl_factor(x, **k), y, **k), [symmetric, b],
                     given, grads=False)
            if not batch:  # with a batch PyTorch crashes
                case("linalg.ldl_solve", lambda x, y: l.ldl_solve(*l.ldl_factor(x), y), [a + a.mT, make(dtype, 3, 4, 1)],
                     {"hermitian": False}, grads=False)
            positive = a @ a.mH + torch.eye(4, dtype=dtype)
            case("linalg.matrix_sqrth", l.matrix_sqrth, [positive])
            for sizes in ((4, 4), (4, 2), (2, 4)):
                lu, pivots = l.lu_factor(make(dtype, *batch, *sizes))
                plain("torch.lu_unpack", lu, pivots)
                plain("torch.lu_unpack", lu, pivots, unpack_data=False, grads=False)
                plain("torch.lu_unpack", lu, pivots, unpack_pivots=False)
    case("linalg.ldl_factor", l.ldl_factor, [torch.eye(2)], {"hermitian": False})
    for bad in (make(f32, 2, 3), make(i64, 2, 2), make(half, 2, 2), make(f32, 3)):
        case("linalg.ldl_factor_ex", l.ldl_factor_ex, [bad], {"hermitian": False}, grads=False)
        case("linalg.matrix_sqrth", l.matrix_sqrth, [bad], grads=False)
    ld, pivots = l.ldl_factor(torch.tensor([[2.0, 1], [1, 0]]))
    for b, p in ((make(f64, 2, 1), pivots), (make(f32, 3, 1), pivots), (make(f32, 2, 1), pivots.float()),
                 (make(f32, 2, 1), pivots[:1])):
        case("linalg.ldl_solve_with", l.ldl_solve, [ld, p, b], grads=False)
    lu, pivots = l.lu_factor(make(f32, 3, 3))
    for bad, p in ((lu, pivots.long()), (lu[0], pivots), (lu, pivots[:2])):
        plain("torch.lu_unpack", bad, p, grads=False)
    for dims in ([0, 1], [1], [], [0, 1, 2]):
        for keepdim in (False, True):
            plain("torch.frobenius_norm", make(f64, 3, 4, 2), dim=dims, keepdim=keepdim)
    plain("torch.nuclear_norm", make(f32, 3, 4))
    plain("torch.nuclear_norm", make(f32, 3, 4), keepdim=True)
    plain("torch.nuclear_norm", make(f64, 3, 4, 2), dim=[0, 2])
    plain("torch.nuclear_norm", make(f32, 3))
    offsets = torch.tensor([3, 8], dtype=i32)
    for dtype in (f32, bf16, half):
        plain("torch.nn.functional.grouped_mm", make(dtype, 8, 16), make(dtype, 2, 16, 8), offsets, grads=False)
        plain("torch.nn.functional.grouped_mm", make(dtype, 2, 8, 16), make(dtype, 2, 16, 8), grads=False)
        plain("torch.nn.functional.grouped_mm", make(dtype, 8, 8), make(dtype, 8, 8), offsets, grads=False)
        plain("torch.nn.functional.grouped_mm", make(dtype, 2, 8, 16), make(dtype, 16, 8), offsets, grads=False)
    for a, b, o in ((make(f32, 8, 16), make(f32, 2, 16, 8), None), (make(f32, 8, 16), make(bf16, 2, 16, 8), offsets),
                    (make(f64, 8, 16), make(f64, 2, 16, 8), offsets), (make(f32, 8, 16), make(f32, 2, 12, 8), offsets),
                    (make(f32, 8, 16), make(f32, 2, 16, 8), offsets.long()),
                    (make(f32, 8, 16), make(f32, 3, 16, 8), offsets), (make(f32, 16), make(f32, 2, 16, 8), offsets),
                    (make(f32, 3, 8, 16), make(f32, 2, 16, 8), None)):
        case("torch.nn.functional.grouped_mm", lambda *x: F.grouped_mm(x[0], x[1], offs=x[2]), [a, b, o], grads=False)


def copies():
    x = lambda: make(f32, 2, 3, 4)
    plain("torch.alias_copy", x())
    plain("torch.detach_copy", x())
    plain("torch.as_strided_copy", x(), size=[2, 2], stride=[3, 1], storage_offset=2)
    plain("torch.diagonal_copy", x(), offset=1, dim1=1, dim2=2)
    plain("torch.expand_copy", make(f64, 2, 1), size=[3, 2, 4])
    plain("torch.permute_copy", x(), dims=[2, 0, 1])
    plain("torch.select_copy", x(), dim=1, index=-1)
    plain("torch.slice_copy", x(), dim=2, start=1, end=4, step=2)
    plain("torch.squeeze_copy", make(f32, 2, 1, 3))
    plain("torch.squeeze_copy", make(f32, 2, 1, 1), dim=1)
    plain("torch.unsqueeze_copy", x(), dim=-1)
    plain("torch.t_copy", make(f32, 2, 3))
    plain("torch.transpose_copy", x(), dim0=0, dim1=2)
    plain("torch.unfold_copy", x(), dimension=2, size=3, step=1)
    plain("torch.view_copy", x(), size=[6, 4])
    plain("torch.view_as_real_copy", make(c64, 3))
    plain("torch.view_as_complex_copy", make(f32, 3, 2))
    plain("torch.split_copy", x(), split_size=3, dim=2)
    plain("torch.split_with_sizes_copy", x(), split_sizes=[1, 3], dim=2)
    plain("torch.unbind_copy", x(), dim=1)
    plain("torch.constant_pad_nd", x(), pad=[1, 2, -1, 0], value=3.5)


def counts():
    points = make(f32, 20, 2)
    for dtype in (f32, f64):
        p = points.to(dtype)
        case("torch.histogramdd", lambda x: (lambda h: [h[0], *h[1]])(torch.histogramdd(x, [2, 3])), [p], {"bins": [2, 3]},
             grads=False)
        case("torch.histogramdd", lambda x: (lambda h: [h[0], *h[1]])(torch.histogramdd(x, [2, 3], range=[-1.0, 1, 0, 2],
             density=True)), [p], {"bins": [2, 3], "range": [-1, 1, 0, 2], "density": True}, grads=False)
        case("torch.histogramdd", lambda x, w: (lambda h: [h[0], *h[1]])(torch.histogramdd(x, 4, weight=w)),
             [p, make(dtype, 20).abs()], {"bins": [4]}, grads=False)
    for x, given in ((points, {"bins": [2, 3, 4]}), (points, {"bins": [2, 3], "range": [0, 1]}), (points[0], {"bins": [2]}),
                     (points.long(), {"bins": [2, 2]}), (points, {"bins": [2, 0]}),
                     (points, {"bins": [2, 2], "range": [0, 1, 3, 2]})):
        floats = dict(given, range=[float(v) for v in given["range"]]) if "range" in given else given
        case("torch.histogramdd", lambda y, k=floats: torch.histogramdd(y, **k), [x], given, grads=False)
    case("torch.histogramdd", lambda x, w: torch.histogramdd(x, [2, 3], weight=w), [points, make(f32, 3)], {"bins": [2, 3]},
         grads=False)
    case("histogramdd.edges", lambda x, a, b: (lambda h: [h[0], *h[1]])(torch.histogramdd(x, [a, b])),
         [points, torch.tensor([-1.0, 0, 2]), torch.tensor([-2.0, 0.5, 1, 3])], grads=False)
    for dtype in (i64, i32, torch.uint8):
        plain("torch.unravel_index", torch.tensor([[0, 5], [17, 23]], dtype=dtype), shape=[2, 3, 4])
    plain("torch.unravel_index", torch.tensor([3]), shape=[7])
    for bad, shape in ((make(f32, 2), [2]), (make(torch.bool, 2), [2]), (make(i64, 2), [2, -2]), (make(i64, 2), [0])):
        plain("torch.unravel_index", bad, shape=shape, grads=False)
    for dtype in (f32, f64, half, bf16, i64, i32, torch.int8, torch.uint8, torch.bool):
        plain("torch.hash_tensor", make(dtype, 3, 4), grads=False)
        case("torch.hash_tensor", lambda x: torch.hash_tensor(x, dim=(0,), keepdim=True), [make(dtype, 3, 4)],
             {"dim": [0], "keepdim": True}, grads=False)
    case("torch.hash_tensor", lambda x: torch.hash_tensor(x, dim=(0, 2)), [make(f32, 2, 3, 2)], {"dim": [0, 2]}, grads=False)
    plain("torch.hash_tensor", make(f32, 0), grads=False)
    plain("torch.hash_tensor", make(c64, 2), grads=False)


def segments():
    data = torch.tensor([1.0, 3, 3, 0, 2, 5])
    for reduce in ("sum", "mean", "max", "min", "prod"):
        for dtype in (f32, f64):
            plain("torch.segment_reduce", data.to(dtype), reduce=reduce, lengths=[3, 0, 3])
            plain("torch.segment_reduce", make(dtype, 6, 2), reduce=reduce, lengths=[1, 3, 2], initial=0.25)
            plain("torch.segment_reduce", make(dtype, 2, 6), reduce=reduce, lengths=[[1, 3, 2], [2, 2, 2]], axis=1)
            plain("torch.segment_reduce", make(dtype, 6), reduce=reduce, offsets=[0, 2, 2, 6])
    plain("torch.segment_reduce", torch.tensor([1, float("nan"), 2]), reduce="max", lengths=[2, 1])
    for given in ({"lengths": [2, 0, 3]}, {"lengths": [2, -1, 5]}, {}, {"reduce": "foo", "lengths": [6]}):
        plain("torch.segment_reduce", data, **dict({"reduce": "sum"}, **given), grads=False)
    plain("torch.segment_reduce", make(f32, 2, 6), reduce="sum", lengths=[[2, 4]], grads=False)
    plain("torch.segment_reduce", data.long(), reduce="sum", lengths=[6], grads=False)


def rounding():
    for dtype in (f32, f64, half, bf16):
        x = torch.cat([make(dtype, 20) * 20, torch.tensor([0.25, 0.35, 0.05, float("inf")]).to(dtype)])
        given = {"scale": 0.1, "zero_point": 3, "quant_min": -128, "quant_max": 127}
        plain("torch.fake_quantize_per_tensor_affine", x, **given)
        channels = {"axis": 1, "quant_min": 0, "quant_max": 255}
        for zero in (torch.tensor([0, 5, 255], dtype=i32), torch.tensor([0.5, -3, 7])):
            case("torch.fake_quantize_per_channel_affine",
                 lambda y, s, z: torch.fake_quantize_per_channel_affine(y, s.detach(), z.detach(), 1, 0, 255),
                 [make(dtype, 2, 3, 4) * 20, torch.tensor([0.1, 0.2, 0.7]), zero], channels)
    for given in ({"quant_min": 5, "quant_max": 3}, {"zero_point": 300}):
        plain("torch.fake_quantize_per_tensor_affine", make(f32, 2),
              **dict({"scale": 0.1, "zero_point": 3, "quant_min": -128, "quant_max": 127}, **given))
    plain("torch.fake_quantize_per_tensor_affine", make(i64, 2), scale=0.1, zero_point=0, quant_min=0, quant_max=9)
    scales, zeros = torch.ones(2), torch.zeros(2, dtype=i32)
    for s, z, axis in ((torch.ones(3), torch.zeros(3, dtype=i32), 0), (scales, torch.zeros(3, dtype=i32), 0),
                       (scales, zeros.long(), 0), (scales, zeros, 2), (torch.ones(2, 1), zeros, 0), (scales.double(), zeros, 0),
                       (scales, zeros + 300, 0)):
        plain("torch.fake_quantize_per_channel_affine", make(f32, 2, 2), s, z, axis=axis, quant_min=0, quant_max=255,
              grads=False)


def layers():
    for dtype in (f32, f64):
        case("torch.conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b, 1), [make(dtype, 5, 2, 3), make(dtype, 2, 3, 4),
             make(dtype, 4)], {"pad": 1})
    for x, w, b in ((make(f32, 5, 2), make(f32, 2, 3, 4), make(f32, 4)), (make(f32, 5, 2, 3), make(f32, 2, 3), make(f32, 4)),
                    (make(f32, 5, 2, 3), make(f32, 2, 3, 4), make(f32, 4, 1)),
                    (make(f32, 5, 2, 3), make(f32, 2, 2, 4), make(f32, 4)),
                    (make(f32, 5, 2, 3), make(f32, 2, 3, 4), make(f32, 3))):
        case("torch.conv_tbc", lambda *a: torch.conv_tbc(*a, 1), [x, w, b], {"pad": 1}, grads=False)
    for rank, sizes in ((1, (2, 3, 8)), (2, (2, 3, 8, 6)), (3, (1, 2, 4, 6, 4)), (2, (3, 8, 6))):
        pool, unpool = getattr(F, "max_pool%dd" % rank), getattr(F, "max_unpool%dd" % rank)
        for dtype in (f32, f64):
            x = make(dtype, *sizes)
            y, places = pool(x, 2, return_indices=True)
            case("max_unpool%dd" % rank, lambda v, i, u=unpool: u(v, i, 2), [y, places], {"kernel": [2]})
            larger = list(sizes[-rank:])
            larger[-1] += 1
            case("max_unpool%dd" % rank, lambda v, i, u=unpool, o=larger: u(v, i, 2, output_size=o), [y, places],
                 {"kernel": [2], "output_size": larger})
            case("max_unpool%dd" % rank, lambda v, i, u=unpool: u(v, i, 2, output_size=[20] * rank), [y, places],
                 {"kernel": [2], "output_size": [20] * rank}, grads=False)
            case("max_unpool%dd" % rank, lambda v, i, u=unpool: u(v, i, 2, output_size=[20] * 7), [y, places],
                 {"kernel": [2], "output_size": [20] * 7}, grads=False)
    for dtype in (f32, f64):
        target = torch.tensor([2, 0, 3])
        for given in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.1}, {"ignore_index": 0}):
            case("linear_cross_entropy", lambda x, w, t, b, k=given: F.linear_cross_entropy(x, w, t, linear_bias=b, **k),
                 [make(dtype, 3, 5), make(dtype, 4, 5), target, make(dtype, 4)], given)
        case("linear_cross_entropy", lambda i, j, t, k: F.linear_cross_entropy(i, j, t, linear_bias=k),
             [make(dtype, 5), make(dtype, 4, 5), torch.tensor(1), None])
        case("linear_cross_entropy", lambda i, j, t, k: F.linear_cross_entropy(i, j, t, linear_bias=k),
             [make(dtype, 3, 5), make(dtype, 4, 2, 5), torch.tensor([[0, 1], [2, 3], [1, 1]]), None])
    x = make(f32, 2, 3)
    for a, w, b in ((make(f32, 2, 2, 2), make(f32, 4, 2), None), (x, make(f32, 4), None), (x, make(f32, 4, 2), None),
                    (x, make(f32, 4, 3), make(f32, 3)), (x[0], make(f32, 4, 2, 3), None)):
        case("linear_cross_entropy", lambda i, j, t, k: F.linear_cross_entropy(i, j, t, linear_bias=k),
             [a, w, torch.zeros(2, dtype=i64), b], grads=False)
    plain("torch.grid_sampler", make(f32, 1, 2, 4, 5), make(f32, 1, 3, 3, 2) / 2, interpolation_mode=0, padding_mode=2,
          align_corners=True)
    plain("torch.grid_sampler", make(f64, 1, 2, 3, 4, 5), make(f64, 1, 2, 3, 3, 3) / 2, interpolation_mode=0, padding_mode=1,
          align_corners=False)
    case("upsample_nearest", lambda y: F.upsample_nearest(y, scale_factor=2), [make(f32, 1, 2, 3, 4)])
    case("upsample_bilinear", lambda y: F.upsample_bilinear(y, scale_factor=2), [make(f32, 1, 2, 3, 4)])
    case("rrelu_", lambda y: torch.rrelu_(y.clone(), 0.1, 0.3, False), [make(f32, 2, 3)], {"lower": 0.1, "upper": 0.3})
    for op in ("alpha_dropout_", "feature_alpha_dropout_", "feature_dropout_"):
        for p in (0.5, 0.0, 1.0):
            def drop(y, o=op, q=p):
                torch.manual_seed(3)
                return getattr(torch, o)(y * 1, q, True)
            case(op, drop, [make(f32, 4, 5, 2)], {"p": p})
        case(op, lambda y, o=op: getattr(torch, o)(y.clone(), 0.5, True), [make(f32, 4)], {"p": 0.5}, grads=False)
    table = make(f32, 5, 3) * 3
    case("embedding_renorm_", lambda w, i: torch.embedding_renorm_(w.clone(), i, 1.0, 2.0), [table, torch.tensor([0, 3, 3])],
         {"max_norm": 1.0, "norm_type": 2.0}, grads=False)


def made():
    for dtype, name in ((f32, "float32"), (f64, "float64"), (i64, "int64"), (half, "float16")):
        for start, end, steps, base in ((0, 3, 4, 10.0), (-2, 3, 6, 2.0), (2, 3, 1, 10.0), (0, 1, 0, 10.0), (-1.5, 2.25, 9, 3.0)):
            case("torch.logspace", lambda a=start, b=end, s=steps, c=base, d=dtype: torch.logspace(a, b, s, c, dtype=d), [],
                 {"start": start, "end": end, "steps": steps, "base": base, "dtype": name})
        case("torch.scalar_tensor", lambda d=dtype: torch.scalar_tensor(3.75, dtype=d), [], {"value": 3.75, "dtype": name})
        torch.manual_seed(5)
        case("torch.randint_like", lambda x: torch.randint_like(x, 2, 9), [make(dtype, 3, 4)], {"low": 2, "high": 9},
             grads=False)
    case("torch.logspace", lambda: torch.logspace(0, 3, -1), [], {"start": 0, "end": 3, "steps": -1, "base": 10.0,
         "dtype": "float32"})
    for layout in ([0, 2, 1], [2, 1, 0], [0, 1, 1], [0, 1], [0, 1, 3]):
        case("torch.empty_permuted", lambda k=layout: torch.tensor(torch.empty_permuted((2, 3, 5), k).stride()), [],
             {"size": [2, 3, 5], "physical_layout": layout})
    names = ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    case("torch.can_cast", lambda: torch.tensor([[torch.can_cast(getattr(torch, a), getattr(torch, b)) for b in names]
                                                 for a in names]), [], {"names": names})
    case("Tensor.apply_", lambda x: x.clone().apply_(lambda v: v * 2 + 1), [make(f32, 3)], grads=False)
    case("Tensor.apply_", lambda x: x.clone().apply_(lambda v: v * 2 + 1), [make(i64, 3)], grads=False)
    case("Tensor.apply_", lambda x: x.apply_(lambda v: v * 2 + 1), [make(f32, 3)])
    case("Tensor.map_", lambda x, y: x.clone().map_(y, lambda v, w: v * 2 + w), [make(f32, 2, 3), make(f32, 3)], grads=False)
    case("Tensor.map_", lambda x, y: x.clone().map_(y, lambda v, w: v * 2 + w), [make(f32, 3), make(i64, 3)], grads=False)
    case("Tensor.map_", lambda x, y: x.clone().map_(y, lambda v, w: v * 2 + w), [make(f32, 3), make(f32, 2)], grads=False)
    case("Tensor.map2_", lambda x, y, z: x.clone().map2_(y, z, lambda v, w, u: v * 2 + w - u),
         [make(f32, 2, 3), make(f32, 3), make(f32, 2, 1)], grads=False)
    holes = make(f32, 4, 3) * make(torch.bool, 4, 3)
    holes[1] = 0
    for dims in (None, 1, 2):
        case("Tensor.to_sparse", lambda x, d=dims: (lambda s: [s.indices(), s.values()])(x.to_sparse() if d is None else
             x.to_sparse(d)), [holes], {} if dims is None else {"sparse_dim": dims}, grads=False)
        case("Tensor.sparse_mask", lambda x, m, d=dims: (lambda s: [s.indices(), s.values()])(x.sparse_mask(m.to_sparse(
             d or 2))), [make(f32, 4, 3), holes], {"sparse_dim": dims or 2}, grads=False)
    for dims in (0, 3):
        case("Tensor.to_sparse", lambda x, d=dims: x.to_sparse(d), [holes], {"sparse_dim": dims}, grads=False)
    case("Tensor.sparse_mask", lambda x, m: x.sparse_mask(m.to_sparse()), [make(f32, 3, 3), holes], {"sparse_dim": 2},
         grads=False)

    def moved(x, y, u, v):
        value, along = torch.func.linearize(lambda a, b: torch.sin(a) * torch.exp(b) + a * a * b, x, y)
        return value, along(u, v), along(v, u)
    for dtype in (f32, f64):
        case("func.linearize", moved, [make(dtype, 2, 3) for _ in range(4)], grads=False)
        w, b, mean, var, scale, shift = make(dtype, 4, 3, 2, 2), make(dtype, 4), make(dtype, 4), make(dtype, 4).abs(), \
            make(dtype, 4), make(dtype, 4)
        case("fuse_conv_bn_weights", lambda *x: torch.nn.utils.fusion.fuse_conv_bn_weights(x[0], x[1], x[2], x[3], 1e-5, x[4],
             x[5]), [w, b, mean, var, scale, shift], grads=False)
        case("fuse_linear_bn_weights", lambda *x: torch.nn.utils.fusion.fuse_linear_bn_weights(x[0], x[1], x[2], x[3], 1e-5,
             x[4], x[5]), [make(dtype, 4, 3), b, mean, var, scale, shift], grads=False)
        case("get_total_norm", lambda *x: torch.nn.utils.get_total_norm(x, 3.0), [make(dtype, 3), make(dtype, 2, 2)],
             {"norm_type": 3.0}, grads=False)
    case("get_total_norm", lambda *x: torch.nn.utils.get_total_norm(x, 2.0, error_if_nonfinite=True),
         [torch.tensor([1, float("inf")])], {"norm_type": 2.0, "error_if_nonfinite": True}, grads=False)


def borders():
    """Where segments begin later, pivots name no row, nothing is there, and a base is no integer."""
    for reduce in ("sum", "mean", "max", "min", "prod"):
        for offsets in ([1, 3, 6], [0, 2, 4], [2, 2]):
            plain("torch.segment_reduce", make(f32, 6), reduce=reduce, offsets=offsets)
        plain("torch.segment_reduce", make(f64, 2, 5), reduce=reduce, offsets=[[0, 2, 5], [1, 1, 4]], axis=1)
        plain("torch.segment_reduce", make(f32, 0), reduce=reduce, lengths=[0, 0])
    plain("torch.segment_reduce", make(f32, 2), reduce="sum", offsets=[], grads=False)
    lu, pivots = torch.linalg.lu_factor(make(f64, 3, 3))
    for wrong in ([9, 2, 3], [0, 2, 3], [-1, 2, 3]):
        plain("torch.lu_unpack", lu, torch.tensor(wrong, dtype=i32), grads=False)
    ld = torch.linalg.ldl_factor(lu + lu.mT)[0]
    case("linalg.ldl_solve_with", torch.linalg.ldl_solve, [ld[0], pivots, make(f64, 3, 1)], grads=False)
    for op in ("torch.unbind_copy", "torch.split_copy", "torch.split_with_sizes_copy"):
        size = {"split_size": 2} if op == "torch.split_copy" else {"split_sizes": [1]} if "sizes" in op else {}
        plain(op, make(f32), dim=0, **size)
    for sizes in ([4, -1], [3, 4, -4]):
        plain("torch.split_with_sizes_copy", make(f32, 3), split_sizes=sizes, dim=0)
    plain("torch.split_copy", make(f32, 3), split_size=0, dim=0)
    plain("torch.split_copy", make(f32, 0, 2), split_size=0, dim=0)
    case("torch.histogramdd", lambda x: (lambda h: [h[0], *h[1]])(torch.histogramdd(x, [2, 3])), [make(f32, 0, 2)],
         {"bins": [2, 3]}, grads=False)
    plain("torch.unravel_index", torch.zeros(0, 2, dtype=i64), shape=[2, 0])
    case("torch.conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b, 2), [make(f32, 3, 2, 3), make(f32, 4, 3, 5), make(f32, 5)],
         {"pad": 2})
    for start, end, steps, base in ((0, 3, 5, 2.5), (1, -1, 4, 0.5)):
        case("torch.logspace", lambda a=start, b=end, s=steps, c=base: torch.logspace(a, b, s, c, dtype=i64), [],
             {"start": start, "end": end, "steps": steps, "base": base, "dtype": "int64"})


def plain_lists():
    """Lists among the keywords of segment_reduce stand for tensors of integers."""
    original = torch.segment_reduce
    torch.segment_reduce = lambda x, **k: original(x, **{n: torch.tensor(v) if n in ("lengths", "offsets") else v
                                                        for n, v in k.items()})


plain_lists()
torch.nn.functional.grouped_mm = lambda a, b, offs=None, f=F.grouped_mm: f(a, b, offs=offs)
for part in (polynomials, transforms, matrices, copies, counts, segments, rounding, layers, made, borders):
    part()
(FOLDER / "inventory").mkdir(parents=True, exist_ok=True)
text = json.dumps({"torch": torch.__version__, "cases": cases}, indent=0)
(FOLDER / "inventory" / "ops.json").write_text(text.replace("NaN", '"nan"'))
save_file(arrays, FOLDER / "inventory" / "ops.safetensors")
print(len(cases), "cases,", sum("error" in c for c in cases), "of them errors,",
      sum(bool(c.get("grads")) for c in cases), "with gradients")
