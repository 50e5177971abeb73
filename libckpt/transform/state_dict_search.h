#pragma once
// Where the weights are in a training file: state dicts outside optimizers, pickled modules as the state dict they
// would give, and which of them are moving averages. Internal to publish. Thread safety: pure. Use: for (const
// WeightsRef& w : find_weights(root)) ...

#include <string>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt::detail {

struct WeightsRef {
  std::vector<Value> path;
  std::string name;  ///< the path joined with dots, "" for the top
  Value dict;
  bool is_average = false;   ///< a key on its path has the word ema or swa
  bool is_module = false;    ///< `dict` is what a pickled module would give
  Value::List unnamed = {};  ///< instead of `dict`: the shadow_params of a helper that keeps no names
};

/// In file order, outermost first.
std::vector<WeightsRef> find_weights(const Value& root);

/// The state dict of a pickled torch.nn.Module (parameters, persistent buffers, children), or null for anything else.
Value module_state_dict(const Value& object);

}  // namespace ckpt::detail
