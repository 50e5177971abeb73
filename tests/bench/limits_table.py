#!/usr/bin/env python3
"""How near steps come to what a core multiplies and moves at most, here and in PyTorch, as a Markdown table.

usage: limits_table.py BUILD [--rows A,B] [--rounds N]

One thread. runtime_bench's steps `peak` (multiply-adds in registers), `memory` (bytes beyond the second cache),
`peak_roots` and `peak_result` (a tensor made and let go, without values) take turns with each row's two sides. A row's
multiply-adds are those of its products and convolutions by their definition, so that Winograd's way may pass the peak;
its bytes are weights, their gradients and the optimizer's state, as often as each has to come or go, where the second
cache does not hold them; its tensors are the results that operations, gradients included, have to give; Adam has a root
and a quotient for each parameter. "least" is the time of all that, one after the other; "most" is what the ratio would
be then. Exit status 0 whatever the figures; a bar above "most" is marked.
"""
import argparse
import os
import sys

import speed_table

MULTIPLY_ADDS_OF_PEAK = 12 << 18
BYTES_OF_MEMORY = 96 << 20


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
    "add4": 0,
    "linear_fwd": 8 * 64 * 64,
    "mlp_fwd": 8 * (32 * 64 + 64 * 64 + 64 * 10),
    "mlp_fwd_bwd": 8 * (2 * 32 * 64 + 3 * (64 * 64 + 64 * 10)),
    "mlp_adam": 8 * (2 * 32 * 64 + 3 * (64 * 64 + 64 * 10)),
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
    "adamw_10m": 0,
}

RESNET, GPT2, WIDE = 11_689_512, 4 * 198_272 + 2 * 256 * 128 + 64 * 128 + 256, 10_512_394  # parameters
# Forward reads each, the gradient of the input too; a gradient is written and read, an update reads and writes a
# parameter and each number of the optimizer's state. LeNet-5's, the CNN's and the MLP's stay in the second cache.
BYTES = {
    "resnet18_fwd_b1": 4 * RESNET,
    "resnet18_fwd_b8": 4 * RESNET,
    "resnet18_train_b4_64": 4 * RESNET * (2 + 2 + 2 * 2),
    "gpt2_tiny": 4 * GPT2 * (2 + 2 + 2 * 3),
    "adamw_10m": 4 * WIDE * (1 + 2 * 3),
    "matmul_2048": 4 * 3 * 2048 ** 2,
}


# Of the MLP: five layers, two steps of the loss; the gradients of six parameters, of what is in between, of the loss.
TENSORS = {"add4": 1, "linear_fwd": 1, "mlp_fwd": 5, "mlp_fwd_bwd": 7 + 6 + 6 + 1, "mlp_adam": 7 + 6 + 6 + 1}
ROOTS = {"mlp_adam": 1}  # in runs of peak_roots, which has as many as that network has parameters
LIMITS = ("peak", "memory", "peak_result", "peak_roots")


def measured(build, step, rounds):
    """Nanoseconds of the steps of LIMITS, of this one here, and in PyTorch."""
    bench = os.path.join(build, "bin", "runtime_bench")
    ours = [[bench, "--step", name, "--threads", "1", "--serve"] for name in (*LIMITS, step)]
    peer = [sys.executable, speed_table.__file__, "--peer", step, "1"]
    return speed_table.take_turns([speed_table.Server(command, 1) for command in (*ours, peer)], 1, rounds, seconds=10)


def row_of(step, times):
    peak, memory, result, roots, mine, theirs = times
    text, work, moved = speed_table.text_of, MULTIPLY_ADDS[step], BYTES.get(step, 0)
    bar = next(one.bar for one in speed_table.ROWS if one.step == step)
    made = TENSORS.get(step, 0)
    least = work * peak / MULTIPLY_ADDS_OF_PEAK + moved * memory / BYTES_OF_MEMORY
    least += made * result + ROOTS.get(step, 0) * roots
    beyond = " (beyond)" if bar > theirs / least else ""
    needs = [f"{work / 1e6:.3g} M" if work else "", f"{moved / 1e6:.3g} MB" if moved else "", str(made or "")]
    return [f"`{step}`", *needs, text(least), text(mine), f"{least / mine:.2f}", text(theirs), f"{least / theirs:.2f}",
            f"{theirs / mine:.3g}", f"{bar}{beyond}", f"{theirs / least:.3g}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rows", help="steps, separated by commas; all of them otherwise")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    columns = "multiply-adds bytes tensors least here of_it PyTorch of_it ratio at_least most".split()
    print("| step | " + " | ".join(column.replace("_", " ") for column in columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for step in options.rows.split(",") if options.rows else MULTIPLY_ADDS:
        print("| " + " | ".join(row_of(step, measured(options.build, step, options.rounds))) + " |", flush=True)


if __name__ == "__main__":
    main()
