#pragma once
// The path inside a checkpoint that was probably meant: "fc.weigt" -> "fc.weight", "fc.bias" -> "model.fc.bias".
// Thread safety: pure. Use: throw Error(key, "no 'fc.weigt' in the file" + did_you_mean_path(root, "fc.weigt"));

#include <string>
#include <string_view>

#include "libckpt/value.h"

namespace ckpt {

/// "; did you mean 'model.fc.bias'?", or "" where nothing is near. Cost: bounded, whatever the size of the tree.
std::string did_you_mean_path(const Value& root, std::string_view path);
/// The same for a pattern of names that matches nothing: "layre1.*" -> "; did you mean 'layer1.*'?". Only a final ".*"
/// is understood; "" for other patterns.
std::string did_you_mean_pattern(const Value& root, std::string_view pattern);

}  // namespace ckpt
