#include "tools/ckpt/view/tensor_tree.h"

#include <algorithm>
#include <unordered_map>

#include "tools/ckpt/output/order.h"

namespace cli {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool has_text(std::string_view name, std::string_view text) {
  auto found = std::search(name.begin(), name.end(), text.begin(), text.end(),
                           [](char a, char b) { return lower(a) == lower(b); });
  return found != name.end();
}

constexpr std::uint32_t kDeepest = 64;  // parts of a name; what is deeper stays together

bool differs(Sameness sameness) {
  return sameness != Sameness::unknown && sameness != Sameness::equal;
}

}  // namespace

std::string_view name(ViewOrder order) {
  constexpr std::string_view kNames[] = {"file", "name", "size", "norm"};
  return kNames[static_cast<std::size_t>(order)];
}

std::vector<ViewTensor> alone(const std::vector<ckpt::NamedEntry>& entries) {
  std::vector<ViewTensor> out;
  out.reserve(entries.size());
  for (const ckpt::NamedEntry& entry : entries) out.push_back({entry.name, entry.entry});
  return out;
}

std::vector<ViewTensor> beside(const std::vector<ckpt::NamedEntry>& first,
                               const std::vector<ckpt::NamedEntry>& second) {
  std::vector<ViewTensor> out = alone(first);
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < first.size(); ++i) places.emplace(first[i].name, i);
  for (ViewTensor& tensor : out) tensor.sameness = Sameness::only_first;
  for (const ckpt::NamedEntry& entry : second) {
    auto found = places.find(entry.name);
    if (found == places.end()) {
      out.push_back({entry.name, nullptr, entry.entry, {}, Sameness::only_second});
      continue;
    }
    ViewTensor& tensor = out[found->second];
    tensor.second = entry.entry;
    const bool alike = ckpt::value_shape(*tensor.first) == ckpt::value_shape(*tensor.second) &&
                       ckpt::type_name(*tensor.first) == ckpt::type_name(*tensor.second);
    tensor.sameness = alike ? Sameness::unknown : Sameness::other_form;
  }
  return out;
}

TensorTree::TensorTree(std::vector<ViewTensor> tensors) : tensors_(std::move(tensors)), nodes_(1) {
  nodes_[0].is_open = true;
  std::unordered_map<std::string, std::uint32_t> places;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const std::string& all = tensors_[t].name;
    std::uint32_t at = 0;
    for (std::size_t begin = 0; begin <= all.size();) {
      const std::size_t end =
          nodes_[at].depth + 1 >= kDeepest ? all.size() : std::min(all.find('.', begin), all.size());
      auto [found, is_new] = places.try_emplace(all.substr(0, end), static_cast<std::uint32_t>(nodes_.size()));
      if (is_new) {
        nodes_.push_back({.label = all.substr(begin, end - begin), .parent = at, .depth = nodes_[at].depth + 1});
        nodes_[at].children.push_back(found->second);
      }
      at = found->second;
      begin = end + 1;
    }
    nodes_[at].tensor = static_cast<std::int64_t>(t);
  }
  // A chain of modules with one child each, as 'model.' above everything, says nothing while it is folded.
  for (std::uint32_t at = 0; nodes_[at].children.size() == 1; at = nodes_[at].children[0]) nodes_[at].is_open = true;
  for (std::uint32_t i = 1; i < nodes_.size(); ++i) nodes_[i].is_open |= nodes_[nodes_[i].parent].children.size() == 1;
  add_up();
  list_rows();
}

void TensorTree::add_up() {
  for (Node& node : nodes_) node.tensors = node.bytes = node.different = 0;
  for (Node& node : nodes_) node.squares = 0;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    if (node.tensor >= 0) {
      const ViewTensor& tensor = tensors_[static_cast<std::size_t>(node.tensor)];
      ++node.tensors;
      node.bytes += tensor.entry().byte_size();
      node.different += differs(tensor.sameness) ? 1 : 0;
      if (tensor.norm && *tensor.norm >= 0) node.squares += *tensor.norm * *tensor.norm;
    }
    if (i == 0) break;
    Node& parent = nodes_[node.parent];
    parent.tensors += node.tensors;
    parent.bytes += node.bytes;
    parent.different += node.different;
    parent.squares += node.squares;
  }
}

