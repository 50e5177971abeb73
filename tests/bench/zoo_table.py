#!/usr/bin/env python3
"""Time per forward of the zoo's models beside PyTorch's, in one run, as a Markdown table.

usage: zoo_table.py BUILD [--models A,B|all] [--batches 1,8] [--threads 1,2] [--rounds N] [-o TABLE.md]
                    [--store ROWS.json --seconds N] [--page zoo/README.md --golden DIR]

Both sides keep the model in a process of their own and take turns, pass by pass; the table holds the smallest time of
each, because whatever else the machine does can only add to it. Before each turn both rest, for the threads of the side
that was last wait for more work for some milliseconds, and take a core from the other; then a pass that is not timed
brings the caches back (short passes only: long ones do not find their weights there anyway). One thread is timed by the
processor time it takes, several by the clock on the wall. Needs torch; torchvision and transformers for their
models. Models whose Python twin cannot be built are listed without a time of theirs.
"""
import argparse
import json
import os
import subprocess
import sys
import time

SMALL = ["mlp", "lenet5", "mnist_net", "cifar_net", "batchnorm_net", "simple_rnn", "step_rnn", "char_lstm",
         "char_lstm_2_layers", "char_gru", "bilstm_classifier", "encoder_classifier", "encoder_classifier_prenorm",
         "autoencoder", "vae", "word2vec", "capsnet", "capsnet_small"]
CNN = ["alexnet", "vgg11", "vgg16", "vgg16_bn", "resnet18", "resnet34", "resnet50", "resnet101", "resnext50_32x4d",
       "wide_resnet50_2", "squeezenet1_0", "squeezenet1_1", "densenet121", "googlenet", "inception_v3", "mobilenet_v2",
       "mobilenet_v3_small", "mobilenet_v3_large", "shufflenet_v2_x1_0", "efficientnet_b0", "efficientnet_b4",
       "regnet_y_400mf", "regnet_x_400mf", "convnext_tiny"]
TRANSFORMER = ["vit_b_16", "vit_b_32", "swin_t", "hf_vit_base", "gpt2", "bert_base", "llama_1b_shape"]
TOO_LARGE = ["llama_7b_shape"]  # 27 GB, twice
WARM_BELOW_NS = 1e8  # as kWarmBelow in zoo_bench.cpp
REST_SECONDS = 0.02
ENOUGH = [(2.5, 4), (15, 2)]  # seconds of one row, once each side had so many turns


def serve_torch(name, batch, threads):
    import torch
    from zoo_twins import twin
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, make = twin(name)
    model.eval()
    x = make(batch)
    with torch.inference_mode():
        now = time.process_time_ns if threads == 1 else time.perf_counter_ns

        def run(repeats):
            begin = now()
            for _ in range(repeats):
                model(x)
            return (now() - begin) / repeats
        least = run(1)
        if least < 1e9:
            least = max(1, min(least, run(1), run(1)))
        repeats = max(1, min(1000, int(5e6 / least)))
        print(json.dumps({"parameters": sum(p.numel() for p in model.parameters())}), flush=True)
        for _ in sys.stdin:
            if least < WARM_BELOW_NS:
                run(1)
            print(f"{run(repeats):.0f}", flush=True)


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline()
        self.about = json.loads(line) if line else None

    def time(self):
        time.sleep(REST_SECONDS)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(bench, name, batch, threads, rounds):
    ours = Server([bench, name, "--batch", str(batch), "--threads", str(threads), "--serve"])
    theirs = Server([sys.executable, __file__, "--torch", name, str(batch), str(threads)])
    row = {"model": name, "batch": batch, "threads": threads, "ours": None, "theirs": None}
    if ours.about:
        row.update(ours.about)
    begin = time.monotonic()
    for i in range(rounds):
        for key, server in (("ours", ours), ("theirs", theirs)):
            if server.about:
                ns = server.time()
                row[key] = ns if row[key] is None else min(row[key], ns)
        if any(time.monotonic() - begin > seconds and i + 1 >= turns for seconds, turns in ENOUGH):
            break
    ours.close()
    theirs.close()
    return row


def millis(ns):
    return "-" if ns is None else f"{ns / 1e6:.3g}" if ns < 1e8 else f"{ns / 1e6:.0f}"


def ratio(row):
    return row["theirs"] / row["ours"] if row and row["ours"] and row["theirs"] else 0


