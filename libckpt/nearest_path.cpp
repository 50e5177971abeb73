#include "libckpt/nearest_path.h"

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libcore/base/edit_distance.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

constexpr std::size_t kMaxPath = 128;      // the cost of a distance is quadratic
constexpr std::size_t kMaxPaths = 20'000;  // and there may be many
constexpr std::size_t kMaxVisits = 200'000;

enum class Names : std::uint8_t { paths, modules_too };

/// Looks at all paths of a tree, as far as the bounds go, and if asked to, at what stands before a dot in a key.
class Search {
 public:
  Search(std::string_view wanted, Names names)
      : wanted_(wanted), least_(std::max<std::size_t>(wanted.size() / 3, 1) + 1), names_(names) {}

  // Recursion: the depth of a tree is bounded where it is read.
  void walk(const Value& value, const std::string& prefix) {
    if (!value.is(Value::Kind::dict)) return;
    for (const auto& [key, child] : value.as_dict().items) {
      if (++visits_ > kMaxVisits) return;
      std::string path = prefix + step_text(key);
      look_at(path);
      if (names_ == Names::modules_too) look_at_modules(path, prefix.size());
      walk(child, path + ".");
    }
  }

  const std::string& best() const { return below_.empty() ? nearest_ : below_; }

 private:
  void look_at_modules(const std::string& path, std::size_t from) {
    for (std::size_t dot = path.find('.', from); dot != std::string::npos; dot = path.find('.', dot + 1)) {
      std::string module = path.substr(0, dot);
      if (modules_.insert(module).second) look_at(module);
    }
  }

  void look_at(const std::string& path) {
    bool ends_so =
        path.size() > wanted_.size() + 1 && path.ends_with(wanted_) && path[path.size() - wanted_.size() - 1] == '.';
    if (ends_so && below_.empty()) below_ = path;
    std::size_t longer = std::max(path.size(), wanted_.size());
    if (longer - std::min(path.size(), wanted_.size()) >= least_ || ++compared_ > kMaxPaths) return;
    std::size_t distance = core::edit_distance(wanted_, path);
    if (distance >= least_) return;
    least_ = distance;
    nearest_ = path;
  }

  std::string_view wanted_;
  std::size_t least_;
  Names names_;
  std::unordered_set<std::string> modules_;  ///< that were looked at
  std::size_t visits_ = 0;
  std::size_t compared_ = 0;
  std::string nearest_;
  std::string below_;  ///< the first that ends with ".WANTED"
};

}  // namespace

std::string did_you_mean_path(const Value& root, std::string_view path) {
  if (path.empty() || path.size() > kMaxPath) return "";
  Search search(path, Names::paths);
  search.walk(root, "");
  return search.best().empty() ? "" : "; did you mean " + core::quote(search.best()) + "?";
}

std::string did_you_mean_pattern(const Value& root, std::string_view pattern) {
  constexpr std::string_view kBelow = ".*";
  std::string_view name = pattern;
  if (name.ends_with(kBelow)) name.remove_suffix(kBelow.size());
  if (name.empty() || name.size() > kMaxPath || name.find_first_of("*?[]{}@:\\") != std::string_view::npos) return "";
  Search search(name, Names::modules_too);
  search.walk(root, "");
  if (search.best().empty() || search.best() == name) return "";
  return "; did you mean " + core::quote(search.best() + std::string(pattern.substr(name.size()))) + "?";
}

}  // namespace ckpt
