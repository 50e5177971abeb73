#!/usr/bin/env python3
"""Makes tests/golden/comm_hooks.tar.xz with PyTorch: trainings of DistributedDataParallel with communication hooks on
Gloo. Usage: make_comm_hooks.py FOLDER [--seed N] (needs: pip install torch safetensors numpy)

FOLDER/comm_hooks/hooks.json         "runs": "world_size", "sizes" of the layers of Sequential(Linear, ReLU, Linear, ...),
                                     "table": 0, or how many rows the Embedding(sparse=True) or, where "bag" is true,
                                     EmbeddingBag before them has (width "width"; of Embedding a Flatten follows);
                                     "hook" ("" for none), "power": options of PowerSGDState, "ddp" options, "lr",
                                     "start" (arrays by key), "x" and "y" (one array a
                                     rank, the rows of all steps), "steps", "state" after the last, "losses" of each
                                     rank, "buckets": what the hook of rank 0 was given at each call
                                     (index, is_last, elements, number of parameters);
                                     "places" and "values": the gradient of the table in the last step;
                                     "numels": of PowerSGD: elements before and after compression;
                                     "errors": what a second hook, and one that is none, are refused with;
                                     "sparse_errors": [what, text] of two ranks
FOLDER/comm_hooks/hooks.safetensors  their arrays
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import save_file
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks, powerSGD_hook
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
POWER = [
    {"start_powerSGD_iter": 2},
    {"start_powerSGD_iter": 2, "matrix_approximation_rank": 2, "random_seed": 7},
    {"start_powerSGD_iter": 3, "matrix_approximation_rank": 3, "min_compression_rate": 1.5},
    {"start_powerSGD_iter": 2, "use_error_feedback": False, "orthogonalization_epsilon": 1e-8},
    {"start_powerSGD_iter": 2, "warm_start": False},
    {"start_powerSGD_iter": 2, "batch_tensors_with_same_shape": True, "matrix_approximation_rank": 2},
    {"start_powerSGD_iter": 0, "use_error_feedback": False, "warm_start": False},
]
SPARSE = [
    ("", {}), ("", {"static_graph": True}), ("", {"find_unused_parameters": True}),
    ("", {"gradient_as_bucket_view": True}), ("", {"bucket_cap_mb": 0.0002}), ("allreduce_hook", {}),
    ("bf16_compress_wrapper", {"bucket_cap_mb": 0.0002}), ("noop_hook", {}),
]
OPTIONS = [
    {},
    {"static_graph": True},
    {"find_unused_parameters": True},
    {"gradient_as_bucket_view": True},
    {"static_graph": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 0.0002},
    {"bucket_cap_mb": 0.0002},
]


class Dense(torch.nn.Module):
    """Expected, and not there; `used` says whether another gradient is."""

    def __init__(self, used):
        super().__init__()
        self.table, self.linear, self.used = torch.nn.Embedding(5, 2, sparse=True), torch.nn.Linear(2, 1), used

    def forward(self, x):
        return (self.table.weight if self.used else torch.ones(1, 2)).sum() * self.linear.weight.sum()


def step(model, x):
    model(x).backward()


ERRORS = ("reduction", "dense", "unused")


def sparse_error(name):
    x = torch.tensor([0, 1])
    try:
        if name == "reduction":
            dist.all_reduce(torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 2), (5, 2)), dist.ReduceOp.MAX)
        else:
            step(DistributedDataParallel(Dense(name == "dense"), find_unused_parameters=name == "unused"), x)
    except Exception as error:
        return str(error).splitlines()[0]
    return ""


def model_of(sizes, table=0, width=0, bag=False):
    layers = []
    if bag:
        layers = [torch.nn.EmbeddingBag(table, width, sparse=True, mode="sum")]
    elif table:
        layers = [torch.nn.Embedding(table, width, sparse=True), torch.nn.Flatten()]
    for a, b in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def train(rank, case):
    module = model_of(case["sizes"], case["table"], case["width"], case["bag"])
    module.load_state_dict(case["start"])
    model = DistributedDataParallel(module, **case["ddp"])
    given = []
    power = powerSGD_hook.PowerSGDState(None, **case["power"]) if case["power"] else None
    called = HOOKS.get(case["hook"]) or (lambda state, bucket: powerSGD_hook.powerSGD_hook(power, bucket))

    def hook(state, bucket):
        given.append([bucket.index(), bucket.is_last(), bucket.buffer().numel(), len(bucket.parameters())])
        return called(state, bucket)

    errors = []
    if case["hook"]:
        model.register_comm_hook(None, hook)
    for other in (hook, 5) if case["hook"] else ():
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
        grad = module[0].weight.grad
        optimizer.step()
        optimizer.zero_grad()
    state = {key: value.clone() for key, value in module.state_dict().items()}
    return {"losses": losses, "buckets": given, "state": state, "errors": errors,
            "places": grad.coalesce().indices() if case["table"] else None,
            "values": grad.coalesce().values() if case["table"] else None,
            "numels": power and [power.total_numel_before_compression, power.total_numel_after_compression]}


def run(rank, size, out):
    dist.init_process_group("gloo", init_method=f"file://{out}/meet{size}", rank=rank, world_size=size)
    torch.set_num_threads(1)
    cases = [case for case in torch.load(f"{out}/cases.pt") if case["world_size"] == size]
    torch.save([train(rank, case) for case in cases], f"{out}/{size}.{rank}.pt")
    dist.destroy_process_group()


def run_error(rank, out, name):
    """In a process that nobody waits for long: a reducer that failed may hang or abort at its end."""
    dist.init_process_group("gloo", init_method=f"file://{out}/{name}", rank=rank, world_size=2)
    pathlib.Path(f"{out}/{name}.{rank}.txt").write_text(sparse_error(name))
    os._exit(0)


def said_of(name, out):
    words = [sys.executable, __file__, "--error", name, out]
    ranks = [subprocess.Popen([*words, str(rank)]) for rank in range(2)]
    for rank in ranks:
        try:
            rank.wait(300)
        except subprocess.TimeoutExpired:
            rank.kill()
    return pathlib.Path(f"{out}/{name}.0.txt").read_text()


def make_cases():
    cases = []
    for number, hook in enumerate(HOOKS):
        for options in OPTIONS if number in (0, 1, 7) else OPTIONS[:2]:
            size = 2 + (number + len(cases)) % 2
            sizes, steps = [4, 5, 5, 2], 4
            cases.append({"world_size": size, "sizes": sizes, "table": 0, "width": 0, "bag": False, "hook": hook,
                          "power": None, "ddp": options, "lr": 0.1, "steps": steps,
                          "start": dict(model_of(sizes).state_dict()),
                          "x": [torch.randn(steps * BATCH, sizes[0]) for _ in range(size)],
                          "y": [torch.randn(steps * BATCH, sizes[-1]) for _ in range(size)]})
    return cases + power_cases() + sparse_cases()


def power_cases():
    """One bucket: over Gloo PyTorch waits for ever with several, whose sums wait in the threads that make them."""
    cases = []
    for number, power in enumerate(POWER):
        size = 2 + number % 2
        sizes, steps = [12, 16, 16, 16, 24, 3], 6
        cases.append({"world_size": size, "sizes": sizes, "table": 0, "width": 0, "bag": False,
                      "hook": "powerSGD_hook", "power": power, "ddp": {}, "lr": 0.1, "steps": steps,
                      "start": dict(model_of(sizes).state_dict()),
                      "x": [torch.randn(steps * BATCH, sizes[0]) for _ in range(size)],
                      "y": [torch.randn(steps * BATCH, sizes[-1]) for _ in range(size)]})
    return cases


def sparse_cases():
    cases = []
    for number, (hook, options) in enumerate(SPARSE):
        for bag in (False, True):
            size = 2 + (number + bag) % 2
            table, width, length, steps = 30, 3, 4, 4
            sizes = [width if bag else width * length, 5, 2]
            rows = steps * BATCH
            cases.append({"world_size": size, "sizes": sizes, "table": table, "width": width, "bag": bag, "hook": hook,
                          "power": None, "ddp": options, "lr": 0.1, "steps": steps,
                          "start": dict(model_of(sizes, table, width, bag).state_dict()),
                          "x": [torch.randint(table // (1 + rank), (rows, length)) for rank in range(size)],
                          "y": [torch.randn(rows, sizes[-1]) for _ in range(size)]})
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
        sparse = [[name, said_of(name, out)] for name in ERRORS]
    arrays, runs = {}, []

    def keep(tensor):
        name = f"a{len(arrays)}"
        arrays[name] = tensor.contiguous().clone()
        return name

    errors = []
    for case in cases:
        end = [next(of_rank) for of_rank in ends[case["world_size"]]]
        errors = errors or end[0]["errors"]
        runs.append({**case, "start": {key: keep(value) for key, value in case["start"].items()},
                     "x": [keep(x) for x in case["x"]], "y": [keep(y) for y in case["y"]],
                     "losses": [one["losses"] for one in end], "buckets": end[0]["buckets"],
                     "numels": end[0]["numels"],
                     "places": [keep(one["places"]) for one in end] if case["table"] else [],
                     "values": [keep(one["values"]) for one in end] if case["table"] else [],
                     "state": [{key: keep(value) for key, value in one["state"].items()} for one in end]})
    text = {"torch": torch.__version__, "runs": runs, "errors": errors, "sparse_errors": sparse}
    (folder / "hooks.json").write_text(json.dumps(text))
    save_file(arrays, folder / "hooks.safetensors")


if __name__ == "__main__":
    run_error(int(sys.argv[4]), sys.argv[3], sys.argv[2]) if sys.argv[1] == "--error" else main()
