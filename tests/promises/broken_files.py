"""What happens to files and folders: other formats, damage, wrong files, wrong names, shards, folders, messages alone."""

import gzip
import io
import os
import struct
import subprocess
import tarfile
import zipfile

import torch

import models
from situation import add, plain, save_as, saved, some_optimizer, with_prefix

LFS = (
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 46830571\n"
)
PAGE = (
    "<!DOCTYPE html><html><head><title>Google Drive - Quota exceeded</title></head><body><p>Sorry, you can't view or download "
    "this file at this time.</p></body></html>\n"
)


def write_text(text, path="best.pth"):
    def write():
        with open(path, "w") as out:
            out.write(text)

    return write


def after(write, change, path="best.pth"):
    """Writes, then changes the bytes of the file."""

    def changed():
        write()
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as out:
            out.write(change(data))

    return changed


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 0x11]) + data[at + 1 :]


def flip_in_member(member):
    """Another byte in the middle of a member, whose checksum stays."""

    def change(data):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            info = next(i for i in archive.infolist() if i.filename.endswith(member))
            header = struct.unpack("<HH", data[info.header_offset + 26 : info.header_offset + 30])
            start = info.header_offset + 30 + sum(header)
        return flipped(data, start + info.file_size // 2)

    return change


def add_damage():
    for family in ("resnet18", "gpt2"):
        add(
            family,
            "cut_at_60",
            after(saved(family), lambda d: d[: len(d) * 6 // 10]),
            "alone for_text both_stdin error_pipe traceback",
            expect="no",
        )
    add(
        "lstm",
        "cut_at_60",
        after(saved("lstm", form="legacy"), lambda d: d[: len(d) * 6 // 10]),
        "alone both_stdin",
        form="legacy",
        expect="no",
    )
    add(
        "lstm",
        "cut_at_60",
        after(saved("lstm", form="safetensors"), lambda d: d[: len(d) * 6 // 10], "best.safetensors"),
        "alone both_stdin error_pipe",
        form="safetensors",
        expect="no",
    )
    add(
        "lstm",
        "cut_in_header",
        after(saved("lstm", form="safetensors"), lambda d: d[:300], "best.safetensors"),
        "alone both_stdin",
        form="safetensors",
        expect="no",
    )
    add("lenet", "byte_in_data", after(saved("lenet"), flip_in_member("data/4")), "alone for_text", expect="no")
    add("lenet", "byte_in_pickle", after(saved("lenet"), flip_in_member("data.pkl")), "alone for_text both_stdin", expect="any")
    add(
        "lenet",
        "byte_in_wrapped",
        after(saved("lenet", lambda s: with_prefix(s, "module.")), flip_in_member("data/4")),
        "for_text",
        expect="no",
    )
    for what, text, tells in (
        ("lfs_pointer", LFS, "lfs"),
        ("web_page", PAGE, "html"),
        ("empty", "", "empty"),
        ("json_answer", '{"error": "Repository not found"}', "json"),
        ("log", "epoch 1 loss 0.33\nepoch 2 loss 0.21\n", "text"),
    ):
        add("resnet18", what, write_text(text), "alone for_text both_stdin", expect="no", form="text", tells=[tells])
        if what in ("lfs_pointer", "web_page"):
            add(
                "resnet18",
                what + "_as_safetensors",
                write_text(text, "best.safetensors"),
                "alone both_stdin error_pipe",
                expect="no",
                form="text",
                file="best.safetensors",
                attempt="from safetensors.torch import load_file; model.load_state_dict(load_file('best.safetensors'))",
            )
    add("resnet18", "zeros", after(write_text(""), lambda d: bytes(40000)), "alone both_stdin", expect="no", form="text")


def packed(kind, family="lenet"):
    def write():
        save_as("zip", models.trained(family), "best.pth")
        os.utime("best.pth", (1e9, 1e9))
        if kind == "gz":
            with open("best.pth", "rb") as file, open("best.pth.gz", "wb") as out:
                out.write(gzip.compress(file.read(), mtime=0))
        elif kind == "tar.gz":
            with gzip.GzipFile("best.tar.gz", "w", mtime=0) as out, tarfile.open(fileobj=out, mode="w") as archive:
                archive.add("best.pth")
        elif kind == "tar":
            with tarfile.open("best.tar", "w") as archive:
                archive.add("best.pth")
        else:
            with zipfile.ZipFile("best.zip", "w") as archive:
                archive.write("best.pth")
        os.remove("best.pth")

    return write


def add_packed():
    for kind, file in (("gz", "best.pth.gz"), ("tar.gz", "best.tar.gz"), ("tar", "best.tar"), ("zip_in_zip", "best.zip")):
        add(
            "lenet",
            kind,
            packed(kind),
            "alone for_text both_stdin",
            file=file,
            form="packed",
            expect="fixable",
            alone="fixable",
        )

    def gz_as_pth():
        packed("gz")()
        os.rename("best.pth.gz", "best.pth")

    add("lenet", "gz_named_pth", gz_as_pth, "alone for_text both_stdin", form="packed", alone="fixable")


def add_wrong_files():
    def other(tree, path="best.pth"):
        return lambda: torch.save(tree() if callable(tree) else tree, path)

    add("resnet18", "optimizer_only", other(lambda: some_optimizer("resnet18")), "alone for_text both_stdin", expect="no")
    add("resnet18", "bare_tensor", other(lambda: torch.ones(3, 2)), "alone for_text both_stdin", expect="no")
    add("resnet18", "list_of_tensors", other(lambda: [torch.ones(3, 2), torch.ones(2)]), "alone for_text", expect="no")
    add("resnet18", "other_network", saved("lstm"), "for_shapes both_stdin error_pipe", expect="no")
    add(
        "resnet18",
        "scheduler_only",
        other({"step_size": 30, "gamma": 0.1, "last_epoch": 4, "_last_lr": [0.1]}),
        "alone for_text",
        expect="no",
    )
    add(
        "lenet",
        "whole_model",
        lambda: torch.save(trained_model("lenet"), "best.pth"),
        "alone for_text both_stdin error_pipe",
        alone="fixable",
    )
    add("resnet18", "whole_model", lambda: torch.save(trained_model("resnet18"), "best.pth"), "for_text both_stdin traceback")
    add(
        "mlp_bn",
        "whole_model",
        lambda: torch.save(trained_model("mlp_bn"), "best.pth", _use_new_zipfile_serialization=False),
        "for_text both_stdin alone",
        form="legacy",
    )
    add(
        "lenet",
        "whole_model_wrapped",
        lambda: torch.save(torch.nn.DataParallel(trained_model("lenet")), "best.pth"),
        "for_text both_stdin",
    )
    add(
        "lenet",
        "whole_model_nested",
        lambda: torch.save({"model": trained_model("lenet"), "epoch": 3}, "best.pth"),
        "for_text both_stdin alone",
        attempt="model.load_state_dict(torch.load('best.pth')['model'].state_dict())",
    )


def trained_model(family):
    model = models.build(family)
    model.load_state_dict(models.trained(family))
    return model


def converted(write, first, second):
    """What our own tool makes of a file."""

    def both():
        write()
        subprocess.run([os.environ["CKPT"], "convert", first, second, "-q"], check=True)
        os.remove(first)

    return both


def add_formats():
    for family in ("lenet",):
        add(
            family,
            "script",
            lambda f=family: torch.jit.script(trained_model(f)).save("best.pt"),
            "alone for_text both_stdin error_pipe",
            form="script",
        )
    add(
        "mlp_bn",
        "script_wrapped",
        lambda: torch.jit.script(torch.nn.Sequential(trained_model("mlp_bn"))).save("best.pt"),
        "for_text both_stdin",
        form="script",
    )
    add(
        "temperature",
        "script",
        lambda: torch.jit.script(trained_model("temperature")).save("best.pt"),
        "for_text for_shapes",
        form="script",
    )
    for form, extension in (("npz", ".npz"), ("native", ".ckpt"), ("h5", ".h5"), ("gguf", ".gguf")):
        add(
            "mlp_bn",
            "counted",
            converted(saved("mlp_bn", plain), "best.pth", "best" + extension),
            "alone for_text for_shapes",
            form=form,
            expect="any",
        )
    for family in ("lenet", "resnet18"):
        npz = "import numpy; model.load_state_dict({k: torch.from_numpy(v) for k, v in numpy.load('best.npz').items()})"
        add(family, "good", saved(family, form="npz"), "alone for_text", form="npz", expect="any")
        add(
            family,
            "wrapped_arrays",
            saved(family, lambda s: with_prefix(s, "module."), "npz"),
            "for_text both_stdin",
            form="npz",
            attempt=npz,
        )
    for form, extension in (("native", ".ckpt"), ("h5", ".h5"), ("gguf", ".gguf")):
        family = "lenet"
        add(family, "good", converted(saved(family), "best.pth", "best" + extension), "alone for_text", form=form, expect="any")
        add(
            family,
            "wrapped",
            converted(saved(family, lambda s: with_prefix(s, "module.")), "best.pth", "best" + extension),
            "for_text both_stdin",
            form=form,
            expect="any",
        )
    add(
        "lenet",
        "npy",
        lambda: __import__("numpy").save("best.npy", models.trained("lenet")["fc1.weight"].numpy()),
        "alone for_text",
        form="npy",
        file="best.npy",
        expect="no",
    )


def add_names():
    nasty = [
        "-best.pth",
        "--best.pth",
        "my model (1).pth",
        "it's.pth",
        "größe.pth",
        "$HOME.pth",
        "a;ls.pth",
        "runs 3/best.pth",
        "best",
        "best.bin",
        "best.model",
        "best.pth.tar",
        "best.th",
        "best*.pth",
        '"quoted".pth',
        "[best].pth",
        "~best.pth",
        "best.tar",
    ]
    for i, name in enumerate(nasty):
        modes = ["for_text", "both_error", "alone"][i % 3] + (" for_text" if i % 3 else "")
        add(
            "lenet",
            f"name_{i}",
            saved("lenet", lambda s: with_prefix(s, "module."), file=name),
            modes,
            file=name,
            alone="fixable",
        )
    add(
        "lenet",
        "name_wrapped_safetensors",
        saved("lenet", lambda s: with_prefix(s, "module."), "safetensors", "-my model.safetensors"),
        "for_text both_error",
        form="safetensors",
        file="-my model.safetensors",
    )
    add(
        "lenet",
        "name_good",
        saved("lenet", file="-good.pth"),
        "alone for_text",
        file="-good.pth",
        expect="loads",
        alone="loads",
    )


def add_all():
    for part in (add_damage, add_packed, add_wrong_files, add_formats, add_names):
        part()
