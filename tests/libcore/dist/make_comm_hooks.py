#!/usr/bin/env python3
"""Makes tests/golden/comm_hooks.tar.xz with PyTorch: trainings of DistributedDataParallel with communication hooks on
Gloo. Usage: make_comm_hooks.py FOLDER [--seed N] (needs: pip install torch safetensors)

FOLDER/comm_hooks/hooks.json         "runs": "world_size", "sizes" of the layers of Sequential(Linear, ReLU, Linear, ...),
                                     "hook", "ddp" options, "lr", "start" (arrays by key), "x" and "y" (one array a
                                     rank, the rows of all steps), "steps", "state" after the last, "losses" of each
                                     rank, "buckets": what the hook of rank 0 was given at each call
                                     (index, is_last, elements, number of parameters);
                                     "errors": what a second hook, and one that is none, are refused with
FOLDER/comm_hooks/hooks.safetensors  their arrays
"""

import json
import pathlib
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import save_file
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from torch.nn.parallel import DistributedDataParallel

BATCH = 2


def half_of_sum(group, bucket):
    """Not a mean, and from a tensor of its own."""
    sent = bucket.buffer() * 0.5
    return dist.all_reduce(sent, async_op=True).get_future().then(lambda future: future.value()[0])


def doubled_last(group, bucket):
    """Tells buckets apart."""
    sent = bucket.buffer() * (2.0 if bucket.is_last() else 1.0 / (1 + bucket.index()))
    return dist.all_reduce(sent, async_op=True).get_future().then(lambda future: future.value()[0])


HOOKS = {
    "allreduce_hook": default_hooks.allreduce_hook,
    "fp16_compress_hook": default_hooks.fp16_compress_hook,
    "bf16_compress_hook": default_hooks.bf16_compress_hook,
    "fp16_compress_wrapper": default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook),
    "bf16_compress_wrapper": default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook),
    "noop_hook": debugging_hooks.noop_hook,
    "half_of_sum": half_of_sum,
    "doubled_last": doubled_last,
}
OPTIONS = [
    {},
    {"static_graph": True},
    {"find_unused_parameters": True},
    {"gradient_as_bucket_view": True},
    {"static_graph": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 0.0002},
    {"bucket_cap_mb": 0.0002},
]


def model_of(sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def train(rank, case):
    module = model_of(case["sizes"])
    module.load_state_dict(case["start"])
    model = DistributedDataParallel(module, **case["ddp"])
    given = []

    def hook(state, bucket):
        given.append([bucket.index(), bucket.is_last(), bucket.buffer().numel(), len(bucket.parameters())])
        return HOOKS[case["hook"]](state, bucket)

    model.register_comm_hook(None, hook)
    errors = []
    for other in (hook, 5):
        try:
            model.register_comm_hook(None, other)
        except Exception as error:
            errors.append([type(error).__name__, str(error).splitlines()[0]])
    optimizer = torch.optim.SGD(module.parameters(), lr=case["lr"])
    losses = []
    for step in range(case["steps"]):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        loss = torch.nn.functional.mse_loss(model(case["x"][rank][rows]), case["y"][rank][rows])
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    state = {key: value.clone() for key, value in module.state_dict().items()}
    return {"losses": losses, "buckets": given, "state": state, "errors": errors}


def run(rank, size, out):
    dist.init_process_group("gloo", init_method=f"file://{out}/meet{size}", rank=rank, world_size=size)
    torch.set_num_threads(1)
    cases = [case for case in torch.load(f"{out}/cases.pt") if case["world_size"] == size]
    torch.save([train(rank, case) for case in cases], f"{out}/{size}.{rank}.pt")
    dist.destroy_process_group()


def make_cases():
    cases = []
    for number, hook in enumerate(HOOKS):
        for options in OPTIONS if number in (0, 1, 7) else OPTIONS[:2]:
            size = 2 + (number + len(cases)) % 2
            sizes, steps = [4, 5, 5, 2], 4
            cases.append({"world_size": size, "sizes": sizes, "hook": hook, "ddp": options, "lr": 0.1, "steps": steps,
                          "start": dict(model_of(sizes).state_dict()),
                          "x": [torch.randn(steps * BATCH, sizes[0]) for _ in range(size)],
                          "y": [torch.randn(steps * BATCH, sizes[-1]) for _ in range(size)]})
    return cases


def main():
    folder = pathlib.Path(sys.argv[1]) / "comm_hooks"
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1)
    cases = make_cases()
    ends = {}
    with tempfile.TemporaryDirectory() as out:
        torch.save(cases, f"{out}/cases.pt")
        for size in (2, 3):
            mp.spawn(run, args=(size, out), nprocs=size)
            ends[size] = [iter(torch.load(f"{out}/{size}.{rank}.pt")) for rank in range(size)]
    arrays, runs = {}, []

    def keep(tensor):
        name = f"a{len(arrays)}"
        arrays[name] = tensor.contiguous().clone()
        return name

    for case in cases:
        end = [next(of_rank) for of_rank in ends[case["world_size"]]]
        runs.append({**case, "start": {key: keep(value) for key, value in case["start"].items()},
                     "x": [keep(x) for x in case["x"]], "y": [keep(y) for y in case["y"]],
                     "losses": [one["losses"] for one in end], "buckets": end[0]["buckets"],
                     "state": [{key: keep(value) for key, value in one["state"].items()} for one in end]})
    text = {"torch": torch.__version__, "runs": runs, "errors": end[0]["errors"]}
    (folder / "hooks.json").write_text(json.dumps(text))
    save_file(arrays, folder / "hooks.safetensors")


if __name__ == "__main__":
    main()
