#!/usr/bin/env python3
"""Makes the corpus of `ckpt why`: checkpoints as they go wrong, with what PyTorch says of each.

Run where torch, torchvision, timm, transformers, peft and safetensors are installed:

    OMP_NUM_THREADS=1 python make_cases.py OUT [--ckpt build/bin/ckpt] [--only REGEX]

OUT/files/SITUATION/  the files as the user has them
OUT/models/MODEL/     what the user can give to --for: keys.txt, shapes.txt, shapes.json, printed.txt, fresh.pth
OUT/cases.json        every case: the command, what PyTorch said before, what would be right; and the models, module by
                      module, with a checksum of the weights of every key
Everything is drawn from seeds: two runs with the same libraries give the same names, weights and messages (a file of the
old form also holds addresses of that run). Then: check_promises.py.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import time
import warnings

import torch

import broken_files
import differences
import folders
import messages
import models
import wrappings
from judge import in_child, judge_attempt
from situation import MODES, PIPED, REDIRECTED, SITUATIONS, WITHOUT_FILE

WITH_LIST = {"for_place", "for_shapes", "for_json", "for_file", "for_known", "all_three"}


# ---- models ----


def write_key_lists(name, folder):
    os.makedirs(folder, exist_ok=True)
    state = models.build(name).state_dict()
    with open(folder + "/keys.txt", "w") as out:
        out.writelines(key + "\n" for key in state)
    with open(folder + "/shapes.txt", "w") as out:
        out.writelines(f"{key} {value.shape}\n" for key, value in state.items())
    with open(folder + "/shapes.json", "w") as out:
        json.dump({key: list(value.shape) for key, value in state.items()}, out)
    with open(folder + "/printed.txt", "w") as out:
        out.write(str(state.keys()) + "\n")
    if not models.is_known(name):
        for value in state.values():
            value.zero_()  # nothing depends on the values, and they take no room in an archive
        torch.save(state, folder + "/fresh.pth")


def checksum(tensor):
    data = tensor.contiguous().view(torch.uint8) if tensor.dim() else tensor.reshape(1).view(torch.uint8)
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()[:12]


def weight_sums(name):
    """Of a model of full size the one number that all elements of a tensor are."""
    truth = models.trained(name)
    if models.is_known(name):
        return {key: value.flatten()[0].item() for key, value in truth.items()}
    return {key: checksum(value) for key, value in truth.items()}


def own_tensors(module, named):
    return [
        [name, list(tensor.shape), str(tensor.dtype).removeprefix("torch.")] for name, tensor in named if tensor is not None
    ]


def module_record(path, module):
    saved = [(n, b) for n, b in module._buffers.items() if n not in module._non_persistent_buffers_set]
    record = {
        "path": path,
        "class": type(module).__name__,
        "parameters": own_tensors(module, module._parameters.items()),
        "buffers": own_tensors(module, saved),
    }
    version = getattr(module, "_version", 1)
    if version != 1:
        record["version"] = version
    return record


def has_own_rules(module):
    """Loads otherwise than a list of tensors does: by a hook, or by a method of its own."""
    known = isinstance(module, (torch.nn.modules.batchnorm._NormBase,))
    own = type(module)._load_from_state_dict is not torch.nn.Module._load_from_state_dict
    return (own and not known) or bool(module._load_state_dict_pre_hooks) or bool(module._load_state_dict_post_hooks)


def ties_of(state):
    """Groups of names that share one tensor."""
    groups = {}
    for key, value in state.items():
        if value.numel() and value.device.type != "meta":
            groups.setdefault((value.data_ptr(), value.shape), []).append(key)
    return [names for names in groups.values() if len(names) > 1]


def model_record(name):
    model = models.prototype(name)
    modules = list(model.named_modules(remove_duplicate=False))
    return {
        "name": type(model).__name__,
        "modules": [module_record(path, module) for path, module in modules],
        "own_rules": sorted({type(m).__name__ for _, m in modules if has_own_rules(m)}),
        "sums": weight_sums(name),
        "ties": ties_of(model.state_dict()),
        "full_size": models.is_known(name),
    }


# ---- situations ----


def write_files(s, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    here = os.getcwd()
    os.chdir(folder)
    try:
        torch.manual_seed(1)
        s.write()
    finally:
        os.chdir(here)


def attempt_in(folder, s):
    def work():
        os.chdir(folder)
        return judge_attempt(s.attempt, s.model, s.through, s.free)

    return in_child(work)


def situation_record(s, before):
    record = {
        "family": s.family,
        "what": s.what,
        "format": s.form,
        "file": s.file,
        "model": s.model,
        "attempt": s.attempt,
        "before": {"loads": before["loads"], "says": before["says"]},
    }
    for name in ("through", "free", "known"):
        if getattr(s, name):
            record[name] = getattr(s, name)
    if before.get("traceback"):
        record["traceback"] = before["traceback"]
    return record


def expected(s, mode, before):
    if mode == "alone":
        return s.alone
    if mode in ("for_text", "for_printed"):
        return s.by_names or s.expect
    nested = s.what.startswith("nested_in")  # a message does not say what lies below
    if mode in WITHOUT_FILE and (nested or "state_dict for" not in before["says"]):
        return s.by_message or "any"
    if mode in WITH_LIST:
        return s.expect
    if "state_dict for" not in before["says"] and s.expect == "fixable":
        return s.alone  # the message does not speak of a model
    return s.by_message or s.expect


def with_words(word, words):
    """ "{file}::state_dict" with the file's name."""
    return re.sub(r"\{(\w+)\}", lambda m: words[m[1]], word)


