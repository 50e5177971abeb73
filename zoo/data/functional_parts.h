#pragma once
// What the functions of functional.h share. Thread safety: pure functions. Internal to zoo/data.
// Use: core::Tensor images = zoo::transforms::functional::flat_images(x);

#include <array>
#include <cstdint>
#include <string>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/tensor.h"
#include "zoo/data/functional.h"

namespace zoo::transforms::functional {

/// White: 1 for floats, else the largest number.
double max_value(core::DType dtype);
/// Error(type) unless the image has one channel or three.
std::int64_t checked_channels(const core::Tensor& image);
/// Bits of a whole number without the sign. Error(type) for floats.
int value_bits(core::DType dtype);
/// The same number twice, or both. Error(value) for none or more.
std::array<std::int64_t, 2> one_or_two(const core::Shape& numbers, const char* name);
/// As Python prints it: "300.0".
std::string number_text(double number);
/// "torch.float32".
std::string torch_name(core::DType dtype);
/// Between 0 and `most`.
core::Tensor clamped(const core::Tensor& x, double most);
/// (n, channels, height, width), whatever stands before the channels.
core::Tensor flat_images(const core::Tensor& image);
/// Back to what stood before the channels of `like`.
core::Tensor like_images(const core::Tensor& images, const core::Tensor& like);

}  // namespace zoo::transforms::functional
