#include "libckpt/format/dcp/metadata.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/format/corrupt.h"
#include "libckpt/format/dcp/fields.h"
#include "libckpt/format/dcp/metadata_stream.h"
#include "libckpt/format/dcp/objects.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/pickle_value.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

bool comes_before(const core::Shape& a, const core::Shape& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

/// Where the pieces of each item lie, by their offsets. There are as many as there are pieces, so they stay where they
/// are, and only their numbers are here.
class Places {
 public:
  explicit Places(const PickleGraph& graph) : graph_(graph) {}

  /// Checks both.
  void add(NodeId index, NodeId info) {
    std::string_view name = read_dcp_index(graph_, index).name;
    read_dcp_place(graph_, info);
    by_name_[name].push_back({index, info});
  }
  void sort() {
    auto before = [&](const Placed& a, const Placed& b) { return comes_before(offset(a), offset(b)); };
    for (auto& [name, placed] : by_name_) {
      if (!std::is_sorted(placed.begin(), placed.end(), before)) std::sort(placed.begin(), placed.end(), before);
      auto twice = std::adjacent_find(placed.begin(), placed.end(),
                                      [&](const Placed& a, const Placed& b) { return offset(a) == offset(b); });
      if (twice != placed.end()) corrupt("the metadata places a part of " + quote(name) + " twice");
    }
  }
  /// nullopt where nothing says it. `guess` is where it most often is.
  std::optional<DcpPlace> find(std::string_view name, const core::Shape& wanted, std::size_t guess = 0) const {
    auto found = by_name_.find(name);
    if (found == by_name_.end()) return std::nullopt;
    const std::vector<Placed>& placed = found->second;
    if (guess < placed.size() && offset(placed[guess]) == wanted) return read_dcp_place(graph_, placed[guess].info);
    auto at = std::lower_bound(placed.begin(), placed.end(), wanted, [&](const Placed& known, const core::Shape& from) {
      return comes_before(offset(known), from);
    });
    if (at == placed.end() || !(offset(*at) == wanted)) return std::nullopt;
    return read_dcp_place(graph_, at->info);
  }

 private:
  struct Placed {
    NodeId index;
    NodeId info;
  };
  core::Shape offset(const Placed& placed) const { return read_dcp_index(graph_, placed.index).offset; }

  const PickleGraph& graph_;
  std::unordered_map<std::string_view, std::vector<Placed>> by_name_;
};

/// (dtype, layout, requires_grad, memory format, pinned), or a dict of the same.
void read_properties(const PickleGraph& graph, NodeId object, DcpItem& item) {
  if (dcp_class(graph, object) != "TensorProperties") corrupt("a tensor has no TensorProperties");
  NodeId state = graph.call(object).state;
  NodeId dtype = kNoNode;
  NodeId grad = kNoNode;
  if (state != kNoNode && graph.kind(state) == NodeKind::tuple && graph.children(state).size() >= 3) {
    dtype = graph.children(state)[0];
    grad = graph.children(state)[2];
  } else {
    DcpFields fields(graph, object, "TensorProperties");
    dtype = fields.find("dtype");
    grad = fields.find("requires_grad");
  }
  std::optional<core::DType> known;
  if (dtype != kNoNode && graph.kind(dtype) == NodeKind::global) known = dtype_symbol(graph.symbol(dtype).full);
  if (!known) {
    throw Error(ErrorCode::unsupported,
                "a tensor is of " + (dtype == kNoNode ? std::string("no dtype") : describe_node(graph, dtype)));
  }
  item.dtype = *known;
  item.requires_grad = grad != kNoNode && graph.kind(grad) == NodeKind::boolean && graph.node(grad).integer != 0;
}

void read_tensor(const PickleGraph& graph, const OpenOptions& options, NodeId object, const Places& places,
                 DcpItem& item) {
  DcpFields tensor(graph, object, "TensorStorageMetadata");
  item.is_tensor = true;
  NodeId properties = tensor.find("properties");
  if (properties == kNoNode) corrupt("a tensor has no TensorProperties");
  read_properties(graph, properties, item);
  item.shape = tensor.sizes("size");
  if (item.shape.size() > options.limits.max_rank) {
    throw Error(ErrorCode::refused, "a tensor has " + std::to_string(item.shape.size()) + " dimensions");
  }
  std::span<const NodeId> chunks = graph.children(tensor.at("chunks", NodeKind::list));
  for (NodeId id : chunks) {
    DcpChunk chunk = read_dcp_chunk(graph, id);
    chunk.place = places.find(item.name, chunk.offsets, item.chunks.size());
    item.chunks.push_back(chunk);
  }
}

/// Where the original tree had each item.
std::unordered_map<std::string_view, NodeId> read_paths(const PickleGraph& graph, NodeId planner_data) {
  std::unordered_map<std::string_view, NodeId> paths;
  if (planner_data == kNoNode || graph.kind(planner_data) != NodeKind::dict) return paths;
  std::span<const NodeId> items = graph.children(planner_data);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (graph.kind(items[i]) == NodeKind::text) paths.insert_or_assign(graph.text(items[i]), items[i + 1]);
  }
  return paths;
}

