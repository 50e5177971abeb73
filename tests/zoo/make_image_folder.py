#!/usr/bin/env python3
"""What torchvision's ImageFolder reads in a folder: what tests/golden/image_folder.tar.xz holds.

    make_image_folder.py FOLDER     needs torchvision and Pillow; then tar -cJf image_folder.tar.xz -C FOLDER image_folder

FOLDER/image_folder/pictures/CLASS/...    images
FOLDER/image_folder/samples.txt           a line a sample in ImageFolder's order: path below pictures, label
FOLDER/image_folder/pixels/N.ppm          what default_loader makes of sample N
"""
import io
import os
import struct
import sys
import zlib

import numpy
from PIL import Image
from torchvision.datasets import ImageFolder

random = numpy.random.default_rng(3)


def smooth(height, width, channels):
    """Something of a photograph: slow waves with some noise."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [127 + 90 * numpy.sin(x / (3 + c) + c) * numpy.cos(y / (4 + c)) for c in range(channels)]
    noisy = numpy.stack(planes, -1) + random.normal(0, 12, (height, width, channels))
    return noisy.clip(0, 255).astype(numpy.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def packed(values, bits):
    """Rows of whole bytes of a (height, width, channels) array of values of so many bits."""
    rows = []
    for row in values.reshape(values.shape[0], -1):
        if bits == 16:
            rows.append(b"".join(struct.pack(">H", int(v)) for v in row))
            continue
        text = "".join(format(int(v), "0%db" % bits) for v in row)
        text += "0" * (-len(text) % 8)
        rows.append(bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8)))
    return b"".join(b"\0" + row for row in rows)


def png(values, bits, colour, palette=b"", extra=b"", interlaced=False):
    height, width = values.shape[:2]
    if interlaced:
        parts = [values[y0::dy, x0::dx] for x0, y0, dx, dy in ADAM7]
        data = b"".join(packed(part, bits) for part in parts if part.size)
    else:
        data = packed(values, bits)
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + (chunk(b"PLTE", palette) if palette else b"") + extra +
            chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def png_files():
    for bits in (1, 2, 4, 8, 16):
        grey = random.integers(0, 2**bits, (9, 13, 1))
        if bits == 16:
            grey[:4] = random.integers(0, 400, (4, 13, 1))  # also values that a byte holds
        yield "grey%d.png" % bits, png(grey, bits, 0)
        yield "grey%d_interlaced.png" % bits, png(grey, bits, 0, interlaced=True)
    for bits in (1, 2, 4, 8):
        colours = random.integers(0, 256, 3 * 2**bits, dtype=numpy.uint8).tobytes()
        places = random.integers(0, 2**bits, (7, 11, 1))
        yield "palette%d.png" % bits, png(places, bits, 3, colours)
        alpha = chunk(b"tRNS", bytes([0, 128]))
        yield "palette%d_transparent.png" % bits, png(places, bits, 3, colours, alpha, interlaced=bits == 4)
    yield "short_palette.png", png(random.integers(0, 9, (3, 9, 1)), 8, 3, bytes(range(18)))
    for bits in (8, 16):
        for name, colour, channels in (("rgb", 2, 3), ("grey_alpha", 4, 2), ("rgb_alpha", 6, 4)):
            yield "%s%d.png" % (name, bits), png(random.integers(0, 2**bits, (6, 10, channels)), bits, colour)
    key = chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3))
    yield "rgb_key.png", png(random.integers(0, 4, (6, 10, 3)), 8, 2, extra=key)
    yield "gamma.png", png(random.integers(0, 256, (6, 10, 3)), 8, 2, extra=chunk(b"gAMA", struct.pack(">I", 100000)))


def jpeg(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


def jpeg_files():
    for size in ((16, 16), (23, 31), (1, 5), (40, 17)):
        name = "%dx%d" % size
        for ratio in ("4:4:4", "4:2:2", "4:2:0"):
            yield "%s_%s.jpg" % (name, ratio.replace(":", "")), jpeg(Image.fromarray(smooth(*size, 3)), subsampling=ratio, quality=85)
        yield name + "_grey.jpeg", jpeg(Image.fromarray(smooth(*size, 1)[:, :, 0]), quality=60)
        yield name + "_progressive.JPG", jpeg(Image.fromarray(smooth(*size, 3)), progressive=True, optimize=True)
    yield "rgb.jpg", jpeg(Image.fromarray(smooth(20, 22, 3)), keep_rgb=True)
    turned = Image.Exif()
    turned[0x0112] = 6
    yield "turned.jpg", jpeg(Image.fromarray(smooth(12, 20, 3)), exif=turned)
    cmyk = jpeg(Image.fromarray(smooth(19, 13, 4), "CMYK"), quality=90)
    yield "cmyk.jpg", cmyk
    at = cmyk.index(b"Adobe")
    yield "ycck.jpg", cmyk[:at + 11] + b"\x02" + cmyk[at + 12:]
    whole = jpeg(Image.fromarray(smooth(64, 64, 3)), quality=95)
    middle = whole.index(b"\xff\xda") + 700
    yield "hole.jpg", whole[:middle] + b"\xff\xd9" + whole[middle + 2:]


def main():
    root = os.path.join(sys.argv[1], "image_folder")
    pictures = os.path.join(root, "pictures")

    def write(path, content):
        path = os.path.join(pictures, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "wb").write(content)

    for name, content in png_files():
        write("png/" + name, content)
    for name, content in jpeg_files():
        write("jpeg/" + name, content)
    write("Other/b/png_by_content.jpg", png(random.integers(0, 256, (4, 4, 3)), 8, 2))
    write("Other/a.ppm", b"P6 3 2 255\n" + random.integers(0, 256, 18, dtype=numpy.uint8).tobytes())
    write("Other/A.pgm", b"P5 3 2 15\n" + random.integers(0, 16, 6, dtype=numpy.uint8).tobytes())
    write("Other/wide.pgm", b"P5 3 2 65535\n\0\1\0\xff\1\0\0\0\xff\xff\0\x7f")
    write("Other/notes.txt", b"no image")
    data = ImageFolder(pictures)
    os.makedirs(root + "/pixels", exist_ok=True)
    with open(root + "/samples.txt", "w") as lines:
        for index, (path, label) in enumerate(data.samples):
            lines.write("%s\t%d\n" % (os.path.relpath(path, pictures), label))
            data[index][0].save("%s/pixels/%d.ppm" % (root, index))


if __name__ == "__main__":
    main()
