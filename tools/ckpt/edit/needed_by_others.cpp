#include "tools/ckpt/edit/needed_by_others.h"

#include <unordered_set>

#include "libckpt/run/step_needs.h"
#include "libcore/base/error.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

/// New names leave the bytes alone, and others find them by those.
bool keeps_all_tensors(const ckpt::Checkpoint& before, const ckpt::Checkpoint& after) {
  std::unordered_set<const ckpt::ByteSource*> kept;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(after.root)) kept.insert(named.entry->bytes.get());
  for (const ckpt::NamedEntry& named : ckpt::list_entries(before.root)) {
    if (!kept.contains(named.entry->bytes.get())) return false;
  }
  return true;
}

}  // namespace

void require_unneeded(const fs::path& target, const ckpt::Checkpoint& before, const ckpt::Checkpoint& after) {
  if (before.format != "native" || keeps_all_tensors(before, after)) return;
  for (const ckpt::detail::StepNeed& need :
       ckpt::detail::needs_of(target.has_parent_path() ? target.parent_path() : fs::path("."))) {
    if (need.needed != target.filename().string() || need.file == need.needed) continue;
    throw core::Error(core::ErrorCode::refused, ckpt::detail::text_of(need) +
                                                    ", and this edit would change or drop some; name another file "
                                                    "with -o, or make a whole file of that one first ('ckpt convert')")
        .add_context(target.string());
  }
}

}  // namespace cli
