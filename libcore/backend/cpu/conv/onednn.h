#pragma once
// oneDNN's convolutions for f32 and bf16: primitives made once per shape and thread, and moving arrays between layouts.
// Thread safety: all functions; each thread keeps primitives of its own.
// For dense_onednn.cpp and blocked.cpp alone: const Convolution& c = convolution(sizes, ConvPass::forward, {...});

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>

#include "libcore/backend/cpu/scratch.h"
#include "libcore/backend/image_table.h"

namespace core::cpu {

const dnnl::engine& dnnl_engine();
/// Whether it computes with bf16: where multiplies_bf16() and nothing (ONEDNN_MAX_CPU_ISA) keeps it from that.
bool dnnl_takes_bf16();
dnnl::stream& dnnl_stream();

/// What the arrays of a convolution hold.
using Element = dnnl::memory::data_type;

dnnl::memory::desc plain_image(const Conv2dSizes& sizes, Element element = Element::f32);
dnnl::memory::desc plain_output(const Conv2dSizes& sizes, Element element = Element::f32);
dnnl::memory::desc plain_weight(const Conv2dSizes& sizes, Element element = Element::f32);

/// A convolution as oneDNN wants it, for all three passes: the arrays and how they lie.
struct Convolution {
  dnnl::primitive primitive;
  dnnl::memory::desc image, weight, bias, output, scratchpad;
  dnnl::memory::desc channel;  ///< of a number for each channel of the output
  std::size_t scratchpad_bytes = 0;
  bool fast = false;  ///< not oneDNN's reference code

  template <class Description>
  void take(const Description& description);
};

/// What is done to the sums, as ImageEpilogue.
struct ConvEpilogue {
  bool map = false;
  bool addend = false;
  ImageActivation activation = ImageActivation::none;
  bool any() const { return map || addend || activation != ImageActivation::none; }
};

struct ConvRequest {
  bool has_bias = false;
  bool blocked = false;            ///< image and output in blocks of 16 channels; else as is fastest
  ConvEpilogue epilogue = {};      ///< REQUIRES: blocked and forward
  Element element = Element::f32;  ///< REQUIRES: f32 where blocked
};
const Convolution& convolution(const Conv2dSizes& sizes, ConvPass pass, ConvRequest request);

dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data);
void reorder(const dnnl::memory& from, const dnnl::memory& to);
/// Whether both descriptions, of the same dimensions, mean the same bytes.
bool lies_as(const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted);
/// An input array in the layout wanted, copied only where it must be.
dnnl::memory input_as(const dnnl::memory::desc& wanted, const dnnl::memory::desc& plain, const void* data,
                      Scratch name);
dnnl::memory scratchpad_of(const Convolution& conv);
/// Waits, and gives scratch memory of unusual size back.
void finish_pass();

/// An output array: written in place where the layout allows, else through scratch memory that finish() copies from.
class OutputAs {
 public:
  OutputAs(const dnnl::memory::desc& wanted, const dnnl::memory::desc& plain, void* data, Scratch name);
  const dnnl::memory& written() const { return written_; }
  void finish() const;

 private:
  dnnl::memory plain_;
  dnnl::memory written_;
  bool direct_;
};

}  // namespace core::cpu
