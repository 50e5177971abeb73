#pragma once
// Rebuilds tensors from the calls that torch.save writes for them: a storage, an offset, sizes and strides become an
// Entry whose bytes stay in the file. Every number is checked against the storage. Shared by all torch containers;
// each brings a StorageProvider that knows where its storages lie. Thread safety: one user. Use:
// TensorRebuilder rebuilder(graph, provider, limits); EntryPtr entry = rebuilder.tensor_v2(args);

#include <memory>
#include <string>
#include <unordered_map>

#include "libckpt/entry.h"
#include "libckpt/format/torch/call_args.h"
#include "libckpt/limits.h"

namespace ckpt {

/// What a persistent id says of a storage.
struct StorageRequest {
  core::DType dtype = core::DType::u8;  ///< of the elements; for untyped storage that of the tensor that uses it
  bool untyped = false;
  std::string key;
  std::string location;
  std::uint64_t bytes = 0;  ///< length that the element count promises
};

class StorageProvider {
 public:
  virtual ~StorageProvider() = default;
  /// The storage with this key; the same object for every request. Errors: Error(corrupt) when it is not there or of
  /// another size, Error(unsupported) when requests contradict each other.
  virtual std::shared_ptr<const Storage> provide(const StorageRequest& request) = 0;
};

class TensorRebuilder {
 public:
  TensorRebuilder(const PickleGraph& graph, StorageProvider& storages, const Limits& limits)
      : graph_(graph), storages_(storages), limits_(limits) {}

  /// (storage, offset, size, stride), as very old files and old tensor classes have it.
  Entry tensor_v1(const CallArgs& args);
  /// (storage, offset, size, stride, requires_grad, hooks[, metadata])
  Entry tensor_v2(const CallArgs& args);
  /// (untyped storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])
  Entry tensor_v3(const CallArgs& args);
  /// (dtype, size, stride, requires_grad)
  Entry meta(const CallArgs& args);
  /// All of a storage as one dimension: a storage that is saved by itself.
  Entry whole_storage(NodeId persistent);
  /// The storage class that a persistent id names.
  const PickleSymbol& storage_class(NodeId persistent) const;

 private:
  struct Parts {
    NodeId storage = kNoNode;
    std::int64_t offset = 0;
    core::Shape sizes;
    core::Shape strides;
  };
  Parts take_parts(const CallArgs& args) const;
  Entry strided(const Parts& parts, std::optional<core::DType> dtype);
  StorageRequest request(NodeId persistent) const;
  void check_sizes(const core::Shape& sizes, const core::Shape& strides) const;
  void read_metadata(const CallArgs& args, std::size_t i, Entry& entry) const;
  SourcePtr shared_source(const Entry& entry);

  const PickleGraph& graph_;
  StorageProvider& storages_;
  const Limits& limits_;
  std::unordered_map<std::string, SourcePtr> sources_;  ///< by view, so that equal views share their bytes
};

}  // namespace ckpt
