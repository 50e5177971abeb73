#!/usr/bin/env python3
"""Time of edits in place of a large file in every format, beside PyTorch, as a Markdown table.

usage: edit_table.py BUILD [--gib 8] [--tensors 2000] [--rounds 15] [--folder DIR] [--peer] [-o TABLE.md]

The files hold zeros that take no room on the disk, apart from the .ckpt, which ckpt itself writes. `shrink` is
`ckpt strip-prefix --in-place`, durable; `undo` takes it back. `grow` is `ckpt add-prefix --in-place` of a prefix that
the room of a tight header does not hold; where that copies the file, the row says so. Each is timed from the start of the process to its end; the table holds the
smallest time and the median, the most memory, and the bytes that system calls wrote. --peer (once, it takes long): what
the same takes in Python, `torch.load`, new names, `torch.save` and an fsync of the file. Needs strace for the bytes,
and torch for --peer.
"""
import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

FORMATS = ["safetensors", "gguf", "pth", "npz", "ckpt"]
PREFIX = "module."
COLUMNS = 2048  # of every tensor, in bf16 or f16


def name_of(i):
    return f"{PREFIX}layers.{i // 10}.block.{i % 10}.weight"


def write_safetensors(path, count, size):
    entries = [f'"{name_of(i)}":{{"dtype":"F16","shape":[{size // 2 // COLUMNS},{COLUMNS}],"data_offsets":'
               f"[{i * size},{(i + 1) * size}]}}" for i in range(count)]
    text = ('{"__metadata__":{"format":"pt"},' + ",".join(entries) + "}").encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(out.tell() + count * size)


def write_gguf(path, count, size):
    def string(text):
        return struct.pack("<Q", len(text)) + text.encode()
    head = b"GGUF" + struct.pack("<IQQ", 3, count, 1) + string("general.architecture") + struct.pack("<I", 8)
    head += string("llama")
    for i in range(count):
        head += string(name_of(i)) + struct.pack("<IQQIQ", 2, COLUMNS, size // 2 // COLUMNS, 1, i * size)
    head += b"\0" * (-len(head) % 32)
    with open(path, "wb") as out:
        out.write(head)
        out.truncate(len(head) + count * size)


class Zip:
    """Stored members, each aligned to 64 bytes; `size` zeros behind the head of one are a hole."""

    def __init__(self, path):
        self.out = open(path, "wb")
        self.directory = b""
        self.count = 0

    def add(self, name, head, size=0):
        name = name.encode()
        crc = zlib.crc32(head)
        for _ in range(size >> 20):
            crc = zlib.crc32(ZEROS, crc)
        length = len(head) + size
        at = self.out.tell()
        padding = -(at + 30 + len(name) + 4) % 64
        extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
        wide = at >= 0xFFFFFFFF
        fields = struct.pack("<HHHHHIII", 20, 0, 0, 0, 0x21, crc, length, length)
        self.out.write(b"PK\3\4" + fields + struct.pack("<HH", len(name), len(extra)) + name + extra + head)
        self.out.truncate(self.out.tell() + size)
        self.out.seek(0, 2)
        more = struct.pack("<HHQ", 1, 8, at) if wide else b""
        self.directory += b"PK\1\2" + struct.pack("<H", 45 if wide else 20) + fields
        self.directory += struct.pack("<HHHHHII", len(name), len(more), 0, 0, 0, 0, 0xFFFFFFFF if wide else at)
        self.directory += name + more
        self.count += 1

    def close(self):
        at = self.out.tell()
        end = at + len(self.directory)
        self.out.write(self.directory)
        self.out.write(b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, self.count, self.count,
                                               len(self.directory), at))
        self.out.write(b"PK\6\7" + struct.pack("<IQI", 0, end, 1))
        self.out.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, min(self.count, 0xFFFF), min(self.count, 0xFFFF),
                                               len(self.directory), 0xFFFFFFFF, 0))
        self.out.close()


ZEROS = b"\0" * (1 << 20)


def write_npz(path, count, size):
    text = f"{{'descr': '<f2', 'fortran_order': False, 'shape': ({size // 2 // COLUMNS}, {COLUMNS}), }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    head = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()
    archive = Zip(path)
    for i in range(count):
        archive.add(name_of(i) + ".npy", head, size)
    archive.close()


