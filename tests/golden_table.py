#!/usr/bin/env python3
"""What is equal to the real libraries, counted from the golden programs, as Markdown tables.

usage: golden_table.py [families | tokenizers | blocks]... [--full] [--build FOLDER]

families    families of the zoo by configuration: keys and text, fresh weights, outputs, gradients, steps of training
tokenizers  tokenizers by script
blocks      quantised types of GGUF: values read, blocks written
Runs golden_zoo_models, golden_tokenizers and golden_blocks of the build folder (build) with its golden data, or with
those of CKPT_GOLDEN_DIR; --full adds the models of full size (minutes). Ends with 1 where a case failed.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of "mobilenetv3small" and "resnet50"; the last one is of names that have no letters behind their numbers.
FAMILIES_OF_TORCHVISION = (
    r"mobilenetv\d|efficientnet(v2)?|shufflenet|regnet|convnext|deeplabv3|fcn|inceptionv3|vit|swin|[a-z]+"
)
COLUMNS = {
    "keys, versions, text": ("layout",),
    "ties": ("ties",),
    "fresh weights": ("init", "init_outputs"),
    "f32 outputs": ("formula_f32",),
    "f64 outputs": ("formula_f64",),
    "gradients": ("backward",),
    "training": ("train", "data_parallel"),
}


def run(build, golden, program, *words):
    """[(id, passed)] of one golden program."""
    with tempfile.NamedTemporaryFile() as listed:
        environment = dict(os.environ, CKPT_GOLDEN_DIR=str(golden), CKPT_GOLDEN_LIST=listed.name)
        path = build / "bin" / program
        if not path.exists():
            sys.exit(f"golden_table.py: {path} is not built; 'bash tests/run.sh' builds it")
        done = subprocess.run([path, *words], env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode == 77:
            sys.exit(f"golden_table.py: {golden} has no golden data for {program}; 'bash tests/run.sh' unpacks them")
        if done.returncode not in (0, 1):
            sys.exit(f"golden_table.py: {program} ended with {done.returncode}")
        sys.stderr.write(done.stdout.rstrip().rsplit("\n", 1)[-1] + "\n")
        lines = pathlib.Path(listed.name).read_text().splitlines()
    return [(line.split("\t")[1], line.startswith("passed")) for line in lines]


def print_table(first, columns, rows):
    print(f"| {first} | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, cells in sorted(rows.items(), key=lambda row: row[0].lower()):
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


def share(results):
    if not results:
        return ""
    return str(len(results)) if all(results) else f"{sum(results)} of {len(results)}"


def family(case):
    """The library and the family that a case's constructor belongs to."""
    library, name = case["constructor"].split("(")[0].rsplit(".", 1)
    if library == "transformers":
        name = re.sub(r"(For[A-Z]\w*|LMHeadModel|EncoderModel|TextModel|VisionModel|Model)$", "", name)
    if library.startswith("torchvision"):
        name = name.lower().replace("_", "").replace("visiontransformer", "vit").replace("swintransformer", "swin")
        name = re.match(FAMILIES_OF_TORCHVISION, name)[0]
    return f"{name} ({library.split('.')[0].replace('language_models', 'nanoGPT').replace('small_models', 'tutorials')})"


def families(build, golden, full):
    cases = {}
    for folder in ("small", "language", "vision"):
        for path in (golden / "zoo" / folder).glob("*.json"):
            case = json.loads(path.read_text())
            cases[case["name"]] = case
    results = collections.defaultdict(list)
    configurations = collections.defaultdict(set)
    for folder in ("small", "language", "vision"):
        for words in [(folder,)] + ([(folder, "--full")] if full else []):
            for name, passed in run(build, golden, "golden_zoo_models", *words):
                case, what = name.rsplit("/", 1)
                configurations[family(cases[case])].add(case)
                results[family(cases[case]), what].append(passed)
    rows = {}
    for name, all_cases in configurations.items():
        cells = [share([one for what in kinds for one in results[name, what]]) for kinds in COLUMNS.values()]
        rows[name] = [str(len(all_cases))] + cells
    print_table("family", ["configurations", *COLUMNS], rows)
    return all(one for found in results.values() for one in found)


def tokenizers(build, golden, _full):
    results = collections.defaultdict(list)
    scripts = {}
    for name, passed in run(build, golden, "golden_tokenizers"):
        if name.startswith("sweep_"):
            results[name[len("sweep_"):].split("/")[0], "all characters"].append(passed)
            continue
        folder, number = name.rsplit("/", 1)
        if folder not in scripts:
            scripts[folder] = json.loads((golden / "text" / "tokenizers" / folder / "expected.json").read_text())
        results[folder, scripts[folder][int(number)]["script"]].append(passed)
    columns = sorted({script for _, script in results}, key=lambda script: (script == "all characters", script))
    rows = {name: [share(results.get((name, script), [])) for script in columns] for name, _ in results}
    print_table("tokenizer", columns, rows)
    return all(one for found in results.values() for one in found)


def blocks(build, golden, _full):
    results = collections.defaultdict(list)
    for name, passed in run(build, golden, "golden_blocks"):
        words = name.split("/")
        kind = "written" if words[1] == "packed" else "read"
        results[words[2 if kind == "written" else 1], kind].append(passed)
    rows = {name: [share(results.get((name, kind), [])) for kind in ("read", "written")] for name, _ in results}
    print_table("type", ["read, equal to the bit", "written, equal to the bit"], rows)
    return all(one for found in results.values() for one in found)


# Each prints its table, and says whether all in it is equal.
TABLES = {"families": families, "tokenizers": tokenizers, "blocks": blocks}


def main():
    parser = argparse.ArgumentParser(
        usage="golden_table.py [families | tokenizers | blocks]... [--full] [--build FOLDER]",
        description=__doc__.split("\n\n", 2)[0] + "\n\n" + __doc__.split("\n\n", 2)[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", choices=[[], *TABLES], help="one of those; default: all")
    parser.add_argument("--full", action="store_true", help="models of full size too")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="default: build")
    wanted = parser.parse_args()
    golden = pathlib.Path(os.environ.get("CKPT_GOLDEN_DIR") or wanted.build / "golden")
    good = [TABLES[name](wanted.build, golden, wanted.full) for name in wanted.tables or TABLES]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
