#pragma once
// Rules for Checkpoint.rename by what a caller names. Thread safety: pure. Use:
// rules_named("rules.toml", false, checkpoint, "");

#include <string>

#include "libckpt/transform/rules.h"

namespace python {

/// `name` is a rule pack, whose fitting side is taken; else a file; else, with more than one line or a brace, the text
/// of one. Errors: Error(usage) when it is none of them; those of reading and of rules_for().
ckpt::Rules rules_named(const std::string& name, bool reverse, const ckpt::Checkpoint& checkpoint,
                        const std::string& at);

}  // namespace python