void read_path(const PickleGraph& graph, NodeId id, DcpItem& item) {
  if (graph.kind(id) != NodeKind::tuple && graph.kind(id) != NodeKind::list) return;
  std::size_t text = 0;
  for (NodeId step : graph.children(id)) {
    if (graph.kind(step) == NodeKind::text) text += graph.text(step).size();
    if (text > most_path_text(item.name)) throw Error(ErrorCode::refused, "its path is far longer than its name");
    if (graph.kind(step) == NodeKind::integer) {
      item.path.emplace_back(graph.node(step).integer);
    } else if (graph.kind(step) == NodeKind::text) {
      item.path.emplace_back(std::string(graph.text(step)));
    } else {
      corrupt("the path of the item holds " + describe_node(graph, step));
    }
  }
}

DcpItem read_item(const PickleGraph& graph, const OpenOptions& options, std::string name, NodeId object,
                  const Places& places) {
  DcpItem item;
  item.name = std::move(name);
  if (dcp_class(graph, object) == "TensorStorageMetadata") {
    read_tensor(graph, options, object, places, item);
  } else if (dcp_class(graph, object) == "BytesStorageMetadata") {
    item.place = places.find(item.name, {});
    if (!item.place) corrupt("the metadata does not say where it lies");
  } else {
    throw Error(ErrorCode::unsupported, "the item is " + describe_node(graph, object));
  }
  return item;
}

/// Older releases say none.
std::string read_save_id(const PickleGraph& graph, NodeId object) {
  if (dcp_class(graph, object) != "StorageMeta") return "";
  NodeId id = DcpFields(graph, object, "StorageMeta").find("save_id");
  return id != kNoNode && graph.kind(id) == NodeKind::text ? std::string(graph.text(id)) : "";
}

void check_size(const ByteSource& file, const OpenOptions& options) {
  if (file.size() <= options.limits.max_pickle_bytes) return;
  throw Error(ErrorCode::refused, "the metadata hold " + core::format_size(file.size()) + " where at most " +
                                      core::format_size(options.limits.max_pickle_bytes) + " are accepted");
}

void check_end(const ByteSource& file, const PickleGraph& graph) {
  if (graph.consumed() == file.size()) return;
  corrupt("the metadata have " + core::format_size(file.size() - graph.consumed()) + " after their end");
}

}  // namespace

DcpMetadata read_dcp_metadata(const PickleGraph& graph, const OpenOptions& options) {
  OpenOptions strict = options;
  strict.look_past_foreign = false;
  require_known_symbols(graph, strict);
  DcpFields metadata(graph, graph.root(), "Metadata");
  if (metadata.find("storage_data") == kNoNode) corrupt("the metadata do not say where the data lie");
  Places places(graph);
  std::span<const NodeId> placed = graph.children(metadata.at("storage_data", NodeKind::dict));
  for (std::size_t i = 0; i + 1 < placed.size(); i += 2) places.add(placed[i], placed[i + 1]);
  places.sort();
  auto paths = read_paths(graph, metadata.find("planner_data"));
  DcpMetadata out;
  out.save_id = read_save_id(graph, metadata.find("storage_meta"));
  std::unordered_map<std::string_view, bool> seen;
  std::span<const NodeId> items = graph.children(metadata.at("state_dict_metadata", NodeKind::dict));
  if (items.size() / 2 > options.limits.max_tensors) {
    throw Error(ErrorCode::refused, "the metadata list more items than allowed");
  }
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (graph.kind(items[i]) != NodeKind::text) corrupt("the metadata list " + describe_node(graph, items[i]));
    std::string_view name = graph.text(items[i]);
    core::with_context(quote(name), [&] {
      if (!seen.emplace(name, true).second) corrupt("the metadata list it twice");
      out.items.push_back(read_item(graph, options, std::string(name), items[i + 1], places));
      if (auto path = paths.find(name); path != paths.end()) read_path(graph, path->second, out.items.back());
    });
  }
  return out;
}

bool is_dcp_metadata(const PickleGraph& graph) {
  return dcp_class(graph, graph.root()) == "Metadata";
}

PickleGraph read_dcp_pickle(const ByteSource& file, const OpenOptions& options) {
  check_size(file, options);
  PickleGraph graph = read_pickle(read_all(file), options.limits);
  check_end(file, graph);
  return graph;
}

DcpMetadata read_dcp_metadata(const ByteSource& file, const OpenOptions& options) {
  check_size(file, options);
  if (std::optional<DcpMetadata> read = stream_dcp_metadata(file, options)) return std::move(*read);
  return read_dcp_metadata(read_dcp_pickle(file, options), options);
}

}  // namespace ckpt::detail
