// Convolution of channels-last images through oneDNN.
#include <cstring>
#include <unordered_map>

#include "libcore/backend/cpu/nn_conv_primitives.h"
#include "libcore/backend/cpu/nn_image.h"

namespace core::cpu {
namespace {

using dnnl::memory;

const Convolution& channels_last(const Conv2dSizes& sizes, ConvPass pass, bool has_bias) {
  return convolution(sizes, pass, {.has_bias = has_bias, .channels_last = true});
}

}  // namespace

bool image_conv_fits(const Conv2dSizes& sizes, ConvPass pass) {
  return channels_last(sizes, pass, false).fast;
}

std::size_t image_conv_prepared_bytes(const Conv2dSizes& sizes, bool has_bias) {
  const Convolution& conv = channels_last(sizes, ConvPass::forward, has_bias);
  return lies_as(plain_weight(sizes), conv.weight) ? 0 : conv.weight.get_size();
}

void image_conv_prepare(const ImagePrepare& p) {
  const Convolution& conv = channels_last(p.sizes, ConvPass::forward, p.has_bias);
  reorder(wrap(plain_weight(p.sizes), p.weight), wrap(conv.weight, p.prepared));
  dnnl_stream().wait();
}

void image_conv(const ImageConv& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv = channels_last(s, ConvPass::forward, p.bias != nullptr);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, wrap(conv.image, p.image)},
      {DNNL_ARG_WEIGHTS, p.prepared != nullptr ? wrap(conv.weight, p.prepared)
                                               : input_as(conv.weight, plain_weight(s), p.weight, Scratch::weight)},
      {DNNL_ARG_DST, wrap(conv.output, p.output)},
      {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}};
  if (p.bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, wrap(conv.bias, p.bias));
  conv.primitive.execute(dnnl_stream(), arguments);
  finish_pass();
}

void image_conv_input_grad(const ImageConvInputGrad& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv = channels_last(s, ConvPass::input_grad, false);
  conv.primitive.execute(dnnl_stream(),
                         {{DNNL_ARG_DIFF_DST, wrap(conv.output, p.output_grad)},
                          {DNNL_ARG_WEIGHTS, input_as(conv.weight, plain_weight(s), p.weight, Scratch::weight)},
                          {DNNL_ARG_DIFF_SRC, wrap(conv.image, p.image_grad)},
                          {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}});
  finish_pass();
}

void image_conv_weight_grad(const ImageConvWeightGrad& p) {
  const Conv2dSizes& s = p.sizes;
  const Convolution& conv = channels_last(s, ConvPass::weight_grad, p.bias_grad != nullptr);
  const OutputAs weight(conv.weight, plain_weight(s), p.weight_grad, Scratch::weight);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_DIFF_DST, wrap(conv.output, p.output_grad)},
                                            {DNNL_ARG_SRC, wrap(conv.image, p.image)},
                                            {DNNL_ARG_DIFF_WEIGHTS, weight.written()},
                                            {DNNL_ARG_SCRATCHPAD, scratchpad_of(conv)}};
  if (p.bias_grad != nullptr) arguments.emplace(DNNL_ARG_DIFF_BIAS, wrap(conv.bias, p.bias_grad));
  conv.primitive.execute(dnnl_stream(), arguments);
  weight.finish();
  finish_pass();
}

}  // namespace core::cpu