void TensorTree::note_changes() {
  add_up();
  sort(order_);
}

std::string TensorTree::full_name(std::uint32_t index) const {
  std::string out = nodes_[index].label;
  for (std::uint32_t at = nodes_[index].parent; at != 0; at = nodes_[at].parent) out = nodes_[at].label + "." + out;
  return out;
}

template <class Visit>
void TensorTree::walk(std::uint32_t from, const Visit& visit) const {
  std::vector<std::uint32_t> stack = {from};
  while (!stack.empty()) {
    const std::uint32_t at = stack.back();
    stack.pop_back();
    if (!visit(at)) continue;
    const std::vector<std::uint32_t>& children = nodes_[at].children;
    stack.insert(stack.end(), children.rbegin(), children.rend());
  }
}

std::vector<std::size_t> TensorTree::tensors_below(std::uint32_t index) const {
  std::vector<std::size_t> out;
  walk(index, [&](std::uint32_t at) {
    if (nodes_[at].tensor >= 0) out.push_back(static_cast<std::size_t>(nodes_[at].tensor));
    return true;
  });
  return out;
}

void TensorTree::list_rows() {
  rows_.clear();
  walk(0, [&](std::uint32_t at) {
    if (only_different_ && nodes_[at].different == 0) return at == 0;
    if (at != 0) rows_.push_back(at);
    return nodes_[at].is_open;
  });
}

void TensorTree::open(std::uint32_t index) {
  nodes_[index].is_open = true;
  list_rows();
}

void TensorTree::fold(std::uint32_t index) {
  nodes_[index].is_open = index == 0;
  list_rows();
}

void TensorTree::open_all() {
  for (Node& node : nodes_) node.is_open = true;
  list_rows();
}

void TensorTree::fold_all() {
  for (Node& node : nodes_) node.is_open = false;
  nodes_[0].is_open = true;
  list_rows();
}

void TensorTree::sort(ViewOrder order) {
  order_ = order;
  auto before = [&](std::uint32_t a, std::uint32_t b) {
    const Node& left = nodes_[a];
    const Node& right = nodes_[b];
    if (order == ViewOrder::size && left.bytes != right.bytes) return left.bytes > right.bytes;
    if (order == ViewOrder::norm && left.squares != right.squares) return left.squares > right.squares;
    if (order == ViewOrder::name) return natural_less(left.label, right.label);
    return a < b;  // as they came
  };
  for (Node& node : nodes_) std::sort(node.children.begin(), node.children.end(), before);
  list_rows();
}

void TensorTree::show_differences(bool only) {
  only_different_ = only;
  list_rows();
}

std::optional<std::uint32_t> TensorTree::find(std::string_view text, std::uint32_t from, bool backwards) {
  std::vector<std::uint32_t> all;
  walk(0, [&](std::uint32_t at) {
    if (at != 0 && (!only_different_ || nodes_[at].different > 0)) all.push_back(at);
    return true;
  });
  if (all.empty()) return std::nullopt;
  if (backwards) std::reverse(all.begin(), all.end());
  const auto start = std::find(all.begin(), all.end(), from);
  const std::size_t first = start == all.end() ? 0 : static_cast<std::size_t>(start - all.begin()) + 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint32_t at = all[(first + i) % all.size()];
    // What a module's name has, all below it has too: those are no finds of their own.
    const std::string whole = full_name(at);
    const std::size_t above = whole.size() - nodes_[at].label.size();
    if (!has_text(whole, text) || (above > 0 && has_text(std::string_view(whole).substr(0, above - 1), text))) continue;
    for (std::uint32_t up = nodes_[at].parent; up != 0; up = nodes_[up].parent) nodes_[up].is_open = true;
    list_rows();
    return at;
  }
  return std::nullopt;
}

std::size_t TensorTree::row_of(std::uint32_t index) const {
  for (std::uint32_t at = index; at != 0; at = nodes_[at].parent) {
    auto found = std::find(rows_.begin(), rows_.end(), at);
    if (found != rows_.end()) return static_cast<std::size_t>(found - rows_.begin());
  }
  return 0;
}

}  // namespace cli
