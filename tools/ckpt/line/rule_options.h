#pragma once
// Rules as the commands are given them: a file, or the name of a pack that is shipped (zoo/rules).
// Thread safety: pure. Use: GivenRules given = read_rules("timm-vit");

#include <optional>
#include <string>

#include "libckpt/transform/rule_pack.h"

namespace cli {

struct GivenRules {
  ckpt::Rules rules;
  std::optional<ckpt::RulePack> pack;  ///< where they say whose names they are
};

/// `reverse`: those of the other direction. A file counts before a pack of the same name, in which a colon may stand
/// for the first hyphen: keras:vgg16. Errors: Error(usage) when it is neither; Error(io) when it cannot be read;
/// Error(refused) when it is too large; those of ckpt::parse_rules(), ckpt::parse_rule_pack() and ckpt::reversed().
GivenRules read_rules(const std::string& name, bool reverse = false);

/// The rules of a file's own layers, which only `ckpt convert` has: no pack has the name.
inline constexpr const char* kRulesByLayers = "keras";

/// What --help says of such an option.
inline constexpr const char* kRulesHelp =
    "rules in TOML, or JSON {\"old key\": \"new key\"} (applied at once, so a swap works), or the name of built-in "
    "ones, such as "
    "timm-vit ('ckpt zoo rules')";

}  // namespace cli
