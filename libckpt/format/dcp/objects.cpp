#include "libckpt/format/dcp/objects.h"

#include <algorithm>
#include <array>

#include "libckpt/format/corrupt.h"
#include "libckpt/format/dcp/fields.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

constexpr std::string_view kChunk = "ChunkStorageMetadata";
constexpr std::string_view kIndex = "MetadataIndex";
constexpr std::string_view kInfo = "_StorageInfo";

void check_file_name(std::string_view name) {
  auto refuse = [&](const char* why) {
    throw Error(ErrorCode::refused, "the metadata names the file " + quote(name) + ", which " + why);
  };
  if (name.find_first_of("/\\") != std::string_view::npos) refuse("is not beside it");
  if (name.find('\0') != std::string_view::npos) refuse("holds a NUL byte");
  if (!name.ends_with(".distcp")) refuse("is not a .distcp file");
}

void check_untransformed(const PickleGraph& graph, NodeId transforms) {
  if (transforms == kNoNode) return;
  bool is_list = graph.kind(transforms) == NodeKind::list || graph.kind(transforms) == NodeKind::tuple;
  if (is_list && graph.children(transforms).empty()) return;
  std::string named = is_list ? describe_node(graph, graph.children(transforms)[0]) : describe_node(graph, transforms);
  throw Error(ErrorCode::unsupported, "the data are transformed by " + named + ", which ckpt cannot undo");
}

/// Nothing but these attributes, so that nothing is lost that a later look would find.
bool has_only(const PickleGraph& graph, NodeId object, std::span<const std::string_view> known) {
  const PickleCall& call = graph.call(object);
  bool plain = graph.children(call.args).empty() && call.kwargs == kNoNode && call.appended == kNoNode &&
               call.items == kNoNode && graph.kind(call.state) == NodeKind::dict;
  if (!plain) return false;
  std::span<const NodeId> items = graph.children(call.state);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (graph.kind(items[i]) != NodeKind::text) return false;
    std::string_view name = graph.text(items[i]);
    if (std::find(known.begin(), known.end(), name) == known.end()) return false;
    NodeKind kind = graph.kind(items[i + 1]);
    if (name == "index" && kind != NodeKind::integer && kind != NodeKind::none) return false;
  }
  return true;
}

}  // namespace

/// Numbers of as few bytes as they need, seven bits each.
class DcpObjects::Packing {
 public:
  explicit Packing(std::string& out) : out_(out) {}
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
    out_.push_back(static_cast<char>(value));
  }
  void shape(const core::Shape& shape) {
    number(shape.size());
    for (std::int64_t n : shape) number(static_cast<std::uint64_t>(n));
  }
  /// Where it stands in the pickle.
  void text(const PickleGraph& graph, std::string_view text) {
    std::string_view all = core::as_text(graph.pickle());
    bool inside = text.data() >= all.data() && text.data() + text.size() <= all.data() + all.size();
    if (!inside) corrupt("a text was made over");
    number(static_cast<std::uint64_t>(text.data() - all.data()));
    number(text.size());
  }

 private:
  std::string& out_;
};

class DcpObjects::Unpacking {
 public:
  /// Errors: Error(corrupt) where an object of another class was taken.
  Unpacking(const std::string& packed, const PickleGraph& graph, NodeId id, std::string_view wanted)
      : at_(packed.data() + graph.folded(id)) {
    if (*at_++ == wanted[0]) return;
    corrupt("the metadata has " + describe_node(graph, id) + " where a " + std::string(wanted) + " is needed");
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      auto byte = static_cast<unsigned char>(*at_++);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  core::Shape shape() {
    core::Shape shape(static_cast<std::size_t>(number()), 0);
    for (std::int64_t& n : shape) n = static_cast<std::int64_t>(number());
    return shape;
  }
  std::string_view text(const PickleGraph& graph) {
    std::uint64_t begin = number();
    return core::as_text(graph.pickle()).substr(begin, number());
  }

 private:
  const char* at_;
};

bool DcpObjects::wants(const PickleSymbol& symbol) {
  bool named = symbol.name == kChunk || symbol.name == kIndex || symbol.name == kInfo;
  return named && symbol.full.starts_with("torch.distributed.");
}

std::optional<std::uint64_t> DcpObjects::take(const PickleGraph& graph, NodeId object) {
  constexpr std::array<std::string_view, 7> kKnown = {"offsets", "sizes",         "fqn",   "offset",
                                                      "index",   "relative_path", "length"};
  const std::string_view name = dcp_class(graph, object);
  const std::size_t at = packed_.size();
  if (name.empty() || !has_only(graph, object, kKnown)) return std::nullopt;
  packed_.push_back(name[0]);
  Packing out(packed_);
  try {
    if (name == kChunk) {
      DcpChunk chunk = this->chunk(graph, object);
      out.shape(chunk.offsets);
      out.shape(chunk.sizes);
    } else if (name == kIndex) {
      DcpIndex index = this->index(graph, object);
      out.text(graph, index.name);
      out.shape(index.offset);
    } else {
      DcpFields info(graph, object, kInfo);
      DcpPlace place = this->place(graph, object);
      out.text(graph, graph.text(info.at("relative_path", NodeKind::text)));
      out.number(place.offset);
      out.number(place.length);
    }
  } catch (const Error&) {  // who reads the graph says what is wrong, and of which item
    packed_.resize(at);
    return std::nullopt;
  }
  return at;
}

DcpChunk DcpObjects::chunk(const PickleGraph& graph, NodeId id) const {
  DcpChunk chunk;
  if (graph.kind(id) == NodeKind::folded) {
    Unpacking in(packed_, graph, id, kChunk);
    chunk.offsets = in.shape();
    chunk.sizes = in.shape();
    return chunk;
  }
  DcpFields fields(graph, id, kChunk);
  chunk.offsets = fields.sizes("offsets");
  chunk.sizes = fields.sizes("sizes");
  return chunk;
}

DcpIndex DcpObjects::index(const PickleGraph& graph, NodeId id) const {
  DcpIndex index;
  if (graph.kind(id) == NodeKind::folded) {
    Unpacking in(packed_, graph, id, kIndex);
    index.name = in.text(graph);
    index.offset = in.shape();
    return index;
  }
  DcpFields fields(graph, id, kIndex);
  if (fields.find("offset") != kNoNode) index.offset = fields.sizes("offset");
  index.name = graph.text(fields.at("fqn", NodeKind::text));
  return index;
}

DcpPlace DcpObjects::place(const PickleGraph& graph, NodeId id) const {
  DcpPlace place;
  if (graph.kind(id) == NodeKind::folded) {
    Unpacking in(packed_, graph, id, kInfo);
    place.file = in.text(graph);
    place.offset = in.number();
    place.length = in.number();
    return place;
  }
  DcpFields info(graph, id, kInfo);
  place.file = graph.text(info.at("relative_path", NodeKind::text));
  check_file_name(place.file);
  place.offset = info.count("offset");
  place.length = info.count("length");
  check_untransformed(graph, info.find("transform_descriptors"));
  return place;
}

}  // namespace ckpt::detail
