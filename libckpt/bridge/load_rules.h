#pragma once
// Rules at load: the state dict of a file under other names and layouts before it meets a module.
// Thread safety: pure. Use: Value dict = apply_load_rules(*chosen.dict, options.rules, &report.warnings);

#include <string>
#include <vector>

#include "libckpt/transform/rules.h"

namespace ckpt {

/// The dict after the rules (transform/rules.h); tensors are computed when they are read. A rule that matches nothing
/// leaves a sentence in `warnings`, where that is given. Errors: those of apply_rules().
Value apply_load_rules(const Dict& dict, const Rules& rules, std::vector<std::string>* warnings = nullptr);

}  // namespace ckpt
