#include "tools/support/suggest.h"

#include <algorithm>

#include "libcore/base/text.h"

namespace cli {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, last[j] + 1, row[j - 1] + 1});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kMaxWord = 64;  // the cost is quadratic, and nobody types more
  std::optional<std::string> best;
  if (word.empty() || word.size() > kMaxWord) return best;
  std::size_t least = std::max<std::size_t>(word.size() / 3, word.size() > 1 ? 1 : 0) + 1;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(word, candidate);
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
