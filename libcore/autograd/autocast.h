#pragma once
// Automatic mixed precision, as torch.autocast: within a guard's life, operations whose speed matters (products,
// convolutions, attention) take their inputs in f16 or bf16, those that need range or long sums in f32, by PyTorch's
// lists for the CPU and for CUDA devices; all others go by the types they are given. Weights are cast once and kept
// until the outermost guard ends. Run backward() outside of it. Thread safety: the mode and the kept weights are each
// thread's own; the replicas of a DataParallel take the mode over. Use: core::Tensor loss; { core::autocast
// guard("cpu"); loss = core::cross_entropy(model(x), y); } loss.backward();

#include <optional>
#include <string_view>

#include "libcore/base/device.h"
#include "libcore/base/dtype.h"

namespace core {

struct AutocastOptions {
  std::optional<DType> dtype = {};  ///< default: bf16 on the CPU, f16 on CUDA devices
  bool enabled = true;              ///< false: full precision within a scope of mixed precision
  std::optional<bool> cache_enabled = {};
};

namespace detail {
/// The mode of a thread, for those who take it to another.
struct AutocastMode {
  bool cpu = false, cuda = false;
  DType cpu_dtype = DType::bf16, cuda_dtype = DType::f16;
  bool cache_enabled = true;
  int depth = 0;           ///< guards around this point
  bool suspended = false;  ///< within an operation that has cast its inputs

  bool is_on() const { return (cpu || cuda) && !suspended; }
};
inline thread_local constinit AutocastMode autocast_mode;

/// Operations in place keep the types that they are given, as PyTorch's: no casts for a scope.
class NoCasts {
 public:
  NoCasts() : before_(autocast_mode.suspended) { autocast_mode.suspended = true; }
  ~NoCasts() { autocast_mode.suspended = before_; }
  NoCasts(const NoCasts&) = delete;
  NoCasts& operator=(const NoCasts&) = delete;

 private:
  bool before_;
};

/// Takes over the mode of another thread, or of another time, for a scope.
class AutocastModeGuard {
 public:
  explicit AutocastModeGuard(const AutocastMode& mode);
  ~AutocastModeGuard();
  AutocastModeGuard(const AutocastModeGuard&) = delete;
  AutocastModeGuard& operator=(const AutocastModeGuard&) = delete;

 private:
  AutocastMode before_;
};
}  // namespace detail

/// Mixed precision for a scope. `device_type`: "cpu" or "cuda". Of a type that the device has not, or without a device,
/// it warns with PyTorch's text and does nothing. Error(runtime) for another device.
class autocast {
 public:
  [[nodiscard]] explicit autocast(std::string_view device_type, const AutocastOptions& options = {});
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  detail::AutocastMode before_;
};

// The mode of this thread, as torch.is_autocast_enabled and its kin. Error(runtime) for a device that is none.
bool is_autocast_enabled(std::string_view device_type);
DType get_autocast_dtype(std::string_view device_type);
bool is_autocast_cache_enabled();
void set_autocast_enabled(std::string_view device_type, bool enabled);
void set_autocast_dtype(std::string_view device_type, DType dtype);
void set_autocast_cache_enabled(bool enabled);
/// Forgets the weights that were cast.
void clear_autocast_cache();

}  // namespace core
