#include "libckpt/format/dcp/nested.h"

#include <algorithm>
#include <optional>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {

using core::Error;
using core::ErrorCode;

struct NestedBuilder::Node {
  std::optional<Value> leaf;
  std::vector<std::pair<PathStep, std::unique_ptr<Node>>> children;
  std::unordered_map<std::string, std::size_t> places;
  bool has_keys = false;
};

namespace {

std::string token_of(const PathStep& step) {
  if (const auto* text = std::get_if<std::string>(&step)) return "t" + *text;
  return "i" + std::to_string(std::get<std::int64_t>(step));
}

}  // namespace

NestedBuilder::NestedBuilder(const Limits& limits) : limits_(limits), root_(std::make_unique<Node>()) {
  root_->has_keys = true;
}

NestedBuilder::~NestedBuilder() = default;

void NestedBuilder::add(const std::vector<PathStep>& path, Value value) {
  if (path.size() > limits_.max_depth) {
    throw Error(ErrorCode::refused, "its path has " + core::format_count(path.size()) + " levels where at most " +
                                        core::format_count(limits_.max_depth) + " are accepted");
  }
  Node* node = root_.get();
  for (const PathStep& step : path) {
    if (node->leaf) throw Error(ErrorCode::corrupt, "its path leads through another item");
    auto [at, fresh] = node->places.try_emplace(token_of(step), node->children.size());
    if (fresh) node->children.emplace_back(step, std::make_unique<Node>());
    node->has_keys = node->has_keys || std::holds_alternative<std::string>(step);
    node = node->children[at->second].second.get();
  }
  if (path.empty() || node->leaf || !node->children.empty()) {
    throw Error(ErrorCode::corrupt, "its path is taken by another item");
  }
  node->leaf = std::move(value);
}

Value NestedBuilder::take() {
  return build(*root_);
}

/// Recursion is bounded: add() has checked the depth.
Value NestedBuilder::build(const Node& node) {
  if (node.leaf) return *node.leaf;
  if (!node.has_keys) return build_list(node);
  Dict dict;
  for (const auto& [step, child] : node.children) {
    const auto* text = std::get_if<std::string>(&step);
    dict.items.emplace_back(text != nullptr ? Value::text(*text) : Value::integer(std::get<std::int64_t>(step)),
                            build(*child));
  }
  return Value::dict(std::move(dict));
}

Value NestedBuilder::build_list(const Node& node) {
  std::int64_t size = 0;
  for (const auto& [step, child] : node.children) size = std::max(size, std::get<std::int64_t>(step));
  filled_ += static_cast<std::uint64_t>(size) + 1;
  bool negative = std::any_of(node.children.begin(), node.children.end(),
                              [](const auto& child) { return std::get<std::int64_t>(child.first) < 0; });
  if (negative || size >= INT64_MAX || filled_ > limits_.max_tensors) {
    throw Error(ErrorCode::refused, "the metadata describe a list of " + std::to_string(size) + " places");
  }
  Value::List items(static_cast<std::size_t>(size) + 1);
  for (const auto& [step, child] : node.children) {
    items[static_cast<std::size_t>(std::get<std::int64_t>(step))] = build(*child);
  }
  return Value::list(std::move(items));
}

}  // namespace ckpt::detail
