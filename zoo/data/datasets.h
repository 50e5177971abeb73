#pragma once
// Data sets of images from files that are there, as torchvision.datasets has them: MNIST, Fashion-MNIST, CIFAR-10 and
// CIFAR-100 (the files for Python and the binary ones), and folders with a sub-folder a class. A sample is an image
// (channels, height, width), u8 without a transform, and its label, 0-dim i64. Nothing is downloaded: where a file is
// not there the error says which one, and where to get it. Thread safety: reading; transforms draw from the thread's
// generator. Use: zoo::datasets::CIFAR10 data("data", {.train = true}); auto [image, label] = data.get(0);

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libcore/tensor/tensor.h"
#include "zoo/data/image.h"
#include "zoo/data/transforms.h"

namespace zoo::datasets {

/// The image and its label.
using Sample = std::tuple<core::Tensor, core::Tensor>;

struct Options {
  bool train = true;                                                ///< false: what is kept for tests
  transforms::Transform transform = {};                             ///< of the image
  std::function<std::int64_t(std::int64_t)> target_transform = {};  ///< of the label
};

/// What the sets below have in common: all images in memory.
class ImageDataset {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(targets_.size()); }
  /// Negative indices count from the end. Error(index) "list index out of range".
  Sample get(std::int64_t index) const;

  /// (n, channels, height, width), u8.
  const core::Tensor& data() const { return data_; }
  const std::vector<std::int64_t>& targets() const { return targets_; }
  const std::vector<std::string>& classes() const { return classes_; }

 protected:
  explicit ImageDataset(Options options) : options_(std::move(options)) {}
  core::Tensor data_;
  std::vector<std::int64_t> targets_;
  std::vector<std::string> classes_;
  Options options_;
};

/// "train-images-idx3-ubyte" and its labels ("t10k-..." for tests), plain or ".gz", in root/MNIST/raw, where
/// torchvision has them, or in root itself. Errors: Error(io) for a file that is not there; Error(corrupt) naming the
/// file.
class MNIST : public ImageDataset {
 public:
  explicit MNIST(const std::filesystem::path& root, Options options = {});
};

/// The same in root/FashionMNIST/raw or root. An empty root: $FASHION_MNIST_DIR, or where Debian's
/// dataset-fashion-mnist puts them.
class FashionMNIST : public ImageDataset {
 public:
  explicit FashionMNIST(const std::filesystem::path& root = {}, Options options = {});
};

/// root/cifar-10-batches-py (data_batch_1 ... 5, test_batch) or root/cifar-10-batches-bin. Pickles are
/// read as data, nothing in them runs. Errors: as MNIST.
class CIFAR10 : public ImageDataset {
 public:
  explicit CIFAR10(const std::filesystem::path& root, Options options = {});
};

/// root/cifar-100-python (train, test) or root/cifar-100-binary; the labels are the 100 fine ones.
class CIFAR100 : public ImageDataset {
 public:
  explicit CIFAR100(const std::filesystem::path& root, Options options = {});
};

/// An image of a file.
using Loader = std::function<Image(const std::filesystem::path&)>;
/// torchvision's: PNG, JPEG, PPM and PGM, told apart by their content, as RGB, with Pillow's pixels. Orientation tags
/// are left alone. Errors: Error(unsupported) naming another format (BMP, TIFF, WebP, ...), or for what is no image;
/// those of try_read_image().
Image default_loader(const std::filesystem::path& path);

struct FolderOptions {
  Loader loader = default_loader;
  /// Ends of the names of files that count, in small letters; default: torchvision's of images.
  std::vector<std::string> extensions = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
  transforms::Transform transform = {};
  std::function<std::int64_t(std::int64_t)> target_transform = {};
  bool allow_empty = false;  ///< classes without a file
};

/// Sub-folders of `root` are the classes, in the order of their names; the files below them, links followed, the
/// samples, in that of theirs. Errors: Error(io) with torchvision's texts "Couldn't find any class folder in ..." and
/// "Found no valid file for the classes ..."; those of the loader with the file's name when it is read.
class ImageFolder {
 public:
  explicit ImageFolder(const std::filesystem::path& root, FolderOptions options = {});

  std::int64_t size() const { return static_cast<std::int64_t>(samples_.size()); }
  /// Read anew each time.
  Sample get(std::int64_t index) const;
  const std::vector<std::string>& classes() const { return classes_; }
  /// Path and label.
  const std::vector<std::pair<std::string, std::int64_t>>& samples() const { return samples_; }
  std::vector<std::int64_t> targets() const;

 private:
  std::vector<std::string> classes_;
  std::vector<std::pair<std::string, std::int64_t>> samples_;
  FolderOptions options_;
};

/// torchvision's class for files that are no images, by another loader and other extensions; here one class does both.
using DatasetFolder = ImageFolder;

}  // namespace zoo::datasets
