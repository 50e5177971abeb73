#include "libckpt/nearest_path.h"

#include <algorithm>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libcore/base/edit_distance.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

constexpr std::size_t kMaxPath = 128;      // the cost of a distance is quadratic
constexpr std::size_t kMaxPaths = 20'000;  // and there may be many
constexpr std::size_t kMaxVisits = 200'000;

/// Looks at all paths of a tree, as far as the bounds go.
class Search {
 public:
  explicit Search(std::string_view wanted) : wanted_(wanted), least_(std::max<std::size_t>(wanted.size() / 3, 1) + 1) {}

  // Recursion: the depth of a tree is bounded where it is read.
  void walk(const Value& value, const std::string& prefix) {
    if (!value.is(Value::Kind::dict)) return;
    for (const auto& [key, child] : value.as_dict().items) {
      if (++visits_ > kMaxVisits) return;
      std::string path = prefix + step_text(key);
      look_at(path);
      walk(child, path + ".");
    }
  }

  const std::string& best() const { return below_.empty() ? nearest_ : below_; }

 private:
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
  std::size_t visits_ = 0;
  std::size_t compared_ = 0;
  std::string nearest_;
  std::string below_;  ///< the first that ends with ".WANTED"
};

}  // namespace

std::string did_you_mean_path(const Value& root, std::string_view path) {
  if (path.empty() || path.size() > kMaxPath) return "";
  Search search(path);
  search.walk(root, "");
  return search.best().empty() ? "" : "; did you mean " + core::quote(search.best()) + "?";
}

}  // namespace ckpt
