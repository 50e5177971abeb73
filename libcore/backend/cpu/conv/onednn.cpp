#include "libcore/backend/cpu/conv/onednn.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "libcore/backend/cpu/conv/turn_narrow.h"
#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;
constexpr auto kF32 = memory::data_type::f32;

/// What a primitive depends on. Compared as bytes, so it has no padding.
struct Key {
  Conv2dSizes sizes;
  ConvPass pass;
  std::int64_t has_bias;
  std::int64_t blocked;
  std::int64_t map, addend;
  ImageActivation activation;
  std::int64_t threads;
  std::int64_t element;  // an Element

  Element type() const { return static_cast<Element>(element); }
  friend bool operator==(const Key& a, const Key& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&key), sizeof key});
  }
};

Dims image_dims(const Conv2dSizes& s) {
  return {s.batch, s.in_channels, s.in_h, s.in_w};
}
Dims output_dims(const Conv2dSizes& s) {
  return {s.batch, s.out_channels, s.out_h, s.out_w};
}
Dims weight_dims(const Conv2dSizes& s) {
  if (s.groups == 1) return {s.out_channels, s.in_channels, s.kernel_h, s.kernel_w};
  return {s.groups, s.out_channels / s.groups, s.in_channels / s.groups, s.kernel_h, s.kernel_w};
}
memory::desc channel_desc(const Conv2dSizes& s) {
  return {{1, s.out_channels, 1, 1}, kF32, Tag::nchw};
}
template <class Description>
bool is_fast(const Description& description) {
  return std::string_view(description.impl_info_str()).find("ref") == std::string_view::npos;
}

Tag image_tag(const Key& key, Tag layout) {
  return key.blocked != 0 && !lies_in_blocks(key.sizes.in_channels) ? Tag::nchw : layout;
}
/// One input channel: oneDNN's own choice for the output is faster than channels-last, gradients by a third and more.
Tag output_tag(const Key& key, Tag layout) {
  return key.sizes.in_channels == 1 && key.blocked == 0 ? Tag::any : layout;
}

/// oneDNN 2 computes some convolutions of bf16 wrong by AMX: forward where a stride is 3 or larger than the kernel (34
/// to 8 channels, 1 x 4, stride 3), gradients of weights where rows are dilated or channels leave a rest of blocks of
/// 32. Of those allowed here 2,000 random ones were right, all passes.
bool amx_computes_right(const Conv2dSizes& s) {
  const bool plain =
      s.groups == 1 && s.dilation_h * s.dilation_w == 1 && s.kernel_h == s.kernel_w && s.kernel_h % 2 == 1;
  const bool by_small_steps = s.stride_h == s.stride_w && s.stride_h <= std::min<std::int64_t>(2, s.kernel_h);
  const bool even_padding =
      s.pad_top == s.pad_left && s.pad_top == s.pad_bottom && s.pad_left == s.pad_right && s.pad_top <= s.kernel_h / 2;
  const bool whole_blocks = (s.in_channels <= 32 || s.in_channels % 32 == 0) && s.out_channels % 16 == 0;
  return plain && by_small_steps && even_padding && whole_blocks && s.kernel_h <= 7;
}

/// The pieces that all three descriptors are made of.
struct Request {
  memory::desc image, weight, bias, output;
  Dims strides, dilates, pad_before, pad_after;
  dnnl::primitive_attr attr;
  bool takes_amx;

  Request(const Key& key, Tag layout)
      : image(image_dims(key.sizes), key.type(), image_tag(key, layout)),
        weight(weight_dims(key.sizes), key.type(), Tag::any),
        output(output_dims(key.sizes), key.type(), output_tag(key, layout)),
        strides{key.sizes.stride_h, key.sizes.stride_w},
        dilates{key.sizes.dilation_h - 1, key.sizes.dilation_w - 1},
        pad_before{key.sizes.pad_top, key.sizes.pad_left},
        pad_after{key.sizes.pad_bottom, key.sizes.pad_right},
        takes_amx(amx_computes_right(key.sizes)) {
    if (key.has_bias) bias = memory::desc({key.sizes.out_channels}, key.type(), Tag::x);
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attr.set_post_ops(epilogue(key));
  }

  dnnl::post_ops epilogue(const Key& key) const {
    dnnl::post_ops steps;
    if (key.map != 0) {
      steps.append_binary(dnnl::algorithm::binary_mul, channel_desc(key.sizes));
      steps.append_binary(dnnl::algorithm::binary_add, channel_desc(key.sizes));
    }
    if (key.addend != 0) steps.append_binary(dnnl::algorithm::binary_add, output);
    switch (key.activation) {
      case ImageActivation::none:
        break;
      case ImageActivation::relu:
        steps.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
        break;
      case ImageActivation::relu6:
        steps.append_eltwise(1, dnnl::algorithm::eltwise_clip, 0, 6);
        break;
      case ImageActivation::hardswish:
        steps.append_eltwise(1, dnnl::algorithm::eltwise_hardswish, 0, 0);
        break;
      case ImageActivation::silu:
        steps.append_eltwise(1, dnnl::algorithm::eltwise_swish, 1, 0);
        break;
    }
    return steps;
  }

