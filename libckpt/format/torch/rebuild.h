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
#include "libckpt/format/torch/storage_id.h"
#include "libckpt/limits.h"

namespace ckpt {

class StorageProvider {
 public:
  virtual ~StorageProvider() = default;
  /// The storage with this key; the same object for every request. Errors: Error(corrupt) when it is not there or of
  /// another size, Error(unsupported) when requests contradict each other.
  virtual std::shared_ptr<const Storage> provide(const StorageRequest& request) = 0;
  /// The tensor with this number, which only tar archives have. Errors: Error(corrupt) when there is none.
  virtual EntryPtr numbered(std::int64_t number);
};

/// Errors: Error(corrupt) for sizes and strides that do not fit each other or are more than memory can hold;
/// Error(refused) for too many dimensions.
void check_strided(const core::Shape& sizes, const core::Shape& strides, const Limits& limits);
/// Number of the last element that a strided window reaches, offset - 1 when it has none. REQUIRES: check_strided().
std::int64_t last_element(const core::Shape& sizes, const core::Shape& strides, std::int64_t offset);

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
  /// The tensor that a number stands for, in a tar archive; null when the id is no number.
  EntryPtr numbered(NodeId persistent);

 private:
  struct Parts {
    NodeId storage = kNoNode;
    std::int64_t offset = 0;
    core::Shape sizes;
    core::Shape strides;
  };
  Parts take_parts(const CallArgs& args) const;
  static std::int64_t offset_in(const StorageRequest& storage, const Parts& parts);
  Entry strided(const Parts& parts, std::optional<core::DType> dtype);
  void read_metadata(const CallArgs& args, std::size_t i, Entry& entry) const;
  SourcePtr shared_source(const Entry& entry);
  void count_tensor();

  const PickleGraph& graph_;
  StorageProvider& storages_;
  const Limits& limits_;
  std::uint64_t tensors_ = 0;
  std::unordered_map<std::string, SourcePtr> sources_;  ///< by view, so that equal views share their bytes
};

}  // namespace ckpt
