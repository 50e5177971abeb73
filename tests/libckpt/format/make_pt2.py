#!/usr/bin/env python3
"""Makes the folder pt2 of tests/golden/formats.tar.xz: archives of torch.export.save, and a manifest beside each that
says what PyTorch reads from it. Usage: make_pt2.py FOLDER (needs: pip install torch)

FOLDER/checkpoints/pt2/CASE.pt2
FOLDER/checkpoints/pt2/CASE.manifest.json    names, types, shapes and SHA-256 of the values
"""

import hashlib
import io
import json
import pathlib
import sys
import zipfile

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.tied = self.fc.weight
        self.turned = torch.nn.Parameter(torch.randn(4, 5).t())
        self.part = torch.nn.Parameter(torch.randn(10)[3:7], requires_grad=False)
        self.register_buffer("low", torch.randn(3).to(torch.bfloat16))
        self.register_buffer("narrow", torch.randn(3).to(torch.float8_e4m3fn))
        self.register_buffer("mask", torch.tensor([True, False]))
        self.constant = torch.arange(4.0)

    def forward(self, x):
        sums = self.turned.sum() + self.part.sum() + self.low.sum() + self.constant.sum() + self.tied.sum()
        return self.norm(self.fc(x)) + sums + self.mask.sum() + self.narrow.float().sum()


def tensor_of(name, value):
    raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return {"path": [name], "name": name, "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape),
            "nbytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "parameter": isinstance(value, torch.nn.Parameter)}


def write_manifest(folder, file, state):
    manifest = {"manifest_version": 1, "fixture": "pt2/" + file, "format": "pt2",
                "writer": {"library": "torch", "version": torch.__version__}, "expect": {"action": "load", "exit": 0},
                "tensors": [tensor_of(name, value) for name, value in state.items()]}
    (folder / (file + ".manifest.json")).write_text(json.dumps(manifest, indent=1) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1]) / "checkpoints" / "pt2"
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    program = torch.export.export(Model().eval(), (torch.ones(4, 3),))
    torch.export.save(program, folder / "new.pt2")
    write_manifest(folder, "new.pt2", torch.export.load(folder / "new.pt2").state_dict)
    # The layout of PyTorch 2.1 to 2.7: a file of torch.save in a plain archive.
    state = {name: value for name, value in program.state_dict.items()}
    saved = io.BytesIO()
    torch.save(state, saved)
    with zipfile.ZipFile(folder / "old.pt2", "w") as archive:
        archive.writestr("serialized_exported_program.json", "{}")
        archive.writestr("serialized_state_dict.pt", saved.getvalue())
        archive.writestr("version", "8.2")
    write_manifest(folder, "old.pt2", torch.load(io.BytesIO(saved.getvalue())))


main()
