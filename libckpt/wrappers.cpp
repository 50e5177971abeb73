#include "libckpt/wrappers.h"

#include <algorithm>
#include <array>
#include <map>

#include "libckpt/state_dicts.h"

namespace ckpt {
namespace {

/// DataParallel and DDP, torch.compile, FSDP, activation checkpointing, Fabric.
constexpr std::array<std::string_view, 5> kWrappers = {"module", "_orig_mod", "_fsdp_wrapped_module",
                                                       "_checkpoint_wrapped_module", "_forward_module"};

/// The components of wrappers at the front of a key, the last component of the key never among them.
std::string_view wrapper_prefix(std::string_view key) {
  std::size_t end = 0;
  while (true) {
    std::size_t dot = key.find('.', end);
    if (dot == std::string_view::npos || !is_wrapper_component(key.substr(end, dot - end))) return key.substr(0, end);
    end = dot + 1;
  }
}

}  // namespace

bool is_wrapper_component(std::string_view component) {
  return std::find(kWrappers.begin(), kWrappers.end(), component) != kWrappers.end();
}

std::vector<WrapperUse> list_wrappers(const Value& root) {
  std::vector<WrapperUse> uses;
  for (const StateDictRef& dict : list_state_dicts(root)) {
    std::map<std::string_view, std::uint64_t> counts;
    for (const auto& [key, value] : dict.dict->items) {
      if (!key.is(Value::Kind::text) || !value.is(Value::Kind::tensor)) continue;
      std::string_view prefix = wrapper_prefix(key.as_text());
      if (!prefix.empty()) ++counts[prefix];
    }
    for (const auto& [prefix, count] : counts) uses.push_back({dict.name, std::string(prefix), count});
  }
  return uses;
}

}  // namespace ckpt
