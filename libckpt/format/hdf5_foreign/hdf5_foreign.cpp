#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"

#include <algorithm>
#include <array>

#include "libckpt/format/hdf5_foreign/read.h"
#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::array<std::string_view, 2> kHdf5Extensions = {".h5", ".hdf5"};
constexpr std::array<std::string_view, 1> kKerasExtensions = {".keras"};

constexpr std::uint64_t kFirstUserBlock = 512;
constexpr std::uint64_t kLastUserBlock = 1ULL << 30;

bool has_signature(const ByteSource& file, std::uint64_t at) {
  core::ByteVector found(kHdf5Signature.size());
  if (at + found.size() > file.size()) return false;
  file.read(at, found);
  return core::as_text(found) == kHdf5Signature;
}

/// HDF5 looks for its signature at 512 and its doubles when it is not at the beginning. 0: it is there, or nowhere.
std::uint64_t user_block_of(const ByteSource& file) {
  if (has_signature(file, 0)) return 0;
  for (std::uint64_t at = kFirstUserBlock; at <= kLastUserBlock && at < file.size(); at *= 2) {
    if (has_signature(file, at)) return at;
  }
  return 0;
}

bool is_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

bool detect_hdf5(const Input& input) {
  if (core::as_text(input.head).starts_with(kHdf5Signature)) return true;
  try {
    return input.file && user_block_of(*input.file) > 0;
  } catch (const core::Error&) {
    return false;  // whoever reads on will say what is wrong with the file
  }
}

std::string user_block_fault(const SourcePtr& file) {
  std::uint64_t size = user_block_of(*file);
  bool zero = true;
  for_each_part(*slice(file, 0, size), [&](Bytes part) { zero = zero && is_zero(part); });
  if (zero) return "";
  return "a user block of " + core::format_size(size) +
         " before the HDF5 part holds something other than zeros, and its meaning is not known";
}

const Format kHdf5 = {
    .name = "hdf5",
    .title = "HDF5 file",
    .extensions = kHdf5Extensions,
    .detect = detect_hdf5,
    .read = read_hdf5,
    .obstacles = hdf5_obstacles,
    .write = write_hdf5_file,
    .verify = verify_hdf5,
    .packs = true,
};

const Format kKerasZip = {
    .name = "keras-zip",
    .title = "Keras archive",
    .extensions = kKerasExtensions,
    .detect = detect_keras_zip,
    .read = read_keras_zip,
    .verify = verify_keras_zip,
};

}  // namespace ckpt::detail
