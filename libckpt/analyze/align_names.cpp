#include "libckpt/analyze/align_names.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxScored = 4'000'000;  // pairs; beyond that, order decides

std::string_view module_of(std::string_view name) {
  std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view last_of(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

std::uint64_t times(const std::map<std::string, std::map<std::string, std::uint64_t>, std::less<>>& known,
                    std::string_view from, std::string_view to) {
  auto entry = known.find(from);
  if (entry == known.end()) return 0;
  auto found = entry->second.find(std::string(to));
  return found == entry->second.end() ? 0 : found->second;
}

}  // namespace

std::size_t common_length(std::string_view a, std::string_view b) {
  std::size_t limit = std::min(a.size(), b.size());
  std::size_t front = 0;
  while (front < limit && a[front] == b[front]) ++front;
  std::size_t back = 0;
  while (back < limit - front && a[a.size() - back - 1] == b[b.size() - back - 1]) ++back;
  return front + back;
}

void LearnedNames::learn(const std::string& from, const std::string& to) {
  ++modules_[std::string(module_of(from))][std::string(module_of(to))];
  ++lasts_[std::string(last_of(from))][std::string(last_of(to))];
}

std::vector<std::string> LearnedNames::implied(const std::string& from, std::size_t most) const {
  std::vector<std::string> out = {from};
  auto modules = modules_.find(module_of(from));
  if (modules == modules_.end()) return out;
  std::string_view own(last_of(from));
  std::vector<std::string_view> lasts = {own};
  if (auto known = lasts_.find(own); known != lasts_.end()) {
    for (const auto& [last, times] : known->second) {
      if (last != own) lasts.push_back(last);
    }
  }
  for (const auto& [module, times] : modules->second) {
    for (std::string_view last : lasts) {
      if (out.size() >= most) return out;
      out.push_back(module.empty() ? std::string(last) : module + "." + std::string(last));
    }
  }
  return out;
}

double LearnedNames::likeness(std::string_view from, std::string_view to) const {
  double score = from == to ? 1000 : 0;
  if (times(modules_, module_of(from), module_of(to)) > 0) score += 200;
  if (last_of(from) == last_of(to)) score += 50;
  if (last_of(from) != last_of(to) && times(lasts_, last_of(from), last_of(to)) > 0) score += 40;
  return score + static_cast<double>(common_length(from, to)) /
                     static_cast<double>(std::max<std::size_t>(1, std::max(from.size(), to.size()))) * 20;
}

std::vector<std::pair<std::size_t, std::size_t>> LearnedNames::pair_up(const std::vector<std::string_view>& from,
                                                                       const std::vector<std::string_view>& to) const {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  if (from.size() * to.size() > kMaxScored) {
    for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) out.emplace_back(i, i);
    return out;
  }
  std::vector<std::tuple<double, std::size_t, std::size_t>> scored;
  for (std::size_t i = 0; i < from.size(); ++i) {
    for (std::size_t k = 0; k < to.size(); ++k) {
      double distance = static_cast<double>(i > k ? i - k : k - i) / static_cast<double>(from.size() + to.size());
      scored.emplace_back(-likeness(from[i], to[k]) + distance, i, k);
    }
  }
  std::sort(scored.begin(), scored.end());
  std::vector<bool> used_from(from.size());
  std::vector<bool> used_to(to.size());
  for (const auto& [score, i, k] : scored) {
    if (used_from[i] || used_to[k]) continue;
    used_from[i] = used_to[k] = true;
    out.emplace_back(i, k);
  }
  return out;
}

}  // namespace ckpt::detail
