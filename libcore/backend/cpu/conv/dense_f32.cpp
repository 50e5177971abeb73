// Convolution in single precision through oneDNN, on images in ordinary order: they are brought into channels-last
// order on the way in and out, in which oneDNN is fastest by far (285 against 182 GFLOP/s over the shapes of
// ResNet-18). It costs nothing for one channel or one pixel. Images in blocked layout: blocked.cpp.
#include <unordered_map>

#include "libcore/backend/cpu/conv/dense.h"
#include "libcore/backend/cpu/conv/onednn.h"
#include "libcore/backend/cpu/cpu_tables.h"

namespace core::cpu {

using dnnl::memory;

void conv2d_f32(const Conv2dParams& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv = convolution(s, ConvPass::forward, {.has_bias = p.bias != nullptr});
  const OutputAs output(conv.output, plain_output(s), p.output, Scratch::output);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, input_as(conv.image, plain_image(s), p.input, Scratch::input)},
      {DNNL_ARG_WEIGHTS, input_as(conv.weight, plain_weight(s), p.weight, Scratch::weight)},
      {DNNL_ARG_DST, output.written()},
      {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}};
  if (p.bias) arguments.emplace(DNNL_ARG_BIAS, wrap(conv.bias, p.bias));
  conv.primitive.execute(dnnl_stream(), arguments);
  output.finish();
  finish_pass();
}

void conv2d_input_grad_f32(const Conv2dInputGradParams& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv = convolution(s, ConvPass::input_grad, {});
  const OutputAs image(conv.image, plain_image(s), p.input_grad, Scratch::input);
  conv.primitive.execute(dnnl_stream(),
                         {{DNNL_ARG_DIFF_DST, input_as(conv.output, plain_output(s), p.output_grad, Scratch::output)},
                          {DNNL_ARG_WEIGHTS, input_as(conv.weight, plain_weight(s), p.weight, Scratch::weight)},
                          {DNNL_ARG_DIFF_SRC, image.written()},
                          {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}});
  image.finish();
  finish_pass();
}

void conv2d_weight_grad_f32(const Conv2dWeightGradParams& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv = convolution(s, ConvPass::weight_grad, {.has_bias = p.bias_grad != nullptr});
  const OutputAs weight(conv.weight, plain_weight(s), p.weight_grad, Scratch::weight);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_DIFF_DST, input_as(conv.output, plain_output(s), p.output_grad, Scratch::output)},
      {DNNL_ARG_SRC, input_as(conv.image, plain_image(s), p.input, Scratch::input)},
      {DNNL_ARG_DIFF_WEIGHTS, weight.written()},
      {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}};
  if (p.bias_grad) arguments.emplace(DNNL_ARG_DIFF_BIAS, wrap(conv.bias, p.bias_grad));
  conv.primitive.execute(dnnl_stream(), arguments);
  weight.finish();
  finish_pass();
}

void fill_dense_convolutions(NnTable& table) {
  const auto f32 = static_cast<std::size_t>(DType::f32);
  const auto f64 = static_cast<std::size_t>(DType::f64);
  table.conv2d[f32] = conv2d_f32;
  table.conv2d[f64] = conv2d_f64;
  table.conv2d_input_grad[f32] = conv2d_input_grad_f32;
  table.conv2d_input_grad[f64] = conv2d_input_grad_f64;
  table.conv2d_weight_grad[f32] = conv2d_weight_grad_f32;
  table.conv2d_weight_grad[f64] = conv2d_weight_grad_f64;
}

}  // namespace core::cpu
