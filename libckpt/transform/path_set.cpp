#include "libckpt/transform/path_set.h"

#include <algorithm>

#include "libckpt/checkpoint.h"

namespace ckpt::detail {
namespace {

void append_step(std::string& text, const Value& step) {
  std::string name = step_text(step);
  text += std::to_string(name.size()) + ":" + name;
}

}  // namespace

PathSet::PathSet(std::vector<std::vector<Value>> paths) : paths_(std::move(paths)) {
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    std::string text;
    for (const Value& step : paths_[i]) append_step(text, step);
    by_text_.emplace(std::move(text), i);
  }
}

bool PathSet::covers(const std::vector<Value>& path) const {
  if (paths_.empty()) return false;
  std::string text;
  for (std::size_t length = 0;; ++length) {
    auto [first, last] = by_text_.equal_range(text);
    for (; first != last; ++first) {
      const std::vector<Value>& known = paths_[first->second];
      if (known.size() == length && std::equal(known.begin(), known.end(), path.begin())) return true;
    }
    if (length == path.size()) return false;
    append_step(text, path[length]);
  }
}

}  // namespace ckpt::detail
