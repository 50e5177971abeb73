#include "zoo/rules/rule_packs.h"

#include <algorithm>
#include <array>

#include "libckpt/transform/glob.h"
#include "libcore/base/text.h"
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
  auto found = std::find_if(packs.begin(), packs.end(), [&](const ckpt::RulePack& pack) {
    const std::vector<std::string_view> others = core::split(pack.also, ' ');
    return pack.name == name || std::find(others.begin(), others.end(), name) != others.end();
  });
  return name.empty() || found == packs.end() ? nullptr : &*found;
}

std::vector<std::string> rule_pack_names() {
  std::vector<std::string> out;
  for (const ckpt::RulePack& pack : rule_packs()) {
    out.push_back(pack.name);
    for (std::string_view other : core::split(pack.also, ' ')) {
      if (!other.empty()) out.emplace_back(other);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string why_no_rules(std::string_view name) {
  struct Missing {
    std::string_view glob;
    std::string_view model;
  };
  static constexpr std::array kMissing = {
      Missing{"keras-resnet*v2", "ResNet V2 (batch norm and activation before each convolution)"},
      Missing{"keras-mobilenet", "MobileNet v1"},
      Missing{"keras-efficientnet-v2-b?", "EfficientNetV2 B0 to B3"},
      Missing{"keras-inception-resnet-v2", "Inception-ResNet v2"},
      Missing{"keras-nasnet-*", "NASNet"},
      Missing{"keras-xception", "Xception"},
  };
  for (const Missing& missing : kMissing) {
    if (!ckpt::glob_match(missing.glob, name)) continue;
    return "torchvision has no " + std::string(missing.model) + ", so no model there takes the weights of Keras";
  }
  return "";
}

std::string_view rule_pack_text(std::string_view name) {
  for (const PackText& text : pack_texts()) {
    if (text.name == name) return text.text;
  }
  return {};
}

}  // namespace zoo
