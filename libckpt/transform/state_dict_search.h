#pragma once
// Where the weights are in a training file: its state dicts, pickled modules as the state dict they would give, and
// averages without names. Internal to publish. Thread safety: pure.
// Use: for (const WeightsRef& w : find_weights(root)) ...

#include <string>
#include <vector>

#include "libckpt/state_dicts.h"

namespace ckpt::detail {

struct WeightsRef {
  std::vector<Value> path;
  std::string name;  ///< the path joined with dots, "" for the top
  Value dict;
  bool is_average = false;   ///< of kind ema, or without names
  bool is_module = false;    ///< `dict` is what a pickled module would give
  Value::List unnamed = {};  ///< instead of `dict`: the shadow_params of a helper that keeps no names

  bool is_pickled() const { return is_module || !unnamed.empty(); }
};

/// The state dicts of list_weights(), each dict once; behind them what is pickled or has no names; both in file order.
std::vector<WeightsRef> find_weights(const Value& root);

/// The state dict of a pickled torch.nn.Module (parameters, persistent buffers, children), or null for anything else.
Value module_state_dict(const Value& object);

}  // namespace ckpt::detail
