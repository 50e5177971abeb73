#pragma once
// Selectors and patterns that mean some names and no others of all that are there. Internal to align. Thread safety:
// one owner. Use: NameSelectors chooser(all, true); std::vector<std::string> few = chooser.selectors(some);

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libckpt/analyze/name_patterns.h"

namespace ckpt::detail {

class NameSelectors {
 public:
  /// `generalize`: "*.weight" where that is enough; else every name is written out.
  NameSelectors(std::vector<std::string> all, bool generalize);

  /// Selectors that match exactly `wanted`, names out of all.
  std::vector<std::string> selectors(const std::vector<std::string>& wanted) const;
  /// Rules that do this to `wanted` and match nothing else.
  std::vector<ManyNames> splits(const std::vector<ManyNames>& wanted);

 private:
  using Tally = std::unordered_map<std::string_view, std::size_t>;

  std::string by_ending(const std::string& name, const Tally& wanted) const;
  bool matches_others(const ManyNames& rule, const std::vector<ManyNames>& wanted);

  std::vector<std::string> all_;
  Tally endings_;  ///< how many names end so; views into all_
  bool generalize_;
  std::size_t tries_;  ///< names that may still be tried on patterns
};

}  // namespace ckpt::detail
