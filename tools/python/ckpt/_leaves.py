"""Tensors of torch and NumPy as those of a checkpoint, and back. Neither is imported before one of its objects comes."""

import sys

from . import _ckpt


def _has_base(value, module, name):
    library = sys.modules.get(module)
    return library is not None and isinstance(value, getattr(library, name))


class Leaves:
    """Knows whatever is neither plain data nor a container, for one save: tensors that share memory share it there."""

    def __init__(self):
        self._storages = {}

    def __call__(self, value):
        if _has_base(value, "torch", "Tensor"):
            return self._torch_tensor(value)
        if _has_base(value, "numpy", "ndarray"):
            return self._array(value)
        if _has_base(value, "numpy", "generic"):
            return value.item()
        if type(value).__module__.split(".")[0] == "torch":
            return self._torch_object(value)
        return NotImplemented

    def _torch_object(self, value):
        import torch

        if isinstance(value, torch.Size):
            return _ckpt._object("torch.Size", (tuple(value),), self)
        if isinstance(value, torch.dtype):
            return _ckpt._object(str(value), None, self)
        if isinstance(value, torch.device):
            place = (value.type,) if value.index is None else (value.type, value.index)
            return _ckpt._object("torch.device", place, self)
        return NotImplemented

    def _torch_tensor(self, value):
        import torch

        device = str(value.device)
        if value.layout != torch.strided or value.is_quantized:
            raise error("unsupported", f"a tensor of layout {value.layout} and type {value.dtype} is not dense")
        plain = value.detach()
        if plain.is_conj() or plain.is_neg():
            plain = plain.resolve_conj().resolve_neg()
        if device == "meta":
            raise error("unsupported", "a tensor on the meta device has no values to save")
        key = (device, plain.untyped_storage().data_ptr(), plain.untyped_storage().nbytes())
        storage = self._storages.get(key)
        if storage is None or key[1] == 0:
            held = plain.untyped_storage().cpu()
            name = str(plain.dtype).removeprefix("torch.")
            storage = _ckpt._Storage(held.data_ptr(), held.nbytes(), (held, plain), name, device)
            self._storages[key] = storage
        return _ckpt._tensor(
            storage,
            str(plain.dtype).removeprefix("torch."),
            list(plain.shape),
            list(plain.stride()),
            plain.storage_offset(),
            value.requires_grad,
            isinstance(value, torch.nn.Parameter),
        )

    def _array(self, array):
        import numpy

        if array.dtype.hasobject or array.dtype.fields is not None or array.dtype.kind in "USMm":
            raise error("unsupported", f"an array of {array.dtype} is no array of numbers")
        dense = numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
        name = array.dtype.newbyteorder("=").name
        storage = _ckpt._Storage(dense.ctypes.data, dense.nbytes, dense, name, "cpu")
        strides = [step // max(dense.itemsize, 1) for step in dense.strides]
        return _ckpt._tensor(storage, name, list(dense.shape), strides, 0, False, False)


def error(code, text):
    made = _ckpt.Error(text)
    made.code = code
    return made


def wanted_of(target):
    """Name, tensors and ties of a module or of its state dict."""
    module = target if hasattr(target, "state_dict") else None
    state = module.state_dict() if module is not None else target
    if not hasattr(state, "items"):
        raise error("usage", f"cannot compare with a {type(target).__name__}: give a module, a state dict or a name")
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)} if module is not None else set()
    tensors, places = [], {}
    for name, value in state.items():
        if not hasattr(value, "shape"):
            continue
        dtype = str(value.dtype).removeprefix("torch.")
        tensors.append((name, [int(size) for size in value.shape], dtype, name in parameters))
        if hasattr(value, "untyped_storage") and value.numel() > 0 and value.device.type != "meta":
            place = (str(value.device), value.data_ptr(), tuple(value.shape), tuple(value.stride()))
            places.setdefault(place, []).append(name)
    name = type(target).__name__ if module is not None else "the state dict"
    return name, tensors, [names for names in places.values() if len(names) > 1]


def load_state(module, state, strict, assign):
    """Into the module's own memory, or with `assign` as its parameters, which then are copies of their own."""
    values = {tensor.name: tensor.torch(copy=assign) for tensor in state}
    if assign:
        return module.load_state_dict(values, strict=strict, assign=True)
    return module.load_state_dict(values, strict=strict)
