#include "libckpt/keras/keras_config.h"

#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

/// A member of an object.
std::optional<JsonView> member(const JsonView& object, std::string_view name) {
  if (!object.has(name)) return std::nullopt;
  return object.at(name);
}

std::string member_text(const JsonView& object, std::string_view name) {
  const std::optional<JsonView> found = member(object, name);
  return found && found->is(JsonView::Kind::text) ? std::string(found->as_text()) : "";
}

KerasNode node_of(const JsonView& whole);

/// Layers in the order of the model, which counts those of one class.
std::vector<KerasNode> nodes_of(const JsonView& list) {
  std::vector<KerasNode> nodes;
  std::map<std::string, int> counts;
  for (const JsonView& item : list.items()) {
    KerasNode node = node_of(item);
    const int before = counts[node.container]++;
    if (before > 0) node.container += "_" + std::to_string(before);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// ["conv1", 0, 0], which is "keras_history" in Keras 3.
bool is_history(const std::vector<JsonView>& items) {
  return items.size() >= 3 && items[0].is(JsonView::Kind::text) && items[1].is_count() && items[2].is_count();
}

std::vector<std::vector<KerasInput>> calls_of(const JsonView& whole) {
  std::vector<std::vector<KerasInput>> calls;
  const std::optional<JsonView> nodes = member(whole, "inbound_nodes");
  if (!nodes || !nodes->is(JsonView::Kind::array)) return calls;
  for (const JsonView& node : nodes->items()) take_keras_inputs(node, calls.emplace_back());
  return calls;
}

/// Keras 3 has a registered name for classes that are not its own layers, which may be called like those.
bool is_custom(const JsonView& whole, const std::string& kind) {
  const bool model = kind == "Functional" || kind == "Sequential" || kind == "Model";
  return !model && kind.find('>') == std::string::npos && !member_text(whole, "registered_name").empty();
}

/// What the file of weights calls layers of a class: by the name of the class in Keras' source, which one has not in a
/// configuration.
std::string container_of(const std::string& kind) {
  return keras_snake_case(kind == "GroupQueryAttention" ? "GroupedQueryAttention" : kind);
}

/// RNN around one cell is the layer of that cell's kind: the configuration of the cell goes with its own.
void take_cell(KerasNode& node) {
  const std::optional<JsonView> cell = node.kind == "RNN" ? member(node.config, "cell") : std::nullopt;
  if (!cell || !cell->is(JsonView::Kind::object) || !member_text(*cell, "registered_name").empty()) return;
  const std::string kind = member_text(*cell, "class_name");
  const std::optional<JsonView> config = member(*cell, "config");
  if (!config || (kind != "LSTMCell" && kind != "GRUCell" && kind != "SimpleRNNCell")) return;
  node.kind = kind.substr(0, kind.size() - 4);
  node.cell = *config;
}

/// Its depth is that of the JSON text, which the parser bounds.
KerasNode node_of(const JsonView& whole) {
  KerasNode node;
  node.whole = whole;
  node.config = whole;  // which says nothing of a layer
  node.kind = member_text(whole, "class_name");
  node.container = container_of(node.kind);
  if (is_custom(whole, node.kind)) node.kind = "Custom>" + node.kind;
  const std::optional<JsonView> config = member(whole, "config");
  if (!config || !config->is(JsonView::Kind::object)) return node;
  node.config = *config;
  node.name = member_text(*config, "name");
  if (node.name.empty()) node.name = member_text(whole, "name");
  take_cell(node);
  node.calls = calls_of(whole);
  const std::optional<JsonView> layers = member(*config, "layers");
  if (layers && layers->is(JsonView::Kind::array)) node.children = nodes_of(*layers);
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    node.names.emplace(node.children[i].name, i);
    node.containers.emplace(node.children[i].container, i);
  }
  for (const char* field : {"layer", "backward_layer"}) {
    const std::optional<JsonView> inside = member(*config, field);
    if (inside && inside->is(JsonView::Kind::object)) node.wrapped.push_back(node_of(*inside));
  }
  return node;
}

bool is_number(const JsonView& view) {
  using Kind = JsonView::Kind;
  return view.is(Kind::integer) || view.is(Kind::unsigned_integer) || view.is(Kind::real);
}

}  // namespace

const KerasNode* KerasNode::by_container(std::string_view wanted) const {
  auto found = containers.find(wanted);
  return found == containers.end() ? nullptr : &children[found->second];
}

