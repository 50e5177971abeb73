#!/usr/bin/env python3
"""Makes tests/golden/deepspeed.tar.xz: folders as DeepSpeed writes them with ZeRO 1 to 3, by PyTorch alone, and the weights
that DeepSpeed's script zero_to_fp32.py makes of each. Usage: make_deepspeed.py FOLDER DEEPSPEED (needs: pip install
torch safetensors numpy tqdm packaging; DEEPSPEED is a copy of its repository, of which the script and its constants run)

FOLDER/deepspeed/CASE/in/                       latest, and the folder that it names
FOLDER/deepspeed/CASE/joined.safetensors        the weights that the script makes
"""

import collections
import enum
import math
import pathlib
import sys
import types

import torch
from safetensors.torch import save_file


def stub_deepspeed(source):
    """The modules that the files and the script name, without the rest of DeepSpeed."""
    def module(name, **content):
        made = types.ModuleType(name)
        made.__path__ = []
        for key, value in content.items():
            if isinstance(value, type):
                value.__module__, value.__qualname__ = name, key
            setattr(made, key, value)
        sys.modules[name] = made

    stage = enum.IntEnum("ZeroStageEnum", {"disabled": 0, "optimizer_states": 1, "gradients": 2, "weights": 3})
    scaler = type("LossScaler", (), {})
    for name in ("deepspeed", "deepspeed.runtime", "deepspeed.runtime.zero", "deepspeed.runtime.fp16", "deepspeed.checkpoint"):
        module(name)
    module("deepspeed.runtime.zero.config", ZeroStageEnum=stage)
    module("deepspeed.runtime.fp16.loss_scaler", LossScaler=scaler)
    module("deepspeed.utils", logger=None)
    constants = {}
    exec((source / "deepspeed/checkpoint/constants.py").read_text(), constants)
    module("deepspeed.checkpoint.constants", **{key: value for key, value in constants.items() if key.isupper()})
    script = {"__name__": "zero_to_fp32"}
    module("zero_to_fp32")
    script = sys.modules["zero_to_fp32"].__dict__
    exec(compile((source / "deepspeed/utils/zero_to_fp32.py").read_text(), "zero_to_fp32.py", "exec"), script)
    return stage, scaler, script["get_fp32_state_dict_from_zero_checkpoint"]


def weights(groups, seed):
    generator = torch.Generator().manual_seed(seed)
    return [collections.OrderedDict((name, torch.randn(shape, generator=generator)) for name, shape in group.items())
            for group in groups]


def flat(tensors, multiple):
    """One behind the other, filled up with zeros."""
    whole = torch.cat([tensor.reshape(-1) for tensor in tensors])
    return torch.cat([whole, torch.zeros(-whole.numel() % multiple)])


def partitions(groups, stage, ranks):
    """What each rank has of each group."""
    out = [[] for _ in range(ranks)]
    for group in groups:
        if stage < 3:
            whole = flat(group.values(), 2 * ranks)
            for rank, part in enumerate(whole.chunk(ranks)):
                out[rank].append(part.clone())
        else:
            cut = [flat([tensor], ranks).chunk(ranks) for tensor in group.values()]
            for rank in range(ranks):
                out[rank].append(torch.cat([parts[rank] for parts in cut]))
    return out


def write(folder, case, made):
    stage_enum, scaler, _ = made
    stage, ranks, groups = case["stage"], case["ranks"], weights(case["groups"], case["stage"])
    top = folder / "in"
    tag = top / "global_step7"
    tag.mkdir(parents=True)
    (top / "latest").write_text("global_step7")
    frozen = {name: torch.randn(shape).to(torch.bfloat16) for name, shape in case.get("frozen", {}).items()}
    buffers = {"bn.running_mean": torch.randn(5).half(), "bn.num_batches_tracked": torch.tensor(12)}
    module = collections.OrderedDict()
    for group in groups:
        for name, tensor in group.items():
            module[name] = tensor.half() if stage < 3 else torch.empty(0, dtype=torch.half)
    module.update(buffers)
    shared = case.get("shared", {})
    for rank in range(ranks):
        fragments = frozen
        if stage == 3:
            fragments = {name: flat([tensor.float()], ranks).to(tensor.dtype).chunk(ranks)[rank].clone()
                         for name, tensor in frozen.items()}
        state = {"module": module, "buffer_names": list(buffers), "optimizer": None,
                 "param_shapes": [collections.OrderedDict((name, tensor.shape) for name, tensor in group.items())
                                  for group in groups],
                 "frozen_param_shapes": {name: tensor.shape for name, tensor in frozen.items()} or None,
                 "frozen_param_fragments": fragments or None, "shared_params": shared, "lr_scheduler": None,
                 "ds_config": {"zero_optimization": {"stage": stage}}, "ds_version": "0.18.0", "dp_world_size": ranks}
        if stage == 3:
            torch.save(state, tag / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        elif rank == 0:
            torch.save(state, tag / "mp_rank_00_model_states.pt")
    key = "single_partition_of_fp32_groups" if stage < 3 else "fp32_flat_groups"
    for rank, parts in enumerate(partitions(groups, stage, ranks)):
        states = {i: {"step": 7, "exp_avg": torch.zeros_like(part)} for i, part in enumerate(parts)}
        optimizer = {"loss_scaler": scaler(), "zero_stage": stage_enum(stage), key: parts,
                     "partition_count": [ranks] * len(parts) if stage == 2 else ranks,
                     "optimizer_state_dict" if stage == 3 else "base_optimizer_state": {"state": states}}
        torch.save({"optimizer_state_dict": optimizer, "ds_config": {}, "ds_version": "0.18.0"},
                   tag / f"{case.get('prefix', '')}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


SMALL = [{"fc.weight": (7, 5), "fc.bias": (7,), "head.weight": (3, 7), "scale": ()}]
TWO = [{"fc.weight": (7, 5), "head.weight": (3, 7)}, {"fc.bias": (7,), "norm.bias": (3,)}]
CASES = {
    "stage1_two_ranks": {"stage": 1, "ranks": 2, "groups": SMALL},
    "stage1_one_rank": {"stage": 1, "ranks": 1, "groups": TWO},
    "stage2_three_ranks": {"stage": 2, "ranks": 3, "groups": TWO, "frozen": {"embed.weight": (4, 3)},
                           "shared": {"tied.weight": "head.weight"}, "prefix": "bf16_"},
    "stage2_eleven_ranks": {"stage": 2, "ranks": 11, "groups": TWO},
    "stage3_two_ranks": {"stage": 3, "ranks": 2, "groups": SMALL},
    "stage3_four_ranks": {"stage": 3, "ranks": 4, "groups": TWO, "frozen": {"embed.weight": (5, 3), "gain": (3,)},
                          "shared": {"tied.weight": "fc.weight"}},
}


def main():
    made = stub_deepspeed(pathlib.Path(sys.argv[2]))
    torch.manual_seed(0)
    for name, case in CASES.items():
        folder = pathlib.Path(sys.argv[1]) / "deepspeed" / name
        write(folder, case, made)
        joined = made[2](str(folder / "in"))
        save_file({key: tensor.clone().contiguous() for key, tensor in joined.items()}, folder / "joined.safetensors")


main()
