#pragma once
// One tensor as an entry of a checkpoint and back; ties are kept by going through one writer or one reader for a whole
// tree. Thread safety: one thread an object. Use: EntryMaker maker; EntryPtr e = maker.entry(tensor);

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/bridge/detail/device_reads.h"
#include "libckpt/bridge/map_location.h"
#include "libckpt/entry.h"
#include "libcore/module/state_dict.h"
#include "libcore/optim/optimizer.h"
#include "libcore/tensor/foreach_copy.h"
#include "libcore/tensor/tensor.h"

namespace ckpt {

class Snapshot;
class HostBlocks;

/// Makes entries over live tensors. Tensors that share memory become entries that share a Storage. Nothing is copied:
/// the entries keep the memory alive and read it when asked. With a snapshot they keep and read its copy instead.
class EntryMaker {
 public:
  explicit EntryMaker(Snapshot* snapshot = nullptr) : snapshot_(snapshot) {}
  EntryPtr entry(const core::Tensor& tensor);

 private:
  std::shared_ptr<const Storage> storage_of(const core::Tensor& tensor);

  Snapshot* snapshot_;
  std::unordered_map<const void*, std::shared_ptr<const Storage>> storages_;
  std::vector<EntryPtr> made_;  // entries of storages that were seen, for the same view seen twice
};

/// As to_value() of module_state.h and training_state.h, by a maker that may take a snapshot.
Value to_value(const core::StateDict& state, EntryMaker& maker);
Value to_value(const core::OptimizerState& state, EntryMaker& maker);

/// An entry, and the device that its tensor will be on.
struct PlacedEntry {
  std::string key;
  EntryPtr entry;
  core::Device device;
};

/// MapLocation::device(), whose error gets the key, the tag and the number of devices as context.
core::Device device_for(const std::string& key, const std::string& tag, const MapLocation& map_location);
/// The device of every entry, found before any byte is read; the error is that of the first key that has one.
void place(std::vector<PlacedEntry>& entries, const MapLocation& map_location);

/// Makes tensors from entries. Entries that share storage become tensors that share memory.
class TensorMaker {
 public:
  /// `all`: every entry that will be asked for; tells which storages are shared. Entries of one storage go where the
  /// first of them does. REQUIRES: it outlives this object.
  explicit TensorMaker(const std::vector<PlacedEntry>& all, const DeviceRing& ring = {}, unsigned threads = 0);

  /// The values are there after finish(). Errors: out of memory.
  core::Tensor tensor(const Entry& entry);
  ~TensorMaker();
  /// Reads the values, as DeviceReads::run().
  void finish() { reads_.run(); }

 private:
  core::Tensor shared_view(const Entry& entry, const PlacedEntry& placed);
  core::Tensor make(const Entry& entry, core::Device device);

  DeviceReads reads_;
  std::unordered_map<const Entry*, const PlacedEntry*> placed_;
  std::unordered_map<const void*, core::Device> devices_;  // of storages
  std::unordered_map<const void*, int> uses_;
  std::unordered_map<const void*, core::Tensor> whole_;       // storage or source -> all of it in memory
  std::map<int, std::unique_ptr<core::TensorPacker>> small_;  // for devices that the host cannot touch
  std::unique_ptr<HostBlocks> host_;
};

/// The tensors of an optimizer's state, to be placed ("state.0.exp_avg"), and to_optimizer_state() by a maker that
/// knows them: its finish() is the caller's. Error(key) when the value is no such state.
std::vector<PlacedEntry> optimizer_entries(const Value& value);
core::OptimizerState to_optimizer_state(const Value& value, TensorMaker& maker);

/// Reads all logical bytes of an entry into a contiguous tensor of its dtype and shape, in place, by `reads`, which
/// `key` is for. The entry outlives reads.run(). REQUIRES: dtype and numel agree.
/// Error(unsupported) for quantised blocks.
void read_into(const Entry& entry, const core::Tensor& tensor, const std::string& key, DeviceReads& reads);

}  // namespace ckpt
