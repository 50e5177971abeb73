#include "zoo/rules/rule_packs.h"

#include <algorithm>

#include "zoo/rules/pack_texts.h"

namespace zoo {

const std::vector<ckpt::RulePack>& rule_packs() {
  static const std::vector<ckpt::RulePack> packs = [] {
    std::vector<ckpt::RulePack> parsed;
    for (const PackText& text : pack_texts()) parsed.push_back(ckpt::parse_rule_pack(text.text, text.name));
    return parsed;
  }();
  return packs;
}

const ckpt::RulePack* find_rule_pack(std::string_view name) {
  const std::vector<ckpt::RulePack>& packs = rule_packs();
  auto found = std::find_if(packs.begin(), packs.end(), [&](const ckpt::RulePack& pack) { return pack.name == name; });
  return found == packs.end() ? nullptr : &*found;
}

std::string_view rule_pack_text(std::string_view name) {
  for (const PackText& text : pack_texts()) {
    if (text.name == name) return text.text;
  }
  return {};
}

}  // namespace zoo
