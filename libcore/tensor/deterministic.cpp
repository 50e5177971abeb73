#include "libcore/tensor/deterministic.h"

#include <limits>
#include <string>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

std::atomic<bool> warns_only{false};
std::atomic<bool> fills{true};

bool takes_nan(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64:
    case DType::c64:
    case DType::c128:
      return true;
    default:
      return false;
  }
}

}  // namespace

void use_deterministic_algorithms(bool mode, bool warn_only) {
  warns_only = warn_only;
  detail::deterministic = mode;
}
bool are_deterministic_algorithms_enabled() {
  return detail::deterministic;
}
bool is_deterministic_algorithms_warn_only_enabled() {
  return warns_only;
}

void set_deterministic_debug_mode(std::string_view mode) {
  if (mode == "default") return set_deterministic_debug_mode(0);
  if (mode == "warn") return set_deterministic_debug_mode(1);
  if (mode == "error") return set_deterministic_debug_mode(2);
  throw Error(ErrorCode::runtime,
              "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got " + std::string(mode));
}
void set_deterministic_debug_mode(int mode) {
  if (mode < 0 || mode > 2) {
    throw Error(ErrorCode::runtime,
                "invalid value of debug_mode, expected 0, 1, or 2, but got " + std::to_string(mode));
  }
  use_deterministic_algorithms(mode != 0, mode == 1);
}
int get_deterministic_debug_mode() {
  if (!detail::deterministic) return 0;
  return warns_only ? 1 : 2;
}

void set_fill_uninitialized_memory(bool fill) {
  fills = fill;
}
bool fill_uninitialized_memory() {
  return fills;
}

void detail::report_not_deterministic(const char* operation) {
  const std::string begin = std::string(operation) + " does not have a deterministic implementation, but you set ";
  const std::string end =
      "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support "
      "for this operation.";
  if (warns_only) {
    return warn(begin + "'torch.use_deterministic_algorithms(True, warn_only=True)'. You can " + end);
  }
  throw Error(
      ErrorCode::runtime,
      begin +
          "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this operation, or "
          "you can use the 'warn_only=True' option, if that's acceptable for your application. You can also " +
          end);
}

void detail::fill_unwritten(const Tensor& made) {
  if (!fills || made.numel() == 0 || !raw::backend_of(made).has_memory()) return;
  const DType dtype = made.dtype();
  if (takes_nan(dtype)) return raw::fill_into(made, std::numeric_limits<double>::quiet_NaN());
  if (dtype == DType::boolean) return raw::fill_into(made, true);
  if (!is_floating(dtype) && !is_complex(dtype)) raw::fill_into(made, static_cast<std::int64_t>(iinfo(dtype).max));
}

}  // namespace core
