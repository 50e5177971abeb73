#!/usr/bin/env python3
"""Saves and loads of two ranks beside torch.distributed.checkpoint: rank_table.py BUILD FOLDER [--rounds N].

Each round runs PyTorch and rank_saves one after the other, as two processes of one thread, with the same tensors; what
is written here is durable, PyTorch's is not. Before a load both have their files on the disk and either none of them in
the page cache ("load") or all ("warm load"). Prints the medians and their ratios (needs: pip install torch numpy).
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import time

RANKS = 2
CASES = [(64, 8192), (2000, 4)]
BEHIND = "and writing to all tensors"  # right behind the call, while they are copied
ROWS = [("save", "save_s", "save_s"), ("next save", "again_s", "again_s"), ("first stall", "stall_s", "stall_s"),
        (f"first stall {BEHIND}", "stall_write_s", "stall_write_s"),
        ("the same, memory made ready", "prepared_stall_write_s", "stall_write_s"),
        ("first stall, copied in the call", "copying_stall_s", "stall_s"),
        ("later stall", "stall_later_s", "stall_later_s"),
        (f"later stall {BEHIND}", "stall_later_write_s", "stall_later_write_s"),
        ("later stall, copied in the call", "copying_stall_later_s", "stall_later_s"), ("load", "load_s", "load_s"),
        ("warm load", "load_warm_s", "load_warm_s")]


def torch_rank(folder, tensors, kib):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    own = dist.new_group(backend="gloo")
    mesh = init_device_mesh("cpu", (RANKS,))
    rows = kib * 256 // 64
    state = {f"model.layer_{i}.weight": DTensor.from_local(torch.full((rows // RANKS, 64), dist.get_rank() + 1.0), mesh,
                                                           [Shard(0)]) for i in range(tensors)}
    found = {}

    def timed(name, call):
        dist.barrier()
        start = time.monotonic()
        result = call()
        dist.barrier()
        found[name] = time.monotonic() - start
        return result

    def set_page_cache(where, keep):
        dist.barrier()
        for path in pathlib.Path(where).iterdir() if dist.get_rank() == 0 else ():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                while keep and file.read(4 << 20):
                    pass
        dist.barrier()

    timed("save_s", lambda: dcp.save(state, checkpoint_id=f"{folder}/first"))
    timed("again_s", lambda: dcp.save(state, checkpoint_id=f"{folder}/second"))
    locals_ = [tensor.to_local() for tensor in state.values()]
    for name, behind in (("stall_s", "behind_s"), ("stall_later_s", "behind_later_s")):
        saving = timed(name, lambda: dcp.async_save(state, checkpoint_id=f"{folder}/async", process_group=own))
        timed(behind, lambda: [tensor.add_(0) for tensor in locals_])
        saving.result()
    for name, keep in (("load_s", False), ("load_warm_s", True)):
        set_page_cache(f"{folder}/first", keep)
        timed(name, lambda: dcp.load(state, checkpoint_id=f"{folder}/first"))
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def run_ranks(words, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                                       MASTER_PORT=str(port), OMP_NUM_THREADS="1"), text=True) for rank in range(RANKS)]
    said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"{words[0]}: a rank failed")
    shutil.rmtree(folder)
    return json.loads([line for text in said for line in text.splitlines() if line.startswith("{")][0])


def with_sums(found):
    found["stall_write_s"] = found["stall_s"] + found["behind_s"]
    found["stall_later_write_s"] = found["stall_later_s"] + found["behind_later_s"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    program = pathlib.Path(arguments.build) / "bin/rank_saves"
    folder = arguments.folder / "rank_table"
    print("| seconds | here | PyTorch | ratio |\n|---|--:|--:|--:|")
    for tensors, kib in CASES:
        here, peer = [], []
        for _ in range(arguments.rounds):
            peer.append(with_sums(run_ranks([sys.executable, __file__, "--rank", folder, tensors, kib], folder)))
            here.append(with_sums(run_ranks([program, folder, tensors, kib], folder)))
            for how in ("prepared", "copying"):
                other = with_sums(run_ranks([program, folder, tensors, kib, how], folder))
                here[-1].update({f"{how}_{name}": taken for name, taken in other.items()})
        for title, ours, theirs in ROWS:
            a = statistics.median(each[ours] for each in here)
            b = statistics.median(each[theirs] for each in peer)
            print(f"| {tensors:,} tensors, {round(tensors * kib / 1024)} MiB: {title} | {a:.3f} | {b:.3f} | {a / b:.3f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        torch_rank(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
