#pragma once
// What the parts of module.cpp share: joining names, walking a module that is const, telling tensors apart.
// Thread safety: pure functions. For libcore/module alone.

#include <string>

#include "libcore/module/module.h"

namespace core::detail {

/// "layer1" + "conv" = "layer1.conv"; nothing in front when `prefix` is empty.
inline std::string join_name(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// members() hands out handles that can be rebound, so it is not const. The walks behind const functions only read
/// them.
inline Module& walkable(const Module& module) {
  return const_cast<Module&>(module);
}

}  // namespace core::detail
