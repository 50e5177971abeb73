"""Folders in the place of a file: shards, what trainers and other programs leave, one rank of several."""

import json
import os

import torch

import models
from judge import in_child, outcome
from situation import add, flat, plain, save_as, some_optimizer, with_prefix


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
    torch.save(
        {
            "module": plain(models.trained("bert_classifier")),
            "buffer_names": [],
            "dp_world_size": 1,
            "mp_world_size": 1,
            "global_steps": 500,
            "ds_version": "0.14.0",
            "param_shapes": [],
            "ds_config": {},
        },
        step + "/mp_rank_00_model_states.pt",
    )
    torch.save(
        {"optimizer_state_dict": {"zero_stage": 1, "partition_count": 1}, "ds_version": "0.14.0"},
        step + "/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
    )
    with open(name + "/latest", "w") as out:
        out.write("global_step500")


def adapter_files(name):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(
        models.build("bert_classifier"), LoraConfig(r=2, target_modules=["query", "value"], modules_to_save=[])
    )
    model.save_pretrained(name)
    with open(name + "/README.md", "w") as out:
        out.write("adapter\n")


def tensorflow_files(name):
    os.makedirs(name + "/variables")
    for path, data in (
        ("saved_model.pb", b"\x08\x01\x12\x10tf.saved_model\x00"),
        ("variables/variables.index", bytes(64)),
        ("variables/variables.data-00000-of-00001", bytes(256)),
    ):
        with open(f"{name}/{path}", "wb") as out:
            out.write(data)


def add_folders():
    load = "model.load_state_dict(torch.load({!r}))"
    for form in ("safetensors", "zip"):
        stem = "model.safetensors" if form == "safetensors" else "pytorch_model.bin"
        kind = "index_" + ("safetensors" if form == "safetensors" else "bin")
        add(
            "bert_classifier",
            "shards",
            sharded(form),
            "for_text alone",
            file="model",
            form=kind,
            attempt=load.format("model"),
            expect="any",
        )
        add(
            "bert_classifier",
            "shards_of_wrapped",
            sharded(form, prefix="module."),
            "for_text",
            file="model",
            form=kind,
            attempt=load.format("model"),
        )
        add(
            "bert_classifier",
            "missing_shard",
            sharded(form, True),
            "for_text alone",
            file="model",
            form=kind,
            attempt=load.format("model"),
            expect="no",
            tells=["-00002-of-00002"],
        )
        add(
            "bert_classifier",
            "index_named",
            sharded(form),
            "for_text",
            file=f"model/{stem}.index.json",
            form=kind,
            attempt=load.format(f"model/{stem}.index.json"),
            expect="any",
        )
        add(
            "bert_classifier",
            "one_shard_named",
            sharded(form),
            "for_text",
            form=kind,
            expect="any",
            file="model/" + stem.replace(".", "-00001-of-00002."),
            attempt=load.format("model/" + stem.replace(".", "-00001-of-00002.")),
        )
    folders = [
        (
            "one_safetensors",
            "final",
            lambda n: save_as("safetensors", models.trained("bert_classifier"), n + "/model.safetensors"),
            "any",
        ),
        ("one_bin", "final", lambda n: save_as("zip", models.trained("bert_classifier"), n + "/pytorch_model.bin"), "any"),
        ("trainer", "checkpoint-500", trainer_files, "any"),
        ("deepspeed", "ds", deepspeed_files, "any"),
        ("peft", "adapter", adapter_files, "no"),
        ("tensorflow", "saved", tensorflow_files, "no"),
    ]
    told = {
        "one_safetensors": "model.safetensors",
        "one_bin": "pytorch_model.bin",
        "trainer": "model.safetensors",
        "deepspeed": "deepspeed",
        "peft": "peft",
        "tensorflow": "tensorflow",
    }
    for what, name, files, expect in folders:
        add(
            "bert_classifier",
            what,
            hf_folder(files, name),
            "alone for_text" + (" both_stdin" if what in ("trainer", "peft") else ""),
            file=name,
            form="folder",
            attempt=load.format(name),
            expect=expect,
            tells=[told[what]],
        )
    add(
        "lenet",
        "empty_folder",
        lambda: os.makedirs("nothing/logs"),
        "alone for_text",
        file="nothing",
        form="folder",
        expect="no",
        attempt=load.format("nothing"),
    )
    add("lenet", "not_there", lambda: None, "alone for_text both_stdin", file="best.pth", form="folder", expect="no")
    for rank in (0, 1):
        add(
            "attentive",
            f"dtensor_rank_{rank}",
            dtensor_ranks,
            "alone for_text",
            file=f"rank{rank}.pth",
            form="dtensor",
            expect="no",
            tells=[f"rank {rank} of 2"],
        )


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
                state[key] = DTensor.from_local(
                    local.clone(), mesh, [Shard(0)], run_check=False, shape=value.shape, stride=value.stride()
                )
            torch.save(state, f"rank{rank}.pth")
        finally:
            dist.destroy_process_group()


def add_all():
    add_folders()
