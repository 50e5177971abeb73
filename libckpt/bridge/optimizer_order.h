#pragma once
// Whose state is whose when an optimizer is loaded: by name where the file and the model have names, else by order.
// Internal to resume_training. Thread safety: pure. Use: Value state = in_order_of(saved, models, optimizer);

#include <vector>

#include "libckpt/value.h"
#include "libcore/module/module.h"
#include "libcore/optim/optimizer.h"

namespace ckpt::detail {

/// The state that a file has, with the parameters of each group in the order in which `optimizer` has them. A group is
/// put in order when its names (param_names) are those of the optimizer's parameters in the first of `models` that has
/// them all, without the parts that wrappers add; else its order stays, which is what PyTorch goes by. State that is
/// keyed by names gets numbers. Errors: Error(key) when state keyed by names has other names than the model.
Value in_order_of(const Value& state, const std::vector<const core::Module*>& models, const core::Optimizer& optimizer);

}  // namespace ckpt::detail
