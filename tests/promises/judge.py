"""What PyTorch makes of a file: is it loaded, strictly, and does every tensor get the weights that it had in training?

Use: verdict = in_child(lambda: judge_file("best.fixed.pth", "resnet18"))   # {"loads": True, "says": ""}
"""

import collections
import json
import os
import subprocess
import sys
import traceback
import warnings

import torch

import models


def in_child(work, seconds=60):
    """What `work` gives, computed in a process of its own: a crash, a changed model or folder stays there."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read_end)
            warnings.simplefilter("ignore")
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            import signal

            signal.alarm(seconds)
            with os.fdopen(write_end, "w") as out:
                json.dump(work(), out)
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"loads": False, "says": "the process ended without an answer"}


def outcome(work):
    """{"loads", "says"}: says is the exception as Python prints it."""
    try:
        work()
        return {"loads": True, "says": ""}
    except BaseException as error:
        return {"loads": False, "says": f"{type(error).__name__}: {error}"}


def state_of(path, ours=False):
    """What the usual call reads from a file, by its name. `ours`: the file may be of a format that PyTorch does not read."""
    if os.path.isdir(path):
        return joined(path)
    if path.endswith(".index.json"):
        return joined(os.path.dirname(path) or ".", os.path.basename(path))
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file

        return load_file(path)
    if path.endswith(".npz"):
        import numpy

        return {key: torch.from_numpy(value) for key, value in numpy.load(path).items()}
    if ours and not path.endswith((".pth", ".pt", ".bin")):
        return by_our_tool(path)
    return torch.load(path)


def by_our_tool(path):
    """Formats that PyTorch has no reader for, by way of one that it has."""
    other = path + ".judged.pth"
    made = subprocess.run([os.environ["CKPT"], "convert", path, other, "-f", "-q"], capture_output=True, text=True)
    if made.returncode != 0:
        raise OSError(made.stderr.strip())
    return torch.load(other)


def joined(folder, index=None):
    """A sharded model, as the usual loops over the index join it."""
    index = index or next(name for name in sorted(os.listdir(folder)) if name.endswith(".index.json"))
    with open(os.path.join(folder, index)) as file:
        names = sorted(set(json.load(file)["weight_map"].values()))
    whole = {}
    for name in names:
        whole.update(state_of(os.path.join(folder, name)))
    return whole


def default_load(path):
    """torch.load with its defaults; of .safetensors what stands for it."""
    if path.endswith(".safetensors"):
        return state_of(path)
    return torch.load(path)


def is_state_dict(tree):
    return isinstance(tree, dict) and len(tree) > 0 and all(isinstance(v, torch.Tensor) for v in tree.values())


def load_strictly(model, path, ours=False, at=""):
    tree = state_of(path, ours)
    if at and at in tree:  # the user named the dict, so the rest of the file stays
        tree = tree[at]
    try:
        model.load_state_dict(tree)
    except RuntimeError as first:
        if not path.endswith(".safetensors"):
            raise
        from safetensors.torch import load_model

        try:
            load_model(model, path)  # brings back the names that were dropped for a tie
        except RuntimeError:
            raise first from None


def wrong_values(model, truth, through="", free=()):
    """Keys whose weights are not, bit for bit, those of the training."""
    wrong = []
    for key, value in model.state_dict().items():
        if key.endswith(tuple(free)) and free:
            continue
        expected = truth[key]
        if through and expected.is_floating_point():
            expected = expected.to(getattr(torch, through)).to(expected.dtype)
        if value.dtype != expected.dtype or not torch.equal(value.cpu(), expected):
            wrong.append(key)
    return wrong


def check_values(model, name, through="", free=()):
    wrong = wrong_values(model, models.trained(name), through, free)
    if wrong:
        raise AssertionError(f"{len(wrong)} tensors hold other values than in training, such as {wrong[0]}")


def judge_file(path, name, through="", free=(), ours=False, at=""):
    """A file that is said to load strictly."""

    def work():
        model = models.build(name)
        load_strictly(model, path, ours, at)
        check_values(model, name, through, free)

    return outcome(work)


def judge_as_it_is(path, name, through="", free=(), target=True, ours=False):
    """A file that is said to load as it is: the default call gives a dict of tensors, which loads strictly."""

    def work():
        tree = state_of(path, True) if ours else default_load(path)
        if not is_state_dict(tree):
            raise TypeError(f"the default load gives {type(tree).__name__}, not a dict of tensors")
        if target:
            model = models.build(name)
            model.load_state_dict(tree)
            check_values(model, name, through, free)

    return outcome(work)


def judge_line(line, name, through="", free=()):
    """A line of Python that is said to load the weights, in an interpreter that has `torch` and `model`."""

    def work():
        model = models.build(name)
        before = {key: value.clone() for key, value in model.state_dict().items()}
        names = {"torch": torch, "model": model, "__name__": "__main__"}
        exec(compile(line, "pasted", "exec"), names)
        if "load_state_dict" not in line and "state_dict" in names:  # no model is known: it is only read
            if not is_state_dict(names["state_dict"]):
                raise TypeError("it gives no dict of tensors")
            return
        allowed = tuple(free)
        if "strict=False" in line:  # what was said to be missing keeps its values
            truth = models.trained(name)
            allowed += tuple(
                k for k, v in model.state_dict().items() if torch.equal(v, before[k]) and not torch.equal(v, truth[k])
            )
        check_values(model, name, through, allowed)

    return outcome(work)


def judge_call(call, name):
    """A call in an advice, whose result is a dict, or the model that it loads into."""

    def work():
        import safetensors.torch

        names = {"torch": torch, "safetensors": safetensors, "model": models.build(name)}
        eval(compile(call, "advised", "eval"), names)

    return outcome(work)


def all_values(state):
    """How often each tensor comes, whatever its name."""
    return collections.Counter((tuple(v.shape), v.contiguous().numpy().tobytes()) for v in state.values())


def judge_other_dict(path, place, name, made=None, line=""):
    """Another dict of a file: what a command made of it, or a line of Python gives, has its values and loads strictly."""

    def work():
        tree = torch.load(path, map_location="cpu")
        for step in place.split("."):
            tree = tree[step]
        model = models.build(name) if name else None
        if made is not None:
            state = torch.load(made)
            if model is not None:
                model.load_state_dict(state)
        else:
            names = {"torch": torch, "model": model, "__name__": "__main__"}
            exec(compile(line, "pasted", "exec"), names)
            state = names.get("state_dict")
        state = model.state_dict() if model is not None else state
        if not is_state_dict(state):
            raise TypeError("it gives no dict of tensors")
        if all_values(state) - all_values(tree):
            raise AssertionError(f"it holds other values than {place!r}")

    return outcome(work)


def judge_attempt(line, name, through="", free=()):
    """The user's own line, with the traceback that it ends with."""
    told = {"loads": True, "says": "", "traceback": ""}
    model = models.build(name)
    try:
        exec(compile(line, "train.py", "exec"), {"torch": torch, "model": model, "__name__": "__main__"})
    except BaseException as error:
        whole = traceback.format_exc().splitlines(keepends=True)
        own = [i for i, text in enumerate(whole) if 'File "train.py"' in text]
        if own:
            whole = whole[:1] + [whole[own[0]], "    " + line + "\n"] + whole[own[0] + 1 :]
        text = "".join(whole).replace(sys.prefix, "/usr/local")
        said = str(error).replace(sys.prefix, "/usr/local")
        kind = "" if type(error) is Exception else type(error).__name__ + ": "
        return {"loads": False, "says": kind + said, "traceback": text}
    told.update(outcome(lambda: check_values(model, name, through, free)))
    return told