const KerasNode* KerasNode::by_name(std::string_view wanted) const {
  auto found = names.find(wanted);
  return found == names.end() ? nullptr : &children[found->second];
}

std::size_t KerasNode::inputs() const {
  std::size_t count = 0;
  for (const std::vector<KerasInput>& call : calls) count += call.size();
  return count;
}

std::optional<JsonView> KerasNode::said(std::string_view field) const {
  if (std::optional<JsonView> own = member(config, field)) return own;
  return cell ? member(*cell, field) : std::nullopt;
}

std::optional<bool> KerasNode::flag(std::string_view field) const {
  const std::optional<JsonView> found = said(field);
  if (!found || !found->is(JsonView::Kind::boolean)) return std::nullopt;
  return found->as_boolean();
}

std::optional<double> KerasNode::number(std::string_view field) const {
  const std::optional<JsonView> found = said(field);
  if (!found || !is_number(*found)) return std::nullopt;
  return found->as_real();
}

std::string KerasNode::text(std::string_view field) const {
  const std::optional<JsonView> found = said(field);
  if (!found) return "";
  if (found->is(JsonView::Kind::object)) return member_text(*found, "class_name");
  return found->is(JsonView::Kind::text) ? std::string(found->as_text()) : "";
}

bool KerasNode::says_other(std::string_view field, std::string_view wanted) const {
  const std::optional<JsonView> found = said(field);
  return found.has_value() && text(field) != wanted;
}

std::vector<std::int64_t> KerasNode::integers(std::string_view field) const {
  std::vector<std::int64_t> out;
  const std::optional<JsonView> found = said(field);
  if (!found || !found->is(JsonView::Kind::array)) return out;
  for (const JsonView& item : found->items()) out.push_back(item.is_count() ? item.as_integer() : -1);
  return out;
}

std::optional<std::int64_t> KerasNode::axis() const {
  std::optional<JsonView> found = member(config, "axis");
  if (!found) return -1;
  if (found->is(JsonView::Kind::array)) {
    const std::vector<JsonView> items = found->items();
    if (items.size() != 1) return std::nullopt;
    found = items[0];
  }
  if (!found->is(JsonView::Kind::integer)) return std::nullopt;
  return found->as_integer();
}

std::size_t KerasNode::input_rank() const {
  const std::optional<JsonView> build = member(whole, "build_config");
  const std::optional<JsonView> shape = build ? member(*build, "input_shape") : std::nullopt;
  return shape && shape->is(JsonView::Kind::array) ? shape->items().size() : 0;
}

KerasConfig::KerasConfig(JsonDocument document) : document_(std::move(document)), root_(node_of(document_.root())) {}

std::optional<KerasConfig> KerasConfig::read(const Checkpoint& checkpoint) {
  for (const auto& [key, text] : checkpoint.metadata) {
    if (key != "config.json" && key != "model_config") continue;
    try {
      KerasConfig config(JsonDocument::parse(std::string_view(text)));
      if (!config.root().children.empty()) return config;
    } catch (const core::Error&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

void take_keras_inputs(const JsonView& view, std::vector<KerasInput>& out) {
  constexpr std::size_t kMostInputs = 512;
  using Kind = JsonView::Kind;
  if (view.is(Kind::object)) {
    for (const char* field : {"config", "keras_history", "args"}) {
      if (view.has(field)) take_keras_inputs(view.at(field), out);
    }
  }
  if (!view.is(Kind::array) || out.size() >= kMostInputs) return;
  const std::vector<JsonView> items = view.items();
  if (is_history(items)) {
    const auto call = static_cast<std::size_t>(items[1].as_integer());
    out.push_back({std::string(items[0].as_text()), call, items[2].as_integer()});
    return;
  }
  for (const JsonView& item : items) take_keras_inputs(item, out);
}

std::string keras_snake_case(std::string_view name) {
  std::string parted;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool word = i > 0 && is_upper(name[i]) && i + 1 < name.size() && is_lower(name[i + 1]);
    if (word || (i > 0 && is_lower(name[i - 1]) && is_upper(name[i]))) parted += '_';
    parted += is_upper(name[i]) ? static_cast<char>(name[i] - 'A' + 'a') : name[i];
  }
  return parted;
}

}  // namespace ckpt::detail
