"""What happened to a checkpoint: files as they lie in the user's folder, the line that failed, and what would be right.

Use: add("resnet18", "data_parallel", save({...}), modes="for_text both_stdin")
"""

import os
from dataclasses import dataclass, field
from typing import Callable

import torch

import models

# How the tool is asked. {file} is the file, {text} the text of the exception, {known} the name of a known model.
MODES = {
    "alone": ["why", "{file}"],
    "for_text": ["why", "{file}", "--for", "keys.txt"],
    "for_shapes": ["why", "{file}", "--for", "shapes.txt"],
    "for_json": ["why", "{file}", "--for", "shapes.json"],
    "for_printed": ["why", "{file}", "--for", "printed.txt"],
    "for_file": ["why", "{file}", "--for", "fresh.pth"],
    "for_known": ["why", "{file}", "--for", "{known}"],
    "error_file": ["why", "--error", "error.txt"],
    "error_pipe": ["why"],
    "both_error": ["why", "{file}", "--error", "error.txt"],
    "both_stdin": ["why", "{file}"],
    "both_dash": ["why", "{file}", "--error", "-"],
    "both_text": ["why", "{file}", "--error", "{text}"],
    "traceback": ["why", "{file}", "--error", "traceback.txt"],
    "traceback_pipe": ["why"],
    "for_place": ["why", "{file}::state_dict", "--for", "keys.txt"],
    "all_three": ["why", "{file}", "--for", "shapes.txt", "--error", "error.txt"],
}
REDIRECTED = {"both_stdin": "log.txt"}  # ckpt why best.pth < log.txt
PIPED = {"error_pipe": "error.txt", "both_dash": "error.txt", "traceback_pipe": "traceback.txt"}
WITHOUT_FILE = {"error_file", "error_pipe", "traceback_pipe"}


@dataclass
class Situation:
    family: str  # whose trained weights the file holds
    what: str
    write: Callable[[str], None]  # puts the files into the folder that is current
    modes: list
    file: str = "best.pth"
    form: str = "zip"
    model: str = ""  # what it is to be loaded into; the family itself where nothing is said
    attempt: str = ""  # the line that the user wrote
    expect: str = "fixable"  # loads | fixable | partial (parts fit) | no (nothing is made of it that loads) | any
    alone: str = "any"  # the same where only the file is known
    by_names: str = ""  # the same where the names of the model's keys are known, and no shapes; else as `expect`
    by_message: str = ""  # the same where the message is all that is known of the model; else as `expect`
    through: str = ""  # dtype that the weights went through
    free: list = field(default_factory=list)  # ends of keys whose values nothing in the file tells
    known: str = ""  # the model's name for --for
    tells: list = field(default_factory=list)  # words of which one must be in the answer, in small letters

    @property
    def id(self):
        return f"{self.family}-{self.what}-{self.form}"


SITUATIONS = []
EXTENSIONS = {
    "zip": ".pth",
    "legacy": ".pth",
    "safetensors": ".safetensors",
    "npz": ".npz",
    "script": ".pt",
    "native": ".ckpt",
    "h5": ".h5",
    "gguf": ".gguf",
}


def default_attempt(s):
    if s.form == "safetensors":
        return f"from safetensors.torch import load_file; model.load_state_dict(load_file({s.file!r}))"
    return f"model.load_state_dict(torch.load({s.file!r}))"


def add(family, what, write, modes="for_text both_stdin", **more):
    s = Situation(family, what, write, modes.split(), **more)
    s.model = s.model or family
    if s.file == "best.pth" and s.form in EXTENSIONS:
        s.file = "best" + EXTENSIONS[s.form]
    s.attempt = s.attempt or default_attempt(s)
    SITUATIONS.append(s)
    return s


# ---- writing ----


def flat(state):
    return {key: value.clone().contiguous() for key, value in state.items()}


def plain(state):
    """As a comprehension leaves it: without the versions."""
    return {key: value for key, value in state.items()}


def with_prefix(state, prefix):
    return {prefix + key: value for key, value in state.items()}


def renamed(state, change):
    return {change(key): value for key, value in state.items()}


def save_as(form, tree, path):
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    if form in ("zip", "legacy"):
        torch.save(tree, path, _use_new_zipfile_serialization=form == "zip")
    elif form == "safetensors":
        from safetensors.torch import save_file

        save_file(flat(tree), path, metadata={"format": "pt"})
    elif form == "npz":
        import numpy

        numpy.savez(path, **{key: value.numpy() for key, value in tree.items()})
    else:
        raise ValueError(form)


def saved(family, change=lambda state: state, form="zip", file=None):
    """A writer of the family's trained state dict, changed."""

    def write():
        tree = change(copy_of(models.trained(family)))
        save_as(form, tree, file or "best" + EXTENSIONS[form])

    return write


def copy_of(state):
    out = type(state)(state)
    if hasattr(state, "_metadata"):
        out._metadata = state._metadata.copy()
    return out


def on_device(tag):
    """While it lasts, torch.save writes this tag for every storage."""

    class Tagged:
        def __enter__(self):
            torch.serialization.register_package(1, lambda storage: tag, lambda storage, location: None)

        def __exit__(self, *_):
            registry = torch.serialization._package_registry
            registry[:] = [entry for entry in registry if entry[0] != 1]

    return Tagged()


def some_optimizer(family, kind=torch.optim.AdamW, **options):
    """The state of an optimizer after a step; of few parameters, as only its form matters."""
    state = models.trained(family)
    parameters = [torch.nn.Parameter(value.clone()) for value in list(state.values())[:4] if value.is_floating_point()]
    optimizer = kind(parameters, lr=0.01, **options)
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer.step()
    return optimizer.state_dict()
