// Patches of images as columns (unfold) and back (fold).
#include "libcore/ops/conv.h"

#include <string>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pad.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// Where patches lie, in height and width.
struct Grid {
  Shape kernel, dilation, padding, stride, image, count;
};

Grid grid_of(const Shape& image, const Shape& kernel, const PatchOptions& o) {
  Grid g;
  g.kernel = detail::spread(kernel, 2, 1);
  g.dilation = detail::spread(o.dilation, 2, 1);
  g.padding = detail::spread(o.padding, 2, 0);
  g.stride = detail::spread(o.stride, 2, 1);
  g.image = detail::spread(image, 2, 1);
  g.count = Shape(2, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    g.count[i] = (g.image[i] + 2 * g.padding[i] - g.dilation[i] * (g.kernel[i] - 1) - 1) / g.stride[i] + 1;
  }
  return g;
}

void check_grid(const Grid& g, const char* what) {
  if (g.count[0] >= 1 && g.count[1] >= 1) return;
  throw Error(ErrorCode::runtime, std::string("Given ") + what + " of spatial size (" + std::to_string(g.image[0]) +
                                      ", " + std::to_string(g.image[1]) + "), the calculated shape of the array of " +
                                      "sliding blocks is (" + std::to_string(g.count[0]) + ", " +
                                      std::to_string(g.count[1]) + "), but its components must be at least one.");
}

/// The pixels under tap (row, column) of every patch, in a padded image.
Tensor under_tap(const Tensor& padded, const Grid& g, std::int64_t row, std::int64_t column) {
  const auto part = [&](const Tensor& x, std::int64_t dim, std::size_t i, std::int64_t tap) {
    const std::int64_t first = tap * g.dilation[i];
    return x.slice(dim, first, first + (g.count[i] - 1) * g.stride[i] + 1, g.stride[i]);
  };
  return part(part(padded, 2, 0, row), 3, 1, column);
}

Tensor columns_of(const Tensor& x, const Grid& g) {
  const Tensor padded = pad_constant(x, {g.padding[1], g.padding[1], g.padding[0], g.padding[0]});
  std::vector<Tensor> taps;
  for (std::int64_t row = 0; row < g.kernel[0]; ++row) {
    for (std::int64_t column = 0; column < g.kernel[1]; ++column) taps.push_back(under_tap(padded, g, row, column));
  }
  return stack(taps, 2).reshape({x.size(0), -1, g.count[0] * g.count[1]});
}

Tensor image_of(const Tensor& columns, const Grid& g) {
  const std::int64_t taps = g.kernel[0] * g.kernel[1], channels = columns.size(1) / taps;
  const Tensor parts = columns.reshape({columns.size(0), channels, taps, g.count[0], g.count[1]});
  const Tensor padded = zeros({columns.size(0), channels, g.image[0] + 2 * g.padding[0], g.image[1] + 2 * g.padding[1]},
                              {.dtype = columns.dtype(), .device = columns.device()});
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    under_tap(padded, g, tap / g.kernel[1], tap % g.kernel[1]).add_(parts.select(2, tap));
  }
  return padded.narrow(2, g.padding[0], g.image[0]).narrow(3, g.padding[1], g.image[1]).contiguous();
}

}  // namespace

Tensor unfold(const Tensor& x, const Shape& kernel, const PatchOptions& options) {
  if (x.dim() != 3 && x.dim() != 4) {
    throw Error(ErrorCode::runtime,
                "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
                "non-zero dimensions for input, but got: " +
                    to_list(x.sizes()));
  }
  const Grid g = grid_of({x.size(-2), x.size(-1)}, kernel, options);
  check_grid(g, "input");
  return composed("Im2ColBackward0", {x}, [g](const TensorList& in) {
    return in[0].dim() == 4 ? columns_of(in[0], g) : columns_of(in[0].unsqueeze(0), g).squeeze(0);
  });
}

Tensor fold(const Tensor& columns, const Shape& output_size, const Shape& kernel, const PatchOptions& options) {
  const Grid g = grid_of(output_size, kernel, options);
  if (columns.dim() != 2 && columns.dim() != 3) {
    throw Error(ErrorCode::runtime,
                "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions "
                "for input, but got: " +
                    to_list(columns.sizes()));
  }
  check_grid(g, "output");
  const std::int64_t taps = g.kernel[0] * g.kernel[1];
  if (columns.size(-2) % taps != 0) {
    throw Error(ErrorCode::runtime,
                "Expected size of input's dimension 1 to be divisible by the product of "
                "kernel_size, but got input.size(1)=" +
                    std::to_string(columns.size(-2)) + " and kernel_size=(" + std::to_string(g.kernel[0]) + ", " +
                    std::to_string(g.kernel[1]) + ").");
  }
  if (columns.size(-1) != g.count[0] * g.count[1]) {
    throw Error(ErrorCode::runtime, "Given output_size=(" + std::to_string(g.image[0]) + ", " +
                                        std::to_string(g.image[1]) + "), expected size of input's dimension 2 to " +
                                        "match the calculated number of sliding blocks " + std::to_string(g.count[0]) +
                                        " * " + std::to_string(g.count[1]) + " = " +
                                        std::to_string(g.count[0] * g.count[1]) +
                                        ", but got input.size(2)=" + std::to_string(columns.size(-1)) + ".");
  }
  return composed("Col2ImBackward0", {columns}, [g](const TensorList& in) {
    return in[0].dim() == 3 ? image_of(in[0], g) : image_of(in[0].unsqueeze(0), g).squeeze(0);
  });
}

}  // namespace core
