#pragma once
// What every collective begins and ends with: which group, whether this rank takes part, and a tensor's elements where
// the group's engine wants them. Internal to dist. Thread safety: as Tensor. Use: const Elements in(tensor, group);

#include <optional>
#include <string>
#include <vector>

#include "libcore/dist/process_group.h"
#include "libcore/tensor/tensor.h"

namespace core::distributed {

/// The default group where none is given.
Group chosen(const Group& group);
/// False, with PyTorch's warning, for a rank that has no part in the group.
bool takes_part(const Group& group, const char* what);
Fingerprint print_of(const char* op, const std::vector<Tensor>& tensors, std::string detail = {});
/// Begins it, and waits unless that is not wanted.
Work started(const Group& group, Request request, bool async_op);

/// A tensor's elements where the engine wants them, one after the other: its own, or a copy. In host memory, or on the
/// GPU where the group has an engine for those.
class Elements {
 public:
  Elements(const Tensor& tensor, const Group& group);
  const Tensor& flat() const { return flat_; }
  void* data() const { return flat_.mutable_raw_data(); }
  std::int64_t bytes() const { return flat_.nbytes(); }
  /// The GPU on whose memory the engine works.
  const std::optional<Device>& device() const { return device_; }
  /// Brings the elements back where they are a copy.
  void give_back() const;

 private:
  Tensor original_;
  Tensor flat_;
  std::optional<Device> device_;
};

}  // namespace core::distributed
