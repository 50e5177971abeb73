#pragma once
// What a state dict says beside keys, shapes and dtypes: versions of modules, and which names are one tensor. A file
// may lack either and load all the same, so compare_keys() (key_list.h) does not look at them. Thread safety: pure.
// Use: for (const std::string& line : ckpt::version_differences(dict, model)) ...

#include <string>
#include <utility>
#include <vector>

#include "libckpt/analyze/key_list.h"
#include "libckpt/value.h"

namespace ckpt {

/// "bn1: version 1 where 2 is wanted"; a module that is not listed has version 1. Nothing for a dict without _metadata,
/// as most formats write it. REQUIRES: `want` knows the versions of all its modules.
std::vector<std::string> version_differences(const Dict& state_dict, const KeyList& want);

struct TieDifferences {
  std::vector<std::pair<std::string, std::string>>
      unwritten;                                   ///< a missing name, and one there that is the same tensor
  std::vector<std::vector<std::string>> separate;  ///< one tensor in the model, several in the file
};
TieDifferences compare_ties(const KeyList& have, const KeyList& want);

}  // namespace ckpt
