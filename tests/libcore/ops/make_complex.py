#!/usr/bin/env python3
"""Makes tests/golden/complex.tar.xz with PyTorch: complex numbers, Fourier transforms, frames, windows, functions of
functions and linear algebra, with results and gradients or, where PyTorch refuses, its error. Usage: make_complex.py FOLDER [--seed N] (needs: pip install torch safetensors).

FOLDER/complex/ops.json         cases as in runtime/ops.json, without strides; an array whose name ends in ~ holds complex
                                numbers as pairs of real ones; "error": the text, in place of "outputs"; what is made
                                of several operations has no names of nodes
FOLDER/complex/ops.safetensors  their arrays
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

FOLDER = pathlib.Path(sys.argv[1])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 7
C, D, F, G = torch.complex64, torch.complex128, torch.float32, torch.float64
generator = torch.Generator().manual_seed(SEED)
arrays, cases = {}, []


def make(dtype, *sizes):
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) > 0.5
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(-4, 5, sizes, generator=generator).to(dtype)
    return torch.randn(sizes, generator=generator, dtype=dtype)


def keep(name, t):
    t = t.detach().resolve_conj().resolve_neg()
    if t.is_complex():
        name, t = name + "~", torch.view_as_real(t)
    arrays[name] = t.contiguous().clone()
    return name


def leaf(t):
    return t.is_floating_point() or t.is_complex()


def case(op, call, inputs, args=(), kwargs=None, grads=True):
    """One case; what PyTorch refuses is one of its error."""
    kwargs = kwargs or {}
    name = "%04d.%s" % (len(cases), op)
    inputs = [x.clone().requires_grad_(grads and leaf(x)) for x in inputs]
    record = {"id": name, "op": op, "args": list(args), "kwargs": kwargs, "inputs": []}
    for k, x in enumerate(inputs):
        record["inputs"].append({"array": keep("%s/in%d" % (name, k), x), "requires_grad": x.requires_grad,
                                 "swap_last_two_dims": False})
    cases.append(record)
    try:
        outputs = call(*inputs)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError) as error:
        record["error"] = str(error).split("\n")[0]
        return
    record["outputs"] = [keep("%s/out%d" % (name, k), y) for k, y in enumerate(outputs)]
    record["grad_fns"] = [type(y.grad_fn).__name__ if y.grad_fn else None for y in outputs]
    record["grad_outputs"] = None
    roots = [(k, y) for k, y in enumerate(outputs) if y.requires_grad]
    wanted = [(k, x) for k, x in enumerate(inputs) if x.requires_grad]
    if not roots or not wanted:
        return
    ups = {k: make(y.dtype, *y.shape) for k, y in roots}
    try:
        found = torch.autograd.grad([y for _, y in roots], [x for _, x in wanted], [ups[k] for k, _ in roots],
                                    allow_unused=True)
    except NotImplementedError:  # of complex32, whose derivative is made of what it has not
        return
    record["grad_outputs"] = [keep("%s/up%d" % (name, k), ups[k]) if k in ups else None for k in range(len(outputs))]
    record["grads"] = [None] * len(inputs)
    for (k, _), g in zip(wanted, found):
        record["grads"][k] = None if g is None else keep("%s/grad%d" % (name, k), g)


def plain(op, *inputs, **kwargs):
    function = torch
    for part in op.split(".")[1:]:
        function = getattr(function, part)
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in kwargs.items()}
    case(op, lambda *x: function(*x, **given), inputs, kwargs=kwargs)


UNARY = ("abs neg square sqrt exp expm1 exp2 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh sigmoid rsqrt "
         "reciprocal conj angle real imag view_as_real sgn asinh acosh atanh sinc isnan isinf isfinite logical_not").split()
REFUSED = ("sign floor ceil round trunc frac relu erf lgamma digamma sort argsort").split()
BINARY = "mul add sub div pow eq ne logical_and logical_or logical_xor".split()
REFUSED_TWO = "lt le gt ge maximum minimum remainder fmod floor_divide atan2 bitwise_and".split()


def pointwise():
    for op in UNARY:
        for dtype in (C, D):
            plain("torch." + op, make(dtype, 3, 4))
    for op in UNARY[:1] + ["angle", "real", "conj"]:
        plain("torch." + op, make(F, 5))
    plain("torch.angle", make(torch.int64, 5))
    plain("torch.abs", torch.tensor([0j, 1 + 1j, -2j]))
    plain("torch.sgn", torch.tensor([0j, 3 + 4j, -2j]))
    plain("torch.angle", torch.tensor([0j, 3 + 4j, -2j, -1 + 0j]))
    plain("torch.reciprocal", torch.tensor([0j, 3 + 4j, complex("inf")]))
    for op in REFUSED:
        plain("torch." + op, make(C, 4))
    for op in BINARY:
        for a, b in ((C, C), (D, D), (C, D), (C, F), (F, C), (C, G), (torch.int64, C), (C, torch.bool)):
            if a is not torch.bool and not (op in ("sub", "pow") and b is torch.bool):
                plain("torch." + op, make(a, 2, 3), make(b, 3))
    plain("torch.div", torch.tensor([1 + 1j, 0j, 2j]), torch.tensor([0j, 0j, 1e-30j]))
    plain("torch.mul", make(F, 3), make(D, 1)[0])
    plain("torch.mul", make(C, 3), make(D, 1)[0])
    plain("torch.add", make(C, 3, 1), make(C, 4), alpha=2)
    plain("torch.sub", make(C, 3, 1), make(F, 4), alpha=0.5)
    plain("torch.rsub", make(C, 3), make(C, 3), alpha=2)
    for op in REFUSED_TWO:
        plain("torch." + op, make(C, 3), make(C, 3))
    plain("torch.clamp", make(C, 3), min=0)


def numbers():
    for symbol, function in {"add": lambda x, s: x + s, "sub": lambda x, s: x - s, "mul": lambda x, s: x * s,
                             "div": lambda x, s: x / s}.items():
        for value in (2, 0.5, -3):
            case("scalar." + symbol, lambda x, f=function, v=value: f(x, v), [make(C, 2, 3)], [value])
            case("rscalar." + symbol, lambda x, f=function, v=value: f(v, x), [make(D, 3)], [value])
    for value in (2, 0.5, -1, 3, -0.5, 1.7, -2, 0):
        case("scalar.pow", lambda x, v=value: x**v, [make(C, 4)], [value])
    case("rscalar.pow", lambda x: 2.5**x, [make(C, 4)], [2.5])
    case("scalar.eq", lambda x: x == 1, [torch.tensor([1 + 0j, 1 + 1j])], [1])
    case("scalar.ne", lambda x: x != 1, [torch.tensor([1 + 0j, 1 + 1j])], [1])
    case("scalar.lt", lambda x: x < 1, [make(C, 3)], [1])
    number = {"number": [1.5, -2.0]}
    for dtype in (C, D, F, G, torch.int64):
        case("number.add", lambda x: x + (1.5 - 2j), [make(dtype, 3)], kwargs=number)
        case("number.mul", lambda x: x * (1.5 - 2j), [make(dtype, 3)], kwargs=number)
        case("number.div", lambda x: x / (1.5 - 2j), [make(dtype, 3)], kwargs=number)
    case("number.pow", lambda x: torch.pow(x, torch.tensor(1.5 - 2j)), [make(C, 3)], kwargs=number)
    case("number.eq", lambda x: x == 1.5 - 2j, [torch.tensor([1.5 - 2j, 1.5 + 2j])], kwargs=number)


def parts():
    plain("torch.complex", make(F, 3), make(F, 3))
    plain("torch.complex", make(G, 2, 1), make(G, 3))
    plain("torch.complex", make(F, 3), make(G, 3))
    plain("torch.complex", make(torch.int64, 3), make(torch.int64, 3))
    plain("torch.polar", make(F, 3).abs(), make(F, 3))
    plain("torch.polar", make(G, 3).abs(), make(G, 3))
    plain("torch.polar", make(C, 3), make(C, 3))
    plain("torch.view_as_complex", make(F, 3, 2))
    plain("torch.view_as_complex", make(G, 2, 3, 2))
    plain("torch.view_as_complex", make(F, 3))
    plain("torch.view_as_complex", make(torch.int64, 3, 2))
    plain("torch.view_as_real", make(F, 3))
    plain("torch.imag", make(F, 3))

    def write_real(z, x):
        z = z * 1
        z.real.mul_(x)
        return z
    case("real.mul_", write_real, [make(C, 3), make(F, 3)])
    case("real.mul_", write_real, [make(D, 2, 3), make(G, 3)])
    for op, other in {"add_": make(C, 3), "sub_": make(F, 3), "mul_": make(C, 3), "div_": make(C, 3)}.items():
        case("inplace." + op, lambda x, y, o=op: getattr(x.clone(), o)(y), [make(C, 2, 3), other])
    for op in ("neg_", "exp_", "tanh_", "sigmoid_", "zero_"):
        case("inplace." + op, lambda x, o=op: getattr(x.clone(), o)(), [make(C, 3)])


def sums():
    for dtype in (C, D):
        for op in ("sum", "mean", "prod"):
            plain("torch." + op, make(dtype, 3, 4))
            plain("torch." + op, make(dtype, 3, 4), dim=1)
            plain("torch." + op, make(dtype, 3, 4), dim=0, keepdim=True)
        for op in ("cumsum", "cumprod"):
            plain("torch." + op, make(dtype, 3, 4), dim=1)
        plain("torch.norm", make(dtype, 3, 4))
        plain("torch.var", make(dtype, 3, 4))
        plain("torch.std", make(dtype, 3, 4), dim=1)
        plain("torch.logsumexp", make(dtype, 3, 4), dim=1)
    zeros = make(C, 4)
    zeros[1] = 0
    plain("torch.prod", zeros)
    plain("torch.cumprod", zeros, dim=0)
    plain("torch.all", make(C, 3))
    plain("torch.any", torch.zeros(3, dtype=C))
    for op in ("max", "min", "argmax", "argmin"):
        plain("torch." + op, make(C, 4))


def products():
    for dtype in (C, D):
        plain("torch.mm", make(dtype, 3, 4), make(dtype, 4, 2))
        plain("torch.bmm", make(dtype, 2, 3, 4), make(dtype, 2, 4, 2))
        plain("torch.matmul", make(dtype, 2, 3, 4), make(dtype, 4, 2))
        plain("torch.matmul", make(dtype, 4), make(dtype, 4, 2))
        plain("torch.mv", make(dtype, 3, 4), make(dtype, 4))
        plain("torch.dot", make(dtype, 4), make(dtype, 4))
        plain("torch.outer", make(dtype, 4), make(dtype, 3))
        plain("torch.addmm", make(dtype, 2), make(dtype, 3, 4), make(dtype, 4, 2), beta=0.5, alpha=2)
    plain("torch.mm", make(C, 3, 4), make(F, 4, 2))
    plain("torch.mm", make(D, 3, 4), make(C, 4, 2))
    for op, dims in {"flip": {"dims": [0]}, "roll": {"shifts": 1, "dims": 0}, "tril": {}, "triu": {}}.items():
        plain("torch." + op, make(C, 3, 4), **dims)
    plain("torch.where", make(torch.bool, 3), make(C, 3), make(C, 3))
    plain("torch.where", make(torch.bool, 3), make(D, 3), make(D, 1))
    plain("torch.addcmul", make(C, 3), make(C, 3), make(C, 3), value=0.5)
    plain("torch.addcdiv", make(D, 3), make(D, 3), make(D, 3), value=0.5)
    case("Tensor.masked_fill", lambda x, m: x.masked_fill(m, 2.5), [make(C, 3), make(torch.bool, 3)], [2.5])
    case("list.torch.cat", lambda *x: torch.cat(x, 1), [make(C, 2, 3), make(C, 2, 1)], kwargs={"dim": 1})
    case("list.torch.stack", lambda *x: torch.stack(x, 0), [make(D, 2, 3), make(D, 2, 3)], kwargs={"dim": 0})
    for op, given in {"Tensor.transpose": [0, 1], "Tensor.reshape": [[6]], "Tensor.permute": [[1, 0]]}.items():
        case(op, lambda x, o=op, a=given: getattr(x, o[7:])(*a), [make(D, 2, 3)], given)


LENGTHS = (1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 30, 67, 97, 128, 134)


def transforms():
    for n in LENGTHS:
        for op in ("fft", "ifft"):
            plain("torch.fft." + op, make(C, 2, n))
        plain("torch.fft.rfft", make(G, n))
        plain("torch.fft.irfft", make(D, 2, n), n=2 * n - 1)
        plain("torch.fft.fft", make(F, n))
        if n > 1:
            plain("torch.fft.irfft", make(C, n))
            plain("torch.fft.hfft", make(C, n))
        plain("torch.fft.ihfft", make(F, n))
    for norm in ("backward", "ortho", "forward", "x"):
        for op in ("fft", "ifft", "irfft", "hfft"):
            plain("torch.fft." + op, make(D, 3, 6), norm=norm, dim=0)
            plain("torch.fft." + op, make(C, 3, 6), norm=norm, n=7)
            plain("torch.fft." + op, make(C, 3, 6), norm=norm, n=4)
        for op in ("rfft", "ihfft"):
            plain("torch.fft." + op, make(G, 3, 6), norm=norm, dim=0)
            plain("torch.fft." + op, make(F, 3, 6), norm=norm, n=9)
        for op in ("fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn"):
            plain("torch.fft." + op, make(C, 2, 4, 5), norm=norm)
            plain("torch.fft." + op, make(D, 3, 4, 5), norm=norm, dim=[0, 2], s=[4, 3])
        for op in ("rfft2", "rfftn", "fftn", "ifft2"):
            plain("torch.fft." + op, make(F, 2, 4, 5), norm=norm)
            plain("torch.fft." + op, make(G, 3, 4, 5), norm=norm, dim=[0, 2], s=[4, 3])
            plain("torch.fft." + op, make(F, 3, 4, 6), norm=norm, s=[-1, 8])
    plain("torch.fft.fft", make(torch.int64, 5))
    plain("torch.fft.rfft", make(torch.int64, 5))
    plain("torch.fft.irfft", make(F, 5))
    for n in (1, 2, 5, 8):
        plain("torch.fft.fftfreq", n=n, d=0.5)
        plain("torch.fft.rfftfreq", n=n)
        plain("torch.fft.fftshift", make(F, n, 3))
        plain("torch.fft.ifftshift", make(C, n, 3), dim=[0])


def refusals():
    plain("torch.fft.fft", make(C, 3), n=0)
    plain("torch.fft.fft", make(C, 3), dim=3)
    plain("torch.fft.fft", make(C, 1)[0])
    plain("torch.fft.fft", make(F, 3).half())
    plain("torch.fft.rfft", make(C, 3))
    plain("torch.fft.ihfft", make(C, 3))
    plain("torch.fft.rfftn", make(C, 3))
    plain("torch.fft.irfft", make(C, 1))
    plain("torch.fft.fftn", make(C, 2, 2), dim=[0, 0])
    plain("torch.fft.fftn", make(C, 2, 2), dim=[0, 1], s=[1])
    plain("torch.fft.fftn", make(C, 2, 2), s=[1, 2, 3])
    plain("torch.fft.fft2", make(C, 2))
    plain("torch.fft.fftn", make(C, 2, 2), s=[-2, 2])


def frames():
    hann = torch.hann_window
    for given in ({"n_fft": 8}, {"n_fft": 8, "hop_length": 3}, {"n_fft": 9, "center": False}, {"n_fft": 8, "normalized": True},
                  {"n_fft": 8, "onesided": False}, {"n_fft": 8, "pad_mode": "constant"}, {"n_fft": 8, "win_length": 5},
                  {"n_fft": 8, "return_complex": False}, {"n_fft": 8, "pad_mode": "replicate"}):
        for dtype in (F, G, C):
            if dtype is C and given.get("pad_mode") == "replicate":
                continue
            call = dict({"return_complex": True}, **given)
            size = given.get("win_length", given["n_fft"])
            case("torch.stft", lambda x, k=call: torch.stft(x, **k), [make(dtype, 2, 30)], kwargs=call)
            case("torch.stft", lambda x, w, k=call: torch.stft(x, window=w, **k),
                 [make(dtype, 25), hann(size, dtype=make(dtype, 1).real.dtype) + 0.1], kwargs=call)
    for given in ({"n_fft": 8}, {"n_fft": 8, "hop_length": 3}, {"n_fft": 8, "normalized": True}, {"n_fft": 8, "length": 18},
                  {"n_fft": 8, "win_length": 6}, {"n_fft": 8, "center": False}, {"n_fft": 8, "length": 40}):
        for dtype in (C, D):
            parts = F if dtype is C else G
            size = given.get("win_length", given["n_fft"])
            case("torch.istft", lambda x, k=given: torch.istft(x, **k), [make(dtype, 5, 11)], kwargs=given)
            case("torch.istft", lambda x, w, k=given: torch.istft(x, window=w, **k),
                 [make(dtype, 2, 5, 11), hann(size, dtype=parts) + 0.2], kwargs=given)
            full = dict(given, onesided=False, return_complex=True)
            case("torch.istft", lambda x, k=full: torch.istft(x, **k), [make(dtype, 8, 11)], kwargs=full)
    for given in ({"n_fft": 30, "center": False}, {"n_fft": 0}, {"n_fft": 8, "hop_length": 0}, {"n_fft": 8, "win_length": 9},
                  {"n_fft": 8, "onesided": True}, {"n_fft": 8, "pad_mode": "x"}):
        call = dict({"return_complex": True}, **given)
        case("torch.stft", lambda x, k=call: torch.stft(x, **k), [make(C, 20)], kwargs=call)
    case("torch.stft", lambda x, w: torch.stft(x, 8, window=w, return_complex=True), [make(F, 20), make(F, 7)],
         kwargs={"n_fft": 8})
    for given in ({"n_fft": 12}, {"n_fft": 8, "hop_length": 9}, {"n_fft": 8, "win_length": 9}, {"n_fft": 8, "length": 0},
                  {"n_fft": 8, "onesided": True, "return_complex": True}):
        case("torch.istft", lambda x, k=given: torch.istft(x, **k), [make(C, 5, 11)], kwargs=given)
    case("torch.istft", lambda x: torch.istft(x, 8), [make(F, 5, 11, 2)], kwargs={"n_fft": 8})
    case("torch.istft", lambda x, w: torch.istft(x, 8, window=w), [make(C, 5, 11), make(F, 7)], kwargs={"n_fft": 8})
    for name in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
        function = getattr(torch, name + "_window")
        for length in (-1, 0, 1, 2, 7, 16):
            for periodic in (True, False):
                for dtype in (F, G):
                    given = {"window_length": length, "periodic": periodic}
                    case("window." + name, lambda k=given, d=dtype: function(**k, dtype=d), [],
                         kwargs=dict(given, double=dtype is G))
    case("window.hamming", lambda: torch.hamming_window(9, True, 0.6, 0.3), [],
         kwargs={"window_length": 9, "periodic": True, "alpha": 0.6, "beta": 0.3})
    case("window.kaiser", lambda: torch.kaiser_window(9, True, 7.5), [],
         kwargs={"window_length": 9, "periodic": True, "beta": 7.5})


def functions():
    def wave(x, y):
        return torch.sin(x) * torch.exp(y) + x * x * y

    def total(x, y):
        return wave(x, y).sum()

    def both(function):
        def call(x, y):
            (a, b), value = function(x, y)
            return a, b, value
        return call

    def pulled(x, y, up):
        value, back = torch.func.vjp(wave, x, y)
        return (value, *back(up))

    f = torch.func
    for dtype in (F, G):
        for sizes in ((), (3,), (2, 3)):
            x, y, u, v = (make(dtype, *sizes) for _ in range(4))
            for grads in (False, True):
                case("func.grad", f.grad(total), [x, y], grads=grads)
                case("func.grad1", f.grad(total, argnums=1), [x, y], grads=grads)
                case("func.grad_and_value", both(f.grad_and_value(total, argnums=(0, 1))), [x, y], grads=grads)
                case("func.vjp", pulled, [x, y, u], grads=grads)
                case("func.jvp", lambda *a: f.jvp(wave, a[:2], a[2:]), [x, y, u, v], grads=grads)
                case("func.jacrev", f.jacrev(wave), [x, y], grads=grads)
                case("func.jacfwd", f.jacfwd(wave, argnums=(0, 1)), [x, y], grads=grads)
                case("func.hessian", f.hessian(total), [x, y], grads=grads)
                case("func.grad_grad", lambda x, y: f.grad(lambda z: f.grad(total)(z, y).sum())(x), [x, y], grads=grads)
    for dims, out, first, second in (((0, 0), 0, (4, 2, 3), (4, 3, 2)), ((0, None), 1, (4, 2, 3), (3, 2)),
                                     ((None, 2), 0, (2, 3), (3, 2, 4)), ((-1, 0), 2, (2, 3, 4), (4, 3, 2))):
        given = {"in_dims": [99 if d is None else d for d in dims], "out_dims": out}
        case("func.vmap", f.vmap(lambda x, y: torch.matmul(x, y).cumsum(0), in_dims=dims, out_dims=out),
             [make(F, *first), make(F, *second)], kwargs=given)
    given = {"in_dims": [0, 0], "out_dims": 0}
    case("func.vmap", f.vmap(lambda x, y: torch.matmul(x, y)), [make(F, 2, 3, 3), make(F, 3, 3, 3)], kwargs=given)
    case("func.vmap_grad", f.vmap(f.grad(total), in_dims=(None, 0)), [make(F, 3), make(F, 5, 3)])
    for record in cases:
        if record["op"].startswith("func.") or record["op"] in ("torch.stft", "torch.istft"):
            record.pop("grad_fns", None)


def matrices():
    """What LAPACK computes. Vectors have any phase, so their sizes and products are looked at."""
    l = torch.linalg

    def vectors(values, v):
        return values, v.abs(), v @ v.mH

    def read(factor, upper):
        return factor.triu() if upper else factor.tril()  # elsewhere PyTorch has gradients of what is not read

    def svd(a, full_matrices):
        u, s, vh = l.svd(a, full_matrices=full_matrices)
        k = s.shape[-1]
        return s, u[..., :k].abs(), vh[..., :k, :].abs(), u[..., :k] @ vh[..., :k, :]

    for dtype in (C, D):
        for batch in ((), (2,)):
            a = make(dtype, *batch, 3, 3) + 2 * torch.eye(3, dtype=dtype)
            b, sides = make(dtype, *batch, 3, 2), make(dtype, *batch, 2, 3)
            hermitian, positive = a + a.mH, a @ a.mH + torch.eye(3, dtype=dtype)
            for op in ("inv", "det", "slogdet", "lu", "svdvals"):
                case("linalg." + op, getattr(l, op), [a])
            case("linalg.logdet", torch.logdet, [a])
            case("linalg.solve", l.solve, [a, b])
            case("linalg.solve", l.solve, [a, b[..., 0]])
            for sizes in ((4, 2), (2, 4), (3, 3)):
                m = make(dtype, *batch, *sizes)
                case("linalg.pinv", l.pinv, [m])
                case("linalg.qr", l.qr, [m])
                case("linalg.matrix_rank", l.matrix_rank, [m], grads=False)
                case("linalg.lu", l.lu, [m])
                for full in (False, True):
                    case("linalg.svd", lambda x, f=full: svd(x, f), [m], kwargs={"full_matrices": full})
            case("linalg.qr", lambda x: l.qr(x, mode="complete"), [make(dtype, *batch, 4, 2)], kwargs={"mode": "complete"},
                 grads=False)
            for uplo in ("L", "U"):
                case("linalg.eigh", lambda x, u=uplo: vectors(*l.eigh(x, UPLO=u)), [hermitian], kwargs={"UPLO": uplo})
                case("linalg.eigvalsh", lambda x, u=uplo: l.eigvalsh(x, UPLO=u), [hermitian], kwargs={"UPLO": uplo})
            for upper in (False, True):
                given = {"upper": upper}
                case("linalg.cholesky", lambda x, k=given: l.cholesky(x, **k), [positive], kwargs=given)
                factor = l.cholesky(positive, upper=upper)
                case("linalg.cholesky_solve", lambda x, y, k=given: torch.cholesky_solve(y, read(x, **k), **k),
                     [factor, b], kwargs=given)
                case("linalg.cholesky_inverse", lambda x, k=given: torch.cholesky_inverse(read(x, **k), **k), [factor],
                     kwargs=given)
                for left in (False, True):
                    for other in (False, True):
                        given = {"upper": upper, "left": left, "unitriangular": other}
                        case("linalg.solve_triangular", lambda x, y, k=given: l.solve_triangular(x, y, **k),
                             [a, b if left else sides], kwargs=given)
                        given = {"left": left, "adjoint": other}
                        case("linalg.lu_solve", lambda x, y, k=given: l.lu_solve(*l.lu_factor(x), y, **k),
                             [a, b if left else sides], kwargs=given)
            reflectors, tau = torch.geqrf(make(dtype, *batch, 4, 2))
            case("linalg.householder_product", l.householder_product, [reflectors, tau])
            for transpose in (False, True):
                case("linalg.ormqr", lambda x, t, y, w=transpose: torch.ormqr(x, t, y, True, w),
                     [reflectors, tau, make(dtype, *batch, 4, 3)], kwargs={"transpose": transpose}, grads=False)
            case("linalg.H", lambda x: x.mH, [b])
            case("linalg.method_svd", lambda x: x.svd().V.abs(), [b])
    for dtype in (C, D):
        a = make(dtype, 2, 3, 3)
        for order in ("fro", "nuc", 1.0, -2.0, float("inf")):
            given = {"name": str(order)} if order in ("fro", "nuc", float("inf")) else {"ord": order}
            case("linalg.matrix_norm", lambda x, o=order: l.matrix_norm(x, ord=o), [a], kwargs=given)
            case("linalg.cond", lambda x, o=order: l.cond(x, p=o), [a], kwargs=given, grads=False)
    singular = torch.ones(2, 2, dtype=C)
    case("linalg.inv", l.inv, [singular], grads=False)
    case("linalg.solve", l.solve, [singular, singular], grads=False)
    case("linalg.cholesky", l.cholesky, [-singular], kwargs={"upper": False}, grads=False)
    case("linalg.det", l.det, [make(C, 2, 3)], grads=False)
    for record in cases:
        if record["op"].startswith("linalg."):
            record.pop("grad_fns", None)


def halves():
    """complex32, of which PyTorch has a few operations on the CPU."""
    H, h = torch.complex32, torch.float16

    def half(*sizes):
        return torch.view_as_complex(torch.randn(*sizes, 2, generator=generator).to(h))

    other = "angle asinh acosh atanh sinc"  # refused there; angle works here, the others are made of other operations
    for op in [op for op in UNARY + ["nonzero", "positive"] if op not in other.split()]:
        plain("torch." + op, half(3, 4))
    for op in "sum mean prod cumsum cumprod".split():
        plain("torch." + op, half(3, 4), **({"dim": 1} if op.startswith("cum") else {}))
    for op in ("all", "any", "max", "argmax"):
        plain("torch." + op, half(3, 4))
    for op in "mul add sub div eq ne lt maximum pow".split():
        for other in (half(3), make(F, 3), make(h, 3), make(D, 3), make(torch.int64, 3), make(torch.bfloat16, 3)):
            case("torch." + op, lambda x, y, o=op: getattr(torch, o)(x, y), [half(2, 3), other], grads=False)
    for op in "mul add sub".split():
        case("torch." + op, lambda x, y, o=op: getattr(torch, o)(x, y), [half(2, 3), half(2, 3)])
    for symbol, function in {"add": lambda x, s: x + s, "sub": lambda x, s: x - s, "mul": lambda x, s: x * s,
                             "div": lambda x, s: x / s}.items():
        case("scalar." + symbol, lambda x, f=function: f(x, 0.3), [half(2, 3)], [0.3], grads=False)
    number = {"number": [1.5, -2.0]}
    case("number.add", lambda x: x + (1.5 - 2j), [half(3)], kwargs=number)
    case("number.mul", lambda x: x * (1.5 - 2j), [half(3)], kwargs=number)
    case("number.eq", lambda x: x == 1.5 - 2j, [torch.tensor([1.5 - 2j, 1.5 + 2j]).to(H)], kwargs=number)
    plain("torch.complex", make(F, 3).to(h), make(F, 3).to(h))
    plain("torch.view_as_complex", make(F, 3, 2).to(h))
    plain("torch.addcmul", half(3), half(3), half(3), value=0.5)
    plain("torch.where", make(torch.bool, 3), half(3), half(3))
    for op in ("addcdiv",):
        plain("torch." + op, half(3), half(3), half(3), value=0.5)
    plain("torch.mm", half(2, 3), half(3, 2))
    plain("torch.bmm", half(1, 2, 3), half(1, 3, 2))
    plain("torch.flip", half(3, 4), dims=[0])
    plain("torch.roll", half(3, 4), shifts=1, dims=0)
    case("list.torch.cat", lambda *x: torch.cat(x, 1), [half(2, 3), half(2, 1)], kwargs={"dim": 1})
    edges = torch.tensor([1e6 + 1e-9j, 1 + 2**-11 + 2**-40, 65504 + 65520j, complex("nan"), 0], dtype=D)
    types = {"complex64": C, "complex128": D, "complex32": H, "float16": h, "bfloat16": torch.bfloat16, "float32": F,
             "float64": G, "int64": torch.int64, "int32": torch.int32, "uint8": torch.uint8, "bool": torch.bool}
    for name, dtype in types.items():
        case("to." + name, lambda x, t=dtype: x.to(t), [half(3).abs() + half(3) * 0 + 1], kwargs={"dtype": name}, grads=False)
        source = torch.tensor([0, 1, 2, 100]).to(dtype)
        case("to.complex32", lambda x: x.to(H), [source], kwargs={"dtype": "complex32"}, grads=False)
    for source in (edges, edges.to(C), edges.real):
        case("to.complex32", lambda x: x.to(H), [source], kwargs={"dtype": "complex32"}, grads=False)
    case("to.complex64", lambda x: x.to(C), [half(3)], kwargs={"dtype": "complex64"})
    case("to.complex32", lambda x: x.to(H), [make(C, 3)], kwargs={"dtype": "complex32"})
    for index in ((0, 0), (2, 1)):
        case("half.index_add", lambda x, y, i=index: x.index_add(0, torch.tensor(i), y), [half(3), half(2)],
             kwargs={"index": list(index)}, grads=False)
    for op in ("rand", "randn"):
        for dtype in ("complex32", "complex64", "complex128"):
            for sizes in ([5], [40]):
                torch.manual_seed(3)
                case("drawn." + op, lambda o=op, s=sizes, t=dtype: getattr(torch, o)(s, dtype=types[t]), [],
                     kwargs={"sizes": sizes, "dtype": dtype})
    for record in cases:
        if record["id"] >= first_of_halves:
            record.pop("grad_fns", None)


def general_matrices():
    """Eigenvalues of any matrix, and least squares. LAPACKs differ in the order of eigenvalues: by their real parts."""
    l = torch.linalg

    def ordered(values, vectors):
        order = values.real.argsort(-1)
        sizes = vectors.abs().gather(-1, order.unsqueeze(-2).expand(vectors.shape))
        return values.gather(-1, order), sizes, (vectors * values.unsqueeze(-2)) @ l.inv(vectors)

    first = len(cases)
    for dtype in (F, G, C, D):
        for batch in ((), (2,)):
            a = make(dtype, *batch, 4, 4)
            case("linalg.eig", lambda x: ordered(*l.eig(x)), [a])
            case("linalg.eigvals", lambda x: (lambda v: v.gather(-1, v.real.argsort(-1)))(l.eigvals(x)), [a])
            for sizes in ((4, 2), (2, 4), (3, 3)):
                m = make(dtype, *batch, *sizes) + 2 * torch.eye(*sizes, dtype=dtype)
                b = make(dtype, *batch, sizes[0], 2)
                for driver in ("gels", "gelsy", "gelsd", "gelss"):
                    given = {"driver": driver}
                    case("linalg.lstsq", lambda x, y, d=driver: [r.detach() if k else r for k, r in enumerate(l.lstsq(x, y, driver=d))],
                         [m, b], kwargs=given)
    case("linalg.eig", lambda x: ordered(*l.eig(x)), [make(C, 2, 3)], grads=False)
    case("linalg.lstsq", lambda x, y: l.lstsq(x, y), [make(C, 3, 2), make(F, 3, 1)], grads=False)
    for record in cases[first:]:
        record.pop("grad_fns", None)


for part in (pointwise, numbers, parts, sums, products, transforms, refusals, frames, functions, matrices):
    part()
first_of_halves = "%04d" % len(cases)
for part in (halves, general_matrices):
    part()
(FOLDER / "complex").mkdir(parents=True, exist_ok=True)
text = json.dumps({"torch": torch.__version__, "cases": cases}, indent=0)
(FOLDER / "complex" / "ops.json").write_text(text.replace("NaN", '"nan"'))
save_file(arrays, FOLDER / "complex" / "ops.safetensors")
print(len(cases), "cases,", sum("error" in c for c in cases), "of them errors,",
      sum(bool(c.get("grads")) for c in cases), "with gradients")
