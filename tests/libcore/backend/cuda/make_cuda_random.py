#!/usr/bin/env python3
"""Writes cuda_random.txt: the random numbers that PyTorch 2.15 draws on a CUDA device of 132 multiprocessors with 2048
threads each (H100, H200), call after call from one generator. Computed here from what its sources say, with numpy alone
and apart from libcore: ATen/native/cuda/DistributionTemplates.h, Dropout.cu, Randperm.cu, Randperm.cuh and
MultinomialKernel.cu, ATen/core/TransformationHelper.h, and of cuRAND curand_philox4x32_x.h, curand_uniform.h and
curand_normal.h.

A line is: operation, dtype, number of elements, two parameters, the generator's offset after the call, and either
"sha256" with the digest of the elements' bytes (of dropout: output, then mask) or "near" with 16 elements spread evenly.
"near" stands where a device takes logarithms, tangents, sines or exponentials from approximations of its hardware.
"state SEED OFFSET" puts the generator there. Run: python3 make_cuda_random.py > cuda_random.txt
"""

import hashlib
import math

import numpy as np

U32, U64, F32, F64, F16 = np.uint32, np.uint64, np.float32, np.float64, np.float16
MASK = U64(0xFFFFFFFF)
MOST_BLOCKS = 132 * (2048 // 256)
DTYPES = {"f32": F32, "f64": F64, "f16": F16, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_}


def philox(key, offset, thread):
    """Four arrays of words for arrays of counters: `offset` in blocks of four words."""
    offset, thread = np.broadcast_arrays(np.asarray(offset, U64), np.asarray(thread, U64))
    c = [offset & MASK, offset >> U64(32), thread & MASK, thread >> U64(32)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = c[0] * U64(0xD2511F53), c[2] * U64(0xCD9E8D57)
        c = [(p1 >> U64(32)) ^ c[1] ^ U64(k0), p1 & MASK, (p0 >> U64(32)) ^ c[3] ^ U64(k1), p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def to_bf16(x):
    """Rounded to bfloat16, still as float32."""
    bits = np.asarray(x, F32).view(U32).astype(U64)
    return ((bits + U64(0x7FFF) + ((bits >> U64(16)) & U64(1))) & U64(0xFFFF0000)).astype(U32).view(F32)


def fma32(a, b, c):
    """Fused in float32: the product of two floats is exact in double; the sum is rounded to odd before it narrows."""
    a, b, c = (np.asarray(v, F32).astype(F64) for v in (a, b, c))
    product = a * b
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    bits = total.view(np.int64).copy()
    toward = np.where((error > 0) == (total > 0), 1, -1)
    inexact = (error != 0) & (bits % 2 == 0)
    bits[inexact] += np.where(toward > 0, 1, -1)[inexact]
    return bits.view(F64).astype(F32)


def fma64(a, b, c):
    """Fused in double, through numbers of any length."""
    from fractions import Fraction as Q
    out = np.empty(len(a), F64)
    for i, x in enumerate(a):
        out[i] = float(Q(float(x)) * Q(float(b)) + Q(float(c)))
    return out


def rounded(dtype, x):
    if dtype == "bf16":
        return to_bf16(x)
    if dtype == "f16":
        return np.asarray(x, F32).astype(F16)
    return np.asarray(x).astype(DTYPES[dtype])


def raw(dtype, x):
    """The bytes of elements."""
    if dtype == "bf16":
        return (np.asarray(x, F32).view(U32) >> U32(16)).astype(np.uint16).tobytes()
    return np.asarray(x, DTYPES[dtype]).tobytes()


def unit32(word):
    return (word.astype(F32) * F32(2.0**-32) + F32(2.0**-33)).astype(F32)


def unit64(low, high):
    return (low ^ (high << U64(21))).astype(F64) * 2.0**-53 + 2.0**-54


class Generator:
    def __init__(self, seed, offset=0):
        self.seed, self.offset = seed, offset

    def take(self, increment):
        at = self.offset
        self.offset += (increment + 3) // 4 * 4
        return at

    def draw(self, n, parts):
        """Words and part of each element of a fill whose threads make `parts` elements at a time."""
        threads = min((n + 255) // 256, MOST_BLOCKS) * 256
        at = self.take(((n - 1) // (threads * parts) + 1) * 4)
        i = np.arange(n, dtype=U64)
        wave, in_wave = i // U64(threads * parts), i % U64(threads * parts)
        return philox(self.seed, U64(at // 4) + wave, in_wave % U64(threads)), in_wave // U64(threads)

    def uniform(self, dtype, n):
        words, part = self.draw(n, 2 if dtype == "f64" else 4)
        if dtype == "f64":
            return unit64(np.choose(part.astype(int), [words[0], words[2]]),
                          np.choose(part.astype(int), [words[1], words[3]]))
        return unit32(np.choose(part.astype(int), words))

    def normal(self, dtype, n):
        words, part = self.draw(n, 2 if dtype == "f64" else 4)
        if dtype == "f64":
            radius = np.sqrt(-2 * np.log(unit64(words[0], words[1])))
            angle = 2 * math.pi * unit64(words[2], words[3])
            return np.where(part == 0, radius * np.sin(angle), radius * np.cos(angle))
        first = part < 2
        radius = np.sqrt(-2 * np.log(unit32(np.where(first, words[0], words[2])).astype(F64)))
        step = F32(F32(2.0**-32) * F32(6.2831855))
        angle = fma32(np.where(first, words[1], words[3]).astype(F32), step, step / F32(2)).astype(F64)
        return np.where(part % U64(2) == 0, radius * np.sin(angle), radius * np.cos(angle))


def drawn_type(dtype):
    return F64 if dtype == "f64" else F32


def uniform(g, dtype, n, low, high):
    u = g.uniform(dtype, n)
    if dtype == "f64":
        value = fma64(u, high - low, low) if (low, high) != (0, 1) else u
        return np.where(value == high, low, value)
    low, high = rounded(dtype, low), rounded(dtype, high)
    width = rounded(dtype, F32(high) - F32(low))
    value = rounded(dtype, fma32(u, F32(width), F32(low)))
    return np.where(value == high, low, value)


def bernoulli(g, dtype, n, p, _):
    return rounded(dtype, g.uniform(dtype, n) < drawn_type(dtype)(p))


def exponential(g, dtype, n, rate, _):
    t = drawn_type(dtype)
    u = g.uniform(dtype, n)
    least = t(np.finfo(t).eps / 2)
    log = np.where(u >= t(1) - least, -least, np.log(u))
    return rounded(dtype, t(-1) / t(rate) * log)


def geometric(g, dtype, n, p, _):
    t = drawn_type(dtype)
    u, p = g.uniform(dtype, n), t(p)
    return rounded(dtype, np.ceil(np.log(u) / (np.log1p(-p) if t == F64 else np.log(F32(1) - p))))


def cauchy(g, dtype, n, median, sigma):
    u = g.uniform(dtype, n).astype(F64)
    if dtype != "f64":
        eps = float(np.finfo(F32).eps)
        u = np.clip(u, eps, float(F32(1 - eps)))
    return rounded(dtype, median + sigma * np.tan(math.pi * (u - 0.5)))


def normal(g, dtype, n, mean, std):
    return rounded(dtype, g.normal(dtype, n) * std + mean)


def log_normal(g, dtype, n, mean, std):
    return rounded(dtype, np.exp(g.normal(dtype, n) * std + mean))


def numbers(g, n, parts):
    """Integers of 32 bits, or of 64 where a thread makes two elements."""
    words, part = g.draw(n, parts)
    part = part.astype(int)
    if parts == 4:
        return np.choose(part, words)
    return (np.choose(part, [words[0], words[2]]) << U64(32)) | np.choose(part, [words[1], words[3]])


def from_integers(dtype, x):
    return to_bf16(x.astype(F32)) if dtype == "bf16" else x.astype(DTYPES[dtype])


def integers(g, dtype, n, low, high):
    size = high - low
    number = numbers(g, n, 2 if size >= 1 << 28 else 4)
    return from_integers(dtype, (number % U64(size) + U64(low % (1 << 64))).view(np.int64))


def any_integer(g, dtype, n, _a, _b):
    limits = {"f32": 1 << 24, "f64": 1 << 53, "f16": 1 << 11, "bf16": 1 << 8, "i64": (1 << 63) - 1, "i32": (1 << 31) - 1,
              "u8": 255, "bool": 1}
    number = numbers(g, n, 2 if dtype in ("f64", "i64") else 4)
    return from_integers(dtype, (number % U64(limits[dtype] + 1)).astype(np.int64))


def bernoulli_each(g, dtype, n, _a, _b):
    """With the probabilities (37 i mod 101) / 100 in the dtype; a thread makes four neighbours, one call counts ten."""
    at = g.take(10)
    i = np.arange(n, dtype=U64)
    u = unit32(np.choose((i % U64(4)).astype(int), philox(g.seed, U64(at // 4), i // U64(4))))
    t = drawn_type(dtype)
    p = rounded(dtype, (i * U64(37) % U64(101)).astype(t) / t(100)).astype(t)
    return rounded(dtype, u.astype(t) <= p)


def dropout(g, dtype, n, p, _):
    """Of the elements ((i mod 97) - 48) / 8. Returns output and mask."""
    size = {"f64": 8, "f32": 4}.get(dtype, 2)
    width = 16 // size
    while n % width:
        width //= 2
    threads = min((n + 255) // 256, MOST_BLOCKS) * 256
    at = g.take(((n - 1) // (threads * 4) + 1) * 4)
    i = np.arange(n, dtype=np.int64)
    if width == 1:
        wave, in_wave = i // (threads * 4), i % (threads * 4)
        block, thread, part = wave, in_wave % threads, in_wave // threads
    else:
        pack, k = i // width, i % width
        block, thread, part = pack // threads * max(1, width // 4) + k // 4, pack % threads, k % 4
    u = unit32(np.choose(part, philox(g.seed, at // 4 + block, thread)))
    t = drawn_type(dtype)
    keep = t(1.0 - p)
    kept = u.astype(t) < keep
    x = ((i % 97) - 48).astype(t) / t(8)
    return rounded(dtype, x * kept.astype(t) * t(1.0 / float(keep))), kept


def randperm(g, n):
    """Sorted by random keys, then each run of equal keys shuffled. Returns the order and the number of such runs."""
    bits = min(64, math.ceil(math.log2(n - (6 * n * n + 1) / (math.log(0.9) * 12))))
    width = 32 if bits <= 32 else 64
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    key = integers(g, "i32" if width == 32 else "i64", n, low, high).astype(np.int64).view(U64)
    mask = U64((1 << bits) - 1)
    key = (key ^ U64(1 << (width - 1))) & mask
    order = np.argsort(key, kind="stable").astype(np.int64)
    key = key[order]
    at = g.take(n)
    runs = 0
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1], [True])))
    for first, end in zip(starts[:-1], starts[1:]):
        runs += end - first > 1
        for drawn, i in enumerate(range(end - first - 1, 0, -1)):
            r = int(philox(g.seed, U64(at // 4 + drawn // 4), U64(first))[drawn % 4]) % (i + 1)
            order[first + i], order[first + r] = order[first + r], order[first + i]
    return order, runs


def samples(g, rows, n):
    """The numbers of multinomial with replacement."""
    width = (n + 127) // 128 * 128
    at = g.take(4 * ((rows - 1) // min(rows, 65535) + 1))
    row, i = np.meshgrid(np.arange(rows), np.arange(n), indexing="ij")
    return unit32(philox(g.seed, at // 4 + row // 65535, row % 65535 * width + i)[0])


EXACT = [(uniform, d, n, a, b) for d in ("f32", "f64", "f16", "bf16") for n, a, b in
         ((1, 0, 1), (257, 0, 1), (9000, 0, 1), (5000, -1.5, 2.25))]
EXACT += [(uniform, "f32", 1200001, 0, 1), (uniform, "f64", 600001, 0, 1), (uniform, "f16", 300000, -3, 1)]
EXACT += [(bernoulli, d, 5000, 0.3, 0) for d in ("f32", "f64", "f16", "bf16", "i64", "u8", "bool")]
EXACT += [(bernoulli, "f64", 600001, 0.75, 0)]
EXACT += [(integers, d, 3000, 0, 100) for d in ("f32", "f64", "f16", "bf16", "i64", "i32", "u8")]
EXACT += [(integers, "i64", 3000, -5, 1 << 40), (integers, "i32", 3000, -7, 1 << 28), (integers, "i32", 300, 0, 1 << 28)]
EXACT += [(any_integer, d, 3000, 0, 0) for d in ("f32", "f64", "f16", "bf16", "i64", "i32", "u8", "bool")]
EXACT += [(bernoulli_each, d, n, 0, 0) for d in ("f32", "f64", "f16", "bf16") for n in (1, 3001)]
DROPS = [(d, n) for d, sizes in (("f32", (4096, 4098, 4097, 1200004, 600002, 1200001)), ("f64", (4096, 4097, 600002)),
                                 ("f16", (4096, 4100, 4098, 4097, 2200008, 1200004)), ("bf16", (4096, 4099)))
         for n in sizes]
NEAR = [(f, d, 3000, a, b) for f, a, b in ((exponential, 1.5, 0), (normal, 0.25, 2), (log_normal, 0.25, 0.5),
                                           (cauchy, 0.5, 2)) for d in ("f32", "f64", "f16", "bf16")]
NEAR += [(geometric, d, 3000, 0.3, 0) for d in ("f32", "f64", "f16", "i64", "u8")]
PERMUTATIONS = [1, 2, 3, 10, 100, 1000, 5000, 20000, 30000, 30085, 30087, 40000, 100000]


def spread(x):
    n = len(x)
    return " ".join(repr(float(x[k * (n - 1) // 15])) for k in range(16))


def find_one(seed, threads):
    """An offset from which the first word of one of the first `threads` threads is so large that its number is 1."""
    for block in range(1, 1 << 20):
        words = philox(seed, U64(block), np.arange(threads, dtype=U64))[0]
        if (words >= U64(0xFFFFFF80)).any():
            return block * 4
    raise SystemExit("no such offset")


def digest(*parts):
    return "sha256 " + hashlib.sha256(b"".join(parts)).hexdigest()


def main():
    g = Generator(0x123456789ABCDEF0)
    print(f"state {g.seed} {g.offset}")
    for f, dtype, n, a, b in EXACT:
        x = f(g, dtype, n, a, b)
        print(f.__name__, dtype, n, a, b, g.offset, digest(raw(dtype, x)))
    for dtype, n in DROPS:
        out, kept = dropout(g, dtype, n, 0.3, 0)
        print("dropout", dtype, n, 0.3, 0, g.offset, digest(raw(dtype, out), kept.tobytes()))
    runs = 0
    for n in PERMUTATIONS:
        order, found = randperm(g, n)
        runs += found
        print("randperm i64", n, 0, 0, g.offset, digest(order.tobytes()))
    assert runs > 0, "no equal keys: choose another seed"
    for rows, n in ((1, 1000), (3, 200), (2, 128)):
        x = samples(g, rows, n)
        print("samples f32", rows * n, rows, n, g.offset, digest(raw("f32", x)))
    for f, dtype, n, a, b in NEAR:
        x = f(g, dtype, n, a, b)
        print(f.__name__, dtype, n, a, b, g.offset, "near", spread(x))
    seed, threads = 7, 4096
    at = find_one(seed, threads)
    for f, dtype in ((uniform, "f32"), (uniform, "bf16")):
        g = Generator(seed, at)
        print(f"state {seed} {at}")
        x = f(g, dtype, threads, 0, 1)
        print(f.__name__, dtype, threads, 0, 1, g.offset, digest(raw(dtype, x)))
    for dtype in ("f32", "f16", "bf16"):
        g = Generator(seed, at)
        x = exponential(g, dtype, threads, 1, 0)
        print(f"state {seed} {at}")
        print("least_of_exponential", dtype, threads, 1, 0, g.offset, "near", *[repr(float(x.min()))] * 16)


if __name__ == "__main__":
    main()
