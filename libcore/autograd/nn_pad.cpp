// Padding by a mirror image, the border or the other side: rows picked by index, one dimension after the other.
#include <algorithm>
#include <string>
#include <vector>

#include "libcore/autograd/composed.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pad_ops.h"

namespace core {
namespace {

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
  if (mode == PaddingMode::zeros) return pad_constant(x, pads, value);
  const std::size_t rank = pads.size() / 2;
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
