"""A checkpoint in a notebook: its names as a tree that opens and closes."""

import html

_SHOWN = 200  # branches and tensors of one level
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def _size(count):
    amount, unit = float(count), 0
    while amount >= 1024 and unit + 1 < len(_UNITS):
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.3g} {_UNITS[unit]}"


class _Branch:
    def __init__(self):
        self.branches, self.tensors, self.count, self.bytes = {}, [], 0, 0

    def add(self, steps, tensor):
        self.count += 1
        self.bytes += tensor.nbytes
        if len(steps) == 1:
            self.tensors.append((steps[0], tensor))
        else:
            self.branches.setdefault(steps[0], _Branch()).add(steps[1:], tensor)


def _lines(branch):
    items = [(name, _branch(name, child)) for name, child in branch.branches.items()]
    items += [(name, _leaf(name, tensor)) for name, tensor in branch.tensors]
    shown = "".join(line for _, line in items[:_SHOWN])
    more = len(items) - _SHOWN
    return shown + (f"<li>and {more:,} more</li>" if more > 0 else "")


def _branch(name, branch):
    head = f"<b>{html.escape(name)}</b> {branch.count:,} tensors, {_size(branch.bytes)}"
    return f"<li><details><summary>{head}</summary><ul>{_lines(branch)}</ul></details></li>"


def _leaf(name, tensor):
    shape = "×".join(str(size) for size in tensor.shape) or "scalar"
    return (
        f"<li><code>{html.escape(name)}</code> {shape} {html.escape(tensor.dtype)} "
        f"{html.escape(tensor.device)} {_size(tensor.nbytes)}</li>"
    )


def page(checkpoint):
    root = _Branch()
    for name, tensor in checkpoint.items():
        root.add(name.split("."), tensor)
    path = html.escape(str(checkpoint.path)) or "checkpoint"
    kind = html.escape(checkpoint.format)
    return (
        f"<div><p><b>{path}</b> {kind} {root.count:,} tensors, {_size(root.bytes)}</p>"
        f"<ul style='list-style:none'>{_lines(root)}</ul></div>"
    )