def table(rows):
    """One line a measurement, the slowest beside PyTorch first."""
    lines = ["| model | parameters | keys | batch | threads | here, ms | PyTorch, ms | ratio |",
             "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for row in sorted(rows, key=ratio):
        lines.append(f"| {row['model']} | {row.get('parameters', 0):,} | {row.get('keys', '-')} | {row['batch']} | "
                     f"{row['threads']} | {millis(row['ours'])} | {millis(row['theirs'])} | "
                     f"{f'{ratio(row):.2f}' if ratio(row) else '-'} |")
    return "\n".join(lines) + "\n"


def golden_status(root):
    """What the golden data hold of every model: its keys, or also what it computes."""
    status = {}
    for entry in json.load(open(os.path.join(root, "zoo", "index.json"))):
        if not entry["file"].endswith(".json"):
            continue
        model = json.load(open(os.path.join(root, "zoo", entry["file"])))
        words = ["keys, text"]
        if "init" in model and not model["constructor"].startswith("transformers."):
            words.append("initial bits")
        cases = model.get("formula", {}).get("cases", [])
        if cases or model.get("init", {}).get("cases"):
            words.append("outputs")
        if any("backward" in case for case in cases):
            words.append("gradients")
        if "train" in model:
            words.append("training")
        status[entry["name"]] = words
    return status


def listed_models(build):
    """Name, parameters and keys of the models that the zoo makes, family by family."""
    def output(program, *arguments):
        return subprocess.run([os.path.join(build, "bin", program), *arguments], check=True, capture_output=True,
                              text=True).stdout
    known = {model["name"]: model for model in json.loads(output("ckpt", "zoo", "ls", "--json"))["models"]}
    return [known[name] for name in output("zoo_bench", "--list").split()]


def page(rows, models, status, configurations):
    """One line a model of the zoo, a column a configuration: milliseconds here, and how many times as long PyTorch."""
    title = "| model | parameters | keys | golden |" + "".join(
        f" batch {batch}, {threads} thread{'s' if threads > 1 else ''} |" for batch, threads in configurations)
    lines = [title, "|---|--:|--:|---|" + "--:|" * len(configurations)]
    found = {(row["model"], row["batch"], row["threads"]): row for row in rows}
    for model in models:
        name = model["name"]
        cells = []
        for configuration in configurations:
            row = found.get((name, *configuration))
            cells.append(f"{millis(row['ours'])} ({ratio(row):.1f}x)" if ratio(row) else millis(row and row["ours"]))
        lines.append(f"| `{name}` | {model['parameters']:,} | {model['tensors']} | "
                     f"{', '.join(status.get(name, ['keys']))} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def put_between_marks(path, text):
    """Replaces what stands in a file between the marks of this table."""
    begin, end = "<!-- zoo_table begin -->\n", "<!-- zoo_table end -->"
    old = open(path).read()
    if begin not in old or end not in old:
        sys.exit(f"zoo_table.py: {path}: holds no {begin.strip()} and {end}")
    with open(path, "w") as out:
        out.write(old[:old.index(begin) + len(begin)] + text + old[old.index(end):])


def load_store(path):
    return json.load(open(path)) if path and os.path.exists(path) else []


def measure_missing(options, rows, wanted):
    """Measures what `rows` lacks, and keeps it after every row; begins nothing after options.seconds."""
    done = {(row["model"], row["batch"], row["threads"]) for row in rows}
    begin = time.monotonic()
    for name, batch, threads in wanted:
        if (name, batch, threads) in done:
            continue
        if options.seconds and time.monotonic() - begin > options.seconds:
            print("time is up; the same command goes on", file=sys.stderr)
            return
        row = measure(os.path.join(options.build, "bin", "zoo_bench"), name, batch, threads, options.rounds)
        rows.append(row)
        done.add((name, batch, threads))
        if options.store:
            with open(options.store, "w") as out:
                json.dump(rows, out)
        print(f"{name} batch {batch} threads {threads}: {millis(row['ours'])} against {millis(row['theirs'])} ms, "
              f"{ratio(row):.2f}", file=sys.stderr, flush=True)


def main():
    if sys.argv[1:2] == ["--torch"]:
        return serve_torch(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--models", default="cnn,transformer,small", help="names and groups: cnn, transformer, small, all, none")
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--store", help="JSON file that keeps measurements; what it holds is not measured again")
    parser.add_argument("--seconds", type=float, default=0, help="begin no measurement after this time")
    parser.add_argument("--again", type=float, default=0, help="forget what --store holds below this ratio")
    parser.add_argument("--golden", help="golden folder, for the page")
    parser.add_argument("--page", help="put a line for each model of the zoo into this file, between its marks")
    parser.add_argument("-o", "--output", help="a line for each measurement (default: standard output)")
    options = parser.parse_args()
    groups = {"cnn": CNN, "transformer": TRANSFORMER, "small": SMALL, "none": []}
    if "all" in options.models.split(","):
        groups["all"] = [model["name"] for model in listed_models(options.build) if model["name"] not in TOO_LARGE]
    names = [name for word in options.models.split(",") for name in groups.get(word, [word])]
    configurations = [(batch, threads) for threads in map(int, options.threads.split(","))
                      for batch in map(int, options.batches.split(","))]
    wanted = [(name, *configuration) for configuration in configurations for name in names]
    rows = [row for row in load_store(options.store) if not 0 < ratio(row) < options.again]
    measure_missing(options, rows, wanted)
    if options.page:
        put_between_marks(options.page, page(rows, listed_models(options.build), golden_status(options.golden),
                                             configurations))
    elif options.output:
        with open(options.output, "w") as out:
            out.write(table(rows))
    else:
        print(table(rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
