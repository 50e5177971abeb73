"""Model checkpoints of every common format: look, diagnose, change, save. Nothing in a file is executed.

    >>> import ckpt
    >>> checkpoint = ckpt.open("best.pth")                        # lazy: no tensor is read
    >>> checkpoint.strip_prefix("module.").save("plain.safetensors")

Without torch and NumPy all of it works but what gives or takes their arrays.
"""

from __future__ import annotations

import os as _os
from collections import namedtuple as _namedtuple
from collections.abc import Mapping as _Mapping

try:
    from ._ckpt import (
        Cause,
        Checkpoint,
        Diagnosis,
        Diff,
        Difference,
        Error,
        Object,
        Tensor,
        Verification,
        Warning,
        __version__,
        diff,
        merge,
        open,
        remote,
        verify,
    )
except ModuleNotFoundError as _error:
    from ._missing import explained as _explained

    raise _explained(_error) from None
from . import _ckpt, _leaves

__all__ = [
    "Cause",
    "Checkpoint",
    "Diagnosis",
    "Diff",
    "Difference",
    "Error",
    "Loaded",
    "Object",
    "Tensor",
    "Verification",
    "Warning",
    "diff",
    "fix",
    "load_into",
    "merge",
    "open",
    "remote",
    "save",
    "verify",
    "why",
]

# keys(), items(), values(), get() and == as every mapping has them, from what the class has.
_Mapping.register(Checkpoint)
Checkpoint.keys = _Mapping.keys
Checkpoint.items = _Mapping.items
Checkpoint.values = _Mapping.values
Checkpoint.get = _Mapping.get


def _page(checkpoint):
    from . import _html  # only notebooks need it, and importing it takes as long as all the rest

    return _html.page(checkpoint)


Checkpoint._repr_html_ = _page


def _wanted(target):
    """What a target wants to be loaded: a module, a state dict, or the name of a file or of a known model."""
    if isinstance(target, (str, _os.PathLike)):
        return _ckpt._wanted_named(_os.fspath(target))
    if isinstance(target, Checkpoint):
        tensors = [(name, list(t.shape), t.dtype, False) for name, t in target.items()]
        return _ckpt._wanted("the checkpoint", tensors, [])
    return _ckpt._wanted(*_leaves.wanted_of(target))


def _visible_gpus():
    """NVIDIA GPUs of this machine, as the driver lists them; no library is loaded for that."""
    try:
        return len(_os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return 0


def why(path, for_=None, *, error="", at="", devices=None, lenient=False) -> Diagnosis:
    """Why a file does not load, and what makes it load.

    for_: a torch.nn.Module, its state dict, another file, a list of keys, or a known model ("resnet50"); several in a
    list. error: the text of the error message. at: the state dict in the file that is meant. devices: the GPUs that the
    reader will have (those of this machine).
    """
    targets = for_ if isinstance(for_, (list, tuple)) else [] if for_ is None else [for_]
    gpus = _visible_gpus() if devices is None else devices
    return _ckpt._why(path, [_wanted(target) for target in targets], error, at, gpus, lenient)


def fix(path, for_=None, *, error="", at="", guess=False, lenient=False) -> Checkpoint:
    """The checkpoint that loads, made as why() proposes: `ckpt.fix("best.pth", resnet).save("fixed.pth")`.

    Raises Error("unsupported") where no change makes it load, and Error("usage") where that would be a guess.
    """
    return why(path, for_, error=error, at=at, lenient=lenient)._fixed(guess, False)


class Loaded(_namedtuple("Loaded", ["missing_keys", "unexpected_keys"])):
    """What load_into() did: the keys that load_state_dict() returns, and `steps`, which made the file's names fit.

    unexpected_keys are those of the file that no parameter took, also where a step left them out.
    """

    steps = ()

    def __repr__(self):
        text = super().__repr__() if any(self) else "<All keys matched successfully>"
        return text + (f" after: {', '.join(self.steps)}" if self.steps else "")


def _loaded(keys, dropped, steps):
    loaded = Loaded(list(keys.missing_keys), [*keys.unexpected_keys, *dropped])
    loaded.steps = steps
    return loaded


def load_into(module, path, *, at="", strict=True, assign=False) -> Loaded:
    """Loads the weights of any file into a torch.nn.Module, under whatever names the file has them.

    Where names differ and it is proven which belong together (a DataParallel prefix, the names of another project, a
    model inside of a training state), they are taken so. Otherwise load_state_dict says what it always says, with the
    diagnosis as a note on the error. Nothing is guessed, and with strict=True no tensor of the file's model is left
    out; strict=False loads what fits by its name. Quantised blocks of GGUF are loaded as the values they stand for.

    Returns what load_state_dict returns, missing_keys and unexpected_keys, and the steps that it took as `.steps`.
    """
    diagnosis = why(path, module, at=at)
    if not diagnosis.readable:
        raise _leaves.error("corrupt", f"{_os.fspath(path)}: {diagnosis.causes[0].text}")
    dropped = diagnosis._dropped
    if not diagnosis.guesses and ((diagnosis.fixable and not dropped) or not strict):
        fitting, at, steps = diagnosis._fixed(False, True), "", diagnosis.steps
    else:
        fitting, steps, dropped = open(path, foreign_objects=True), [], []
    state = _ckpt._state(fitting.dequantize(), at)
    try:
        keys = _leaves.load_state(module, state, strict, assign)
    except RuntimeError as error:
        if hasattr(error, "add_note"):
            error.add_note(str(diagnosis))
        raise
    return _loaded(keys, dropped, steps)


def save(state, path, *, metadata=None, **options) -> None:
    """Saves a state dict, a module's, or any tree of dicts and lists, with tensors of torch, NumPy or a checkpoint.

    The format follows from the name of the file: .pth, .safetensors, .ckpt, .npz, .gguf, .h5. Tied tensors stay tied
    where the format can say it; per-module versions are kept. Options: those of Checkpoint.save().
    """
    if hasattr(state, "state_dict"):
        state = state.state_dict()
    texts = list((metadata or {}).items())
    _ckpt._built(state, _leaves.Leaves(), texts).save(path, **options)


del annotations
