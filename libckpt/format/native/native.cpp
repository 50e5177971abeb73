#include "libckpt/format/native/native.h"

#include <array>

#include "libckpt/format/native/gaps.h"
#include "libckpt/format/unused_space.h"
#include "libckpt/io/edit_journal.h"

namespace ckpt::detail {
namespace {

constexpr std::array<std::string_view, 1> kExtensions = {".ckpt"};

/// The native format holds everything that a Checkpoint can say.
std::vector<Obstacle> no_obstacles(const Checkpoint& /*checkpoint*/, const SaveOptions& /*options*/) {
  return {};
}

std::uint64_t unused(const Checkpoint& checkpoint) {
  Input input = open_input(checkpoint.path);
  return beyond_alignment(native_unused_bytes(input), input.file->size());
}

}  // namespace

constexpr Format kNative = {
    .name = "native",
    .title = "native checkpoint (HDF5)",
    .extensions = kExtensions,
    .detect = detect_native,
    .read = read_native,
    .obstacles = no_obstacles,
    .write = write_native,
    .edit = edit_native,
    .verify = verify_native,
    .packs = true,
    .packs_floats = true,
    .takes_late_texts = true,
    .holds_views = true,
    .holds_parity = true,
    .has_checksums = true,
    .objects = CarriedObjects::if_asked,
    .python = PythonReader::libckpt,
    .edited_part = "index",
    .listed_as = "native (HDF5)",  // PyTorch calls other files .ckpt
    .unused = unused,
};

}  // namespace ckpt::detail