  dnnl::convolution_forward::primitive_desc forward() const {
    const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                               image, weight, bias, output, strides, dilates, pad_before, pad_after);
    return trusted(dnnl::convolution_forward::primitive_desc(desc, attr, dnnl_engine()));
  }
  dnnl::convolution_backward_data::primitive_desc input_grad() const {
    const dnnl::convolution_backward_data::desc desc(dnnl::algorithm::convolution_direct, image, weight, output,
                                                     strides, dilates, pad_before, pad_after);
    const auto hint = forward();
    return trusted(dnnl::convolution_backward_data::primitive_desc(desc, attr, dnnl_engine(), hint));
  }
  dnnl::convolution_backward_weights::primitive_desc weight_grad() const {
    const dnnl::convolution_backward_weights::desc desc(dnnl::algorithm::convolution_direct, image, weight, bias,
                                                        output, strides, dilates, pad_before, pad_after);
    const auto hint = forward();
    return trusted(dnnl::convolution_backward_weights::primitive_desc(desc, attr, dnnl_engine(), hint));
  }

  /// With the first kernel in oneDNN's list that computes right. REQUIRES: what it was made with is there.
  template <class Description>
  Description trusted(Description description) const {
    const auto by_amx = [&] {
      return std::string_view(description.impl_info_str()).find("amx") != std::string_view::npos;
    };
    while (!takes_amx && by_amx() && description.next_impl()) {
    }
    return description;
  }
};

/// Channels-last where oneDNN has a real kernel for it, else plain order (matrix product over patches).
template <class Make>
auto best(const Key& key, Make make) {
  if (key.blocked != 0) return make(Request(key, Tag::nChw16c));
  auto description = make(Request(key, Tag::nhwc));
  if (is_fast(description)) return description;
  return make(Request(key, Tag::nchw));
}

}  // namespace

template <class Description>
void Convolution::take(const Description& description) {
  primitive = dnnl::primitive(description);
  scratchpad = description.scratchpad_desc();
  scratchpad_bytes = scratchpad.get_size();
  fast = is_fast(description);
}

namespace {

Convolution make_convolution(const Key& key) {
  Convolution made;
  if (key.pass == ConvPass::forward) {
    const auto d = best(key, [](const Request& request) { return request.forward(); });
    made.take(d);
    made.image = d.src_desc(), made.weight = d.weights_desc(), made.bias = d.bias_desc(), made.output = d.dst_desc();
    made.channel = channel_desc(key.sizes);
  } else if (key.pass == ConvPass::input_grad) {
    const auto d = best(key, [](const Request& request) { return request.input_grad(); });
    made.take(d);
    made.image = d.diff_src_desc(), made.weight = d.weights_desc(), made.output = d.diff_dst_desc();
  } else {
    const auto d = best(key, [](const Request& request) { return request.weight_grad(); });
    made.take(d);
    made.image = d.src_desc(), made.weight = d.diff_weights_desc(), made.bias = d.diff_bias_desc();
    made.output = d.diff_dst_desc();
  }
  return made;
}

}  // namespace

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

bool dnnl_takes_bf16() {
  const auto has = [](int all, int some) { return (all & some) == some; };
  return multiplies_bf16() &&
         has(static_cast<int>(dnnl_get_effective_cpu_isa()), static_cast<int>(dnnl_cpu_isa_avx512_core_bf16));
}

dnnl::stream& dnnl_stream() {
  static thread_local dnnl::stream in_order(dnnl_engine());
  return in_order;
}

memory::desc plain_image(const Conv2dSizes& s, Element element) {
  return {image_dims(s), element, Tag::nchw};
}
memory::desc plain_output(const Conv2dSizes& s, Element element) {
  return {output_dims(s), element, Tag::nchw};
}
memory::desc plain_weight(const Conv2dSizes& s, Element element) {
  return {weight_dims(s), element, s.groups == 1 ? Tag::oihw : Tag::goihw};
}

const Convolution& convolution(const Conv2dSizes& sizes, ConvPass pass, ConvRequest request) {
  static thread_local std::unordered_map<Key, Convolution, KeyHash> made;
  apply_thread_limit();
  constexpr std::size_t kMostKept = 512;  // a program with ever new shapes must not grow without end
  const Key key{sizes,
                pass,
                request.has_bias ? 1 : 0,
                request.blocked ? 1 : 0,
                request.epilogue.map ? 1 : 0,
                request.epilogue.addend ? 1 : 0,
                request.epilogue.activation,
                num_threads(),
                static_cast<std::int64_t>(request.element)};
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  if (made.size() >= kMostKept) made.clear();
  if (!request.epilogue.any()) return made.emplace(key, make_convolution(key)).first->second;
  try {
    return made.emplace(key, make_convolution(key)).first->second;
  } catch (const dnnl::error&) {  // no kernel does that besides
    return made.emplace(key, Convolution()).first->second;
  }
}

