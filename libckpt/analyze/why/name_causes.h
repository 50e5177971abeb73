#pragma once
// Causes that lie in names: wrappers, prefixes, renamed components, order.
// Thread safety: one owner of the attempt. Use: find_name_causes(attempt);

#include "libckpt/analyze/why/attempt.h"

namespace ckpt::detail {

/// Wrappers, which are never right where the model has none.
void find_wrappers(Attempt& attempt);

/// Wrappers first, then whatever rule brings the most keys to a partner, until none does.
void find_name_causes(Attempt& attempt);

/// Keys whose names say nothing but whose shapes come in the same order. After find_name_causes().
void find_order_cause(Attempt& attempt);

/// How many rules for single prefixes and components find_name_causes() needed.
std::size_t count_rules(const Attempt& attempt);

/// The leading and the inner wrapper components of some keys: "_orig_mod.module." and whether others stand inside.
struct WrapperUse {
  std::string leading;  ///< of the first key that has any
  bool same = true;     ///< every key begins with it
  bool inside = false;
  std::size_t keys = 0;      ///< that have any
  std::string example = {};  ///< a key with a wrapper inside, else with one in front
};
WrapperUse wrapper_use(const std::vector<FileKey>& keys);

/// The step that takes wrappers off, as a prefix where that is all there is.
FixStep wrapper_step(const WrapperUse& use);

}  // namespace ckpt::detail
