#pragma once
// What lies beside an index before a save to it: which files may be taken for new shards, and which go once the new
// index stands. A file goes only when every tensor in it is listed by the index that is replaced, in that file, and
// either the model was read from this very index and file (an edit in place, which carries or knowingly drops each of
// them), or its name is that of a shard of this model and nothing of the new model is read from it. An index that names
// a file thus gives no right to remove it. Thread safety: pure functions.
// Use: require_all_listed(checkpoint, index_path); SupersededShards old = find_superseded(checkpoint, tensors, path);

#include <filesystem>
#include <string>
#include <vector>

#include "libckpt/format/safetensors/plan.h"

namespace ckpt::detail {

struct SupersededShards {
  struct Left {
    std::string name;
    std::string reason;
  };
  std::vector<std::string> removable;
  std::vector<Left> left;  ///< files that the present index names and that are not provably part of its model
};

/// What becomes of the shards that the index at `index_path` names now; nothing where there is none. Never throws for
/// what cannot be read.
SupersededShards find_superseded(const Checkpoint& checkpoint, const std::vector<FlatTensor>& tensors,
                                 const std::filesystem::path& index_path);

/// An edit in place of an index would drop the tensors of its shards that it does not list. Errors: Error(corrupt)
/// naming the first of them, unless the checkpoint was read leniently. Nothing for any other save.
void require_all_listed(const Checkpoint& checkpoint, const std::filesystem::path& index_path);
/// True for a regular file of this user alone whose bytes are just those that the plan would write.
bool holds_plan(const std::filesystem::path& path, const SafetensorsPlan& plan);

}  // namespace ckpt::detail
