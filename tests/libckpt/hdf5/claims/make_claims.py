#!/usr/bin/env python3
"""Makes HDF5 files that say what is not so, and good ones beside them, for hdf5_claims_golden.cpp.

    OMP_NUM_THREADS=1 python make_claims.py OUT        needs h5py 3.16 (HDF5 2.0)

OUT/NAME.h5     the files; h5py writes them, then bytes are changed and the checksums made right again
OUT/cases.txt   a line each: what must come of it, the name, and a text of the message, with tabs between them
    good     is read to its end, and verify finds nothing
    refused  is not opened, and verify says the same
    unread   is listed; reading its values is refused
    found    is read; verify has a finding
Old files have object headers of version 1 and layouts of version 3, new ones version 2 and 4.
"""

import io
import os
import sys
import zipfile

import h5py
import numpy as np

from hdf5_bytes import ATTRIBUTE, DATASPACE, DATATYPE, FILTERS, LAYOUT, Hdf5Bytes, lookup3, u16, u32, u64

ERAS = {"old": ("earliest", "v110"), "new": ("v110", "v110")}
LAYOUTS = {
    "old": ["contiguous", "compact", "packed"],
    "new": ["contiguous", "compact", "chunked", "single", "growing", "packed"],
}
RECORD = np.dtype([("aa", "<f4"), ("bb", "<i4")])
TYPES = {"f64": "<f8", "i32": "<i4", "bool": "?", "c64": "<c8", "text": "S8", "record": RECORD}
SIZES = (0, 3, 8, 2**32 - 1)
W = "net/w"

folder = sys.argv[1]
lines = []


def case(verdict, name, says, data):
    """Keeps a file: Hdf5Bytes, or a function that gives them for a path."""
    path = os.path.join(folder, name + ".h5")
    made = data(path)
    with open(path, "wb") as file:
        file.write(made.data)
    lines.append("\t".join((verdict, name, says)))


def written(path, era, fill, **options):
    with h5py.File(path, "w", libver=ERAS[era], **options) as file:
        fill(file)
    return Hdf5Bytes(path)


def values(dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind == "S":
        return np.full(shape, b"abcdefgh", dtype)
    if dtype.kind == "V":
        return np.zeros(shape, dtype)
    return (np.arange(np.prod(shape)).reshape(shape) % 2).astype(dtype)


def add(file, dtype, layout, shape=(8, 8)):
    options = {
        "chunked": {"chunks": (4, 4)},
        "single": {"chunks": shape},
        "growing": {"chunks": (4, 4), "maxshape": (None, None)},
        "packed": {"chunks": (4, 4), "compression": "gzip", "shuffle": True},
    }.get(layout, {})
    if layout != "compact":
        file.create_dataset(W, data=values(dtype, shape), **options)
        return
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_layout(h5py.h5d.COMPACT)
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=1)
    made = h5py.h5d.create(file.id, W.encode(), kind, h5py.h5s.create_simple(shape), creation, links)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, values(dtype, shape))


def dataset(era, dtype="<f4", layout="contiguous", shape=(8, 8), **options):
    return lambda path: written(path, era, lambda file: add(file, dtype, layout, shape), **options)


def patched(base, *changes, of=W):
    """Changes are (kind of message, offset in it, bytes); an offset may be found in its content."""

    def make(path):
        made = base(path)
        for kind, offset, value in changes:
            message = made.message(of, kind)
            made.put(message, offset(made.body(message)) if callable(offset) else offset, value)
        return made

    return make


def after(base, change):
    def make(path):
        made = base(path)
        change(made)
        return made

    return make


def place(needle, plus=0):
    return lambda body: body.rindex(needle) + plus


# ---- types ----
def type_sizes(era):
    for name, dtype in TYPES.items():
        for layout in LAYOUTS[era]:
            base = dataset(era, dtype, layout)
            case("good", f"{era}-{name}-{layout}", "", base)
            for size in SIZES:
                if size != np.dtype(dtype).itemsize:
                    case("refused", f"{era}-{name}-{layout}-of-{size}-bytes", "'/net/w'",
                         patched(base, (DATATYPE, 4, u32(size))))


