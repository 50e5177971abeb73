#pragma once
// Files of rules as the commands read them.
// Thread safety: pure. Use: ckpt::Rules rules = read_rules("rules.toml");

#include <string>

#include "libckpt/transform/rules.h"

namespace cli {

/// Errors: Error(io) when the file cannot be read; Error(refused) when it is too large; those of ckpt::parse_rules().
ckpt::Rules read_rules(const std::string& path);

}  // namespace cli
