// Convolution of images in blocks of channels: our own kernels where they are faster, else oneDNN's.
#include <cstring>
#include <unordered_map>
#include <vector>

#include "libcore/backend/cpu/conv/im2col.h"
#include "libcore/backend/cpu/conv/onednn.h"
#include "libcore/backend/cpu/conv/packed_kernel.h"
#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/isa.h"

namespace core::cpu {

std::vector<PackedKernel> packed_kernels() {
#if defined(__x86_64__)
  if (isa() == Isa::avx512) return {avx512::winograd_kernel(), avx512::direct_kernel(), avx512::implicit_gemm_kernel()};
#endif
  return {};
}

namespace {

using dnnl::memory;

const Convolution& blocked(const Conv2dSizes& sizes, ConvPass pass, bool has_bias, const ConvEpilogue& epilogue = {}) {
  return convolution(sizes, pass, {.has_bias = has_bias, .blocked = true, .epilogue = epilogue});
}

/// The kernel of our own for this convolution with a packed weight, or null.
const PackedKernel* own_kernel(const Conv2dSizes& sizes) {
  static const std::vector<PackedKernel> kernels = packed_kernels();
  for (const PackedKernel& kernel : kernels) {
    if (kernel.fits(sizes)) return &kernel;
  }
  return nullptr;
}

bool packed_fits(const Conv2dSizes& sizes) {
  return own_kernel(sizes) != nullptr;
}

ConvEpilogue kind_of(const ImageEpilogue& epilogue) {
  return {epilogue.scale != nullptr, epilogue.addend != nullptr, epilogue.activation};
}

/// Not where the weight would have to lie in another order for it.
bool conv_can_fuse(const Conv2dSizes& sizes, bool has_bias, const ImageEpilogue& epilogue) {
  const ConvEpilogue kind = kind_of(epilogue);
  if (!kind.any()) return true;
  if (own_kernel(sizes) != nullptr) return true;
  const Convolution& found = blocked(sizes, ConvPass::forward, has_bias, kind);
  return found.fast && found.weight == blocked(sizes, ConvPass::forward, has_bias).weight;
}

bool conv_fits(const Conv2dSizes& sizes, ConvPass pass) {
  return blocked(sizes, pass, false).fast;
}

PackedForm conv_packed_form(const Conv2dSizes& sizes, bool has_bias) {
  if (const PackedKernel* own = own_kernel(sizes)) return own->form(sizes);
  const memory::desc& weight = blocked(sizes, ConvPass::forward, has_bias).weight;
  if (lies_as(plain_weight(sizes), weight)) return {0, {}};
  return {weight.get_size(), {reinterpret_cast<const char*>(&weight.data), sizeof weight.data}};
}

void conv_pack(const ImagePack& p) {
  if (const PackedKernel* own = own_kernel(p.sizes)) return own->pack(p);
  const Convolution& found = blocked(p.sizes, ConvPass::forward, p.has_bias);
  reorder(wrap(plain_weight(p.sizes), p.weight), wrap(found.weight, p.packed));
  dnnl_stream().wait();
}

void add_epilogue(const Convolution& found, const ImageEpilogue& epilogue, std::unordered_map<int, memory>& arguments) {
  int step = 0;
  const auto add = [&](const memory::desc& desc, const float* data) {
    arguments.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(step++) | DNNL_ARG_SRC_1, wrap(desc, data));
  };
  if (epilogue.scale != nullptr) {
    add(found.channel, epilogue.scale);
    add(found.channel, epilogue.shift);
  }
  if (epilogue.addend != nullptr) add(found.output, epilogue.addend);
}

void conv(const ImageConv& p) {
  const Conv2dSizes& s = p.sizes;
  if (p.packed == nullptr && is_for_gemm(s)) return gemm_conv(p);
  const PackedKernel* own = p.packed != nullptr ? own_kernel(s) : nullptr;
  if (own != nullptr) return own->conv(p);
  const bool has_bias = p.bias != nullptr;
  const Convolution& found = blocked(s, ConvPass::forward, has_bias, kind_of(p.epilogue));
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, wrap(found.image, p.image)},
      {DNNL_ARG_WEIGHTS, p.packed != nullptr ? wrap(found.weight, p.packed)
                                             : input_as(found.weight, plain_weight(s), p.weight, Scratch::weight)},
      {DNNL_ARG_DST, wrap(found.output, p.output)},
      {DNNL_ARG_SCRATCHPAD, scratchpad_of(found)}};
  if (p.bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, wrap(found.bias, p.bias));
  add_epilogue(found, p.epilogue, arguments);
  found.primitive.execute(dnnl_stream(), arguments);
  finish_pass();
}

void conv_input_grad(const ImageConvInputGrad& p) {
  const Conv2dSizes& s = p.sizes;
  if (is_for_gemm(s)) return gemm_conv_input_grad(p);
  const Convolution& found = blocked(s, ConvPass::input_grad, false);
  found.primitive.execute(dnnl_stream(),
                          {{DNNL_ARG_DIFF_DST, wrap(found.output, p.output_grad)},
                           {DNNL_ARG_WEIGHTS, input_as(found.weight, plain_weight(s), p.weight, Scratch::weight)},
                           {DNNL_ARG_DIFF_SRC, wrap(found.image, p.image_grad)},
                           {DNNL_ARG_SCRATCHPAD, scratchpad_of(found)}});
  finish_pass();
}

void conv_weight_grad(const ImageConvWeightGrad& p) {
  const Conv2dSizes& s = p.sizes;
  if (is_for_gemm(s)) return gemm_conv_weight_grad(p);
  const Convolution& found = blocked(s, ConvPass::weight_grad, p.bias_grad != nullptr);
  const OutputAs weight(found.weight, plain_weight(s), p.weight_grad, Scratch::weight);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_DIFF_DST, wrap(found.output, p.output_grad)},
                                            {DNNL_ARG_SRC, wrap(found.image, p.image)},
                                            {DNNL_ARG_DIFF_WEIGHTS, weight.written()},
                                            {DNNL_ARG_SCRATCHPAD, scratchpad_of(found)}};
  if (p.bias_grad != nullptr) arguments.emplace(DNNL_ARG_DIFF_BIAS, wrap(found.bias, p.bias_grad));
  found.primitive.execute(dnnl_stream(), arguments);
  weight.finish();
  finish_pass();
}

}  // namespace

void fill_blocked_convolutions(ImageTable& table) {
  table.conv_fits = conv_fits;
  table.packed_fits = packed_fits;
  table.packed_form = conv_packed_form;
  table.pack = conv_pack;
  table.conv = conv;
  table.conv_can_fuse = conv_can_fuse;
  table.conv_input_grad = conv_input_grad;
  table.conv_weight_grad = conv_weight_grad;
}

}  // namespace core::cpu
