#pragma once
// Few of a kind: sentences that say the same of many things, such as of each of 70,000 records, are said five times and
// then counted. Two are of a kind when they differ only in quoted names and in numbers.
// Thread safety: pure. Use: for (const Said& said : few_of_a_kind(report.warnings)) print(said.text);

#include <cstdint>
#include <string>
#include <vector>

namespace cli {

struct Said {
  std::string text;        ///< a sentence, or the line that counts the rest of its kind
  std::uint64_t more = 0;  ///< sentences that this line stands for; 0: it is a sentence itself
};

/// At most five sentences of each kind, in their order; behind the fifth "… and 2,627 more of this kind".
std::vector<Said> few_of_a_kind(const std::vector<std::string>& sentences);

/// How many sentences are only counted in it.
std::uint64_t counted_only(const std::vector<Said>& said);

}  // namespace cli
