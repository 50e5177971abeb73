#pragma once
// What a module keeps of its hooks. For libcore/module alone. Thread safety: none while hooks are registered.
// Use: if (const auto& hooks = hooks_of(module)) for (const auto& [id, hook] : hooks->forward) hook(...);

#include <cstdint>
#include <utility>
#include <vector>

#include "libcore/module/module.h"

namespace core::detail {

/// In the order of registration; the number is what remove_hook() takes.
template <class Hook>
using HookList = std::vector<std::pair<std::int64_t, Hook>>;

struct ModuleHooks {
  HookList<ForwardPreHook> forward_pre;
  HookList<ForwardHook> forward;
  HookList<BackwardPreHook> backward_pre;
  HookList<BackwardHook> backward;
  HookList<StatePreHook> state_pre;
  HookList<StateHook> state;
  HookList<LoadPreHook> load_pre;
  HookList<LoadHook> load;
  std::int64_t next_id = 0;

  bool around_backward() const { return !backward_pre.empty() || !backward.empty(); }
};

/// Calls body(hook) for each hook in `list` of the module. The list may change while it runs.
template <class Hook, class Body>
void each_hook(const Module& module, HookList<Hook> ModuleHooks::*list, Body body) {
  const std::shared_ptr<ModuleHooks> hooks = hooks_of(module);
  if (!hooks) return;
  const HookList<Hook> all = (*hooks).*list;
  for (const auto& [id, hook] : all) body(hook);
}

}  // namespace core::detail
