// What align found, as text.

#include <algorithm>

#include "libckpt/analyze/align.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using AlignedBy = AlignedTensors::By;

constexpr std::size_t kMaxListed = 100;  // pairs in the comments of a rule file
constexpr std::size_t kMaxOpen = 8;      // names of tensors that may be one another's

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(core::printable(name));
  return core::join(shown, ", ");
}

std::string comment_lines(const std::string& heading, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string out = "# " + heading + "\n";
  for (std::size_t n = 0; n < std::min(lines.size(), kMaxListed); ++n) out += "#   " + lines[n] + "\n";
  if (lines.size() > kMaxListed) out += "#   and " + core::format_count(lines.size() - kMaxListed) + " more\n";
  return out;
}

std::vector<std::string> lines_of(const AlignResult& result, AlignedBy by) {
  std::vector<std::string> out;
  for (const AlignedTensors& pair : result.pairs) {
    if (pair.by == by) out.push_back(list_of(pair.from) + " -> " + list_of(pair.to));
  }
  return out;
}

}  // namespace

std::string_view name(AlignedTensors::By by) {
  switch (by) {
    case AlignedBy::content:
      return "content";
    case AlignedBy::name:
      return "name";
    case AlignedBy::structure:
      return "structure";
  }
  return "?";
}

std::string describe(const AlignedTensors& pair) {
  std::string line = list_of(pair.from) + " -> " + list_of(pair.to);
  if (!pair.how.empty()) line += "  (" + pair.how + ")";
  if (pair.by != AlignedBy::content) line += "  (by " + std::string(name(pair.by)) + ")";
  return line;
}

std::string describe(const UndecidedTensors& tensors) {
  auto some = [](std::vector<std::string> names) {
    std::size_t more = names.size() > kMaxOpen ? names.size() - kMaxOpen : 0;
    names.resize(names.size() - more);
    return list_of(names) + (more > 0 ? " and " + core::format_count(more) + " more" : "");
  };
  return some(tensors.a) + " of A; " + some(tensors.b) + " of B";
}

std::string to_toml(const AlignResult& result) {
  std::string out =
      comment_lines("Paired by name alone: the values do not prove these pairs.", lines_of(result, AlignedBy::name));
  out += comment_lines(
      "Paired by structure alone (module, shape, neighbours, numbers): neither names nor values prove these pairs.",
      lines_of(result, AlignedBy::structure));
  std::vector<std::string> open;
  for (const UndecidedTensors& tensors : result.undecided) open.push_back(describe(tensors));
  out += comment_lines("Not decided, so no rule names them:", open);
  std::string rules = to_toml(result.rules);
  return out + (out.empty() || rules.empty() ? "" : "\n") + rules;
}

}  // namespace ckpt
