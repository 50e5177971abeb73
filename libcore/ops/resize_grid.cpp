// Sampling an image at given places, and the places that an affine map gives. As torch.nn.functional.
#include "libcore/ops/resize.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

enum class Sampling { bilinear, nearest, bicubic };
enum class Border { zeros, border, reflection };

struct Rules {
  Sampling sampling;
  Border border;
  bool align_corners;
};

Rules rules_of(const GridSampleOptions& o, bool align_corners) {
  Rules rules{Sampling::bilinear, Border::zeros, align_corners};
  const auto wrong = [](const char* what, const std::string& found) {
    throw Error(ErrorCode::value,
                std::string("nn.functional.grid_sample(): expected ") + what + ", but got: '" + found + "'");
  };
  if (o.mode == "nearest") {
    rules.sampling = Sampling::nearest;
  } else if (o.mode == "bicubic") {
    rules.sampling = Sampling::bicubic;
  } else if (o.mode != "bilinear") {
    wrong("mode to be 'bilinear', 'nearest' or 'bicubic'", o.mode);
  }
  if (o.padding_mode == "border") {
    rules.border = Border::border;
  } else if (o.padding_mode == "reflection") {
    rules.border = Border::reflection;
  } else if (o.padding_mode != "zeros") {
    wrong("padding_mode to be 'zeros', 'border', or 'reflection'", o.padding_mode);
  }
  return rules;
}

bool given_or_warned(const std::optional<bool>& align_corners) {
  if (!align_corners) {
    warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
        "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.");
  }
  return align_corners.value_or(false);
}

void check_sampler(const Tensor& x, const Tensor& grid) {
  const auto fail_with = [](const std::string& text) {
    throw Error(ErrorCode::runtime, "grid_sampler(): expected " + text);
  };
  const auto both = [&] {
    return "input with sizes " + to_list(x.sizes()) + " and grid with sizes " + to_list(grid.sizes());
  };
  if (x.size(0) != grid.size(0)) fail_with("grid and input to have same batch size, but got " + both());
  if (grid.size(-1) != x.dim() - 2) {
    fail_with("grid to have size " + std::to_string(x.dim() - 2) + " in last dimension, but got grid with sizes " +
              to_list(grid.sizes()));
  }
  for (std::int64_t d = 2; d < x.dim(); ++d) {
    if (x.size(d) > 0) continue;
    fail_with("input to have non-empty spatial dimensions, but input has sizes " + to_list(x.sizes()) +
              " with dimension " + std::to_string(d) + " being empty");
  }
  if ((x.dim() != 4 && x.dim() != 5) || x.dim() != grid.dim()) {
    fail_with((x.dim() == 5 ? "5D" : "4D") + std::string(" input and grid with same number of dimensions, but got ") +
              both());
  }
  if (grid.dtype() == x.dtype()) return;
  throw Error(ErrorCode::runtime, std::string("expected scalar type ") + scalar_type_name(x.dtype()) + " but found " +
                                      scalar_type_name(grid.dtype()));
}

/// One point of the input that a sample takes something of, along one dimension.
struct Tap {
  Tensor index;   ///< int64, inside the input
  Tensor weight;  ///< 0 where the point is outside
};

/// One dimension of the input.
struct InputLine {
  std::int64_t size;
  Rules rules;

