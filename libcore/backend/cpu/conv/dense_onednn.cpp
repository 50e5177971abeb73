// Convolution of f32, and of bf16 where the processor multiplies it, through oneDNN, on images in ordinary order: they
// are brought into channels-last order on the way in and out, in which oneDNN is fastest by far (285 against 182
// GFLOP/s over the shapes of ResNet-18). It costs nothing for one channel or one pixel. Images in blocked layout:
// blocked.cpp.
#include <unordered_map>

#include "libcore/backend/cpu/conv/dense.h"
#include "libcore/backend/cpu/conv/onednn.h"
#include "libcore/backend/cpu/cpu_tables.h"

namespace core::cpu {

using dnnl::memory;

namespace {

template <Element kElement>
void conv2d(const Conv2dParams& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv = convolution(s, ConvPass::forward, {.has_bias = p.bias != nullptr, .element = kElement});
  const OutputAs output(conv.output, plain_output(s, kElement), p.output, Scratch::output);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, input_as(conv.image, plain_image(s, kElement), p.input, Scratch::input)},
      {DNNL_ARG_WEIGHTS, input_as(conv.weight, plain_weight(s, kElement), p.weight, Scratch::weight)},
      {DNNL_ARG_DST, output.written()},
      {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}};
  if (p.bias) arguments.emplace(DNNL_ARG_BIAS, wrap(conv.bias, p.bias));
  conv.primitive.execute(dnnl_stream(), arguments);
  output.finish();
  finish_pass();
}

template <Element kElement>
void conv2d_input_grad(const Conv2dInputGradParams& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv = convolution(s, ConvPass::input_grad, {.element = kElement});
  const OutputAs image(conv.image, plain_image(s, kElement), p.input_grad, Scratch::input);
  conv.primitive.execute(
      dnnl_stream(),
      {{DNNL_ARG_DIFF_DST, input_as(conv.output, plain_output(s, kElement), p.output_grad, Scratch::output)},
       {DNNL_ARG_WEIGHTS, input_as(conv.weight, plain_weight(s, kElement), p.weight, Scratch::weight)},
       {DNNL_ARG_DIFF_SRC, image.written()},
       {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}});
  image.finish();
  finish_pass();
}

template <Element kElement>
void conv2d_weight_grad(const Conv2dWeightGradParams& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv =
      convolution(s, ConvPass::weight_grad, {.has_bias = p.bias_grad != nullptr, .element = kElement});
  const OutputAs weight(conv.weight, plain_weight(s, kElement), p.weight_grad, Scratch::weight);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_DIFF_DST, input_as(conv.output, plain_output(s, kElement), p.output_grad, Scratch::output)},
      {DNNL_ARG_SRC, input_as(conv.image, plain_image(s, kElement), p.input, Scratch::input)},
      {DNNL_ARG_DIFF_WEIGHTS, weight.written()},
      {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}};
  if (p.bias_grad) arguments.emplace(DNNL_ARG_DIFF_BIAS, wrap(conv.bias, p.bias_grad));
  conv.primitive.execute(dnnl_stream(), arguments);
  weight.finish();
  finish_pass();
}

struct ConvKernels {
  void (*forward)(const Conv2dParams&);
  void (*input_grad)(const Conv2dInputGradParams&);
  void (*weight_grad)(const Conv2dWeightGradParams&);
};

void set(NnTable& table, DType dtype, const ConvKernels& kernels) {
  const auto slot = static_cast<std::size_t>(dtype);
  table.conv2d[slot] = kernels.forward;
  table.conv2d_input_grad[slot] = kernels.input_grad;
  table.conv2d_weight_grad[slot] = kernels.weight_grad;
}

template <Element kElement>
constexpr ConvKernels kByOnednn{conv2d<kElement>, conv2d_input_grad<kElement>, conv2d_weight_grad<kElement>};

}  // namespace

void conv2d_f32(const Conv2dParams& p) {
  conv2d<Element::f32>(p);
}
void conv2d_input_grad_f32(const Conv2dInputGradParams& p) {
  conv2d_input_grad<Element::f32>(p);
}
void conv2d_weight_grad_f32(const Conv2dWeightGradParams& p) {
  conv2d_weight_grad<Element::f32>(p);
}

void fill_dense_convolutions(NnTable& table) {
  set(table, DType::f32, kByOnednn<Element::f32>);
  set(table, DType::f64, {conv2d_f64, conv2d_input_grad_f64, conv2d_weight_grad_f64});
  set(table, DType::f16, {conv2d_f16, conv2d_input_grad_f16, conv2d_weight_grad_f16});
  set(table, DType::bf16,
      dnnl_takes_bf16() ? kByOnednn<Element::bf16>
                        : ConvKernels{conv2d_bf16, conv2d_input_grad_bf16, conv2d_weight_grad_bf16});
}

}  // namespace core::cpu
