"""What happens to files and folders: other formats, damage, wrong files, wrong names, shards, folders, messages alone."""

import gzip
import io
import json
import os
import struct
import subprocess
import tarfile
import zipfile

import torch

import models
from judge import in_child, outcome
from situation import add, flat, plain, save_as, saved, some_optimizer, with_prefix

LFS = ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
       "size 46830571\n")
PAGE = ("<!DOCTYPE html><html><head><title>Google Drive - Quota exceeded</title></head><body><p>Sorry, you can't view or download "
        "this file at this time.</p></body></html>\n")


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
    return data[:at] + bytes([data[at] ^ 0x11]) + data[at + 1:]


def flip_in_member(member):
    """Another byte in the middle of a member, whose checksum stays."""

    def change(data):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            info = next(i for i in archive.infolist() if i.filename.endswith(member))
            header = struct.unpack("<HH", data[info.header_offset + 26:info.header_offset + 30])
            start = info.header_offset + 30 + sum(header)
        return flipped(data, start + info.file_size // 2)

    return change


def add_damage():
    for family in ("resnet18", "gpt2"):
        add(family, "cut_at_60", after(saved(family), lambda d: d[:len(d) * 6 // 10]), "alone for_text both_stdin error_pipe traceback", expect="no")
    add("lstm", "cut_at_60", after(saved("lstm", form="legacy"), lambda d: d[:len(d) * 6 // 10]), "alone both_stdin", form="legacy", expect="no")
    add("lstm", "cut_at_60", after(saved("lstm", form="safetensors"), lambda d: d[:len(d) * 6 // 10], "best.safetensors"),
        "alone both_stdin error_pipe", form="safetensors", expect="no")
    add("lstm", "cut_in_header", after(saved("lstm", form="safetensors"), lambda d: d[:300], "best.safetensors"), "alone both_stdin",
        form="safetensors", expect="no")
    add("lenet", "byte_in_data", after(saved("lenet"), flip_in_member("data/4")), "alone for_text", expect="no")
    add("lenet", "byte_in_pickle", after(saved("lenet"), flip_in_member("data.pkl")), "alone for_text both_stdin", expect="any")
    add("lenet", "byte_in_wrapped", after(saved("lenet", lambda s: with_prefix(s, "module.")), flip_in_member("data/4")), "for_text",
        expect="no")
    for what, text, tells in (("lfs_pointer", LFS, "lfs"), ("web_page", PAGE, "html"), ("empty", "", "empty"),
                              ("json_answer", '{"error": "Repository not found"}', "json"),
                              ("log", "epoch 1 loss 0.33\nepoch 2 loss 0.21\n", "text")):
        add("resnet18", what, write_text(text), "alone for_text both_stdin", expect="no", form="text", tells=[tells])
        if what in ("lfs_pointer", "web_page"):
            add("resnet18", what + "_as_safetensors", write_text(text, "best.safetensors"), "alone both_stdin error_pipe", expect="no",
                form="text", file="best.safetensors",
                attempt="from safetensors.torch import load_file; model.load_state_dict(load_file('best.safetensors'))")
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
        add("lenet", kind, packed(kind), "alone for_text both_stdin", file=file, form="packed", expect="fixable", alone="fixable")
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
    add("resnet18", "scheduler_only", other({"step_size": 30, "gamma": 0.1, "last_epoch": 4, "_last_lr": [0.1]}), "alone for_text", expect="no")
    add("lenet", "whole_model", lambda: torch.save(trained_model("lenet"), "best.pth"), "alone for_text both_stdin error_pipe",
        alone="fixable")
    add("resnet18", "whole_model", lambda: torch.save(trained_model("resnet18"), "best.pth"), "for_text both_stdin traceback")
    add("mlp_bn", "whole_model", lambda: torch.save(trained_model("mlp_bn"), "best.pth", _use_new_zipfile_serialization=False),
        "for_text both_stdin alone", form="legacy")
    add("lenet", "whole_model_wrapped", lambda: torch.save(torch.nn.DataParallel(trained_model("lenet")), "best.pth"), "for_text both_stdin")
    add("lenet", "whole_model_nested", lambda: torch.save({"model": trained_model("lenet"), "epoch": 3}, "best.pth"), "for_text both_stdin alone",
        attempt="model.load_state_dict(torch.load('best.pth')['model'].state_dict())")


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
        add(family, "script", lambda f=family: torch.jit.script(trained_model(f)).save("best.pt"), "alone for_text both_stdin error_pipe",
            form="script")
    add("mlp_bn", "script_wrapped", lambda: torch.jit.script(torch.nn.Sequential(trained_model("mlp_bn"))).save("best.pt"),
        "for_text both_stdin", form="script")
    for family in ("lenet", "resnet18"):
        npz = "import numpy; model.load_state_dict({k: torch.from_numpy(v) for k, v in numpy.load('best.npz').items()})"
        add(family, "good", saved(family, form="npz"), "alone for_text", form="npz", expect="any")
        add(family, "wrapped_arrays", saved(family, lambda s: with_prefix(s, "module."), "npz"), "for_text both_stdin", form="npz", attempt=npz)
    for form, extension in (("native", ".ckpt"), ("h5", ".h5"), ("gguf", ".gguf")):
        family = "lenet"
        add(family, "good", converted(saved(family), "best.pth", "best" + extension), "alone for_text", form=form, expect="any")
        add(family, "wrapped", converted(saved(family, lambda s: with_prefix(s, "module.")), "best.pth", "best" + extension), "for_text both_stdin",
            form=form, expect="any")
    add("lenet", "npy", lambda: __import__("numpy").save("best.npy", models.trained("lenet")["fc1.weight"].numpy()), "alone for_text",
        form="npy", file="best.npy", expect="no")


def add_names():
    nasty = ["-best.pth", "--best.pth", "my model (1).pth", "it's.pth", "größe.pth", "$HOME.pth", "a;ls.pth", "runs 3/best.pth", "best",
             "best.bin", "best.model", "best.pth.tar", "best.th", "best*.pth", '"quoted".pth', "[best].pth", "~best.pth", "best.tar"]
    for i, name in enumerate(nasty):
        modes = ["for_text", "both_error", "alone"][i % 3] + (" for_text" if i % 3 else "")
        add("lenet", f"name_{i}", saved("lenet", lambda s: with_prefix(s, "module."), file=name), modes, file=name, alone="fixable")
    add("lenet", "name_wrapped_safetensors", saved("lenet", lambda s: with_prefix(s, "module."), "safetensors", "-my model.safetensors"),
        "for_text both_error", form="safetensors", file="-my model.safetensors")
    add("lenet", "name_good", saved("lenet", file="-good.pth"), "alone for_text", file="-good.pth", expect="loads", alone="loads")


def sharded(form, missing=False, prefix=""):
    def write():
        os.makedirs("model", exist_ok=True)
        state = with_prefix(flat(models.trained("bert_classifier")), prefix)
        keys = list(state)
        half = len(keys) // 2
        stem, end = ("model", ".safetensors") if form == "safetensors" else ("pytorch_model", ".bin")
        weight_map = {}
        for i, part in enumerate((keys[:half], keys[half:]), 1):
            name = f"{stem}-{i:05}-of-00002{end}"
            weight_map.update({key: name for key in part})
            if not (missing and i == 2):
                save_as(form if form == "safetensors" else "zip", {k: state[k] for k in part}, "model/" + name)
        with open(f"model/{stem}{end}.index.json", "w") as out:
            json.dump({"metadata": {"total_size": sum(v.numel() * 4 for v in state.values())}, "weight_map": weight_map}, out)

    return write


def hf_folder(write_weights, name):
    def write():
        os.makedirs(name, exist_ok=True)
        write_weights(name)
        with open(name + "/config.json", "w") as out:
            json.dump({"architectures": ["BertForSequenceClassification"], "model_type": "bert", "hidden_size": 8}, out)

    return write


def trainer_files(name):
    save_as("safetensors", models.trained("bert_classifier"), name + "/model.safetensors")
    torch.save(some_optimizer("bert_classifier"), name + "/optimizer.pt")
    torch.save({"last_epoch": 500}, name + "/scheduler.pt")
    torch.save({"cpu": torch.get_rng_state()[:64]}, name + "/rng_state.pth")
    with open(name + "/trainer_state.json", "w") as out:
        json.dump({"global_step": 500, "epoch": 1.0, "log_history": []}, out)


def deepspeed_files(name):
    step = name + "/global_step500"
    os.makedirs(step)
    torch.save({"module": plain(models.trained("bert_classifier")), "buffer_names": [], "dp_world_size": 1, "mp_world_size": 1,
                "global_steps": 500, "ds_version": "0.14.0", "param_shapes": [], "ds_config": {}}, step + "/mp_rank_00_model_states.pt")
    torch.save({"optimizer_state_dict": {"zero_stage": 1, "partition_count": 1}, "ds_version": "0.14.0"},
               step + "/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt")
    with open(name + "/latest", "w") as out:
        out.write("global_step500")


def adapter_files(name):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(models.build("bert_classifier"), LoraConfig(r=2, target_modules=["query", "value"], modules_to_save=[]))
    model.save_pretrained(name)
    with open(name + "/README.md", "w") as out:
        out.write("adapter\n")


def tensorflow_files(name):
    os.makedirs(name + "/variables")
    for path, data in (("saved_model.pb", b"\x08\x01\x12\x10tf.saved_model\x00"), ("variables/variables.index", bytes(64)),
                       ("variables/variables.data-00000-of-00001", bytes(256))):
        with open(f"{name}/{path}", "wb") as out:
            out.write(data)


def add_folders():
    load = "model.load_state_dict(torch.load({!r}))"
    for form in ("safetensors", "zip"):
        stem = "model.safetensors" if form == "safetensors" else "pytorch_model.bin"
        kind = "index_" + ("safetensors" if form == "safetensors" else "bin")
        add("bert_classifier", "shards", sharded(form), "for_text alone", file="model", form=kind, attempt=load.format("model"), expect="any")
        add("bert_classifier", "shards_of_wrapped", sharded(form, prefix="module."), "for_text", file="model", form=kind,
            attempt=load.format("model"))
        add("bert_classifier", "missing_shard", sharded(form, True), "for_text alone", file="model", form=kind, attempt=load.format("model"),
            expect="no", tells=["-00002-of-00002"])
        add("bert_classifier", "index_named", sharded(form), "for_text", file=f"model/{stem}.index.json", form=kind,
            attempt=load.format(f"model/{stem}.index.json"), expect="any")
        add("bert_classifier", "one_shard_named", sharded(form), "for_text", form=kind, expect="any",
            file="model/" + stem.replace(".", "-00001-of-00002."),
            attempt=load.format("model/" + stem.replace(".", "-00001-of-00002.")))
    folders = [("one_safetensors", "final", lambda n: save_as("safetensors", models.trained("bert_classifier"), n + "/model.safetensors"), "any"),
               ("one_bin", "final", lambda n: save_as("zip", models.trained("bert_classifier"), n + "/pytorch_model.bin"), "any"),
               ("trainer", "checkpoint-500", trainer_files, "any"), ("deepspeed", "ds", deepspeed_files, "any"),
               ("peft", "adapter", adapter_files, "no"), ("tensorflow", "saved", tensorflow_files, "no")]
    told = {"one_safetensors": "model.safetensors", "one_bin": "pytorch_model.bin", "trainer": "model.safetensors", "deepspeed": "deepspeed",
            "peft": "peft", "tensorflow": "tensorflow"}
    for what, name, files, expect in folders:
        add("bert_classifier", what, hf_folder(files, name), "alone for_text" + (" both_stdin" if what in ("trainer", "peft") else ""),
            file=name, form="folder", attempt=load.format(name), expect=expect, tells=[told[what]])
    add("lenet", "empty_folder", lambda: os.makedirs("nothing/logs"), "alone for_text", file="nothing", form="folder", expect="no",
        attempt=load.format("nothing"))
    add("lenet", "not_there", lambda: None, "alone for_text both_stdin", file="best.pth", form="folder", expect="no")
    for rank in (0, 1):
        add("attentive", f"dtensor_rank_{rank}", dtensor_ranks, "alone for_text", file=f"rank{rank}.pth", form="dtensor", expect="no",
            tells=[f"rank {rank} of 2"])


def dtensor_ranks():
    in_child(lambda: outcome(write_dtensor_ranks))


def write_dtensor_ranks():
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    for rank in (0, 1):
        dist.init_process_group("fake", rank=rank, world_size=2, store=FakeStore())
        try:
            mesh = DeviceMesh("cpu", [0, 1])
            state = {}
            for key, value in models.trained("attentive").items():
                parts = value.chunk(2)
                local = parts[rank] if rank < len(parts) else value[:0]
                state[key] = DTensor.from_local(local.clone(), mesh, [Shard(0)], run_check=False, shape=value.shape, stride=value.stride())
            torch.save(state, f"rank{rank}.pth")
        finally:
            dist.destroy_process_group()


# What the answer to each message must speak of.
ABOUT = {"lfs_key": ["lfs"], "page_key": ["html", "web page"], "no_state_dict": ["'state_dict'"], "no_eval": ["state dict", "load_state_dict"],
         "magic_number": ["cut", "damaged", "another format", "not a"], "central_directory": ["cut", "truncated"],
         "transformers_bin": ["cut", "damaged", "lfs"], "out_of_memory": ["memory", "map_location"], "device": ["cpu"],
         "groups": ["parameter group", "optimizer"]}

MESSAGES = {
    "lfs_key": "_pickle.UnpicklingError: invalid load key, 'v'.",
    "page_key": "_pickle.UnpicklingError: invalid load key, '<'.",
    "no_state_dict": "Traceback (most recent call last):\n  File \"test.py\", line 12, in <module>\n"
                     "    model.load_state_dict(torch.load('best.pth')['state_dict'])\nKeyError: 'state_dict'",
    "no_eval": "AttributeError: 'collections.OrderedDict' object has no attribute 'eval'",
    "magic_number": "RuntimeError: Invalid magic number; corrupt file?",
    "central_directory": "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    "transformers_bin": "OSError: Unable to load weights from pytorch checkpoint file for 'model/pytorch_model.bin' at "
                        "'model/pytorch_model.bin'. If you tried to load a PyTorch model from a TF 2.0 checkpoint, please set from_tf=True.",
    "out_of_memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.79 GiB of "
                     "which 12.00 MiB is free.",
    "groups": "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
    "device": "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running "
              "on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU.",
}


def add_messages():
    """A good file that was used in the wrong way, and what was said about it."""
    for what, text in MESSAGES.items():
        s = add("lenet", "message_" + what, saved("lenet"), "error_pipe error_file both_stdin", form="message", file="best.pth",
                expect="any", by_message="any", tells=ABOUT[what])
        s.attempt = "raise Exception(" + repr(text) + ")"


def add_all():
    for part in (add_damage, add_packed, add_wrong_files, add_formats, add_names, add_folders, add_messages):
        part()
