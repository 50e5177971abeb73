"""The bytes of an HDF5 file with its object headers taken apart, for patching: a message is changed where it lies and
the checksums of version-2 headers are made right again."""

import struct

import h5py

DATASPACE, DATATYPE, LAYOUT, FILTERS, ATTRIBUTE, CONTINUATION = 1, 3, 8, 11, 12, 16  # kinds of messages


def u16(value):
    return struct.pack("<H", value)


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def lookup3(data):
    """Bob Jenkins' hashlittle with the initial value 0."""
    def rot(x, k):
        return ((x << k) | (x >> (32 - k))) & 0xFFFFFFFF

    mask = 0xFFFFFFFF
    length = len(data)
    a = b = c = (0xDEADBEEF + length) & mask
    at = 0
    while length > 12:
        x, y, z = struct.unpack_from("<III", data, at)
        a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
        a = (a - c) & mask ^ rot(c, 4)
        c = (c + b) & mask
        b = (b - a) & mask ^ rot(a, 6)
        a = (a + c) & mask
        c = (c - b) & mask ^ rot(b, 8)
        b = (b + a) & mask
        a = (a - c) & mask ^ rot(c, 16)
        c = (c + b) & mask
        b = (b - a) & mask ^ rot(a, 19)
        a = (a + c) & mask
        c = (c - b) & mask ^ rot(b, 4)
        b = (b + a) & mask
        at += 12
        length -= 12
    if length == 0:
        return c
    x, y, z = struct.unpack("<III", bytes(data[at:]).ljust(12, b"\0"))
    a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
    c = ((c ^ b) - rot(b, 14)) & mask
    a = ((a ^ c) - rot(c, 11)) & mask
    b = ((b ^ a) - rot(a, 25)) & mask
    c = ((c ^ b) - rot(b, 16)) & mask
    a = ((a ^ c) - rot(c, 4)) & mask
    b = ((b ^ a) - rot(a, 14)) & mask
    c = ((c ^ b) - rot(b, 24)) & mask
    return c


class Message:
    def __init__(self, kind, at, size, sums):
        self.kind, self.at, self.size, self.sums = kind, at, size, sums


class Hdf5Bytes:
    """Takes a file apart that h5py closed."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.data = bytearray(file.read())

    def header_of(self, name):
        with h5py.File(self.path, "r") as file:
            return h5py.h5o.get_info(file[name].id).addr

    def messages(self, name):
        at = self.header_of(name)
        return self.new_header(at) if self.data[at:at + 4] == b"OHDR" else self.old_header(at)

    def message(self, name, kind, index=0):
        return [m for m in self.messages(name) if m.kind == kind][index]

    def old_header(self, at):
        found = []
        blocks = [(at + 16, struct.unpack_from("<I", self.data, at + 8)[0])]
        for begin, size in blocks:
            pos = begin
            while pos + 8 <= begin + size:
                kind, length = struct.unpack_from("<HH", self.data, pos)
                found.append(Message(kind, pos + 8, length, None))
                if kind == CONTINUATION:
                    blocks.append(struct.unpack_from("<QQ", self.data, pos + 8))
                pos += 8 + length
        return found

    def new_header(self, at):
        flags = self.data[at + 5]
        pos = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        size = int.from_bytes(self.data[pos:pos + width], "little")
        found = []
        blocks = [(at, pos + width, pos + width + size)]
        for begin, pos, end in blocks:
            while pos + 4 + (2 if flags & 4 else 0) <= end:
                kind, length = self.data[pos], struct.unpack_from("<H", self.data, pos + 1)[0]
                body = pos + 4 + (2 if flags & 4 else 0)
                found.append(Message(kind, body, length, (begin, end)))
                if kind == CONTINUATION:
                    where, span = struct.unpack_from("<QQ", self.data, body)
                    blocks.append((where, where + 4, where + span - 4))
                pos = body + length
        return found

    def put(self, message, offset, value):
        """Changes bytes of a message, from `offset` of its body on."""
        at = message.at + offset
        self.data[at:at + len(value)] = value
        if message.sums:
            begin, end = message.sums
            struct.pack_into("<I", self.data, end, lookup3(self.data[begin:end]))

    def body(self, message):
        return bytes(self.data[message.at:message.at + message.size])

    def put_superblock(self, field, value):
        """Of the end of file and others; version 2 and 3 have a checksum."""
        version = self.data[8]
        offset = {"base": 24, "extra": 32, "end": 40} if version < 2 else {"base": 12, "extra": 20, "end": 28, "root": 36}
        struct.pack_into("<Q", self.data, offset[field], value)
        if version >= 2:
            struct.pack_into("<I", self.data, 44, lookup3(self.data[:44]))
