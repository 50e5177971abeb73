"""Packs the key lists of known models into manifests.txt.zst, which the build compiles in.

    python make_manifests.py GOLDEN_ZOO_FOLDER [OUT]

The folder holds manifests/*.txt and vision/, language/, small/*.json as tests/golden/zoo.tar.xz has them. The packed text
is one block a model in the text form that libckpt/analyze/key_list.h describes, sorted by name. Models that exist for
tests only are left out. Needs the program zstd.
"""
import glob
import json
import os
import subprocess
import sys

TEST_ONLY = ("_tiny", "_10_classes", "_twin", "_half")
PUBLISHED = ("convnext_tiny", "qwen2_half_b_shape", "whisper_tiny")  # in spite of their names


def shape_text(shape):
    return "x".join(map(str, shape)) or "scalar"


def from_json(path):
    model = json.load(open(path))
    name = os.path.splitext(os.path.basename(path))[0]
    lines = ["# name " + name, "# reference " + reference_text(model["reference"]),
             "# arguments " + json.dumps(model.get("arguments") or {}),
             "# parameters %d" % model["parameters"], "# tensors %d" % len(model["state_dict"])]
    lines += ["%s %s %s %s" % (e["key"], shape_text(e["shape"]), e["dtype"], e["kind"]) for e in model["state_dict"]]
    lines += ["~ %s %s" % (path or ".", version) for path, version in model["metadata"] if version != 1]
    lines += ["= " + " ".join(group) for group in model.get("ties") or []]
    lines += ["- %s %s %s" % (key, shape_text(shape), dtype) for key, shape, dtype in model.get("nonpersistent_buffers") or []]
    return name, lines


def reference_text(reference):
    return reference if isinstance(reference, str) else ", ".join("%s %s" % pair for pair in reference.items())


def from_text(path):
    lines = [line for line in open(path).read().splitlines() if not line.startswith("# repr_")]
    return os.path.splitext(os.path.basename(path))[0], lines


def classifier_of(bert):
    """BertForSequenceClassification with two labels, out of the lines of BertModel."""
    out = []
    for line in bert:
        if line.startswith("# name "):
            line = "# name bert_base_classifier"
        elif line.startswith("# parameters ") or line.startswith("# tensors "):
            word, number = line.rsplit(" ", 1)
            line = "%s %d" % (word, int(number) + (2 * 768 + 2 if "parameters" in word else 2))
        elif line.startswith("- ") or line.startswith("~ "):
            line = line[:2] + "bert." + line[2:]
        elif not line.startswith("#"):
            line = "bert." + line
        out.append(line)
    at = next((i for i, line in enumerate(out) if line[:2] in ("~ ", "= ", "- ")), len(out))
    return out[:at] + ["classifier.weight 2x768 float32 parameter", "classifier.bias 2 float32 parameter"] + out[at:]


def main():
    folder = sys.argv[1]
    out = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "manifests.txt.zst")
    models = dict(from_text(path) for path in glob.glob(os.path.join(folder, "manifests", "*.txt")))
    for group in ("vision", "language", "small"):
        models.update(from_json(path) for path in glob.glob(os.path.join(folder, group, "*.json")))
    models["bert_base_classifier"] = classifier_of(models["bert_base"])
    names = [name for name in sorted(models) if name in PUBLISHED or not any(t in name for t in TEST_ONLY)]
    text = "".join("\n".join(models[name]) + "\n" for name in names)
    subprocess.run(["zstd", "-q", "-f", "-22", "--ultra", "--long=24", "--content-size", "--no-check", "-o", out, "--stream-size=%d" % len(text.encode())],
                   input=text.encode(), check=True)
    print("%d models, %d bytes of text, %d packed" % (text.count("# name "), len(text.encode()), os.path.getsize(out)))


if __name__ == "__main__":
    main()