  /// Places from -1 to 1 as positions in elements.
  Tensor unnormalized(const Tensor& place) const {
    const auto n = static_cast<double>(size);
    return rules.align_corners ? (place + 1) * ((n - 1) / 2) : ((place + 1) * n - 1) / 2;
  }
  /// Positions outside brought inside, as the border says.
  Tensor inside(const Tensor& at) const {
    if (rules.border == Border::zeros) return at;
    return clamp(rules.border == Border::reflection ? reflected(at) : at, 0, size - 1);
  }
  std::vector<Tap> taps(const Tensor& place) const {
    const Tensor at = unnormalized(place);
    if (rules.sampling == Sampling::nearest) {
      const Tensor whole = round(inside(at.detach()));
      return {tap(whole, ones_like(whole))};
    }
    if (rules.sampling == Sampling::bilinear) {
      const Tensor position = inside(at), first = floor(position.detach()), part = position - first;
      return {tap(first, 1 - part), tap(first + 1, part)};
    }
    const Tensor first = floor(at.detach()), t = at - first;
    const std::vector<Tensor> weights{far(t + 1), near(t), near(1 - t), far(2 - t)};
    std::vector<Tap> result;
    for (std::size_t k = 0; k < 4; ++k) {
      result.push_back(tap(inside(first + (static_cast<double>(k) - 1)), weights[k]));
    }
    return result;
  }

 private:
  Tensor reflected(const Tensor& at) const {
    const double low = rules.align_corners ? 0 : -0.5;
    const auto span = static_cast<double>(rules.align_corners ? size - 1 : size);
    if (span == 0) return zeros_like(at);
    const Tensor away = (at - low).abs(), flips = floor(away.detach() / span), extra = away - flips * span;
    const Tensor is_even = (flips - floor(flips / 2) * 2).eq(0);
    return where(is_even, extra + low, (span + low) - extra);
  }
  Tap tap(const Tensor& position, const Tensor& weight) const {
    const Tensor is_inside = logical_and(ge(position, 0), le(position, size - 1));
    return {clamp(position, 0, size - 1).to_long(), where(is_inside, weight, zeros_like(weight))};
  }
  // A cubic through four points, a = -0.75.
  static Tensor near(const Tensor& x) { return ((x * 1.25 - 2.25) * x) * x + 1; }
  static Tensor far(const Tensor& x) { return ((x * -0.75 + 3.75) * x - 6) * x + 3; }
};

/// Adds what all combinations of taps from dimension `d` on give.
void gather_taps(const Tensor& flat, const std::vector<std::vector<Tap>>& taps, const Shape& sizes, std::size_t d,
                 const Tap& so_far, Tensor& sum) {
  if (d == taps.size()) {
    const std::int64_t batch = flat.size(0), channels = flat.size(1);
    const Tensor index = so_far.index.reshape({batch, 1, -1});
    const Tensor values = flat.gather(2, index.expand({batch, channels, index.size(2)}));
    const Tensor part = values * so_far.weight.reshape({batch, 1, -1});
    sum = sum.defined() ? sum + part : part;
    return;
  }
  for (const Tap& tap : taps[d]) {
    const Tap next =
        so_far.index.defined() ? Tap{so_far.index * sizes[d + 2] + tap.index, so_far.weight * tap.weight} : tap;
    gather_taps(flat, taps, sizes, d + 1, next, sum);
  }
}

Tensor sampled(const Tensor& x, const Tensor& grid, const Rules& rules) {
  std::vector<std::vector<Tap>> taps;
  const std::int64_t rank = x.dim() - 2;
  for (std::int64_t d = 0; d < rank; ++d) {  // places come with the last dimension first
    taps.push_back(InputLine{x.size(d + 2), rules}.taps(grid.select(-1, rank - 1 - d)));
  }
  Tensor sum;
  gather_taps(x.flatten(2), taps, x.sizes(), 0, {}, sum);
  Shape sizes{x.size(0), x.size(1)};
  for (std::int64_t d = 1; d <= rank; ++d) sizes.push_back(grid.size(d));
  return sum.reshape(sizes);
}

/// Places of the middles (align_corners: from edge to edge) of `size` elements.
Tensor places(std::int64_t size, bool align_corners, const Tensor& like) {
  const TensorOptions made{.dtype = like.dtype(), .device = like.device()};
  if (size <= 1) return zeros({size}, made);
  const Tensor edge_to_edge = linspace(-1, 1, size, made);
  if (align_corners) return edge_to_edge;
  return edge_to_edge * (static_cast<double>(size - 1) / static_cast<double>(size));
}

