#!/usr/bin/env python3
"""How near steps come to what a core multiplies at most, here and in PyTorch, as a Markdown table.

usage: limits_table.py BUILD [--rows A,B] [--rounds N]

One thread. The peak is runtime_bench's step `peak`, multiply-adds in registers, in turns with each row's two sides; a
row's multiply-adds are those of its products and convolutions by their definition, so that Winograd's way may pass the
peak. "most" is what the ratio would be if a step took no longer than its multiply-adds at the peak.
"""
import argparse
import os
import sys

import speed_table

MULTIPLY_ADDS_OF_PEAK = 12 << 18


def conv(batch, inputs, outputs, kernel, side):
    return batch * inputs * outputs * kernel ** 2 * side ** 2


def resnet18(side):
    """Of an image: the first convolution, four stages of which all but the first halve the side, the last layer."""
    work, width = conv(1, 3, 64, 7, side // 2) + 512 * 1000, 64
    side //= 4
    work += 4 * conv(1, 64, 64, 3, side)
    for _ in range(3):
        side //= 2
        work += conv(1, width, 2 * width, 3, side) + conv(1, width, 2 * width, 1, side)
        width *= 2
        work += 3 * conv(1, width, width, 3, side)
    return work


def gpt2():
    """Of one pass over 4 x 64 tokens: the linear layers of four blocks, scores and sums of attention, the head."""
    tokens, width = 4 * 64, 128
    return tokens * (4 * (12 * width ** 2 + 2 * 64 * width) + width * 256)


LENET = [conv(64, 1, 6, 5, 28), conv(64, 6, 16, 5, 10), 64 * (400 * 120 + 120 * 84 + 84 * 10)]
CNN = [conv(16, 1, 16, 3, 28), conv(16, 16, 32, 3, 14) + 16 * 1568 * 10]
# What needs no gradient of its input counts twice, the rest three times.
MULTIPLY_ADDS = {
    "linear_fwd": 8 * 64 * 64,
    "mlp_fwd": 8 * (32 * 64 + 64 * 64 + 64 * 10),
    "mlp_fwd_bwd": 8 * (2 * 32 * 64 + 3 * (64 * 64 + 64 * 10)),
    "lstm_fwd_bwd": 32 * 8 * 4 * (2 * 64 * 64 + 3 * 64 * 64),
    "gru_fwd_bwd": 32 * 8 * 3 * (2 * 64 * 64 + 3 * 64 * 64),
    "lenet_b64": 2 * LENET[0] + 3 * sum(LENET[1:]),
    "cnn28_fwd_bwd": 2 * CNN[0] + 3 * CNN[1],
    "matmul_512": 512 ** 3,
    "matmul_2048": 2048 ** 3,
    "resnet18_fwd_b1": resnet18(224),
    "resnet18_fwd_b8": 8 * resnet18(224),
    "resnet18_train_b4_64": 4 * (3 * resnet18(64) - conv(1, 3, 64, 7, 32)),
    "gpt2_tiny": 3 * gpt2(),
}


def measured(build, step, rounds):
    """Nanoseconds of the peak's step, of this one here, and in PyTorch."""
    bench = os.path.join(build, "bin", "runtime_bench")
    ours = [[bench, "--step", name, "--threads", "1", "--serve"] for name in ("peak", step)]
    peer = [sys.executable, speed_table.__file__, "--peer", step, "1"]
    return speed_table.take_turns([speed_table.Server(command, 1) for command in (*ours, peer)], 1, rounds, seconds=10)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rows", help="steps, separated by commas; all of them otherwise")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    print("| step | multiply-adds | at the peak | here | of the peak | PyTorch | of the peak | ratio | most |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for step in options.rows.split(",") if options.rows else MULTIPLY_ADDS:
        work = MULTIPLY_ADDS[step]
        peak, mine, theirs = measured(options.build, step, options.rounds)
        least = work * peak / MULTIPLY_ADDS_OF_PEAK
        cells = [f"`{step}`", f"{work / 1e6:.3g} M", speed_table.text_of(least), speed_table.text_of(mine),
                 f"{least / mine:.2f}", speed_table.text_of(theirs), f"{least / theirs:.2f}", f"{theirs / mine:.3g}",
                 f"{theirs / least:.3g}"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