def type_bits(era):
    numbers = {"f64": ("<f8", 64), "i32": ("<i4", 32)}
    for name, (dtype, bits) in numbers.items():
        changes = {"no-bits": (10, u16(0)), "one-bit-more": (10, u16(bits + 1)), "65535-bits": (10, u16(65535)),
                   "from-bit-1": (8, u16(1))}
        if name == "f64":
            changes |= {"sign-outside": (2, bytes([bits])), "exponent-outside": (12, bytes([bits])),
                        "exponent-of-0": (13, b"\0"), "mantissa-of-255": (15, b"\xff"),
                        "mantissa-in-the-exponent": (14, b"\5")}
        for what, (at, value) in changes.items():
            case("refused", f"{era}-{name}-{what}", "'/net/w': its type has",
                 patched(dataset(era, dtype), (DATATYPE, at, value)))


def member(name, what):
    """Where a member of a compound says its place (`offset`) or the size of its type."""

    def find(body):
        version = body[0] >> 4
        at = body.index(name.encode() + b"\0") + (8 if version < 3 else len(name) + 1)
        if what == "offset":
            return at
        return at + (32 if version == 1 else 4 if version == 2 else 1) + 4

    return find


def nested_types(era):
    record = dataset(era, RECORD)
    for at in (1, 5, 255):
        case("refused", f"{era}-member-at-{at}", "'/net/w'",
             patched(record, (DATATYPE, member("bb", "offset"), bytes([at]))))
    for size in SIZES:
        case("refused", f"{era}-member-of-{size}-bytes", "'/net/w'",
             patched(record, (DATATYPE, member("aa", "size"), u32(size))))
        case("refused", f"{era}-real-part-of-{size}-bytes", "'/net/w'",
             patched(dataset(era, "<c8"), (DATATYPE, member("r", "size"), u32(size))))
    for count in (0, 3, 65535):
        case("refused", f"{era}-{count}-members", "'/net/w'", patched(record, (DATATYPE, 1, u16(count))))

    colours = dataset(era, h5py.enum_dtype({"RED": 0, "BLUE": 1}, basetype="<i4"))
    case("good", f"{era}-enum", "", colours)
    for size in SIZES:
        case("refused", f"{era}-enum-of-{size}-bytes", "'/net/w'", patched(colours, (DATATYPE, 4, u32(size))))
        case("refused", f"{era}-enum-over-{size}-bytes", "'/net/w'", patched(colours, (DATATYPE, 12, u32(size))))
    case("refused", f"{era}-enum-of-65535-names", "'/net/w'", patched(colours, (DATATYPE, 1, u16(65535))))

    def arrays(path):
        kind = h5py.h5t.array_create(h5py.h5t.IEEE_F32LE, (3, 2))

        def fill(file):
            h5py.h5d.create(file.create_group("net").id, b"w", kind, h5py.h5s.create_simple((4,))).write(
                h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(4, "V24"), mtype=kind)

        return written(path, era, fill)

    case("good", f"{era}-arrays", "", arrays)
    for size in (*SIZES, 23, 25):
        case("refused", f"{era}-arrays-of-{size}-bytes", "'/net/w'", patched(arrays, (DATATYPE, 4, u32(size))))
    for side in (0, 4, 2**32 - 1):
        case("refused", f"{era}-arrays-with-a-side-of-{side}", "'/net/w'",
             patched(arrays, (DATATYPE, place(u32(3) + u32(2)), u32(side))))
    for rank in (0, 3, 255):
        case("refused", f"{era}-arrays-of-{rank}-dimensions", "'/net/w'", patched(arrays, (DATATYPE, 8, bytes([rank]))))

    def texts(path):
        return written(path, era, lambda file: file.create_dataset(W, data=["one", "two"], dtype=h5py.string_dtype()))

    case("good", f"{era}-texts", "", texts)
    for size in SIZES:
        case("refused", f"{era}-texts-of-{size}-bytes", "'/net/w'", patched(texts, (DATATYPE, 4, u32(size))))

    def named(path):
        def fill(file):
            file["kind"] = np.dtype("<f8")
            file.create_dataset(W, data=np.ones((8, 8)), dtype=file["kind"])

        return written(path, era, fill)

    case("good", f"{era}-named-type", "", named)
    for size in SIZES:
        if size != 8:
            case("refused", f"{era}-named-type-of-{size}-bytes", "'/", patched(named, (DATATYPE, 4, u32(size)), of="kind"))


