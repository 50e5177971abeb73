#include "libckpt/analyze/branches.h"

#include <algorithm>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/transform/selector.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

class Builder {
 public:
  Builder(const BranchOptions& options, std::size_t tensors) : options_(options) {
    nodes_.emplace_back();
    by_name_.reserve(2 * tensors);
    seen_.reserve(tensors);
  }

  void add(const NamedEntry& tensor) {
    const ByteSource* source = tensor.entry->bytes.get();
    fresh_ = source != nullptr && seen_.insert(source).second;
    parameter_ = tensor_kind(tensor.name, *tensor.entry) == TensorKind::parameter;
    std::size_t at = 0;
    count(at, *tensor.entry);
    std::size_t begin = 0;
    for (std::uint64_t depth = 1; begin <= tensor.name.size(); ++depth) {
      std::size_t end = depth < options_.max_depth ? tensor.name.find('.', begin) : std::string::npos;
      if (end == std::string::npos) end = tensor.name.size();
      at = child(at, std::string_view(tensor.name).substr(0, end), begin);
      count(at, *tensor.entry);
      begin = end + 1;
    }
    nodes_[at].branch.entry = tensor.entry.get();
  }

  std::vector<Branch> take() {
    std::vector<Branch> out;
    // The stack holds nodes to visit with the depth and the place of what is above them.
    struct Visit {
      std::size_t node, depth, parent;
    };
    std::vector<Visit> stack = {{0, 0, 0}};
    while (!stack.empty()) {
      Visit visit = stack.back();
      stack.pop_back();
      std::string label = nodes_[visit.node].branch.label;
      while (options_.join_chains && visit.node != 0 && is_chain(visit.node)) {
        visit.node = nodes_[visit.node].children.front();
        label += "." + nodes_[visit.node].branch.label;
      }
      Node& node = nodes_[visit.node];
      node.branch.label = std::move(label);
      node.branch.depth = visit.depth;
      node.branch.parent = visit.parent;
      node.branch.leaf = node.children.empty();
      std::stable_sort(node.branch.dtypes.begin(), node.branch.dtypes.end(),
                       [](const auto& a, const auto& b) { return a.second > b.second; });
      out.push_back(std::move(node.branch));
      for (std::size_t i = node.children.size(); i-- > 0;) {
        stack.push_back({node.children[i], visit.depth + 1, out.size() - 1});
      }
    }
    return out;
  }

 private:
  struct Node {
    Branch branch;
    std::vector<std::size_t> children;
  };

  /// Its whole content is one other branch (not one tensor: that keeps its own line).
  bool is_chain(std::size_t at) const {
    const Node& node = nodes_[at];
    if (node.branch.entry != nullptr || node.children.size() != 1) return false;
    return !nodes_[node.children.front()].children.empty();
  }

  std::size_t child(std::size_t parent, std::string_view name, std::size_t label) {
    // Neighbours in a file mostly lie in the same module.
    const std::vector<std::size_t>& known = nodes_[parent].children;
    if (!known.empty() && nodes_[known.back()].branch.name == name) return known.back();
    auto found = by_name_.find(name);
    if (found != by_name_.end()) return found->second;
    std::size_t at = nodes_.size();
    nodes_.emplace_back();
    nodes_[at].branch.name = name;
    nodes_[at].branch.label = name.substr(label);
    nodes_[parent].children.push_back(at);
    by_name_.emplace(nodes_[at].branch.name, at);
    return at;
  }

  void count(std::size_t at, const Entry& entry) {
    Branch& branch = nodes_[at].branch;
    ++branch.tensors;
    branch.elements += entry.numel();
    if (parameter_) branch.parameters += entry.numel();
    if (fresh_) branch.bytes += entry.byte_size();
    auto same = [&](const auto& pair) { return pair.first == entry.dtype; };
    auto found = std::find_if(branch.dtypes.begin(), branch.dtypes.end(), same);
    if (found == branch.dtypes.end()) found = branch.dtypes.insert(found, {entry.dtype, 0});
    ++found->second;
  }

  BranchOptions options_;
  std::deque<Node> nodes_;                                     // which never moves: by_name_ looks into it
  std::unordered_map<std::string_view, std::size_t> by_name_;  ///< a name with its dots says where it lies
  std::unordered_set<const ByteSource*> seen_;
  bool fresh_ = false;      ///< the tensor at hand has a source of its own
  bool parameter_ = false;  ///< it is a parameter
};

}  // namespace

std::vector<Branch> branches(const Value& root, const BranchOptions& options) {
  std::vector<NamedEntry> tensors = list_entries(root);
  Builder builder(options, tensors.size());
  for (const NamedEntry& tensor : tensors) builder.add(tensor);
  return builder.take();
}

}  // namespace ckpt
