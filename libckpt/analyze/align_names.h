#pragma once
// What pairs of names teach about other names: where modules go, what last components become. Internal to align.
// Thread safety: one owner. Use: names.learn("bn1.weight", "norm.weight"); names.implied("bn1.bias", 8)[1] ==
// "norm.bias"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ckpt::detail {

class LearnedNames {
 public:
  void learn(const std::string& from, const std::string& to);

  /// The name itself, and where modules go what its last component is or became; at most `most` of them.
  std::vector<std::string> implied(const std::string& from, std::size_t most) const;
  /// How well two names fit: what was learnt counts most, then common components from behind.
  double likeness(std::string_view from, std::string_view to) const;
  /// Pairs of indexes, each index at most once: what is implied first, then the most alike; equal likeness in order.
  std::vector<std::pair<std::size_t, std::size_t>> pair_up(const std::vector<std::string_view>& from,
                                                           const std::vector<std::string_view>& to) const;

 private:
  std::map<std::string, std::map<std::string, std::uint64_t>, std::less<>> modules_;  ///< module -> where it went
  std::map<std::string, std::map<std::string, std::uint64_t>, std::less<>> lasts_;    ///< last component -> what became
};

/// Characters that both begin with and end with, added up.
std::size_t common_length(std::string_view a, std::string_view b);

}  // namespace ckpt::detail