# ---- shapes and layouts ----
def sides(*values_):
    """As the shape and the largest shape; the message of version 1 has four bytes more before them."""

    def change(made):
        message = made.message(W, DATASPACE)
        body = made.body(message)
        at = 8 if body[0] == 1 else 4
        packed = b"".join(u64(value) for value in values_)
        made.put(message, at, packed * 2 if body[2] & 1 else packed)

    return change


def shapes(era):
    for layout in LAYOUTS[era]:
        base = dataset(era, "<f4", layout)
        for name, shape in (("2-to-the-62", (2**62, 1)), ("2-to-the-60", (2**40, 2**20)), ("largest", (2**64 - 1,) * 2)):
            case("refused", f"{era}-{layout}-shape-{name}", "net/w", after(base, sides(*shape)))
        for rank in (0, 1, 33, 255):
            case("refused", f"{era}-{layout}-of-{rank}-dimensions", "'/net/w'", patched(base, (DATASPACE, 1, bytes([rank]))))
    for layout in ("contiguous", "compact"):
        for name, shape in (("empty", (0, 8)), ("shorter", (7, 8)), ("longer", (9, 8))):
            case("refused", f"{era}-{layout}-{name}", "'/net/w': it holds 256 bytes",
                 after(dataset(era, "<f4", layout), sides(*shape)))
    for size in (0, 3, 255, 257, 2**62, 2**64 - 1):
        case("refused", f"{era}-contiguous-{size}-bytes-stored", "'/net/w'", patched(dataset(era), (LAYOUT, 10, u64(size))))
    for address in (10**6, 2**62, 2**64 - 2):
        case("refused", f"{era}-contiguous-at-{address}", "net/w'", patched(dataset(era), (LAYOUT, 2, u64(address))))
    for size in (0, 255, 257, 65535):
        case("refused", f"{era}-compact-{size}-bytes-stored", "'/net/w'",
             patched(dataset(era, "<f4", "compact"), (LAYOUT, 2, u16(size))))


def old_chunks():
    base = dataset("old", "<f4", "packed")
    for width in SIZES:
        case("refused", f"old-chunks-with-elements-of-{width}", "'/net/w': its chunks",
             patched(base, (LAYOUT, 19, u32(width))))
    for rank in (0, 2, 4, 255):
        case("refused", f"old-chunks-of-{rank}-sizes", "'/net/w'", patched(base, (LAYOUT, 2, bytes([rank]))))
    for name, chunk in (("2-to-the-62", (2**31, 2**29)), ("largest", (2**32 - 1,) * 2), ("zero", (0, 0))):
        change = (LAYOUT, 11, b"".join(u32(side) for side in chunk))
        case("refused", f"old-chunks-{name}", "'/net/w': its chunks", patched(base, change))
        case("refused", f"old-chunks-and-shape-{name}", "net/w'", after(patched(base, change), sides(*chunk)))
    for name, at, value in (("entries-past-the-end", 6, u16(65535)), ("no-place", 56, u64(2**64 - 1)), ("a-place-outside", 56, u64(2**62)),
                            ("a-place-upon-the-head", 56, u64(0)), ("a-longer-chunk", 24, u32(2**32 - 1))):
        def change(made, at=at, value=value):
            tree = int.from_bytes(made.body(made.message(W, LAYOUT))[3:11], "little")
            assert made.data[tree:tree + 4] == b"TREE"
            made.data[tree + at:tree + at + len(value)] = value
        case("refused", f"old-chunk-index-with-{name}", "net/w", after(base, change))


