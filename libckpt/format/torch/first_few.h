#pragma once
// The first few of a list of names, for messages: a file may name a hundred thousand.
// Thread safety: pure. Use: first_few({"a", "b"}) == "a, b".

#include <algorithm>
#include <span>
#include <string>

#include "libcore/base/text.h"

namespace ckpt {

/// At most eight, then how many more: "a, b, c, d, e, f, g, h and 12 more".
inline std::string first_few(std::span<const std::string> names) {
  constexpr std::size_t kMost = 8;
  std::string text = core::join(names.first(std::min(names.size(), kMost)), ", ");
  return names.size() <= kMost ? text : text + " and " + core::format_count(names.size() - kMost) + " more";
}

}  // namespace ckpt
