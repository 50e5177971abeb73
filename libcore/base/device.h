#pragma once
// Device: where a tensor lives, parsed and printed as PyTorch does. A value of 2 bytes; knows no driver.
// Thread safety: plain value. Use: core::Device d("cuda:1"); d.is_cuda() && d.index() == 1;

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace core {

/// PyTorch's device types, in the order of its enumeration.
enum class DeviceType : std::int8_t {
  cpu,
  cuda,
  ipu,
  xpu,
  mkldnn,
  opengl,
  opencl,
  ideep,
  hip,
  ve,
  fpga,
  maia,
  xla,
  lazy,
  vulkan,
  mps,
  meta,
  hpu,
  mtia,
  privateuseone,
};

std::string_view name(DeviceType type);

class Device {
 public:
  /// "cpu".
  Device() = default;
  /// Parses "type" or "type:index". Errors: PyTorch's texts (reference: torch.device of PyTorch 2.15),
  /// ErrorCode::runtime.
  Device(std::string_view text);  // NOLINT(google-explicit-constructor): a name stands for a device everywhere
  Device(const char* text) : Device(std::string_view(text)) {}
  Device(const std::string& text) : Device(std::string_view(text)) {}
  Device(DeviceType type) : type_(type) {}
  /// Error(runtime) when `index` is negative or above 127.
  Device(DeviceType type, int index);
  /// Device("cuda", 1). Error(runtime) also when `type` holds an index of its own.
  Device(std::string_view type, int index);

  DeviceType type() const { return type_; }
  bool has_index() const { return index_ >= 0; }
  /// The index, or -1 when there is none.
  int index() const { return index_; }
  bool is_cpu() const { return type_ == DeviceType::cpu; }
  bool is_cuda() const { return type_ == DeviceType::cuda; }
  bool is_meta() const { return type_ == DeviceType::meta; }

  /// "cuda:1".
  std::string str() const;
  /// "device(type='cuda', index=1)".
  std::string repr() const;

  /// Literal: cuda and cuda:0 differ, as in PyTorch.
  friend bool operator==(Device, Device) = default;

 private:
  DeviceType type_ = DeviceType::cpu;
  std::int8_t index_ = -1;
};

/// The same parse without an exception.
std::optional<Device> try_parse_device(std::string_view text);

/// Writes str().
std::ostream& operator<<(std::ostream& out, Device device);

}  // namespace core