def new_chunks():
    for layout in ("chunked", "single", "growing", "packed"):
        base = dataset("new", "<f4", layout)
        for width in (0, 3, 8, 255):
            case("refused", f"new-{layout}-with-elements-of-{width}", "'/net/w': its chunks",
                 patched(base, (LAYOUT, 7, bytes([width]))))
        for rank in (0, 2, 4, 34):
            case("refused", f"new-{layout}-of-{rank}-sizes", "'/net/w'", patched(base, (LAYOUT, 3, bytes([rank]))))
        case("refused", f"new-{layout}-with-a-side-of-0", "'/net/w'", patched(base, (LAYOUT, 5, b"\0")))
    def node(made):
        at = made.data.index(b"BTHD")
        made.data[at + 6:at + 10] = u32(2**32 - 1)
        made.data[at + 34:at + 38] = u32(lookup3(made.data[at:at + 34]))
    case("refused", "new-growing-with-nodes-of-4-GiB", "net/w", after(dataset("new", "<f4", "growing"), node))
    case("refused", "new-several-chunks-as-one", "'/net/w'", patched(dataset("new", "<f4", "packed"), (LAYOUT, 8, b"\1")))
    for name, chunk in (("2-to-the-62", (2**31, 2**31)), ("largest", (2**32 - 1,) * 2)):
        def large(path):
            return written(path, "new", lambda file: file.create_dataset(W, (2**25, 2), "u1", chunks=(2**25, 2)))
        case("refused", f"new-chunks-and-shape-{name}", "net/w'",
             after(patched(large, (LAYOUT, 5, u32(chunk[0]) + u32(chunk[1]))), sides(*chunk)))


# ---- the ends of the file ----
def a_zip():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\0.")
    return out.getvalue()


