#include "libckpt/format/torch/storage_id.h"

#include <charconv>

#include "libckpt/format/torch/call_args.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::size_t kParts = 5;  ///< a sixth is the view of a legacy stream

CallArgs parts_of(const PickleGraph& graph, NodeId persistent) {
  NodeId id = graph.persistent_id(persistent);
  bool is_tuple = graph.kind(id) == NodeKind::tuple;
  std::size_t size = is_tuple ? graph.children(id).size() : 0;
  if (size != kParts && size != kParts + 1) {
    throw Error(ErrorCode::corrupt, "a persistent id is " + describe_node(graph, id) + " where a tuple of 5 is needed");
  }
  return {graph, "persistent id", graph.children(id)};
}

/// (key of the view, offset, size): streams of PyTorch before 0.4 list the parts of a storage that tensors saw.
std::optional<StorageRequest::Window> read_window(const PickleGraph& graph, const CallArgs& parts,
                                                  const StorageRequest& request) {
  if (parts.size() == kParts || parts.kind(kParts) == NodeKind::none) return std::nullopt;
  if (parts.kind(kParts) != NodeKind::tuple) parts.fail(kParts, "None or a tuple");
  if (request.untyped) {
    throw Error(ErrorCode::unsupported, "a persistent id is a view of untyped storage, which no PyTorch writes");
  }
  CallArgs view(graph, "view of a storage", graph.children(parts.id(kParts)));
  view.expect(3, 3);
  StorageRequest::Window window{view.integer(1), view.integer(2)};
  std::int64_t count = parts.integer(4);
  if (window.offset < 0 || window.size < 0 || window.offset > count || window.size > count - window.offset) {
    throw Error(ErrorCode::corrupt, "a view of " + std::to_string(window.size) + " elements at " +
                                        std::to_string(window.offset) + " reaches outside of its storage of " +
                                        std::to_string(count));
  }
  return window;
}

}  // namespace

const PickleSymbol& storage_class_of(const PickleGraph& graph, NodeId persistent) {
  return parts_of(graph, persistent).symbol_at(1);
}

StorageRequest read_storage_id(const PickleGraph& graph, NodeId persistent) {
  CallArgs parts = parts_of(graph, persistent);
  const PickleSymbol& storage = parts.symbol_at(1);
  if (parts.text(0) != "storage") parts.fail(0, "the text 'storage'");
  std::optional<DType> dtype = storage_class_dtype(storage.full);
  if (!dtype) parts.fail(1, "a storage class");
  StorageRequest out;
  out.dtype = *dtype;
  out.untyped = is_untyped_storage(storage.full);
  out.key = parts.text(2);
  out.location = parts.text(3);
  std::int64_t count = parts.integer(4);
  if (count < 0) parts.fail(4, "a count of elements");
  std::optional<std::uint64_t> bytes = core::byte_size(*dtype, static_cast<std::uint64_t>(count));
  if (!bytes) parts.fail(4, "a count of elements that fills whole bytes");
  out.bytes = *bytes;
  out.has_view_part = graph.children(graph.persistent_id(persistent)).size() > kParts;
  out.window = read_window(graph, parts, out);
  return out;
}

std::optional<std::int64_t> numbered_id(const PickleGraph& graph, NodeId persistent) {
  NodeId id = graph.persistent_id(persistent);
  if (graph.kind(id) == NodeKind::integer) return graph.node(id).integer;
  if (graph.kind(id) != NodeKind::text) return std::nullopt;
  std::string_view text = graph.text(id);
  std::int64_t number = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool whole = code == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

}  // namespace ckpt