def pickle_of(count, size):
    """What torch.save writes for a dict of half tensors."""
    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def number(value):
        return b"J" + struct.pack("<i", value)
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    body = b"\x80\x02}("
    for i in range(count):
        body += text(name_of(i)) + rebuild + b"((" + text("storage") + b"ctorch\nHalfStorage\n" + text(str(i))
        body += text("cpu") + number(size // 2) + b"tQ" + number(0) + number(size // 2 // COLUMNS) + number(COLUMNS)
        body += b"\x86" + number(COLUMNS) + number(1) + b"\x86\x89ccollections\nOrderedDict\n)RtR"
    return body + b"u."


def write_pth(path, count, size):
    archive = Zip(path)
    archive.add("net/data.pkl", pickle_of(count, size))
    archive.add("net/byteorder", b"little")
    for i in range(count):
        archive.add(f"net/data/{i}", b"", size)
    archive.add("net/version", b"3\n")
    archive.close()


def make(ckpt, folder, kind, count, size):
    path = os.path.join(folder, "net." + kind)
    if kind == "ckpt":
        source = os.path.join(folder, "source.safetensors")
        write_safetensors(source, count, size)
        subprocess.run([ckpt, "convert", "-q", "--codec", "none", source, "-o", path], check=True)
        os.remove(source)
        subprocess.run(["fallocate", "--dig-holes", path], check=False)
    else:
        globals()["write_" + kind](path, count, size)
    subprocess.run(["sync", path], check=False)
    return path


def run(command):
    begin = time.perf_counter()
    process = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    spent = 1e3 * (time.perf_counter() - begin)
    if status != 0:
        raise SystemExit(f"edit_table: {' '.join(command)} failed")
    return spent, usage.ru_maxrss / 1024


def bytes_written(command):
    """By calls that write to files, of the program and its helpers; None without strace."""
    if shutil.which("strace") is None:
        return None
    calls = "pwrite64,write,pwritev,copy_file_range"
    with tempfile.NamedTemporaryFile("r") as log:
        subprocess.run(["strace", "-f", "-y", "-o", log.name, "-e", "trace=" + calls, *command], check=True,
                       stdout=subprocess.DEVNULL)
        lines = [line for line in log if re.search(r"\(\d+</", line)]
    return sum(int(found.group(1)) for found in (re.search(r"= (\d+)$", line.rstrip()) for line in lines) if found)


def row(ckpt, path, title, edit, rounds):
    planned = subprocess.run([ckpt, edit[0], "--dry-run", "--in-place", *edit[1:], path], check=True,
                             capture_output=True, text=True).stdout
    if "in place" not in planned and "appended" not in planned:
        return f"| {title} | copied | | | | |"
    undo = [ckpt, "undo", "-q", path]
    edit = [ckpt, edit[0], "-q", "--in-place", *edit[1:], path]
    times, memory, back = [], [], []
    for _ in range(rounds):
        spent, most = run(edit)
        times.append(spent)
        memory.append(most)
        back.append(run(undo)[0])
    written = bytes_written(edit)
    run(undo)
    written = "" if written is None else f"{written / 2**20:.2f}"
    return (f"| {title} | {min(times):.1f} | {sorted(times)[rounds // 2]:.1f} | {min(back):.1f} | {written} | "
            f"{max(memory):.0f} |")


def peer(path):
    """Seconds that PyTorch takes; the result is removed."""
    program = ("import os, sys, time, torch\n"
               "path, prefix = sys.argv[1:]\n"
               "begin = time.perf_counter()\n"
               "state = torch.load(path)\n"
               "state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}\n"
               "torch.save(state, path + '.new')\n"
               "with open(path + '.new') as out: os.fsync(out.fileno())\n"
               "print(time.perf_counter() - begin)\n"
               "os.remove(path + '.new')\n")
    return float(subprocess.run([sys.executable, "-c", program, path, PREFIX], check=True, capture_output=True,
                                text=True).stdout)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--tensors", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("-o", dest="output", default=None)
    options = parser.parse_args()
    ckpt = os.path.abspath(os.path.join(options.build, "bin", "ckpt"))
    size = (int(options.gib * 2**30) // options.tensors) >> 20 << 20
    lines = ["| edit | least ms | median ms | undo ms | MiB written | MiB of memory |", "|---|--:|--:|--:|--:|--:|"]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for kind in options.formats.split(","):
            path = make(ckpt, folder, kind, options.tensors, size)
            lines.append(row(ckpt, path, f"`.{kind}`, shrink", ["strip-prefix"], options.rounds))
            lines.append(row(ckpt, path, f"`.{kind}`, grow", ["add-prefix", "--prefix", "backbone.encoder."],
                             options.rounds))
            if options.peer and kind == "pth":
                lines.append(f"| `.pth`, PyTorch | {1e3 * peer(path):.0f} | | | | |")
            os.remove(path)
    text = "\n".join(lines) + "\n"
    if options.output:
        with open(options.output, "w", encoding="utf-8") as out:
            out.write(text)
    print(text, end="")


if __name__ == "__main__":
    main()
