#include "tools/ckpt/output/few_of_a_kind.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "libcore/base/text.h"

namespace cli {
namespace {

constexpr std::uint64_t kMostOfAKind = 5;
constexpr std::size_t kMostKinds = 32;    ///< all others are of one kind, however they differ
constexpr std::size_t kMostBytes = 4000;  ///< of one sentence
constexpr const char* kOtherKinds = "others";

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Behind the closing quote. core::quote() puts a backslash before a quote that belongs to the name.
std::size_t skip_name(const std::string& text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '\''; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

/// The sentence without its names and numbers.
std::string kind_of(const std::string& text) {
  std::string kind;
  for (std::size_t at = 0; at < text.size();) {
    bool apostrophe = at > 0 && is_letter(text[at - 1]);
    if (text[at] == '\'' && !apostrophe) {
      at = skip_name(text, at);
      kind += '\'';
    } else if (is_digit(text[at])) {
      while (at < text.size() && (is_digit(text[at]) || text[at] == ',' || text[at] == '.')) ++at;
      kind += '0';
    } else {
      kind += text[at++];
    }
  }
  return kind;
}

/// A file chooses how long its names are, and of how many a sentence speaks.
std::string in_bounds(const std::string& text) {
  std::size_t end = kMostBytes;
  if (text.size() <= end) return text;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) --end;  // inside a character
  return text.substr(0, end) + "…";
}

}  // namespace

std::vector<Said> few_of_a_kind(const std::vector<std::string>& sentences) {
  std::map<std::string, std::uint64_t> counts;
  std::vector<std::map<std::string, std::uint64_t>::iterator> kinds;  // of the sentences, in order
  for (const std::string& sentence : sentences) {
    std::string kind = kind_of(sentence);
    bool known = counts.size() < kMostKinds || counts.contains(kind);
    auto [found, fresh] = counts.try_emplace(known ? kind : kOtherKinds, 0);
    ++found->second;
    kinds.push_back(found);
  }
  std::map<std::string, std::uint64_t> seen;
  std::vector<Said> said;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    std::uint64_t number = ++seen[kinds[i]->first];
    if (number <= kMostOfAKind) said.push_back({in_bounds(sentences[i]), 0});
    std::uint64_t more = kinds[i]->second - std::min(kinds[i]->second, kMostOfAKind);
    if (number == kMostOfAKind && more > 0)
      said.push_back({"… and " + core::format_count(more) + " more of this kind", more});
  }
  return said;
}

std::uint64_t counted_only(const std::vector<Said>& said) {
  std::uint64_t count = 0;
  for (const Said& line : said) count += line.more;
  return count;
}

}  // namespace cli
