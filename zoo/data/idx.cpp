#include "zoo/data/idx.h"

#include <libdeflate.h>

#include <cstdlib>
#include <memory>

#include "libckpt/io/byte_source.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"

namespace zoo {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxRank = 3;
constexpr std::uint64_t kMaxBytes = 1ULL << 30;
constexpr const char* kDebianFolder = "/usr/share/datasets/fashion-mnist";

std::uint32_t load_be32(const std::byte* from) {
  return core::byte_swap(core::load_le<std::uint32_t>(from));
}

/// Uncompressed content of a gzip member: its length stands in the last four bytes.
core::ByteVector gunzip(const core::ByteVector& packed) {
  if (packed.size() < 18) throw Error(ErrorCode::corrupt, "the gzip file is cut off");
  std::uint32_t size = core::load_le<std::uint32_t>(packed.data() + packed.size() - 4);
  if (size > kMaxBytes) {  // of a file that was cut off these bytes say nothing
    throw Error(ErrorCode::refused, "the gzip data are cut off or damaged, or unpack to more than 1 GiB");
  }
  core::ByteVector out(size);
  std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> decoder(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  std::size_t written = 0;
  libdeflate_result result =
      libdeflate_gzip_decompress(decoder.get(), packed.data(), packed.size(), out.data(), out.size(), &written);
  if (result != LIBDEFLATE_SUCCESS || written != size)
    throw Error(ErrorCode::corrupt, "the gzip data are damaged or cut off");
  return out;
}

IdxArray parse_idx(const core::ByteVector& content) {
  if (content.size() < 4) throw Error(ErrorCode::corrupt, "shorter than its header of 4 bytes");
  auto rank = static_cast<std::size_t>(content[3]);
  bool unsigned_bytes = content[0] == std::byte{0} && content[1] == std::byte{0} && content[2] == std::byte{8};
  if (!unsigned_bytes || rank == 0 || rank > kMaxRank) throw Error(ErrorCode::corrupt, "no IDX file of unsigned bytes");
  std::size_t header = 4 + 4 * rank;
  if (content.size() < header) throw Error(ErrorCode::corrupt, "the header is cut off");
  IdxArray array;
  for (std::size_t i = 0; i < rank; ++i) array.shape.push_back(load_be32(content.data() + 4 + 4 * i));
  auto count = core::try_numel(array.shape.span());
  if (!count || *count != content.size() - header) {
    throw Error(ErrorCode::corrupt, "holds " + std::to_string(content.size() - header) +
                                        " values where its header says " + core::to_list(array.shape));
  }
  const auto* first = reinterpret_cast<const std::uint8_t*>(content.data());
  array.values.assign(first + header, first + content.size());
  return array;
}

std::filesystem::path data_folder(const std::filesystem::path& folder) {
  if (!folder.empty()) return folder;
  const char* named = std::getenv("FASHION_MNIST_DIR");
  return named != nullptr && *named != '\0' ? named : kDebianFolder;
}

}  // namespace

core::ByteVector read_unpacked(const std::filesystem::path& path) {
  ckpt::SourcePtr file = ckpt::open_file(path);
  if (file->size() > kMaxBytes) throw Error(ErrorCode::refused, "larger than 1 GiB");
  core::ByteVector content = ckpt::read_all(*file);
  bool packed = content.size() >= 2 && content[0] == std::byte{0x1f} && content[1] == std::byte{0x8b};
  return packed ? gunzip(content) : content;
}

IdxArray read_idx(const std::filesystem::path& path) {
  return core::with_context(path.string(), [&] { return parse_idx(read_unpacked(path)); });
}

ImageSet read_image_set(const std::filesystem::path& images, const std::filesystem::path& labels,
                        const std::string& name) {
  ImageSet set{read_idx(images), read_idx(labels)};
  if (set.images.shape.size() != 3 || set.labels.shape.size() != 1 || set.images.shape[0] != set.labels.shape[0]) {
    throw Error(ErrorCode::corrupt, images.parent_path().string() + ": images " + core::to_list(set.images.shape) +
                                        " and labels " + core::to_list(set.labels.shape) + " do not belong together");
  }
  if (set.images.shape[1] != 28 || set.images.shape[2] != 28) {
    throw Error(ErrorCode::corrupt, images.string() + ": images of " + std::to_string(set.images.shape[1]) + " x " +
                                        std::to_string(set.images.shape[2]) + " where " + name + " has 28 x 28");
  }
  for (std::uint8_t label : set.labels.values) {
    if (label < 10) continue;
    throw Error(ErrorCode::corrupt, labels.string() + ": label " + std::to_string(label) + " where there are 0 to 9");
  }
  return set;
}

ImageSet fashion_mnist(const std::string& split, const std::filesystem::path& folder) {
  std::filesystem::path at = data_folder(folder);
  std::filesystem::path images = at / (split + "-images-idx3-ubyte.gz");
  std::filesystem::path labels = at / (split + "-labels-idx1-ubyte.gz");
  if (!std::filesystem::exists(images)) {
    throw Error(ErrorCode::io, images.string() +
                                   ": Fashion-MNIST is not there; install the Debian package "
                                   "dataset-fashion-mnist or name its folder in FASHION_MNIST_DIR");
  }
  return read_image_set(images, labels, "Fashion-MNIST");
}

const std::vector<std::string>& fashion_mnist_classes() {
  static const std::vector<std::string> kClasses = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                                    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  return kClasses;
}

}  // namespace zoo
