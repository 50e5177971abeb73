#include "libckpt/format/dcp/metadata.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/format/corrupt.h"
#include "libckpt/format/torch/call_args.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/pickle_value.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

/// The last part of a class's name: modules were moved about between versions.
std::string_view class_of(const PickleGraph& graph, NodeId id) {
  if (id == kNoNode || graph.kind(id) != NodeKind::call) return {};
  std::string_view full = graph.symbol(graph.call(id).callable).full;
  if (!full.starts_with("torch.distributed.")) return {};
  return full.substr(full.rfind('.') + 1);
}

/// Attributes of an object of one of DCP's classes.
class Fields {
 public:
  Fields(const PickleGraph& graph, NodeId object, std::string_view wanted) : graph_(graph), class_(wanted) {
    if (class_of(graph, object) != wanted) {
      corrupt("the metadata has " + describe_node(graph, object) + " where a " + class_ + " is needed");
    }
    NodeId state = graph.call(object).state;
    if (state == kNoNode || graph.kind(state) != NodeKind::dict) corrupt("a " + class_ + " has no attributes");
    state_ = state;
  }

  /// kNoNode when it is not there: attributes that are None may be left out.
  NodeId find(std::string_view name) const {
    std::span<const NodeId> items = graph_.children(state_);
    NodeId found = kNoNode;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (graph_.kind(items[i]) == NodeKind::text && graph_.text(items[i]) == name) found = items[i + 1];
    }
    return found == kNoNode || graph_.kind(found) == NodeKind::none ? kNoNode : found;
  }
  NodeId at(std::string_view name, NodeKind kind) const {
    NodeId id = find(name);
    if (id == kNoNode || graph_.kind(id) != kind) wrong(name, id);
    return id;
  }
  core::Shape sizes(std::string_view name) const {
    NodeId id = find(name);
    if (id == kNoNode) wrong(name, id);
    core::Shape out = CallArgs(graph_, class_, std::span(&id, 1)).sizes(0);
    for (std::int64_t n : out) {
      if (n < 0) corrupt("a " + class_ + " has negative " + std::string(name));
    }
    return out;
  }
  std::uint64_t count(std::string_view name) const {
    std::int64_t value = graph_.node(at(name, NodeKind::integer)).integer;
    if (value < 0) corrupt("a " + class_ + " has a negative " + std::string(name));
    return static_cast<std::uint64_t>(value);
  }

 private:
  [[noreturn]] void wrong(std::string_view name, NodeId id) const {
    std::string found = id == kNoNode ? "nothing" : describe_node(graph_, id);
    corrupt("a " + class_ + " has " + found + " as its " + quote(name));
  }

  const PickleGraph& graph_;
  std::string class_;
  NodeId state_ = kNoNode;
};

struct Placed {
  core::Shape offset;  ///< of a chunk; empty for any other item
  DcpPlace place;
};

bool comes_before(const core::Shape& a, const core::Shape& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

/// Where the pieces of each item lie, by their offsets.
class Places {
 public:
  void add(std::string_view name, core::Shape offset, DcpPlace place) {
    by_name_[name].push_back({std::move(offset), std::move(place)});
  }
  void sort() {
    auto before = [](const Placed& a, const Placed& b) { return comes_before(a.offset, b.offset); };
    for (auto& [name, placed] : by_name_) {
      if (!std::is_sorted(placed.begin(), placed.end(), before)) std::sort(placed.begin(), placed.end(), before);
      auto twice = std::adjacent_find(placed.begin(), placed.end(),
                                      [](const Placed& a, const Placed& b) { return a.offset == b.offset; });
      if (twice != placed.end()) corrupt("the metadata places a part of " + quote(name) + " twice");
    }
  }
  /// Null where nothing says it. `guess` is where it most often is.
  const DcpPlace* find(std::string_view name, const core::Shape& offset, std::size_t guess = 0) const {
    auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    const std::vector<Placed>& placed = found->second;
    if (guess < placed.size() && placed[guess].offset == offset) return &placed[guess].place;
    auto at = std::lower_bound(
        placed.begin(), placed.end(), offset,
        [](const Placed& known, const core::Shape& wanted) { return comes_before(known.offset, wanted); });
    return at != placed.end() && at->offset == offset ? &at->place : nullptr;
  }

 private:
  std::unordered_map<std::string_view, std::vector<Placed>> by_name_;
};

void check_file_name(std::string_view name) {
  auto refuse = [&](const char* why) {
    throw Error(ErrorCode::refused, "the metadata names the file " + quote(name) + ", which " + why);
  };
  if (name.find_first_of("/\\") != std::string_view::npos) refuse("is not beside it");
  if (name.find('\0') != std::string_view::npos) refuse("holds a NUL byte");
  if (!name.ends_with(".distcp")) refuse("is not a .distcp file");
}

DcpPlace read_place(const PickleGraph& graph, NodeId id) {
  Fields info(graph, id, "_StorageInfo");
  DcpPlace place;
  place.file = graph.text(info.at("relative_path", NodeKind::text));
  check_file_name(place.file);
  place.offset = info.count("offset");
  place.length = info.count("length");
  NodeId transforms = info.find("transform_descriptors");
  if (transforms == kNoNode) return place;
  bool is_list = graph.kind(transforms) == NodeKind::list || graph.kind(transforms) == NodeKind::tuple;
  if (is_list && graph.children(transforms).empty()) return place;
  std::string named = is_list ? describe_node(graph, graph.children(transforms)[0]) : describe_node(graph, transforms);
  throw Error(ErrorCode::unsupported, "the data are transformed by " + named + ", which ckpt cannot undo");
}

Places read_places(const PickleGraph& graph, NodeId dict) {
  Places places;
  std::span<const NodeId> items = graph.children(dict);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    Fields index(graph, items[i], "MetadataIndex");
    core::Shape offset;
    if (index.find("offset") != kNoNode) offset = index.sizes("offset");
    places.add(graph.text(index.at("fqn", NodeKind::text)), std::move(offset), read_place(graph, items[i + 1]));
  }
  places.sort();
  return places;
}

