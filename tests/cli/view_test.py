"""`ckpt view` in a real terminal, of which pyte keeps the screen. Use: view_test.py CKPT; exit 77 without pyte."""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

try:
    from terminal import Terminal
except ImportError as error:
    print(f"skipped: {error}; install python3-pyte")
    sys.exit(77)

CKPT = os.path.abspath(sys.argv[1])


def write(path, tensors):
    """A safetensors file: name -> (shape, floats, or one float for all)."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        count = 1
        for size in shape:
            count *= size
        values = values if isinstance(values, list) else [values] * count
        part = struct.pack(f"<{count}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


MODEL = {
    "encoder.layer0.weight": ([4, 4], 0.5),
    "encoder.layer0.bias": ([4], [0.0, 1.0, 2.0, 3.0]),
    "encoder.layer1.weight": ([40, 4], 0.1),
    "head.weight": ([10, 4], [float(i) for i in range(40)]),
}


def view(folder, *words, **options):
    return Terminal([CKPT, "view", *words], folder=folder, **options)


def ends_well(terminal, code=0):
    status = terminal.wait()
    assert status == code, f"{status}\n{terminal.text()}"
    assert b"\x1b[?1049l" in terminal.raw, "the terminal was not put back"


def listed(folder, *words):
    return subprocess.run([CKPT, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_tree_opens_folds_and_leaves(folder):
    for columns in (80, 200):
        with view(folder, "net.safetensors", columns=columns) as t:
            text = t.wait_for("net.safetensors: 4 tensors, 880 B", "▸ encoder", "? help")
            assert "layer0" not in text
            assert all(len(line) <= columns for line in t.lines())
            t.type("l")  # opens
            t.wait_for("▾ encoder", "▸ layer0")
            t.type("O")
            t.wait_for("weight", "bias", "[40, 4]", "float32", "640 B")
            t.type("F")
            t.wait_for("▸ encoder", absent=("layer0",))
            t.type("q")
            ends_well(t)


def test_search_goes_round_and_says_when_there_is_none(folder):
    with view(folder, "net.safetensors") as t:
        t.wait_for("? help")
        t.type("/BIAS\r")
        t.wait_for("encoder.layer0.bias", "▾ layer0")  # the line of the place
        t.type("/weight\r")
        t.wait_for("encoder.layer1.weight")
        t.type("n")
        t.wait_for("head.weight")
        t.type("n")
        t.wait_for("encoder.layer0.weight")
        t.type("N")
        t.wait_for("head.weight\n")
        t.type("/nothing\r")
        t.wait_for("no name has 'nothing'")
        t.type("q")
        ends_well(t)


def test_orders(folder):
    with view(folder, "net.safetensors") as t:
        t.wait_for("? help")
        t.type("O")
        t.wait_for("layer1")
        t.type("s")
        t.wait_for("by name")
        t.type("s")
        text = t.wait_for("by size")
        assert text.index("layer1") < text.index("layer0"), text
        t.type("s")
        text = t.wait_for("by norm")
        assert text.index("head") < text.index("encoder"), text
        assert "143.3" in text, text  # the square root of the squares of 0 to 39
        t.type("q")
        ends_well(t)


def test_details_show_values_histogram_and_slices(folder):
    with view(folder, "net.safetensors") as t:
        t.wait_for("? help")
        t.type("/head.w\r")
        t.wait_for("head.weight")
        t.type("\r")
        t.wait_for("shape   [10, 4]", "dtype   float32", "device  cpu", "from 0 to 39, mean 19.5", "####")
        t.type("G")
        t.wait_for("[36., 37., 38., 39.]")
        t.type("i")
        t.wait_for("slice, as in Python")
        t.type("1:3,0\r")
        t.type("G")
        t.wait_for("[1:3,0]", "tensor([4., 8.])")
        t.type("i")
        t.wait_for("slice, as in Python")
        t.type("77:\x1b")
        t.type("q")
        t.wait_for("? help")
        t.type("q")
        ends_well(t)


def test_two_files(folder):
    other = dict(MODEL)
    del other["encoder.layer0.bias"]
    other["extra"] = ([2], 1.0)
    other["head.weight"] = ([10, 4], [float(i) for i in range(39)] + [40.0])
    other["encoder.layer1.weight"] = ([40, 5], 0.1)
    write(os.path.join(folder, "other.safetensors"), other)
    with view(folder, "net.safetensors", "other.safetensors", columns=100) as t:
        t.wait_for("net.safetensors beside other.safetensors", "*▸ encoder", "+  extra", "5 tensors")
        t.type("O")
        t.wait_for("-      bias", "!      weight")
        t.type("G")
        t.wait_for("extra\n")
        t.type("gd")
        t.wait_for("2 of 3 tensors differ")
        t.type("f")
        text = t.wait_for("differences only")
        assert "=" not in text, text
        t.type("f")
        t.wait_for("head", absent=("differences only",))
        t.type("/head.w\r")
        t.wait_for("head.weight")
        t.type("d")
        t.wait_for("~    weight", "1 of 1 tensor differ")
        t.type("\r")
        t.wait_for("1 of 40 values differ in the second file, by at most 1")
        t.type("q")
        t.wait_for("? help")
        t.type("x")
        t.wait_for("edits are for one file")
        t.type("q")
        ends_well(t)


def test_edits_are_shown_and_made_in_place(folder):
    write(os.path.join(folder, "edited.safetensors"), MODEL)
    with view(folder, "edited.safetensors") as t:
        t.wait_for("? help")
        t.type("r")
        t.wait_for("new name for encoder:")
        t.type("backbone\r")
        t.wait_for("waiting: ckpt rename --glob 'encoder.*=backbone.*' edited.safetensors")
        t.type("Gx")
        t.wait_for("2 edits waiting")
        t.type("c")
        t.wait_for("cast all tensors")
        t.type("bf17\r")
        t.wait_for("bf17")
        t.type("c")
        t.wait_for("cast all tensors")
        t.type("bf16\r")
        t.wait_for("3 edits waiting")
        t.type("e")
        t.wait_for("3 of 4 keys renamed", "encoder.layer0.weight -> backbone.layer0.weight", "1 of 4 tensors dropped",
                   "3. ckpt cast --to bf16", "3 of 3 tensors cast")
        assert "encoder" in listed(folder, "ls", "-q", "edited.safetensors")
        t.type("w")
        t.wait_for("write to (enter alone: change the file itself")
        t.type("\r")
        ends_well(t)
    names = listed(folder, "ls", "-q", "edited.safetensors").split()
    assert names == ["backbone.layer0.weight", "backbone.layer0.bias", "backbone.layer1.weight"], names
    assert "bfloat16" in listed(folder, "ls", "edited.safetensors")


def test_edits_go_to_another_file_or_nowhere(folder):
    with view(folder, "net.safetensors") as t:
        t.wait_for("? help")
        t.type("m")
        t.wait_for("tag all tensors")
        t.type("cuda:1\r")
        t.wait_for("1 edit waiting")
        t.type("q")
        t.wait_for("1 edit waiting and not made; leave without?")
        t.type("n\r")
        t.type("u")
        t.wait_for("? help", absent=("waiting",))
        t.type("x")
        t.wait_for("waiting: ckpt select --exclude encoder net.safetensors")
        t.type("ew")
        t.wait_for("write to")
        t.type("small.safetensors\r")
        ends_well(t)
    assert listed(folder, "ls", "-q", "small.safetensors").split() == ["head.weight"]
    assert len(listed(folder, "ls", "-q", "net.safetensors").split()) == 4
    with view(folder, "net.safetensors") as t:
        t.wait_for("? help")
        t.type("x")
        t.wait_for("waiting")
        t.type("qy\x1b")
        t.wait_for("? help")
        t.type("qy\r")
        ends_well(t)


def test_edits_that_cannot_be_written_are_not_lost(folder):
    with view(folder, "net.safetensors", columns=200) as t:
        t.wait_for("? help")
        t.type("xc")
        t.wait_for("cast all tensors")
        t.type("bf16\rew")
        t.wait_for("write to")
        t.type("missing/small.safetensors\r")
        t.wait_for("missing/small.safetensors: ", "these edits were not made: ckpt select --exclude encoder "
                   "net.safetensors; ckpt cast --to bf16 net.safetensors")
        assert t.wait() == 4
    assert len(listed(folder, "ls", "-q", "net.safetensors").split()) == 4


def test_lines_of_edits_are_commands(folder):
    odd = ["it's $x [0]", "a b", "*{q}\\", "re:plain"]
    file = "odd names.safetensors"
    write(os.path.join(folder, file), {name: ([1], 1.0) for name in [*odd, "plain"]})
    for name in odd:
        lines = []
        for keys in ("rnew $1 'n'\r", "x"):
            with view(folder, file, columns=200) as t:
                t.wait_for("? help")
                t.type(f"/{name}\r{keys}")
                lines.append(re.search("waiting: ckpt (.*)", t.wait_for("waiting: ")).group(1))
                t.type("qy\r")
                ends_well(t)
        for line, new in zip(lines, ({"new $1 'n'"}, set())):
            subprocess.run(f"'{CKPT}' {line} -q -f -o new.safetensors", cwd=folder, shell=True, check=True)
            names = {t["name"] for t in json.loads(listed(folder, "ls", "--json", "new.safetensors"))["tensors"]}
            assert names == {*odd, "plain"} - {name} | new, (line, names)


def test_an_edit_that_cannot_be_made_says_so_before(folder):
    with view(folder, "net.safetensors") as t:
        t.wait_for("? help")
        t.type("lr")
        t.wait_for("new name for encoder:")
        t.type("head\r")
        t.type("/head.w\r")
        t.wait_for("head.weight")
        t.type("r")
        t.wait_for("new name for head.weight")
        t.type("head.layer0.weight\r")
        t.type("e")
        t.wait_for("cannot be made: ", "head.layer0.weight")
        t.type("q")
        t.wait_for("? help")
        t.type("qy\r")
        ends_well(t)


def test_help_resize_and_small_terminals(folder):
    with view(folder, "net.safetensors") as t:
        t.wait_for("? help")
        t.resize(132, 40)
        t.wait_for("enter values  r rename", "encoder")
        t.type("/head.w\r")
        t.wait_for("shape   [10, 4]")  # beside the tree
        t.resize(40, 8)
        t.wait_for("weight", absent=("shape   [10, 4]",))
        t.resize(5, 2)
        t.type("jkO")
        t.resize(80, 24)
        t.wait_for("? help", "encoder")
        t.type("?")
        t.wait_for("ckpt view: keys", "page up, page down")
        t.resize(100, 50)
        t.wait_for("q                      leave")
        t.type("q")
        t.wait_for("? help")
        t.type("\x03")  # Ctrl-C
        ends_well(t)


def test_ascii_and_no_color(folder):
    write(os.path.join(folder, "names.safetensors"), {"größe.w": ([2], 1.0), "日本.w": ([2], 1.0)})
    with view(folder, "names.safetensors", environment={"LC_CTYPE": "C", "LANG": "C", "NO_COLOR": "1"}) as t:
        t.wait_for("> gr??e", "> ??", "? help")
        t.type("O")
        t.wait_for("v gr")
        t.type("q")
        ends_well(t)
        assert all(byte < 0x80 for byte in t.raw), t.raw
        assert not re.search(rb"\x1b\[[0-9;]*\b3[0-9]m", t.raw), t.raw  # no color
    with view(folder, "names.safetensors") as t:
        t.wait_for("▸ größe", "▸ 日")
        t.type("q")
        ends_well(t)
        assert re.search(rb"\x1b\[[0-9;]*\b36m", t.raw), t.raw


def test_names_cannot_reach_the_terminal(folder):
    bad = "a\x1b]0;owned\x07.b\x1b[2J\u202e"
    write(os.path.join(folder, "bad.safetensors"), {bad: ([1], 1.0), "c": ([1], 1.0)})
    with view(folder, "bad.safetensors", columns=130) as t:
        t.wait_for("a\\x1b]0;owned\\x07", "c")
        t.type("l")
        t.wait_for("b\\x1b[2J\\u202e")
        t.type("j\r")
        t.wait_for("q back")
        t.type("q")
        t.wait_for("? help")
        t.type("r")
        t.wait_for("new name for ")
        t.type("x\r")
        t.type("e")
        t.wait_for("1 of 2 keys renamed")
        t.type("q")
        t.wait_for("? help")
        t.type("qy\r")
        ends_well(t)
        assert b"owned\x07" not in t.raw and "\u202e".encode() not in t.raw


def test_many_tensors_scroll_without_delay(folder):
    path = os.path.join(folder, "many.safetensors")
    header = {f"layer{i // 10}.part{i % 10}.weight": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
              for i in range(100_000)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(400_000))
    with view(folder, "many.safetensors") as t:
        t.wait_for("100,000 tensors")
        t.type("O")
        t.wait_for("▾ part0")
        start = time.monotonic()
        t.type("G")
        t.wait_for("layer9999.part9.weight")
        t.type("\x02" * 200)  # pages up
        t.type("g")
        t.wait_for("\nlayer0\n")
        spent = time.monotonic() - start
        assert spent < 10, spent
        t.type("/layer7777.part3\r")
        t.wait_for("layer7777.part3")
        t.type("q")
        ends_well(t)
        print(f"  end, 200 pages and back over 100,000 tensors: {spent:.2f} s")


def test_what_is_no_terminal(folder):
    for how in ({"stdout": subprocess.PIPE}, {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}):
        done = subprocess.run([CKPT, "view", "net.safetensors"], cwd=folder, stderr=subprocess.PIPE, text=True, **how)
        assert done.returncode == 2 and done.stdout == "", done
        assert "view needs a terminal" in done.stderr and "ckpt tree" in done.stderr, done
    with view(folder, "net.safetensors", environment={"TERM": "no-such-terminal"}) as t:
        t.wait_for("the terminal 'no-such-terminal' is not known here")
        assert t.wait() == 2, t.raw
    with view(folder, "missing.pth") as t:
        t.wait_for("missing.pth")
        assert t.wait() == 4, t.raw


def test_damage_and_signals(folder):
    listed(folder, "convert", "-f", "net.safetensors", "net.ckpt")
    with open(os.path.join(folder, "net.ckpt"), "r+b") as file:
        content = bytearray(file.read())
        at = content.find(struct.pack("<3f", 0.1, 0.1, 0.1))
        content[at] ^= 1
        file.seek(0)
        file.write(content)
    with view(folder, "net.ckpt") as t:
        t.wait_for("? help")
        t.type("/layer1.w\r\r")
        t.wait_for("damaged")  # on the page of the tensor
        t.type("q")
        t.wait_for("? help")
        t.type("sss")  # the others have norms
        t.wait_for("by norm; 1 tensor cannot be read: ", "143.3")
        t.type("s")
        t.wait_for("by file")
        os.kill(t.pid, 15)
        ends_well(t, -15)


def test_a_damaged_tensor_stops_no_comparison(folder):
    write(os.path.join(folder, "whole.safetensors"), MODEL)
    listed(folder, "convert", "-f", "net.safetensors", "net.ckpt")
    with open(os.path.join(folder, "net.ckpt"), "r+b") as file:
        content = bytearray(file.read())
        content[content.find(struct.pack("<3f", 0.1, 0.1, 0.1))] ^= 1
        file.seek(0)
        file.write(content)
    with view(folder, "net.ckpt", "whole.safetensors") as t:
        t.wait_for("? help")
        t.type("Ogd")
        t.wait_for("0 of 3 tensors differ; 1 tensor cannot")
        t.type("q")
        ends_well(t)


def test_bytes_that_are_no_characters_take_no_keys(folder):
    with view(folder, "net.safetensors") as t:
        t.wait_for("? help")
        os.write(t.fd, b"\xff\xe9\x80" * 60 + b"\xc3")
        t.type("O")
        t.wait_for("layer1", "bias")
        t.type("r")
        t.wait_for("new name for encoder:")
        t.type("größe😀\r")
        t.wait_for("waiting: ckpt rename --glob 'encoder.*=größe😀.*'")
        t.type("qy\r")
        ends_well(t)


def main():
    names = [name for name in globals() if name.startswith("test_")]
    wanted = sys.argv[2:] or names
    failed = []
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            write(os.path.join(folder, "net.safetensors"), MODEL)
            try:
                globals()[name](folder)
                print(f"ok {name}", flush=True)
            except AssertionError as error:
                failed.append(name)
                print(f"FAILED {name}\n{error}", flush=True)
    print(f"{len(wanted) - len(failed)} of {len(wanted)} passed")
    sys.exit(1 if failed else 0)


main()