def case_of(s, mode, before):
    needs_error = (
        mode in PIPED
        or mode in REDIRECTED
        or mode in WITHOUT_FILE
        or "error" in mode
        or mode in ("both_text", "traceback", "all_three")
    )
    if needs_error and before["loads"]:
        return None
    words = {"file": "./" + s.file if s.file.startswith("-") else s.file, "text": before["says"], "known": s.known}
    argv = [with_words(word, words) for word in MODES[mode]]
    case = {"id": f"{s.id}-{mode}", "situation": s.id, "mode": mode, "argv": argv, "expect": expected(s, mode, before)}
    if s.tells and (s.form != "message" or mode in WITHOUT_FILE):  # of a good file there is nothing to tell
        case["tells"] = s.tells
    if mode in PIPED:
        case["pipe"] = PIPED[mode]
    if mode in REDIRECTED:
        case["redirect"] = REDIRECTED[mode]
    return case


def modes_of(s, number):
    """Both ways to give a message by standard input, in turn."""
    return ["both_dash" if mode == "both_stdin" and number % 2 else mode for mode in s.modes]


def make(options):
    situations, cases = {}, []
    for s in SITUATIONS:
        if not re.search(options.only, s.id):
            continue
        assert s.id not in situations, s.id
        folder = os.path.join(options.out, "files", s.id)
        write_files(s, folder)
        before = attempt_in(folder, s)
        situations[s.id] = situation_record(s, before)
        cases += [case for mode in modes_of(s, len(situations)) if (case := case_of(s, mode, before))]
    return situations, cases


def main():
    if os.environ.get("PYTHONHASHSEED") != "0":  # libraries write down sets
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable] + sys.argv)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--ckpt", default="build/bin/ckpt", help="writes the files of our own formats")
    parser.add_argument("--only", default="", help="situations whose name this regular expression finds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["CKPT"] = os.path.abspath(options.ckpt)
    torch.set_num_threads(1)
    options.out = os.path.abspath(options.out)
    for part in (wrappings, differences, broken_files, folders, messages):
        part.add_all()
    started = time.time()
    situations, cases = make(options)
    names = sorted({record["model"] for record in situations.values()})
    for name in names:
        write_key_lists(name, os.path.join(options.out, "models", name.replace(" ", "_")))
    corpus = {
        "made_with": f"torch {torch.__version__.partition('+')[0]}",
        "models": {n: model_record(n) for n in names},
        "situations": situations,
        "cases": cases,
    }
    with open(options.out + "/cases.json", "w") as out:
        json.dump(corpus, out, indent=1, ensure_ascii=False)
    print(f"{len(situations)} situations, {len(cases)} cases, {len(names)} models in {time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
