// Convolution of numbers of 16 bits that the processor does not multiply: as f32, some images at a time, rounded once
// at the end, as PyTorch's sums are.
#include <algorithm>
#include <cstddef>

#include "libcore/backend/cpu/conv/dense.h"
#include "libcore/backend/cpu/conv/planes.h"
#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/narrow_rows.h"
#include "libcore/backend/image_order.h"

namespace core::cpu {
namespace {

std::int64_t image_size(const Conv2dSizes& s) {
  return s.in_channels * s.in_h * s.in_w;
}
std::int64_t output_size(const Conv2dSizes& s) {
  return s.out_channels * s.out_h * s.out_w;
}
std::int64_t weight_size(const Conv2dSizes& s) {
  return s.out_channels * (s.in_channels / s.groups) * s.kernel_h * s.kernel_w;
}

/// Where the element of this number is.
const void* element(const void* numbers, std::int64_t number) {
  return static_cast<const std::byte*>(numbers) + 2 * number;
}
void* element(void* numbers, std::int64_t number) {
  return static_cast<std::byte*>(numbers) + 2 * number;
}

/// Calls visit(sizes of some images, the first of them) for all images of the batch, as many at once as fit into 16
/// MiB.
template <class Visit>
void for_some_images(const Conv2dSizes& s, Visit visit) {
  constexpr std::int64_t kElements = 1 << 22;
  const std::int64_t each = std::max<std::int64_t>(1, image_size(s) + output_size(s));
  const std::int64_t most = std::clamp<std::int64_t>(kElements / each, 1, std::max<std::int64_t>(1, s.batch));
  for (std::int64_t first = 0; first < s.batch; first += most) {
    Conv2dSizes some = s;
    some.batch = std::min(most, s.batch - first);
    visit(some, first);
  }
}

template <DType kType>
void conv2d(const Conv2dParams& p) {
  if (is_by_planes(p.sizes)) return CORE_BY_ISA(planes_conv)(kType, p);
  const WideArray weight(kType, p.weight, weight_size(p.sizes)), bias(kType, p.bias, p.sizes.out_channels);
  for_some_images(p.sizes, [&](const Conv2dSizes& some, std::int64_t first) {
    const std::int64_t inputs = some.batch * image_size(some), outputs = some.batch * output_size(some);
    const CallMemory in(inputs), out(outputs);
    widen_array(kType, element(p.input, first * image_size(some)), inputs, in.data());
    conv2d_f32({some, in.data(), weight.data(), bias.data(), out.data()});
    round_array(kType, out.data(), outputs, element(p.output, first * output_size(some)));
  });
}

template <DType kType>
void conv2d_input_grad(const Conv2dInputGradParams& p) {
  if (is_by_planes(p.sizes)) return CORE_BY_ISA(planes_input_grad)(kType, p);
  const WideArray weight(kType, p.weight, weight_size(p.sizes));
  for_some_images(p.sizes, [&](const Conv2dSizes& some, std::int64_t first) {
    const std::int64_t inputs = some.batch * image_size(some), outputs = some.batch * output_size(some);
    const CallMemory in(inputs), out(outputs);
    widen_array(kType, element(p.output_grad, first * output_size(some)), outputs, out.data());
    conv2d_input_grad_f32({some, out.data(), weight.data(), in.data()});
    round_array(kType, in.data(), inputs, element(p.input_grad, first * image_size(some)));
  });
}

/// The sums over the images are kept in f32.
template <DType kType>
void conv2d_weight_grad(const Conv2dWeightGradParams& p) {
  if (is_by_planes(p.sizes)) return CORE_BY_ISA(planes_weight_grad)(kType, p);
  const std::int64_t weights = weight_size(p.sizes), biases = p.bias_grad ? p.sizes.out_channels : 0;
  const CallMemory sums(weights + biases), part(weights + biases);
  std::fill_n(sums.data(), weights + biases, 0.0F);
  for_some_images(p.sizes, [&](const Conv2dSizes& some, std::int64_t first) {
    const std::int64_t inputs = some.batch * image_size(some), outputs = some.batch * output_size(some);
    const CallMemory in(inputs), out(outputs);
    widen_array(kType, element(p.output_grad, first * output_size(some)), outputs, out.data());
    widen_array(kType, element(p.input, first * image_size(some)), inputs, in.data());
    conv2d_weight_grad_f32({some, out.data(), in.data(), part.data(), biases ? part.data() + weights : nullptr});
    for (std::int64_t i = 0; i < weights + biases; ++i) sums.data()[i] += part.data()[i];
  });
  round_array(kType, sums.data(), weights, p.weight_grad);
  if (biases) round_array(kType, sums.data() + weights, biases, p.bias_grad);
}

}  // namespace

void conv2d_f16(const Conv2dParams& p) {
  conv2d<DType::f16>(p);
}
void conv2d_input_grad_f16(const Conv2dInputGradParams& p) {
  conv2d_input_grad<DType::f16>(p);
}
void conv2d_weight_grad_f16(const Conv2dWeightGradParams& p) {
  conv2d_weight_grad<DType::f16>(p);
}

void conv2d_bf16(const Conv2dParams& p) {
  conv2d<DType::bf16>(p);
}
void conv2d_input_grad_bf16(const Conv2dInputGradParams& p) {
  conv2d_input_grad<DType::bf16>(p);
}
void conv2d_weight_grad_bf16(const Conv2dWeightGradParams& p) {
  conv2d_weight_grad<DType::bf16>(p);
}

}  // namespace core::cpu
