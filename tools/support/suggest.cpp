#include "tools/support/suggest.h"

#include <algorithm>

#include "libcore/base/edit_distance.h"
#include "libcore/base/text.h"

namespace cli {

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kMaxWord = 64;  // the cost is quadratic, and nobody types more
  std::optional<std::string> best;
  if (word.empty() || word.size() > kMaxWord) return best;
  std::size_t least = std::max<std::size_t>(word.size() / 3, word.size() > 1 ? 1 : 0) + 1;
  for (const std::string& candidate : candidates) {
    std::size_t distance = core::edit_distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  if (best) return best;
  for (const std::string& candidate : candidates) {
    if (word.size() >= 3 && candidate.starts_with(word)) return candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> meant = nearest(word, candidates);
  return meant ? "; did you mean " + core::quote(*meant) + "?" : "";
}

}  // namespace cli
