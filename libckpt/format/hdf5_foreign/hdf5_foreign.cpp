#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"

#include <array>

#include "libckpt/format/hdf5_write/payload.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::array<std::string_view, 2> kHdf5Extensions = {".h5", ".hdf5"};
constexpr std::array<std::string_view, 1> kKerasExtensions = {".keras"};

constexpr std::uint64_t kFirstUserBlock = 512;
constexpr std::uint64_t kLastUserBlock = 1ULL << 30;

/// HDF5 looks for its signature at 512 and its doubles when it is not at the beginning.
bool has_user_block(const ByteSource& file) {
  core::ByteVector found(kHdf5Signature.size());
  for (std::uint64_t at = kFirstUserBlock; at <= kLastUserBlock && at + found.size() <= file.size(); at *= 2) {
    try {
      file.read(at, found);
    } catch (const core::Error&) {
      return false;  // whoever reads on will say what is wrong with the file
    }
    if (core::as_text(found) == kHdf5Signature) return true;
  }
  return false;
}

}  // namespace

bool detect_hdf5(const Input& input) {
  return core::as_text(input.head).starts_with(kHdf5Signature) || (input.file && has_user_block(*input.file));
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