namespace {

/// Turns images of bf16 from planes to pixels or back; false where these are not such images, or where it is no gain.
bool turn_images([[maybe_unused]] const memory& from, [[maybe_unused]] const memory& to) {
#if defined(__x86_64__)
  const memory::desc was = from.get_desc(), wanted = to.get_desc();
  const Dims dims = was.dims();
  constexpr std::int64_t kFewestChannels = 8;  // of the 32 that are turned at once
  if (isa() != Isa::avx512 || was.data_type() != Element::bf16 || dims.size() != 4 || dims[1] < kFewestChannels) {
    return false;
  }
  const memory::desc planes(dims, Element::bf16, Tag::nchw), pixels(dims, Element::bf16, Tag::nhwc);
  const auto* source = static_cast<const std::uint16_t*>(from.get_data_handle());
  auto* target = static_cast<std::uint16_t*>(to.get_data_handle());
  const std::int64_t plane = dims[2] * dims[3];
  if (lies_as(was, planes) && lies_as(wanted, pixels)) {
    avx512::turn_narrow({source, target, dims[0], dims[1], plane});
  } else if (lies_as(was, pixels) && lies_as(wanted, planes)) {
    avx512::turn_narrow({source, target, dims[0], plane, dims[1]});
  } else {
    return false;
  }
  return true;
#else
  return false;
#endif
}

/// Made once: for the weights of a small layer that takes ten times as long as the reordering.
const dnnl::reorder& reorder_between(const memory::desc& from, const memory::desc& to) {
  static thread_local std::unordered_map<std::string, dnnl::reorder> made;
  static thread_local std::string key;
  constexpr std::size_t kMostKept = 512;
  const std::int64_t threads = num_threads();
  key.assign(reinterpret_cast<const char*>(&from.data), sizeof from.data);
  key.append(reinterpret_cast<const char*>(&to.data), sizeof to.data);
  key.append(reinterpret_cast<const char*>(&threads), sizeof threads);
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  if (made.size() >= kMostKept) made.clear();
  const dnnl::reorder::primitive_desc description(dnnl_engine(), from, dnnl_engine(), to);
  return made.emplace(key, dnnl::reorder(description)).first->second;
}

}  // namespace

void reorder(const memory& from, const memory& to) {
  if (turn_images(from, to)) return;
  const dnnl::reorder& made = reorder_between(from.get_desc(), to.get_desc());
  made.execute(dnnl_stream(), const_cast<memory&>(from), const_cast<memory&>(to));
}

memory wrap(const memory::desc& desc, const void* data) {
  return {desc, dnnl_engine(), const_cast<void*>(data)};
}

bool lies_as(const memory::desc& plain, const memory::desc& wanted) {
  if (plain == wanted) return true;
  if (wanted.data.format_kind != dnnl_blocked || wanted.data.format_desc.blocking.inner_nblks != 0 ||
      wanted.data.data_type != plain.data.data_type || wanted.get_size() != plain.get_size()) {
    return false;
  }
  for (int i = 0; i < plain.data.ndims; ++i) {
    // A step along a dimension of one element is never taken: of a weight of 1x1 there may yet be two orders of
    // channels.
    if (plain.data.dims[i] > 1 &&
        plain.data.format_desc.blocking.strides[i] != wanted.data.format_desc.blocking.strides[i]) {
      return false;
    }
  }
  return true;
}

memory input_as(const memory::desc& wanted, const memory::desc& plain, const void* data, Scratch name) {
  if (lies_as(plain, wanted)) return wrap(wanted, data);
  const memory converted = wrap(wanted, scratch_bytes(name, wanted.get_size()));
  reorder(wrap(plain, data), converted);
  return converted;
}

OutputAs::OutputAs(const memory::desc& wanted, const memory::desc& plain, void* data, Scratch name)
    : plain_(wrap(plain, data)), direct_(lies_as(plain, wanted)) {
  written_ = wrap(wanted, direct_ ? data : scratch_bytes(name, wanted.get_size()));
}

void OutputAs::finish() const {
  if (!direct_) reorder(written_, plain_);
}

memory scratchpad_of(const Convolution& conv) {
  return wrap(conv.scratchpad, scratch_bytes(Scratch::primitive, conv.scratchpad_bytes));
}

void finish_pass() {
  dnnl_stream().wait();
  trim_scratch();
}

}  // namespace core::cpu
