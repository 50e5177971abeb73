#include "tools/ckpt/commands/unused_bytes.h"

#include "libckpt/format/unused_space.h"
#include "libckpt/transform/compact.h"
#include "libcore/base/error.h"

namespace cli {
namespace {

std::uint64_t view_bytes(const ckpt::Checkpoint& checkpoint) {
  ckpt::CompactChanges changes;
  ckpt::compact(checkpoint, {}, &changes);
  return changes.view_bytes;
}

}  // namespace

std::uint64_t unused_bytes(const ckpt::Checkpoint& checkpoint) {
  try {
    return view_bytes(checkpoint) + ckpt::unused_space(checkpoint);
  } catch (const core::Error& error) {
    // What cannot be written afresh cannot be made smaller either.
    if (error.code() == core::ErrorCode::io || error.code() == core::ErrorCode::internal) throw;
    return 0;
  }
}

}  // namespace cli
