#pragma once
// The files of rule packs as the build put them into the program, sorted by name.
// Thread safety: a constant. Use: for (const PackText& text : pack_texts()) ckpt::parse_rule_pack(text.text,
// text.name);

#include <span>
#include <string_view>

namespace zoo {

struct PackText {
  std::string_view name;
  std::string_view text;
};

std::span<const PackText> pack_texts();

}  // namespace zoo