def ends(era):
    for name, tail in (("zip", a_zip()), ("empty-zip", b"PK\5\6" + b"\0" * 18)):
        case("found", f"{era}-{name}-appended", "end of the file",
             after(dataset(era), lambda made, tail=tail: made.data.extend(tail)))

        def claimed(made, tail=tail):
            made.data.extend(tail)
            made.put_superblock("end", len(made.data))

        case("found", f"{era}-{name}-appended-and-claimed", "end of the file", after(dataset(era), claimed))
    case("found", f"{era}-text-appended", "end of the file", after(dataset(era), lambda made: made.data.extend(b"hello")))
    for name, shift in (("before", -64), ("behind", 64), ("far-behind", 2**40)):
        case("refused", f"{era}-end-{name}-the-end", "",
             after(dataset(era), lambda made, shift=shift: made.put_superblock("end", len(made.data) + shift)))
    case("refused", f"{era}-end-in-the-middle", "",
         after(dataset(era), lambda made: made.put_superblock("end", len(made.data) // 2)))
    blocks = {"text": (b"hello block\n", "good"), "zeros": (b"", "good"), "picture": (b"\x89PNG\r\n\x1a\n", "good"),
              "program": (b"\x7fELF\2\1\1", "found"), "script": (b"#!/bin/sh\n", "found"),
              "gzip": (b"\x1f\x8b\x08\0" + b"\1" * 10, "found"), "zip-behind-text": (b"title\n" + a_zip(), "found"),
              "pickle": (b"cos\nsystem\n(S'ls'\ntR.", "found")}
    for name, (block, verdict) in blocks.items():
        def change(made, block=block):
            made.data[:len(block)] = block
        case(verdict, f"{era}-user-block-{name}", "user block" if verdict == "found" else "",
             after(dataset(era, userblock_size=512), change))


# ---- attributes, filters, links ----
def attributes(era):
    for name, dtype in (("numbers", "<i8"), ("texts", "S8")):
        def base(path, dtype=dtype):
            def fill(file):
                add(file, "<f4", "contiguous")
                file[W].attrs.create("list", np.zeros(4, dtype), dtype=dtype)
            return written(path, era, fill)
        case("good", f"{era}-attribute-{name}", "", base)
        for count in (0, 5, 2**32, 2**62, 2**64 - 1):
            def change(made, count=count):
                message = made.message(W, ATTRIBUTE)
                body = made.body(message)
                at = body.index(u64(4))
                twice = body[at + 8:at + 16] == u64(4)
                made.put(message, at, u64(count) * (2 if twice else 1))
            case("refused", f"{era}-attribute-of-{count}-{name}", "'list'", after(base, change))
        for size in (0, 1, 3, 16, 2**32 - 1):
            def size_at(body):
                return body.index(b"list\0") + (8 if body[0] == 1 else 5) + 4
            case("refused", f"{era}-attribute-{name}-of-{size}-bytes", "'list'", patched(base, (ATTRIBUTE, size_at, u32(size))))

    def title(path):
        def fill(file):
            add(file, "<f4", "contiguous")
            file[W].attrs["title"] = "a long text"
        return written(path, era, fill)

    def at_heap(made, plus, value):
        message = made.message(W, ATTRIBUTE)
        made.put(message, made.body(message).index(u64(made.data.index(b"GCOL"))) + plus, value)

    def in_heap(made, plus, value):
        at = made.data.index(b"GCOL") + plus
        made.data[at:at + len(value)] = value

    case("good", f"{era}-title", "", title)
    for name, change in (("far-away", lambda made: at_heap(made, 0, u64(2**40))),
                         ("nowhere", lambda made: at_heap(made, 0, u64(2**64 - 1))),
                         ("elsewhere", lambda made: at_heap(made, 0, u64(8))),
                         ("of-4-GiB", lambda made: at_heap(made, -4, u32(2**32 - 1))),
                         ("of-100-bytes", lambda made: at_heap(made, -4, u32(100))),
                         ("in-a-huge-collection", lambda made: in_heap(made, 8, u64(2**62))),
                         ("in-no-collection", lambda made: in_heap(made, 8, u64(0))),
                         ("of-2-to-the-62", lambda made: in_heap(made, 24, u64(2**62)))):
        case("refused", f"{era}-title-{name}", "'title'", after(title, change))


def filters(era):
    def packed(**options):
        return lambda path: written(path, era, lambda file: file.create_dataset(
            W, data=np.arange(64, dtype="f4").reshape(8, 8), chunks=(4, 4), **options))

    for number in (0, 4, 307, 32001, 65535):
        nameless = era == "new" and number >= 256  # where a name should follow
        case("refused" if nameless else "unread", f"{era}-filter-{number}", "net/w",
             patched(packed(compression="gzip"), (FILTERS, lambda body: 8 if body[0] == 1 else 2, u16(number))))
    for level in (10, 2**32 - 1):
        case("refused", f"{era}-deflate-of-level-{level}", "'/net/w': its deflate filter",
             patched(packed(compression="gzip", compression_opts=4), (FILTERS, place(u32(4)), u32(level))))
    for width in (0, 3, 8, 2**32 - 1):
        case("refused", f"{era}-shuffle-of-{width}", "'/net/w': its shuffle filter",
             patched(packed(shuffle=True), (FILTERS, place(u32(4)), u32(width))))
    for name, options in (("deflate", {"compression": "gzip"}), ("fletcher32", {"fletcher32": True})):
        def flipped(path, options=options):
            made = packed(**options)(path)
            with h5py.File(path) as file:
                chunk = file[W].id.get_chunk_info(1)
            made.data[chunk.byte_offset + chunk.size // 2] ^= 0x40
            return made
        case("unread", f"{era}-{name}-flipped", "the dataset 'net/w' is damaged", flipped)


def links(era):
    def file_with(fill):
        return lambda path: written(path, era, fill)

    def loops(file):
        file["a"], file["b"], file["w"] = h5py.SoftLink("/b"), h5py.SoftLink("/a"), np.ones(4, "f4")

    def outside(file):
        file["out"] = h5py.ExternalLink("/etc/passwd", "/a")

    def circle(file):
        file.create_group("g")["up"] = file["/"]

    def stored_outside(file):
        file.create_dataset(W, (4,), "f4", external=[("/etc/passwd", 0, 16)])

    def virtual(file):
        layout = h5py.VirtualLayout((4,), "f4")
        layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4,))
        file.create_virtual_dataset(W, layout)

    def deep(file):
        group = file
        for _ in range(200):
            group = group.create_group("g")

    case("good", f"{era}-soft-links-in-a-circle", "", file_with(loops))
    case("refused", f"{era}-external-link", "'out' is an external link", file_with(outside))
    case("refused", f"{era}-hard-links-in-a-circle", "'/g/up'", file_with(circle))
    case("refused", f"{era}-values-in-another-file", "'net/w' is raw data in another file", file_with(stored_outside))
    case("refused", f"{era}-virtual-dataset", "'net/w' is a virtual dataset", file_with(virtual))
    case("refused", f"{era}-deep-groups", "nested deeper", file_with(deep))
    for chunks in (None, (2**20,)):
        kind = "chunked" if chunks else "contiguous"
        case("refused", f"{era}-{kind}-2-to-the-62-fill-values", "'net/w'", file_with(
            lambda file, chunks=chunks: file.create_dataset(W, (2**60,), "f4", fillvalue=1, chunks=chunks)))
        case("unread", f"{era}-{kind}-2-GiB-of-fill-values", "", file_with(
            lambda file, chunks=chunks: file.create_dataset(W, (2**29,), "f4", fillvalue=1, chunks=chunks)))


def everything(era):
    """What honest writers leave behind, of every kind that the checks look at."""

    def fill(file):
        file["x"], file["y"], file["w"] = np.arange(4.0), np.arange(3), np.ones((4, 3))
        file["x"].make_scale("x")
        file["w"].dims[0].attach_scale(file["x"])
        file["ref"] = np.array([file["w"].ref], dtype=h5py.ref_dtype)
        file.create_dataset("part", (1,), dtype=h5py.regionref_dtype)[0] = file["w"].regionref[0:2]
        lists = file.create_dataset("lists", (2,), dtype=h5py.vlen_dtype("i4"))
        lists[0] = [1, 2, 3]
        file["long"], file["opaque"] = np.ones(3, np.longdouble), np.zeros(2, "V7")
        inner = [("q", "?"), ("z", "c8")]
        file["kind"] = np.dtype([("a", "f4"), ("b", "S5"), ("c", "i8", (2, 3)), ("d", inner)])
        file.create_dataset("record", (3,), dtype=file["kind"])
        file.create_dataset("empty", (0, 3), "f4", chunks=(1, 3), maxshape=(None, 3))
        file["none"], file["null"], file["scalar"] = np.zeros((0, 3)), h5py.Empty("f4"), 3.5
        for number in range(30):  # more than a header holds
            file["w"].attrs[f"a{number}"] = number
        del file["w"].attrs["a3"]
        file["y"].attrs["list"] = ["a", "bb", "c"]
        file["y"].attrs["null"], file["y"].attrs["empty"] = h5py.Empty("i4"), ""
        file["y"].attrs["record"], file["y"].attrs["nothing"] = np.zeros(2, file["kind"].dtype), np.zeros(0)
        file["y"].attrs.modify("empty", "a longer text than that")
        options = {"compression": "gzip", "shuffle": True, "fletcher32": True, "maxshape": (None, None)}
        grown = file.create_dataset("grown", data=np.arange(100.0).reshape(10, 10), chunks=(3, 4), **options)
        grown.resize((7, 12))
        grown.resize((12, 5))
        file.create_dataset("lzf", data=np.arange(100.0), chunks=(7,), compression="lzf")

    case("good", f"{era}-everything", "", lambda path: written(path, era, fill))


os.makedirs(folder, exist_ok=True)
for era in ERAS:
    for make in (type_sizes, type_bits, nested_types, shapes, ends, attributes, filters, links,
                 everything):
        make(era)
old_chunks()
new_chunks()
with open(os.path.join(folder, "cases.txt"), "w") as out:
    out.write("\n".join(lines) + "\n")
print(len(lines), "cases")
