#pragma once
// Says what a file is when no format knows it: the usual accidents get a sentence that tells what to do.
// Thread safety: pure. Use: throw Error(unsupported, describe_foreign(input)).

#include <string>

#include "libckpt/format/format.h"

namespace ckpt {

/// One sentence without the path: "this is a git-LFS pointer, not the weights (run 'git lfs pull')". Never throws.
std::string describe_foreign(const Input& input);

}  // namespace ckpt
