#include "libcore/ops/pad.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

struct PadBackward final : Node {
  Shape pads;
  std::string_view name() const override { return "ConstantPadNdBackward0"; }
  TensorList apply(TensorList g) override {
    Shape cut;
    for (std::int64_t pad : pads) cut.push_back(-pad);
    return {pad_constant(g[0], cut)};
  }
};

/// How many elements lie before and after the image in one dimension.
struct Pads {
  std::int64_t before, after;
};

/// Position in the image that stands at `i` of the padded one.
std::int64_t source(PaddingMode mode, std::int64_t i, std::int64_t size) {
  if (mode == PaddingMode::circular) return (i % size + size) % size;
  if (mode == PaddingMode::replicate) return std::clamp<std::int64_t>(i, 0, size - 1);
  return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
}

void check_pads(PaddingMode mode, Pads pads, const Tensor& x, std::int64_t dim) {
  const std::int64_t size = x.size(dim), most = std::max(pads.before, pads.after);
  if (mode == PaddingMode::reflect && most >= size) {
    const std::int64_t argument = 2 * (x.dim() - dim) + 2;
    throw Error(ErrorCode::runtime,
                "Argument #" + std::to_string(argument) +
                    ": Padding size should be less than the corresponding input dimension, but got: padding (" +
                    std::to_string(pads.before) + ", " + std::to_string(pads.after) + ") at dimension " +
                    std::to_string(dim) + " of input " + to_list(x.sizes()));
  }
  if (mode == PaddingMode::circular && most > size) {
    throw Error(ErrorCode::runtime, "Padding value causes wrapping around more than once.");
  }
}

Tensor padded(const Tensor& x, std::int64_t dim, PaddingMode mode, Pads pads) {
  if (pads.before == 0 && pads.after == 0) return x;
  std::vector<std::int64_t> index;
  for (std::int64_t i = -pads.before; i < x.size(dim) + pads.after; ++i) index.push_back(source(mode, i, x.size(dim)));
  return index_select(x, dim, from_values(index, {.device = x.device()}));
}

const char* node_name(PaddingMode mode, std::size_t rank) {
  static constexpr const char* kReflect[] = {"ReflectionPad1DBackward0", "ReflectionPad2DBackward0",
                                             "ReflectionPad3DBackward0"};
  static constexpr const char* kReplicate[] = {"ReplicationPad1DBackward0", "ReplicationPad2DBackward0",
                                               "ReplicationPad3DBackward0"};
  if (mode == PaddingMode::circular) return "CopySlices";
  return (mode == PaddingMode::reflect ? kReflect : kReplicate)[rank - 1];
}

}  // namespace

Tensor pad_constant(const Tensor& x, const Shape& pads, Scalar value) {
  if (core::detail::traced_now())
    return core::detail::traced("pad", {x}, {{"pads", pads}, {"mode", std::string_view("zeros")}, {"value", value}},
                                [&] { return pad_constant(x, pads, value); });
  if (pads.size() % 2 != 0)
    throw Error(ErrorCode::runtime, "Length of pad must be even but instead it equals " + std::to_string(pads.size()));
  Shape sizes = x.sizes();
  Tensor inner = raw::alias(x);
  std::size_t rank = sizes.size();
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    std::size_t d = rank - 1 - i;
    std::int64_t before = pads[2 * i], after = pads[2 * i + 1];
    sizes[d] += before + after;
    inner = inner.slice(static_cast<std::int64_t>(d), std::max<std::int64_t>(0, -before),
                        x.sizes()[d] - std::max<std::int64_t>(0, -after));
  }
  Tensor out = full(sizes, value, {.dtype = x.dtype(), .device = x.device()});
  Tensor target = raw::alias(out);
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    std::size_t d = rank - 1 - i;
    std::int64_t before = std::max<std::int64_t>(0, pads[2 * i]);
    target = target.narrow(static_cast<std::int64_t>(d), before, inner.sizes()[d]);
  }
  raw::copy_into(target, inner);
  if (!needs_grad(x)) return out;
  auto node = make_node<PadBackward>(x);
  node->pads = pads;
  record(out, node);
  return out;
}

std::string_view name(PaddingMode mode) {
  switch (mode) {
    case PaddingMode::zeros:
      return "zeros";
    case PaddingMode::reflect:
      return "reflect";
    case PaddingMode::replicate:
      return "replicate";
    case PaddingMode::circular:
      return "circular";
  }
  return "";
}

PaddingMode parse_padding_mode(std::string_view text) {
  for (const PaddingMode mode :
       {PaddingMode::zeros, PaddingMode::reflect, PaddingMode::replicate, PaddingMode::circular}) {
    if (text == name(mode)) return mode;
  }
  throw Error(ErrorCode::value,
              "padding_mode must be one of {'replicate', 'reflect', 'zeros', 'circular'}, but got padding_mode='" +
                  std::string(text) + "'");
}

Tensor pad(const Tensor& x, const Shape& pads, PaddingMode mode, Scalar value) {
  if (core::detail::traced_now())
    return core::detail::traced("pad", {x}, {{"pads", pads}, {"mode", name(mode)}, {"value", value}},
                                [&] { return pad(x, pads, mode, value); });
  const core::detail::OpScope scope("pad", x);
  if (mode == PaddingMode::zeros) return pad_constant(x, pads, value);
  const std::size_t rank = pads.size() / 2;
  if (mode == PaddingMode::replicate || (mode == PaddingMode::reflect && rank < 3)) {
    if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return pad(to(x), pads, mode, value);
  }
  if (rank < 1 || rank > 3 || x.dim() < static_cast<std::int64_t>(rank) + 1 ||
      x.dim() > static_cast<std::int64_t>(rank) + 2) {
    throw Error(ErrorCode::not_implemented,
                "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now");
  }
  const auto dim_of = [&](std::size_t i) { return x.dim() - 1 - static_cast<std::int64_t>(i); };
  for (std::size_t i = 0; i < rank; ++i) check_pads(mode, {pads[2 * i], pads[2 * i + 1]}, x, dim_of(i));
  return composed(node_name(mode, rank), {x}, [pads, mode, rank](const TensorList& in) {
    Tensor y = in[0];
    for (std::size_t i = 0; i < rank; ++i) {
      y = padded(y, in[0].dim() - 1 - static_cast<std::int64_t>(i), mode, {pads[2 * i], pads[2 * i + 1]});
    }
    return y;
  });
}

}  // namespace core
