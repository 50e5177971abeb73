"""Why the compiled module is not found: it is another Python's, or there is none."""

import os
import sys


def explained(error):
    """The error to raise in place of the ModuleNotFoundError of an import in __init__.py."""
    if error.name != __package__ + "._ckpt":
        return error
    folder = os.path.dirname(os.path.abspath(__file__))
    compiled = sorted(name for name in os.listdir(folder) if name.startswith("_ckpt.") and name.endswith(".so"))
    if not compiled:
        return ImportError(
            f"{folder} has no compiled module: install the package (pip install ./tools/python) and start Python in "
            "another folder"
        )
    this = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    return ImportError(f"{folder} is for another Python ({compiled[0]}) than this one, {this}: install ckpt with its own pip")
