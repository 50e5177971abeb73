#pragma once
// One tensor as an entry of a checkpoint and back; ties are kept by going through one writer or one reader for a whole
// tree. Thread safety: one thread an object. Use: EntryMaker maker; EntryPtr e = maker.entry(tensor);

#include <memory>
#include <unordered_map>
#include <vector>

#include "libckpt/bridge/map_location.h"
#include "libckpt/entry.h"
#include "libcore/tensor/tensor.h"

namespace ckpt {

/// Makes entries over live tensors. Tensors that share memory become entries that share a Storage. Nothing is copied:
/// the entries keep the memory alive and read it when asked.
class EntryMaker {
 public:
  EntryPtr entry(const core::Tensor& tensor);

 private:
  std::shared_ptr<const Storage> storage_of(const core::Tensor& tensor);

  std::unordered_map<const void*, std::shared_ptr<const Storage>> storages_;
  std::vector<EntryPtr> made_;  // entries of storages that were seen, for the same view seen twice
};

/// Makes tensors from entries. Entries that share storage become tensors that share memory.
class TensorMaker {
 public:
  /// `all`: every entry that will be asked for; tells which storages are shared. REQUIRES: it outlives this object.
  TensorMaker(const std::vector<EntryPtr>& all, const MapLocation& map_location);

  /// Errors: those of MapLocation::device and ByteSource::read.
  core::Tensor tensor(const Entry& entry);

 private:
  core::Tensor shared_view(const Entry& entry, core::Device device);
  core::Device device_of(const Entry& entry);

  const MapLocation& map_location_;
  std::unordered_map<const void*, int> uses_;
  std::unordered_map<const void*, core::Tensor> whole_;    // storage or source -> all of it in memory
  std::unordered_map<const void*, core::Device> devices_;  // storage -> where it goes; asked once a storage
};

/// Reads all logical bytes of an entry into a contiguous tensor of its dtype and shape, in place.
/// REQUIRES: dtype and numel agree. Error(unsupported) for quantised blocks.
void read_into(const Entry& entry, const core::Tensor& tensor);

}  // namespace ckpt
