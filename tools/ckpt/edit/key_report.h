#pragma once
// What a change of keys is called in closing lines, dry runs and JSON.
// Thread safety: pure. Use: return key_edit(std::move(checkpoint), changes);

#include "libckpt/transform/key_changes.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {

Edit key_edit(ckpt::Checkpoint checkpoint, const ckpt::KeyChanges& changes);

}  // namespace cli
