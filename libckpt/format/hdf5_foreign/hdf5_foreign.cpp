#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"

#include <array>

#include "libckpt/format/hdf5_foreign/user_block.h"
#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/format/unused_space.h"
#include "libckpt/hdf5/tree.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::array<std::string_view, 2> kHdf5Extensions = {".h5", ".hdf5"};
constexpr std::array<std::string_view, 1> kKerasExtensions = {".keras"};

/// Compressed chunks are written without compression.
std::uint64_t growth(const Hdf5Tree& tree) {
  std::uint64_t stored = 0;
  std::uint64_t logical = 0;
  for (const Hdf5Object& object : tree.objects) {
    if (!object.dataset || !object.dataset->is_tensor()) continue;
    stored += object.dataset->stored_bytes();
    logical += object.dataset->size;
  }
  return logical > stored ? logical - stored : 0;
}

/// Bytes that belong to nothing in the file, less what its compressed chunks would grow by.
std::uint64_t unused(const Checkpoint& checkpoint) {
  Input input = open_input(checkpoint.path);
  Hdf5Tree tree = walk_hdf5(*input.file, {.measure = true});
  std::uint64_t more = growth(tree);
  return beyond_alignment(tree.unused > more ? tree.unused - more : 0, input.file->size());
}

}  // namespace

bool detect_hdf5(const Input& input) {
  if (core::as_text(input.head).starts_with(kHdf5Signature)) return true;
  try {
    return input.file && user_block_size(*input.file) > 0;
  } catch (const core::Error&) {
    return false;  // whoever reads on will say what is wrong with the file
  }
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
    .python = PythonReader::h5py,
    .unused = unused,
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
