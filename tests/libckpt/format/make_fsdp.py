"""Makes tests/golden/fsdp.tar.xz and fsdp_dcp.tar.xz: what PyTorch's FSDP (version 1; "dtensors": version 2, and tensors
that are cut along two dimensions of a mesh) writes on the CPU with gloo. Every case is a folder: in/ and joined.safetensors with the whole tensors. Those of the optimizer are put together from what each rank
holds: with use_orig_params FULL_STATE_DICT gives exp_avg the values of exp_avg_sq (PyTorch 2.15, gloo). fsdp/ has rank files of torch.save, fsdp_dcp/ folders of
torch.distributed.checkpoint.
Use: python make_fsdp.py FOLDER [RANKS...] (needs torch, numpy and safetensors)"""

import collections
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import save_file
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy, StateDictType, fully_shard
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

CASES = {
    # set, ranks, use_orig_params, dtype, what else
    "two": ("fsdp", 2, False, torch.float32, {}),
    "four": ("fsdp", 4, True, torch.bfloat16, {"name": "shard_{}.pt"}),
    "five": ("fsdp", 5, True, torch.float16, {"name": "rank_{}.pth"}),
    "hybrid": ("fsdp", 4, True, torch.float32, {"hybrid": True}),
    "accelerate": ("fsdp", 2, True, torch.float32, {"name": "pytorch_model_fsdp_0_rank{}.bin"}),
    "optimizer": ("fsdp", 2, True, torch.float32, {"optimizer": True}),
    "dtensors": ("fsdp", 2, True, torch.float32, {"mesh": (2,)}),
    "dtensors_mesh": ("fsdp", 4, True, torch.bfloat16, {"mesh": (2, 2), "name": "shard_{}.pt"}),
    "two_dcp": ("fsdp_dcp", 2, False, torch.float32, {}),
    "four_dcp": ("fsdp_dcp", 4, True, torch.bfloat16, {}),
    "accelerate_dcp": ("fsdp_dcp", 2, True, torch.float32, {"folder": "pytorch_model_fsdp_0"}),
}


def make_model(dtype):
    torch.manual_seed(3)
    return nn.Sequential(collections.OrderedDict(
        embed=nn.Embedding(7, 5),
        block=nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3, bias=False)),
        head=nn.Linear(3, 1))).to(dtype)


def flat_tensors(value, prefix=""):
    """The tensors of a tree under dotted names."""
    out = {}
    if isinstance(value, torch.Tensor):
        out[prefix[1:]] = value
    elif isinstance(value, dict):
        for key, item in value.items():
            out.update(flat_tensors(item, f"{prefix}.{key}"))
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            out.update(flat_tensors(item, f"{prefix}.{i}"))
    return out


def train(model, rank):
    """A few steps, on other inputs on each rank."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(100 + rank)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randint(0, 7, (4,))).square().sum().backward()
        optimizer.step()
    return optimizer


def whole_state(model, optimizer, ranks):
    """The optimizer's tensors under the names of parameters: the parts of all ranks, one behind the other."""
    own = {name.replace("_fsdp_wrapped_module.", ""): optimizer.state[parameter]
           for name, parameter in model.named_parameters() if parameter in optimizer.state}
    parts = [None] * ranks
    dist.all_gather_object(parts, own)
    out = {}
    for name in {name: None for part in parts for name in part}:
        held = [part[name] for part in parts if name in part]
        out[name] = {key: torch.cat([one[key].flatten() for one in held]) for key in ("exp_avg", "exp_avg_sq")}
        out[name]["step"] = held[0]["step"]
    return out


def run(rank, root, ranks):
    dist.init_process_group("gloo", rank=rank, world_size=ranks, init_method=f"file://{root}/meet_{ranks}")
    for name, case in CASES.items():
        if case[1] == ranks:
            write(rank, root, name)
    dist.destroy_process_group()


def whole(value):
    """The same tree with every DTensor whole."""
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return value.full_tensor() if isinstance(value, DTensor) else value


