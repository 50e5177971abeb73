#pragma once
// The shipped rule packs: how torchvision, timm, Hugging Face, nanoGPT and older releases call the tensors of one
// architecture, as data (zoo/rules/data/*.toml) for any depth and width. No tensor and no runtime is needed.
// Thread safety: any number of threads. Use: const ckpt::RulePack* timm = zoo::find_rule_pack("timm-vit");

#include <string>
#include <string_view>
#include <vector>

#include "libckpt/transform/rule_pack.h"

namespace zoo {

/// All of them, sorted by name. Parsed on first use and kept.
const std::vector<ckpt::RulePack>& rule_packs();

/// By its name or one of its other names. Null when no pack has that name.
const ckpt::RulePack* find_rule_pack(std::string_view name);

/// Names and other names of all packs, sorted.
std::vector<std::string> rule_pack_names();

/// Why there are no rules of that name where people would look for them: the model has no counterpart. Empty otherwise.
std::string why_no_rules(std::string_view name);

/// The file of a pack as it was written, for a copy to change. Empty when no pack has that name.
std::string_view rule_pack_text(std::string_view name);

}  // namespace zoo
