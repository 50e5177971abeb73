#!/usr/bin/env python3
"""Time of single layers in bf16 and f16 beside PyTorch's and beside f32 here, in one run, as a Markdown table.

usage: layer_table.py BUILD [--dtypes bf16,f16] [--kinds linear,conv,...] [--passes forward,training]
                      [--threads 1,2] [--rounds N] [-o TABLE.md]

Four processes keep a layer warm and take turns of 5 ms or one pass; the smallest time of each counts, because whatever
else the machine does can only add to it. One thread is timed by the processor time it takes, several by the clock on the
wall. A ratio above 1: the layer here is faster, in 16 bits than PyTorch's and than here in f32, and in f32 than PyTorch's
in f32. Needs torch.
"""
import argparse
import collections
import os
import sys
import time

from speed_table import Server, take_turns, text_of

Layer = collections.namedtuple("Layer", "title kind sizes")


def conv(batch, channels, out, kernel, side, stride=1, groups=1):
    what = f"{kernel} x {kernel}" + (f", stride {stride}" if stride > 1 else "") + (", depthwise" if groups > 1 else "")
    return Layer(f"conv {channels} to {out}, {what}, {batch} x {side} x {side}", "conv",
                 [batch, channels, out, kernel, stride, groups, side])


def linear(batch, inputs, outputs):
    return Layer(f"linear {inputs} to {outputs}, batch {batch}", "linear", [batch, inputs, outputs])


def recurrent(kind, steps, batch, width):
    return Layer(f"{kind.upper()} {width}, {steps} steps, batch {batch}", kind, [steps, batch, width])


LAYERS = [
    linear(1, 64, 64), linear(8, 64, 64), linear(32, 784, 128), linear(1, 1024, 1024), linear(32, 768, 3072),
    linear(256, 1024, 1024), linear(512, 1024, 1024), linear(512, 4096, 4096),
    conv(1, 3, 64, 7, 224, 2), conv(16, 16, 32, 3, 28), conv(1, 64, 64, 3, 56), conv(8, 64, 64, 3, 56),
    conv(8, 256, 256, 3, 14), conv(8, 512, 512, 3, 7), conv(8, 64, 128, 3, 56, 2), conv(8, 256, 64, 1, 56),
    conv(8, 64, 256, 1, 56), conv(8, 256, 512, 1, 28, 2), conv(8, 128, 128, 3, 56, 1, 128),
    *(recurrent(kind, *sizes) for kind in ("lstm", "gru") for sizes in ((32, 8, 64), (32, 16, 256))),
    *(Layer(f"attention, {b} x {h} heads of {w}, {t} rows", "attention", [b, h, t, w])
      for b, h, t, w in ((4, 8, 128, 64), (1, 8, 1024, 64))),
    *(Layer(f"layer_norm, {n} x {w}", "layer_norm", [n, w]) for n, w in ((64, 256), (512, 1024))),
]
KINDS = list(dict.fromkeys(layer.kind for layer in LAYERS))


def peer_layer(kind, s):
    import torch
    from torch import nn
    if kind == "attention":
        class Attention(nn.Module):
            def forward(self, x):
                return torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return Attention(), s
    if kind == "layer_norm":
        return nn.LayerNorm(s[1]), s
    if kind == "linear":
        return nn.Linear(s[1], s[2]), s[:2]
    if kind == "conv":
        return nn.Conv2d(s[1], s[2], s[3], s[4], s[3] // 2, groups=s[5], bias=False), [s[0], s[1], s[6], s[6]]
    return (nn.LSTM if kind == "lstm" else nn.GRU)(s[2], s[2]), s


def serve_peer(kind, does, dtype, threads, sizes):
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net, shape = peer_layer(kind, sizes)
    number = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    net, x = net.to(number), torch.randn(shape).to(number)
    output = (lambda: net(x)) if kind not in ("lstm", "gru") else (lambda: net(x)[0])

    def forward():
        with torch.no_grad():
            output()

    def training():
        net.zero_grad()
        x.grad = None
        output().backward(grad)
    run = forward
    if does == "training":
        x.requires_grad_()
        grad, run = torch.randn_like(output().detach()), training
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns

    def timed(count, now):
        begin = now()
        for _ in range(count):
            run()
        return (now() - begin) / count
    timed(3, clock)
    count = max(1, int(5e6 / min(timed(3, time.perf_counter_ns) for _ in range(5))))
    print("{}", flush=True)
    for _ in sys.stdin:
        print(f"{timed(count, clock):.1f}", flush=True)


def measure(bench, layer, does, dtype, threads, rounds):
    """Nanoseconds of a pass: here, PyTorch's, here in f32, PyTorch's in f32."""
    sizes = list(map(str, layer.sizes))
    ours = lambda number: Server([bench, layer.kind, does, number, str(threads), *sizes], threads)
    peer = lambda number: Server([sys.executable, __file__, "--peer", layer.kind, does, number, str(threads), *sizes], threads)
    return take_turns([ours(dtype), peer(dtype), ours("f32"), peer("f32")], threads, rounds, seconds=5)


def table(results):
    """results: {(title, pass): {(dtype, threads): times as measure() gives them}}."""
    columns = sorted({column for cells in results.values() for column in cells})
    head = "".join(f" {dtype}, {threads} thread{'s' * (threads > 1)} | / PyTorch | / f32 | f32 / PyTorch |"
                   for dtype, threads in columns)
    lines = [f"| layer | pass |{head}", "|---|---|" + "--:|--:|--:|--:|" * len(columns)]
    for (title, does), cells in results.items():
        line = f"| {title} | {does} |"
        for column in columns:
            mine, theirs, wide, their_wide = cells[column]
            line += f" {text_of(mine)} | {theirs / mine:.2f} | {wide / mine:.2f} | {their_wide / wide:.2f} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--peer"]:
        kind, does, dtype, threads, *sizes = sys.argv[2:]
        return serve_peer(kind, does, dtype, int(threads), list(map(int, sizes)))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--dtypes", default="bf16,f16")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--passes", default="forward,training")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    bench, results = os.path.join(options.build, "bin", "layer_bench"), {}
    for layer in LAYERS:
        if layer.kind not in options.kinds.split(","):
            continue
        for does in options.passes.split(","):
            cells = results[layer.title, does] = {}
            for dtype in options.dtypes.split(","):
                for threads in map(int, options.threads.split(",")):
                    cells[dtype, threads] = times = measure(bench, layer, does, dtype, threads, options.rounds)
                    mine, theirs, wide, their_wide = times
                    print(f"{layer.title} {does} {dtype} {threads}: {text_of(mine)}, PyTorch's {theirs / mine:.2f}, "
                          f"f32's {wide / mine:.2f}, f32 / PyTorch's {their_wide / wide:.2f}", file=sys.stderr, flush=True)
    with open(options.output, "w") if options.output else os.fdopen(1, "w") as out:
        out.write(table(results))


if __name__ == "__main__":
    sys.exit(main())
