#pragma once
// Text of tensors, character for character that of PyTorch's Python interface, and the options of set_printoptions.
// Thread safety: options are process-wide and may be set from any thread; printing only reads tensors.
// Use: std::cout << x;  // tensor([1., 2.], device='cuda:0')

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "libcore/tensor/tensor.h"

namespace core {

/// torch.set_printoptions. print_options() = {.precision = 2} resets the others to their defaults.
struct PrintOptions {
  int precision = 4;               ///< digits behind the point
  std::int64_t threshold = 1000;   ///< tensors of more elements are summarised
  std::int64_t edgeitems = 3;      ///< items shown at each end of a summarised dimension
  int linewidth = 80;              ///< characters a line
  std::optional<bool> sci_mode{};  ///< scientific notation; none: where numbers need it

  static PrintOptions short_profile() { return {.precision = 2, .edgeitems = 2}; }
  /// Never summarises.
  static PrintOptions full_profile() { return {.threshold = INT64_MAX}; }
};

PrintOptions print_options();
/// Error(value) when a number is negative or the line width is not positive.
void set_print_options(const PrintOptions& options);

/// "tensor([1., 2.], grad_fn=<MulBackward0>)"; "None" for an undefined tensor.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace core
