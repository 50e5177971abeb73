#pragma once
// Persistent ids: what a pickle says of a storage that lies outside of it: element type, key, device tag, length. Every
// torch container writes them in one form. Thread safety: pure. Use: StorageRequest wanted = read_storage_id(graph,
// id);

#include <optional>
#include <string>

#include "libckpt/format/torch/pickle_graph.h"
#include "libcore/base/dtype.h"

namespace ckpt {

/// What a persistent id says of a storage.
struct StorageRequest {
  core::DType dtype = core::DType::u8;  ///< of the elements; for untyped storage that of the tensor that uses it
  bool untyped = false;
  std::string key;
  std::string location;
  std::uint64_t bytes = 0;  ///< length that the element count promises
  /// Legacy streams: tensors see only this part of the storage. In elements.
  struct Window {
    std::int64_t offset = 0;
    std::int64_t size = 0;
  };
  std::optional<Window> window;
  bool has_view_part = false;  ///< the id has a sixth part, as in legacy streams; it may be None
};

/// ('storage', class, key, location, count) or the same with a view behind it. REQUIRES: `persistent` is a persistent
/// node. Errors: Error(corrupt) naming what is no such tuple; Error(unsupported) for a view of untyped storage.
StorageRequest read_storage_id(const PickleGraph& graph, NodeId persistent);
/// The storage class that a persistent id names. Errors: Error(corrupt).
const PickleSymbol& storage_class_of(const PickleGraph& graph, NodeId persistent);
/// The number that a persistent id of a tar archive is (an integer, or text of digits); nullopt for a tuple.
std::optional<std::int64_t> numbered_id(const PickleGraph& graph, NodeId persistent);

}  // namespace ckpt
