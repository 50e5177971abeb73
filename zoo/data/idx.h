#pragma once
// Reads the IDX files of MNIST and Fashion-MNIST, plain or gzip-compressed, as raw bytes with a shape.
// Thread safety: pure functions. Use: zoo::IdxArray images = zoo::read_idx("train-images-idx3-ubyte.gz");

#include <cstdint>
#include <filesystem>
#include <vector>

#include "libcore/base/bytes.h"
#include "libcore/base/shape.h"

namespace zoo {

/// The content of a file, unpacked when it is a gzip file (whatever its name). Errors: Error(io), Error(corrupt) for
/// damaged gzip data, Error(refused) past 1 GiB (which a file that was cut off may seem to be).
core::ByteVector read_unpacked(const std::filesystem::path& path);

/// An array of unsigned bytes, row-major.
struct IdxArray {
  core::Shape shape;  ///< (items) for labels, (items, rows, columns) for images
  std::vector<std::uint8_t> values;
};

/// Source: the IDX description of the MNIST database. Only the unsigned-byte type (0x08) is accepted.
/// Errors: Error(io) when the file cannot be read; Error(corrupt) naming the file when magic, sizes and length
/// disagree.
IdxArray read_idx(const std::filesystem::path& path);

/// Images and labels of one split, checked against each other, the labels from 0 to 9.
struct ImageSet {
  IdxArray images;  ///< (n, 28, 28)
  IdxArray labels;  ///< (n)
};

/// Two files that belong together. `name` stands in messages: "Fashion-MNIST". Error(corrupt) naming the file unless
/// there are as many labels from 0 to 9 as images of 28 x 28.
ImageSet read_image_set(const std::filesystem::path& images, const std::filesystem::path& labels,
                        const std::string& name);

/// The split "train" or "t10k" of Fashion-MNIST. `folder` empty: $FASHION_MNIST_DIR, else where Debian's
/// dataset-fashion-mnist puts it. Error(io) says which package to install when it is not there.
ImageSet fashion_mnist(const std::string& split, const std::filesystem::path& folder = {});

/// Names of the ten classes of Fashion-MNIST, by label.
const std::vector<std::string>& fashion_mnist_classes();

}  // namespace zoo