void check_affine(const Tensor& theta, const Shape& size, bool align_corners) {
  const std::string text = to_list(size);
  if (!is_floating(theta.dtype())) {
    throw Error(ErrorCode::value,
                "Expected theta to have floating point type, but got torch." + std::string(name(theta.dtype())));
  }
  if (size.size() != 4 && size.size() != 5) {
    throw Error(ErrorCode::not_implemented,
                "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size " +
                    text + ".");
  }
  const auto rank = static_cast<std::int64_t>(size.size()) - 2;
  if (theta.dim() != 3 || theta.size(-2) != rank || theta.size(-1) != rank + 1) {
    const std::string n = std::to_string(rank);
    throw Error(ErrorCode::value, "Expected a batch of " + n + "D affine matrices of shape Nx" + n + "x" +
                                      std::to_string(rank + 1) + " for size " + text + ". Got torch.Size(" +
                                      to_list(theta.sizes()) + ").");
  }
  for (std::size_t d = 0; d < size.size(); ++d) {
    if (size[d] <= 0) throw Error(ErrorCode::value, "Expected non-zero, positive output size. Got " + text);
  }
  if (align_corners && *std::min_element(size.begin() + 2, size.end()) == 1) {
    warn(
        "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This is "
        "not an intended use case of affine_grid. See the documentation of affine_grid for details.");
  }
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("grid_sample", {x, grid},
                                {{"mode", std::string_view(options.mode)},
                                 {"padding_mode", std::string_view(options.padding_mode)},
                                 {"align_corners", options.align_corners.value_or(false)}},
                                [&] { return grid_sample(x, grid, options); });
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &grid}); to) return grid_sample(to(x), to(grid), options);
  const Rules rules = rules_of(options, given_or_warned(options.align_corners));
  check_sampler(x, grid);
  return composed(x.dim() == 5 ? "GridSampler3DBackward0" : "GridSampler2DBackward0", {x, grid},
                  [rules](const TensorList& in) { return sampled(in[0], in[1], rules); });
}

Tensor affine_grid(const Tensor& theta, const Shape& size, std::optional<bool> align_corners) {
  const bool align = given_or_warned(align_corners);
  check_affine(theta, size, align);
  const auto rank = static_cast<std::int64_t>(size.size()) - 2;
  Shape sizes{};
  for (std::int64_t d = 0; d < rank; ++d) sizes.push_back(size[static_cast<std::size_t>(d) + 2]);
  std::vector<Tensor> columns;  // x first
  for (std::int64_t d = rank - 1; d >= 0; --d) {
    Shape line(static_cast<std::size_t>(rank), 1);
    line[static_cast<std::size_t>(d)] = sizes[static_cast<std::size_t>(d)];
    columns.push_back(places(line[static_cast<std::size_t>(d)], align, theta).reshape(line).expand(sizes));
  }
  columns.push_back(ones(sizes, {.dtype = theta.dtype(), .device = theta.device()}));
  const Tensor base = stack(columns, -1).reshape({1, -1, rank + 1});
  Shape result{theta.size(0)};
  for (const std::int64_t each : sizes) result.push_back(each);
  result.push_back(rank);
  return composed("AffineGridGeneratorBackward0", {theta},
                  [base, result](const TensorList& in) { return matmul(base, in[0].mT()).reshape(result); });
}

Tensor grid_sampler(const Tensor& x, const Tensor& grid, std::int64_t mode, std::int64_t padding, bool align_corners) {
  constexpr const char* kModes[] = {"bilinear", "nearest", "bicubic"};
  constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) {
    throw Error(ErrorCode::value, "grid_sampler: expected an interpolation mode and a padding mode of 0 to 2, got " +
                                      std::to_string(mode) + " and " + std::to_string(padding));
  }
  return grid_sample(x, grid,
                     {.mode = kModes[mode], .padding_mode = kPaddings[padding], .align_corners = align_corners});
}

}  // namespace core
