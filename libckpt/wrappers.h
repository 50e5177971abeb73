#pragma once
// Which wrappers a model was saved through: the prefixes that DataParallel, torch.compile and their kin leave on keys.
// Thread safety: pure. Use: for (auto& use : ckpt::list_wrappers(checkpoint.root)) std::cout << use.prefix << use.keys;

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/value.h"

namespace ckpt {

/// True for a component that a known wrapper adds: module, _orig_mod, _fsdp_wrapped_module, ...
bool is_wrapper_component(std::string_view component);

/// A prefix that keys of one state dict begin with, all wrapper components of them together.
struct WrapperUse {
  std::string state_dict;  ///< dotted name, "" for the root
  std::string prefix;      ///< "module.", "_orig_mod.module."
  std::uint64_t keys = 0;  ///< that begin with it

  friend bool operator==(const WrapperUse&, const WrapperUse&) = default;
};

/// Of all state dicts in file order; prefixes of one in the order of the alphabet. Keys without a wrapper do not count.
/// Never throws for what a file holds.
std::vector<WrapperUse> list_wrappers(const Value& root);

}  // namespace ckpt
