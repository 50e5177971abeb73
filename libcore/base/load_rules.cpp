#include "libcore/base/load_rules.h"

namespace core {
namespace {

std::string quoted_list(const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "\"" : ", \"") + key + "\"";
  return text;
}

}  // namespace

bool load_takes_shape(const Shape& target, const Shape& given) {
  return target == given || (target.empty() && given.size() == 1 && given[0] == 1);
}

std::string size_mismatch_text(const std::string& key, const Shape& given, const Shape& target) {
  return "size mismatch for " + key + ": copying a param with shape torch.Size(" + to_list(given) +
         ") from checkpoint, the shape in current model is torch.Size(" + to_list(target) + ").";
}

bool load_adds_counter(std::optional<std::int64_t> saved_version) {
  return saved_version.value_or(0) < 2;
}

std::vector<std::string> load_problem_lines(const LoadProblems& problems) {
  std::vector<std::string> lines;
  if (!problems.missing.empty()) {
    lines.push_back("Missing key(s) in state_dict: " + quoted_list(problems.missing) + ". ");
  }
  if (!problems.unexpected.empty()) {
    lines.push_back("Unexpected key(s) in state_dict: " + quoted_list(problems.unexpected) + ". ");
  }
  lines.insert(lines.end(), problems.errors.begin(), problems.errors.end());
  return lines;
}

}  // namespace core