def fully_sharded(rank, dtype):
    """A model of FSDP2 and its optimizer, as torch.save writes them on each rank."""
    mesh = init_device_mesh("cpu", (2,))
    model = make_model(dtype)
    fully_shard(model.block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = train(model, rank)
    return {"model": model.state_dict(), "optim": optimizer.state_dict(), "epoch": 3}


def on_a_mesh(dtype):
    """Each placement that two dimensions have, also of tensors that are smaller than the mesh."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    ways = {"both": (Shard(0), Shard(1)), "one": (Replicate(), Shard(0)), "other": (Shard(1), Replicate()),
            "none": (Replicate(), Replicate()), "twice": (Shard(0), Shard(0)), "last": (Replicate(), Shard(-1))}
    torch.manual_seed(5)
    tensors = {f"{name}.{rows}x{columns}": distribute_tensor(torch.randn(rows, columns).to(dtype), mesh, way)
               for name, way in ways.items() for rows, columns in ((5, 3), (2, 7), (1, 1))}
    tensors["sub"] = distribute_tensor(torch.randn(5).to(dtype), mesh["model"], [Shard(0)])
    return tensors


def write_dtensors(rank, folder, case):
    _, _, _, dtype, more = case
    state = fully_sharded(rank, dtype) if more["mesh"] == (2,) else on_a_mesh(dtype)
    os.makedirs(os.path.join(folder, "in"), exist_ok=True)
    torch.save(state, os.path.join(folder, "in", more.get("name", "model_rank{}.pth").format(rank)))
    full = flat_tensors(whole(state))
    if rank == 0:
        save_file({key: value.clone().contiguous() for key, value in full.items()},
                  os.path.join(folder, "joined.safetensors"))
    dist.barrier()


def write(rank, root, name):
    if "mesh" in CASES[name][4]:
        return write_dtensors(rank, os.path.join(root, "fsdp", name), CASES[name])
    kind, _, orig, dtype, more = CASES[name]
    settings = {"use_orig_params": orig, "device_id": torch.device("cpu")}
    if more.get("hybrid"):
        groups = [dist.new_group([0, 1]), dist.new_group([2, 3])], [dist.new_group([0, 2]), dist.new_group([1, 3])]
        settings.update(sharding_strategy=ShardingStrategy.HYBRID_SHARD,
                        process_group=(groups[0][rank // 2], groups[1][rank % 2]))
    model = make_model(dtype)
    model.block = FSDP(model.block, **settings)
    model = FSDP(model, **settings)
    optimizer = train(model, rank) if "optimizer" in more else None
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        state = model.state_dict()
        sharded = FSDP.optim_state_dict(model, optimizer)["state"] if optimizer else None
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        full = model.state_dict()
    if "folder" in more:
        state, full = {"model": state}, {"model": full}
    if optimizer:
        whole = whole_state(model, optimizer, dist.get_world_size())
        whole = {name: {key: value.view(full[name].shape) if key != "step" else value for key, value in kept.items()}
                 for name, kept in whole.items()}
        state, full = {"model": state, "optim": sharded}, {"model": full, "optim": whole}
    folder = os.path.join(root, kind, name)
    inside = os.path.join(folder, "in", more.get("folder", ""))
    os.makedirs(inside, exist_ok=True)
    if kind == "fsdp_dcp":
        dcp.save(state, checkpoint_id=inside)
    else:
        torch.save(state, os.path.join(inside, more.get("name", "model_rank{}.pth").format(rank)))
    if rank == 0:
        save_file({key: value.clone().contiguous() for key, value in flat_tensors(full).items()},
                  os.path.join(folder, "joined.safetensors"))
    dist.barrier()


def main():
    root = os.path.abspath(sys.argv[1])
    os.makedirs(root, exist_ok=True)
    for ranks in map(int, sys.argv[2:] or {case[1] for case in CASES.values()}):
        mp.spawn(run, (root, ranks), nprocs=ranks)
        os.remove(os.path.join(root, f"meet_{ranks}"))


if __name__ == "__main__":
    main()
