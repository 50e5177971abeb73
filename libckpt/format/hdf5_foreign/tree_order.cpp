#include "libckpt/format/hdf5_foreign/tree_order.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::array<std::string_view, 2> kOrderAttributes = {"layer_names", "weight_names"};

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Numbers by value and before names; names byte by byte.
bool comes_before(const Hdf5Link& a, const Hdf5Link& b) {
  bool numbers = is_digits(a.name) && is_digits(b.name);
  if (numbers && a.name.size() != b.name.size()) return a.name.size() < b.name.size();
  return a.name < b.name;
}

/// A list of names: one attribute, or numbered parts of a long one.
std::vector<std::string> listed_names(const Hdf5Object& group, const std::string& name) {
  std::unordered_map<std::string_view, const Hdf5Attribute*> lists;
  for (const Hdf5Attribute& attribute : group.attributes) {
    if (attribute.name.starts_with(name)) lists.emplace(attribute.name, &attribute);
  }
  if (auto whole = lists.find(name); whole != lists.end()) return whole->second->texts;
  std::vector<std::string> all;
  for (std::size_t part = 0;; ++part) {
    auto found = lists.find(name + std::to_string(part));
    if (found == lists.end()) return all;
    all.insert(all.end(), found->second->texts.begin(), found->second->texts.end());
  }
}

class Orderer {
 public:
  explicit Orderer(const Hdf5Tree& tree) : tree_(tree) {}

  std::vector<PlacedDataset> run() {
    std::vector<std::string> path;
    visit(0, path);
    return std::move(placed_);
  }

 private:
  /// Depth is bounded by the parser of the tree.
  void visit(std::uint32_t number, std::vector<std::string>& path) {
    const Hdf5Object& group = tree_.objects[number];
    for (const std::string& name : listed_names(group, "layer_names")) {
      if (const Hdf5Link* link = find(number, name)) follow(*link, path);
    }
    for (const std::string& name : listed_names(group, "weight_names")) follow_path(number, name, path);
    std::vector<const Hdf5Link*> rest;
    for (const Hdf5Link& link : group.links) rest.push_back(&link);
    if (!group.in_order) {
      std::stable_sort(rest.begin(), rest.end(), [](const auto* a, const auto* b) { return comes_before(*a, *b); });
    }
    for (const Hdf5Link* link : rest) follow(*link, path);
  }

  void follow(const Hdf5Link& link, std::vector<std::string>& path) {
    bool leads_on = link.kind == kLinkGroup || link.kind == kLinkDataset || link.kind == kLinkKnown;
    if (!leads_on || !done_.insert(&link).second) return;
    path.push_back(link.name);
    if (tree_.objects[link.object].dataset) {
      placed_.push_back({path, link.object});
    } else {
      visit(link.object, path);
    }
    path.pop_back();
  }

  /// "dense/kernel:0" names a dataset below the group.
  void follow_path(std::uint32_t number, const std::string& name, std::vector<std::string> path) {
    std::vector<std::string_view> steps = core::split(name, '/');
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Hdf5Link* link = find(number, std::string(steps[i]));
      if (link == nullptr || link->kind > kLinkDataset) return;
      if (i + 1 == steps.size()) {
        if (tree_.objects[link->object].dataset) follow(*link, path);
        return;
      }
      if (tree_.objects[link->object].dataset) return;
      path.push_back(link->name);
      number = link->object;
    }
  }

  const Hdf5Link* find(std::uint32_t number, const std::string& name) {
    auto [at, is_new] = links_.try_emplace(number);
    if (is_new) {
      for (const Hdf5Link& link : tree_.objects[number].links) at->second.emplace(link.name, &link);
    }
    auto found = at->second.find(name);
    return found == at->second.end() ? nullptr : found->second;
  }

  const Hdf5Tree& tree_;
  std::vector<PlacedDataset> placed_;
  std::unordered_set<const Hdf5Link*> done_;
  std::unordered_map<std::uint32_t, std::unordered_map<std::string, const Hdf5Link*>> links_;
};

}  // namespace

std::vector<PlacedDataset> ordered_datasets(const Hdf5Tree& tree) {
  return Orderer(tree).run();
}

bool is_order_attribute(const std::string& name) {
  return std::any_of(kOrderAttributes.begin(), kOrderAttributes.end(), [&](std::string_view known) {
    if (!name.starts_with(known)) return false;
    std::string_view rest = std::string_view(name).substr(known.size());
    return rest.empty() || is_digits(rest);
  });
}

}  // namespace ckpt::detail