/// (dtype, layout, requires_grad, memory format, pinned), or a dict of the same.
void read_properties(const PickleGraph& graph, NodeId object, DcpItem& item) {
  if (class_of(graph, object) != "TensorProperties") corrupt("a tensor has no TensorProperties");
  NodeId state = graph.call(object).state;
  NodeId dtype = kNoNode;
  NodeId grad = kNoNode;
  if (state != kNoNode && graph.kind(state) == NodeKind::tuple && graph.children(state).size() >= 3) {
    dtype = graph.children(state)[0];
    grad = graph.children(state)[2];
  } else {
    Fields fields(graph, object, "TensorProperties");
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

void read_tensor(const PickleGraph& graph, NodeId object, const Places& places, const Limits& limits, DcpItem& item) {
  Fields tensor(graph, object, "TensorStorageMetadata");
  item.is_tensor = true;
  NodeId properties = tensor.find("properties");
  if (properties == kNoNode) corrupt("a tensor has no TensorProperties");
  read_properties(graph, properties, item);
  item.shape = tensor.sizes("size");
  if (item.shape.size() > limits.max_rank) {
    throw Error(ErrorCode::refused, "a tensor has " + std::to_string(item.shape.size()) + " dimensions");
  }
  for (NodeId id : graph.children(tensor.at("chunks", NodeKind::list))) {
    Fields fields(graph, id, "ChunkStorageMetadata");
    DcpChunk chunk{fields.sizes("offsets"), fields.sizes("sizes"), std::nullopt};
    if (const DcpPlace* found = places.find(item.name, chunk.offsets, item.chunks.size())) chunk.place = *found;
    item.chunks.push_back(std::move(chunk));
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
  for (NodeId step : graph.children(id)) {
    if (graph.kind(step) == NodeKind::integer) {
      item.path.emplace_back(graph.node(step).integer);
    } else if (graph.kind(step) == NodeKind::text) {
      item.path.emplace_back(std::string(graph.text(step)));
    } else {
      corrupt("the path of the item holds " + describe_node(graph, step));
    }
  }
}

DcpItem read_item(const PickleGraph& graph, std::string name, NodeId object, const Places& places,
                  const Limits& limits) {
  DcpItem item;
  item.name = std::move(name);
  if (class_of(graph, object) == "TensorStorageMetadata") {
    read_tensor(graph, object, places, limits, item);
  } else if (class_of(graph, object) == "BytesStorageMetadata") {
    const DcpPlace* found = places.find(item.name, {});
    if (found == nullptr) corrupt("the metadata does not say where it lies");
    item.place = *found;
  } else {
    throw Error(ErrorCode::unsupported, "the item is " + describe_node(graph, object));
  }
  return item;
}

/// Older releases say none.
std::string read_save_id(const PickleGraph& graph, NodeId object) {
  if (class_of(graph, object) != "StorageMeta") return "";
  NodeId id = Fields(graph, object, "StorageMeta").find("save_id");
  return id != kNoNode && graph.kind(id) == NodeKind::text ? std::string(graph.text(id)) : "";
}

}  // namespace

bool is_dcp_metadata(const PickleGraph& graph) {
  return class_of(graph, graph.root()) == "Metadata";
}

PickleGraph read_dcp_pickle(const ByteSource& file, const OpenOptions& options) {
  if (file.size() > options.limits.max_pickle_bytes) {
    throw Error(ErrorCode::refused, "the metadata hold " + core::format_size(file.size()) + " where at most " +
                                        core::format_size(options.limits.max_pickle_bytes) + " are accepted");
  }
  PickleGraph graph = read_pickle(read_all(file), options.limits);
  if (graph.consumed() != file.size()) {
    corrupt("the metadata have " + core::format_size(file.size() - graph.consumed()) + " after their end");
  }
  return graph;
}

DcpMetadata read_dcp_metadata(const PickleGraph& graph, const OpenOptions& options) {
  OpenOptions strict = options;
  strict.look_past_foreign = false;
  require_known_symbols(graph, strict);
  Fields metadata(graph, graph.root(), "Metadata");
  if (metadata.find("storage_data") == kNoNode) corrupt("the metadata do not say where the data lie");
  Places places = read_places(graph, metadata.at("storage_data", NodeKind::dict));
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
      out.items.push_back(read_item(graph, std::string(name), items[i + 1], places, options.limits));
      if (auto path = paths.find(name); path != paths.end()) read_path(graph, path->second, out.items.back());
    });
  }
  return out;
}

}  // namespace ckpt::detail
