#!/usr/bin/env python3
"""Time of the runtime's steps beside PyTorch's, in one run, as a Markdown table.

usage: speed_table.py BUILD [--rows A,B] [--threads 1,2] [--rounds N] [-o TABLE.md]

Both sides keep a step in a process of their own and take turns, 5 ms or one step at a time; the table holds the
smallest time of each, because whatever else the machine does can only add to it. One thread is timed by the processor
time it takes, several by the clock on the wall. DataParallel's rows compare two replicas with one of ours. Needs torch,
and torchvision for ResNet-18. Exit status 1 when a row misses its bar.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import time

Row = collections.namedtuple("Row", "title bar step peer threads")
ONE, BOTH = (1,), (1, 2)


def row(title, bar, step, peer=None, threads=ONE):
    return Row(title, bar, step, peer or "torch:" + step, threads)


ROWS = [
    row("add of 4 floats, no gradient", 35, "add4"),
    row("`Linear(64, 64)`, batch 8, forward", 15, "linear_fwd"),
    row("MLP 32-64-64-10, batch 8, forward", 20, "mlp_fwd"),
    row("the same, forward and backward", 18, "mlp_fwd_bwd"),
    row("the same and Adam's update", 32, "mlp_adam"),
    row("linear regression step, 506 x 13", 24, "boston_linear"),
    row("LSTM 64, 32 steps, batch 8, forward and backward", 2.6, "lstm_fwd_bwd", threads=BOTH),
    row("GRU, the same", 12, "gru_fwd_bwd", threads=BOTH),
    row("LeNet-5 step, batch 64", 4, "lenet_b64", threads=BOTH),
    row("CNN on 28 x 28, batch 16, forward and backward", 5, "cnn28_fwd_bwd", threads=BOTH),
    *(row(f"f32 product {n} x {n}", 2, f"matmul_{n}", threads=BOTH) for n in (256, 512, 1024, 2048)),
    row("ResNet-18 forward, 224 x 224, batch 1", 3, "resnet18_fwd_b1", threads=BOTH),
    row("ResNet-18 forward, batch 8", 3.5, "resnet18_fwd_b8", threads=BOTH),
    row("the same, against PyTorch's channels-last run", 1.3, "resnet18_fwd_b8", "torch:resnet18_fwd_b8_last", BOTH),
    row("ResNet-18 step, 64 x 64, batch 4", 2.5, "resnet18_train_b4_64", threads=BOTH),
    row("GPT-2 of 4 layers, 128 wide, step", 2.5, "gpt2_tiny", threads=BOTH),
    row("AdamW's update of 10 M parameters", 1, "adamw_10m", threads=BOTH),
    row("`DataLoader`, 10,000 items, batch 30", 50, "dataloader_epoch"),
    row("printing 1,000 values", 60, "print_1000"),
    row("`DataParallel`, 10 M parameters, batch 64, against one replica", 1.4, "dp_two_replicas", "ours:dp_one_replica"),
    row("the same, batch 2048", 1.8, "dp_two_replicas_2048", "ours:dp_one_replica_2048"),
    row("the same, against one replica on half the batch (1 - own overhead)", 0.95, "dp_two_replicas_2048",
        "ours:dp_one_replica_1024"),
]


def forward(net, x):
    import torch
    net.eval()

    def go():
        with torch.no_grad():
            net(x)
    return go


def training(net, x, y, loss_of, optimizer=None):
    def go():
        (optimizer or net).zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        if optimizer:
            optimizer.step()
        return loss.item()
    return go


def classified(net, x, classes, optimizer=None):
    import torch
    y = torch.randint(0, classes, (len(x),))
    return training(net, x, y, torch.nn.functional.cross_entropy, optimizer)


def small_mlp():
    from torch import nn
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def pooled(*layers):
    from torch import nn
    return [part for layer in layers for part in (layer, nn.ReLU(), nn.MaxPool2d(2))]


def resnet():
    import torchvision
    return torchvision.models.resnet18(weights=None)


def gpt2():
    import torch
    from torch import nn
    import torch.nn.functional as f

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(128), nn.LayerNorm(128)
            self.qkv, self.out = nn.Linear(128, 384), nn.Linear(128, 128)
            self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (4, 32)).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1))
            heads = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(heads.transpose(1, 2).flatten(2))
            return x + self.down(f.gelu(self.up(self.after(x)), approximate="tanh"))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, 128), nn.Embedding(64, 128)
            self.body = nn.Sequential(*(Block() for _ in range(4)), nn.LayerNorm(128), nn.Linear(128, 256, bias=False))

        def forward(self, ids):
            return self.body(self.tokens(ids) + self.places.weight)

    net = Decoder()
    ids, target = torch.randint(0, 256, (4, 64)), torch.randint(0, 256, (256,))
    return training(net, ids, target, lambda out, y: f.cross_entropy(out.flatten(0, 1), y),
                    torch.optim.AdamW(net.parameters(), lr=1e-3))


def adamw():
    import torch
    from torch import nn
    net = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048),
                        nn.ReLU(), nn.Linear(2048, 10))
    classified(net, torch.randn(64, 1024), 10)()
    return torch.optim.AdamW(net.parameters(), lr=1e-3).step


def epoch():
    import torch

    class Rows(torch.utils.data.Dataset):
        data = torch.randn(10000, 5)

        def __len__(self):
            return 10000

        def __getitem__(self, i):
            return self.data[i]
    loader = torch.utils.data.DataLoader(Rows(), batch_size=30, shuffle=True)
    return lambda: sum(len(batch) for batch in loader)


def peer_step(name):
    import torch
    from torch import nn
    randn, adam, sgd = torch.randn, torch.optim.Adam, torch.optim.SGD
    if name == "add4":
        a, b = torch.ones(4), torch.ones(4)
        return lambda: a + b
    if name == "linear_fwd":
        return forward(nn.Linear(64, 64), randn(8, 64))
    if name.startswith("mlp_"):
        net = small_mlp()
        if name == "mlp_fwd":
            return forward(net, randn(8, 32))
        return classified(net, randn(8, 32), 10, adam(net.parameters(), lr=1e-3) if name == "mlp_adam" else None)
    if name == "boston_linear":
        net = nn.Linear(13, 1)
        return training(net, randn(506, 13), randn(506, 1), nn.functional.mse_loss, sgd(net.parameters(), lr=1e-2))
    if name in ("lstm_fwd_bwd", "gru_fwd_bwd"):
        net = (nn.LSTM if name[0] == "l" else nn.GRU)(64, 64)
        return training(net, randn(32, 8, 64), None, lambda out, _: out[0].sum())
    if name == "lenet_b64":
        net = nn.Sequential(*pooled(nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)), nn.Flatten(), nn.Linear(400, 120),
                            nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
        return classified(net, randn(64, 1, 28, 28), 10, sgd(net.parameters(), lr=1e-2, momentum=0.9))
    if name == "cnn28_fwd_bwd":
        net = nn.Sequential(*pooled(nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)), nn.Flatten(),
                            nn.Linear(1568, 10))
        return classified(net, randn(16, 1, 28, 28), 10)
    if name.startswith("matmul_"):
        size = int(name.split("_")[1])
        a, b = randn(size, size), randn(size, size)
        return lambda: torch.matmul(a, b)
    if name == "resnet18_train_b4_64":
        net = resnet()
        return classified(net, randn(4, 3, 64, 64), 1000, sgd(net.parameters(), lr=1e-2, momentum=0.9))
    if name.startswith("resnet18_fwd"):
        net, x = resnet(), randn(int(name.split("_")[2][1:]), 3, 224, 224)
        if name.endswith("_last"):
            net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        return forward(net, x)
    if name == "print_1000":
        torch.set_printoptions(threshold=2000)
        x = randn(1000)
        return lambda: str(x)
    return {"gpt2_tiny": gpt2, "adamw_10m": adamw, "dataloader_epoch": epoch}[name]()


def serve_peer(name, threads):
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    step = peer_step(name)
    now = time.process_time_ns if threads == 1 else time.perf_counter_ns

    def run(count, clock):
        begin = clock()
        for _ in range(count):
            step()
        return (clock() - begin) / count
    begin, warm = time.monotonic(), 0
    while warm < 3 or time.monotonic() - begin < 0.3:
        run(1, now)
        warm += 1
    count = max(1, int(5e6 / min(run(3, time.perf_counter_ns) for _ in range(5))))
    print("{}", flush=True)
    for _ in sys.stdin:
        print(f"{run(count, now):.1f}", flush=True)


class Server:
    def __init__(self, command, threads):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        if not self.process.stdout.readline():
            sys.exit(f"speed_table.py: did not start: {' '.join(command)}")
        self.best = float("inf")

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.best = min(self.best, float(self.process.stdout.readline()))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def take_turns(servers, threads, rounds, seconds):
    """The smallest time of each, after so many rounds, or after ten and so many seconds."""
    begin = time.monotonic()
    for i in range(rounds):
        for server in servers:
            time.sleep(0 if threads == 1 else 0.01)  # idle threads of the other side wait in a loop at first
            server.turn()
        if i >= 9 and time.monotonic() - begin > seconds:
            break
    for server in servers:
        server.close()
    return [server.best for server in servers]


def measure(bench, one, threads, rounds):
    ours = lambda step: [bench, "--step", step, "--threads", str(threads), "--serve"]
    kind, step = one.peer.split(":")
    peer = ours(step) if kind == "ours" else [sys.executable, __file__, "--peer", step, str(threads)]
    return take_turns([Server(ours(one.step), threads), Server(peer, threads)], threads, rounds, seconds=10)


def text_of(ns):
    unit, scale = ("ns", 1) if ns < 1e3 else ("us", 1e3) if ns < 1e6 else ("ms", 1e6)
    return f"{ns / scale:.3g} {unit}" if ns / scale < 100 else f"{ns / scale:.0f} {unit}"


def table(results):
    lines = ["| work | at least | one thread | ratio | two threads | ratio |", "|---|--:|--:|--:|--:|--:|"]
    rows = {}
    for one, threads, mine, theirs in results:
        rows.setdefault(one, {})[threads] = f"{text_of(mine)} | {theirs / mine:.3g}"
    for one, cells in rows.items():
        lines.append(f"| {one.title} | {one.bar} | {cells.get(1, '|')} | {cells.get(2, '|')} |".replace("||", "| |"))
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--peer"]:
        return serve_peer(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rows", help="steps, separated by commas; all of them otherwise")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", help="append each result to this file")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    wanted = options.rows.split(",") if options.rows else [one.step for one in ROWS]
    unknown = set(wanted) - {one.step for one in ROWS}
    if unknown:
        sys.exit(f"speed_table.py: no such rows: {', '.join(sorted(unknown))}; there are: "
                 + ", ".join(dict.fromkeys(one.step for one in ROWS)))
    bench = os.path.join(options.build, "bin", "runtime_bench")
    results = []
    for one in ROWS:
        for threads in sorted(set(one.threads) & set(map(int, options.threads.split(",")))):
            if one.step not in wanted:
                continue
            mine, theirs = measure(bench, one, threads, options.rounds)
            results.append((one, threads, mine, theirs))
            print(f"{one.step} {one.peer} {threads}: {text_of(mine)} {text_of(theirs)} {theirs / mine:.3g} of {one.bar}",
                  file=sys.stderr, flush=True)
            if options.json:
                with open(options.json, "a") as out:
                    out.write(json.dumps({"step": one.step, "peer": one.peer, "threads": threads, "ns": mine,
                                          "peer_ns": theirs, "ratio": theirs / mine, "bar": one.bar}) + "\n")
    if options.output:
        with open(options.output, "w") as out:
            out.write(table(results))
    else:
        print(table(results), end="")
    return int(any(theirs / mine < one.bar for one, _, mine, theirs in results))


if __name__ == "__main__":
    sys.exit(main())
