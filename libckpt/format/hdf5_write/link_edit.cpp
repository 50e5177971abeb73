#include "libckpt/format/hdf5_write/link_edit.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "libckpt/io/packed.h"

namespace ckpt::detail {
namespace {

/// The first `count` links, with a slash before each.
std::string path_text(const Hdf5Path& path, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += '/';
    text += path[i];
  }
  return text;
}

/// How many datasets lie below each group.
std::map<std::string, std::size_t> count_below(const std::vector<DatasetPlan>& datasets) {
  std::map<std::string, std::size_t> counts;
  for (const DatasetPlan& dataset : datasets) {
    std::string group;
    for (std::size_t links = 0; links + 1 < dataset.path.size(); ++links) {
      group += '/';
      group += dataset.path[links];
      ++counts[group];
    }
  }
  return counts;
}

class LinkPlanner {
 public:
  LinkPlanner(const std::vector<DatasetPlan>& old_ones, const std::vector<DatasetPlan>& new_ones)
      : old_(old_ones), new_(new_ones), below_new_(count_below(new_ones)), order_(old_ones.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::sort(order_, {}, [&](std::size_t i) -> const Hdf5Path& { return old_[i].path; });
    for (const auto& [group, count] : count_below(old_)) taken_.insert(group);
    for (const DatasetPlan& dataset : old_) taken_.insert(path_text(dataset.path, dataset.path.size()));
  }

  std::optional<LinkEdit> run() {
    visit(0, order_.size(), 0);
    for (const auto& [from, to] : edit_.moved) {
      if (taken_.contains(to) || !make_groups_above(to)) return std::nullopt;
    }
    return std::move(edit_);
  }

 private:
  const Hdf5Path& old_path(std::size_t at) const { return old_[order_[at]].path; }
  const Hdf5Path& new_path(std::size_t at) const { return new_[order_[at]].path; }

  /// What lies in the same group: from `begin` to `end` in order, behind `links` links.
  void visit(std::size_t begin, std::size_t end, std::size_t links) {
    while (begin < end) {
      std::size_t next = begin + 1;
      while (next < end && old_path(next)[links] == old_path(begin)[links]) ++next;
      visit_link(begin, next, links + 1);
      begin = next;
    }
  }

  /// One link: to a dataset, or to a group that goes as a whole where all that is below it does.
  void visit_link(std::size_t begin, std::size_t end, std::size_t links) {
    std::string from = path_text(old_path(begin), links);
    std::string to = common_place(begin, end, links);
    bool is_group = old_path(begin).size() > links;
    bool whole =
        !to.empty() && (!is_group || (below_new_.at(to) == end - begin && (from == to || !taken_.contains(to))));
    if (whole && from != to) edit_.moved.emplace_back(from, to);
    if (whole) return;
    kept_.insert(from);
    visit(begin, end, links);
    if (!below_new_.contains(from)) edit_.removed.push_back(from);
  }

  /// Where the link would lie so that everything behind it keeps its path from there on; "" where there is no such
  /// place.
  std::string common_place(std::size_t begin, std::size_t end, std::size_t links) const {
    const Hdf5Path& first = new_path(begin);
    std::size_t place = 0;  // so many links of it
    for (std::size_t at = begin; at < end; ++at) {
      const Hdf5Path& before = old_path(at);
      const Hdf5Path& after = new_path(at);
      std::size_t rest = before.size() - links;
      if (after.size() <= rest || !std::equal(before.end() - static_cast<std::ptrdiff_t>(rest), before.end(),
                                              after.end() - static_cast<std::ptrdiff_t>(rest))) {
        return "";
      }
      std::size_t here = after.size() - rest;
      bool same =
          at == begin || (here == place &&
                          std::equal(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(here), first.begin()));
      if (!same) return "";
      place = here;
    }
    return path_text(first, place);
  }

  /// False where something that moves away is there still.
  bool make_groups_above(const std::string& path) {
    for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
      std::string group = path.substr(0, end);
      if (kept_.contains(group)) continue;
      if (taken_.contains(group)) return false;
      if (made_.insert(group).second) edit_.made.push_back(group);
    }
    return true;
  }

  const std::vector<DatasetPlan>& old_;
  const std::vector<DatasetPlan>& new_;
  std::map<std::string, std::size_t> below_new_;
  std::vector<std::size_t> order_;  ///< of the old paths
  std::set<std::string> taken_;     ///< by links that are there before anything moves
  std::set<std::string> kept_;      ///< groups that are opened, not moved
  std::set<std::string> made_;
  LinkEdit edit_;
};

}  // namespace

std::optional<LinkEdit> plan_link_edit(const Hdf5Plan& old_plan, const Hdf5Plan& new_plan) {
  if (!same_but_for_paths(old_plan, new_plan)) return std::nullopt;
  return LinkPlanner(old_plan.datasets, new_plan.datasets).run();
}

std::optional<Hdf5Image> relink_hdf5(const Hdf5Plan& plan, core::Bytes superblock, core::Bytes metadata,
                                     const LinkEdit& edit) {
  core::ByteVector request;
  std::string top = plan.style.top_group.empty() ? "" : "/" + plan.style.top_group;
  auto put_path = [&](const std::string& path) { put_text(request, top + path); };
  put_count(request, plan.place.user_block);
  put_count(request, plan.place.metadata_begin);
  put_bytes(request, superblock);
  put_bytes(request, metadata);
  put_count(request, edit.made.size());
  for (const std::string& group : edit.made) put_path(group);
  put_count(request, edit.moved.size());
  for (const auto& [from, to] : edit.moved) put_path(from), put_path(to);
  put_count(request, edit.removed.size());
  for (const std::string& group : edit.removed) put_path(group);
  return Hdf5Describer::relink(request, {plan.place.user_block, plan.place.metadata_begin, edit.moved.size()});
}

}  // namespace ckpt::detail
