#pragma once
// Decides which byte runs a native file holds and how every tensor is a window into one of them. Tensors that share
// memory stay tied: equal views share one payload; different views of one storage make the storage itself a payload,
// and dense views become windows into it. Lone views are stored as their logical bytes.
// Thread safety: plain value once built. Use: PayloadPlan plan = plan_payloads(checkpoint.root);

#include <unordered_map>
#include <vector>

#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/format/native/value_codec.h"

namespace ckpt::detail {

struct PayloadPlan {
  std::vector<PlannedPayload> payloads;
  std::vector<StorageRecord> storages;
  std::unordered_map<const Entry*, EntryRecord> records;  ///< of every tensor in the tree, attributes included
};

/// Errors: Error(value) when an Entry's bytes do not fit its shape.
PayloadPlan plan_payloads(const Value& root);

}  // namespace ckpt::detail
