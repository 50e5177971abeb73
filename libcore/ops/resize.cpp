// Resizing: nearest picks rows by index, the others are a product with a small matrix along each dimension.
#include "libcore/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/index.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// One dimension to be resized. `scale`: input elements for one of output.
struct Line {
  std::int64_t in, out;
  double scale;
  bool align_corners;

  /// Where output i lies in the input.
  double source(std::int64_t i, bool cubic) const {
    if (align_corners) return scale * static_cast<double>(i);
    const double at = scale * (static_cast<double>(i) + 0.5) - 0.5;
    return cubic ? at : std::max(at, 0.0);
  }
};

Line line_of(std::int64_t in, std::int64_t out, std::optional<double> factor, bool align_corners) {
  Line line{in, out, 0, align_corners};
  if (align_corners) {
    line.scale = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  } else {
    line.scale = factor && *factor > 0 ? 1 / *factor : static_cast<double>(in) / static_cast<double>(out);
  }
  return line;
}

/// Weights of a cubic through four points, a = -0.75.
std::vector<double> cubic_weights(double t) {
  const double a = -0.75;
  const auto near = [a](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [a](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// (out, in): what each output takes of each input.
Tensor weights(const Line& line, bool cubic, const Tensor& like) {
  std::vector<double> matrix(static_cast<std::size_t>(line.out * line.in), 0.0);
  const auto add = [&](std::int64_t i, std::int64_t j, double weight) {
    matrix[static_cast<std::size_t>(i * line.in + std::clamp<std::int64_t>(j, 0, line.in - 1))] += weight;
  };
  for (std::int64_t i = 0; i < line.out; ++i) {
    const double at = line.source(i, cubic);
    const auto first = static_cast<std::int64_t>(std::floor(at));
    const double part = at - static_cast<double>(first);
    if (cubic) {
      const std::vector<double> four = cubic_weights(part);
      for (std::int64_t k = 0; k < 4; ++k) add(i, first - 1 + k, four[static_cast<std::size_t>(k)]);
    } else {
      add(i, first, 1 - part);
      add(i, first + 1, part);
    }
  }
  return from_values(matrix, {.device = like.device()})
      .reshape({line.out, line.in})
      .to(raw::compute_dtype(like.dtype()));
}

/// The filters of images: a triangle, or Keys's cubic with a = -0.5.
template <class T>
T filter(T x, bool cubic) {
  x = std::abs(x);
  if (!cubic) return x < 1 ? 1 - x : 0;
  constexpr T a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// weights() with a filter that grows with the factor by which the line shrinks. T: what the data's type computes in.
template <class T>
Tensor antialiased_weights(const Line& line, bool cubic, const Tensor& like) {
  const T scale = static_cast<T>(line.scale), stretch = std::max(scale, T(1)), inverse = scale >= 1 ? 1 / scale : T(1);
  const T support = (cubic ? 2 : 1) * stretch;
  std::vector<double> matrix(static_cast<std::size_t>(line.out * line.in), 0.0);
  for (std::int64_t i = 0; i < line.out; ++i) {
    const T centre = scale * (static_cast<T>(i) + T(0.5));
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + T(0.5)), 0);
    const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(centre + support + T(0.5)), line.in);
    std::vector<T> taps;
    T sum = 0;
    for (std::int64_t j = first; j < last; ++j) {
      taps.push_back(filter((static_cast<T>(j) - centre + T(0.5)) * inverse, cubic));
      sum += taps.back();
    }
    for (std::size_t k = 0; k < taps.size(); ++k) {
      matrix[static_cast<std::size_t>(i * line.in + first) + k] =
          static_cast<double>(sum != 0 ? taps[k] / sum : taps[k]);
    }
  }
  return from_values(matrix, {.device = like.device()})
      .reshape({line.out, line.in})
      .to(raw::compute_dtype(like.dtype()));
}

Tensor map_of(const Line& line, const InterpolateOptions& o, const Tensor& x) {
  const bool cubic = o.mode == "bicubic";
  if (!o.antialias) return weights(line, cubic, x);
  return x.dtype() == DType::f64 ? antialiased_weights<double>(line, cubic, x)
                                 : antialiased_weights<float>(line, cubic, x);
}

Tensor resized(const Tensor& x, std::int64_t dim, const Tensor& matrix) {
  return matmul(x.movedim(dim, -1), matrix.t()).movedim(-1, dim);
}

Tensor nearest_index(const Line& line, bool exact, const Tensor& like) {
  std::vector<std::int64_t> index;
  const auto scale = static_cast<float>(line.scale);
  for (std::int64_t i = 0; i < line.out; ++i) {
    const float at = exact ? (static_cast<float>(i) + 0.5F) * scale : static_cast<float>(i) * scale;
    index.push_back(std::min(static_cast<std::int64_t>(std::floor(at)), line.in - 1));
  }
  return from_values(index, {.device = like.device()});
}

const char* node_name(const std::string& mode, std::int64_t rank, bool antialias) {
  static constexpr const char* kNearest[] = {"UpsampleNearest1DBackward0", "UpsampleNearest2DBackward0",
                                             "UpsampleNearest3DBackward0"};
  static constexpr const char* kExact[] = {"UpsampleNearestExact1DBackward0", "UpsampleNearestExact2DBackward0",
                                           "UpsampleNearestExact3DBackward0"};
  if (antialias) return mode == "bilinear" ? "UpsampleBilinear2DAaBackward0" : "UpsampleBicubic2DAaBackward0";
  if (mode == "nearest") return kNearest[rank - 1];
  if (mode == "nearest-exact") return kExact[rank - 1];
  if (mode == "linear") return "UpsampleLinear1DBackward0";
  if (mode == "bilinear") return "UpsampleBilinear2DBackward0";
  return mode == "bicubic" ? "UpsampleBicubic2DBackward0" : "UpsampleTrilinear3DBackward0";
}

/// The rank that a mode is for; 0 for any.
std::int64_t rank_of(const std::string& mode) {
  if (mode == "linear") return 1;
  if (mode == "bilinear" || mode == "bicubic") return 2;
  return mode == "trilinear" ? 3 : 0;
}

bool is_nearest(const std::string& mode) {
  return mode == "nearest" || mode == "nearest-exact";
}

void check(const Tensor& x, const InterpolateOptions& o) {
  const std::int64_t rank = x.dim() - 2;
  if (o.align_corners && (is_nearest(o.mode) || o.mode == "area")) {
    throw Error(
        ErrorCode::value,
        "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear");
  }
  if (!o.size.empty() && !o.scale_factor.empty()) {
    throw Error(ErrorCode::value, "only one of size or scale_factor should be defined");
  }
  if (o.size.empty() && o.scale_factor.empty()) {
    throw Error(ErrorCode::value, "either size or scale_factor should be defined");
  }
  if (o.antialias && (rank != 2 || (o.mode != "bilinear" && o.mode != "bicubic"))) {
    throw Error(ErrorCode::value,
                "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as "
                "input");
  }
  const bool fits = rank >= 1 && rank <= 3 && (rank_of(o.mode) == 0 || rank_of(o.mode) == rank);
  const bool known = rank_of(o.mode) != 0 || is_nearest(o.mode) || o.mode == "area";
  if (!fits || !known) {
    throw Error(ErrorCode::not_implemented,
                "Input Error: Only 3D, 4D and 5D input Tensors supported (got " + std::to_string(x.dim()) +
                    "D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got " +
                    o.mode + ")");
  }
}

std::vector<Line> lines_of(const Tensor& x, const InterpolateOptions& o) {
  std::vector<Line> lines;
  for (std::int64_t d = 2; d < x.dim(); ++d) {
    const auto at = static_cast<std::size_t>(d - 2);
    const std::int64_t in = x.size(d);
    if (!o.size.empty()) {
      lines.push_back(line_of(in, o.size.size() == 1 ? o.size[0] : o.size[at], {}, o.align_corners.value_or(false)));
      continue;
    }
    const double factor = o.scale_factor.size() == 1 ? o.scale_factor[0] : o.scale_factor.at(at);
    const auto out = static_cast<std::int64_t>(std::floor(static_cast<double>(in) * factor));
    const std::optional<double> kept = o.recompute_scale_factor ? std::nullopt : std::optional<double>(factor);
    lines.push_back(line_of(in, out, kept, o.align_corners.value_or(false)));
  }
  return lines;
}

Tensor averaged(const Tensor& x, const std::vector<Line>& lines) {
  if (lines.size() == 1) return adaptive_avg_pool1d(x, lines[0].out);
  if (lines.size() == 2) return adaptive_avg_pool2d(x, {lines[0].out, lines[1].out});
  return adaptive_avg_pool3d(x, {lines[0].out, lines[1].out, lines[2].out});
}

/// The factor by which pixels are found; 0 where the sizes say it.
double kept_scale(const InterpolateOptions& o, std::size_t at) {
  if (!o.size.empty() || o.recompute_scale_factor) return 0;
  if (o.scale_factor.size() == 1) return o.scale_factor[0];
  return at < o.scale_factor.size() ? o.scale_factor[at] : 0;
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("interpolate", {x},
                                {{"mode", o.mode},
                                 {"align_corners", o.align_corners.value_or(false)},
                                 {"antialias", o.antialias},
                                 {"scale0", kept_scale(o, 0)},
                                 {"scale1", kept_scale(o, 1)},
                                 {"scale2", kept_scale(o, 2)}},
                                [&] { return interpolate(x, o); });
  const core::detail::OpScope scope("interpolate", x);
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return interpolate(to(x), o);
  check(x, o);
  const std::vector<Line> lines = lines_of(x, o);
  if (o.mode == "area") return averaged(x, lines);
  const bool exact = o.mode == "nearest-exact", nearest = is_nearest(o.mode);
  std::vector<Tensor> maps;
  for (const Line& line : lines) maps.push_back(nearest ? nearest_index(line, exact, x) : map_of(line, o, x));
  return composed(node_name(o.mode, x.dim() - 2, o.antialias), {x}, [maps, nearest](const TensorList& in) {
    Tensor y = in[0];
    for (std::size_t i = 0; i < maps.size(); ++i) {
      const auto dim = static_cast<std::int64_t>(i) + 2;
      y = nearest ? index_select(y, dim, maps[i]) : resized(y, dim, maps[i]);
    }
    return y.contiguous();
  });
}

Tensor pixel_shuffle(const Tensor& x, std::int64_t factor) {
  if (x.dim() < 3) {
    throw Error(ErrorCode::runtime, "pixel_shuffle expects input to have at least 3 dimensions, but got input with " +
                                        std::to_string(x.dim()) + " dimension(s)");
  }
  if (factor <= 0) {
    throw Error(ErrorCode::runtime,
                "pixel_shuffle expects a positive upscale_factor, but got " + std::to_string(factor));
  }
  const std::int64_t square = factor * factor, channels = x.size(-3);
  if (channels % square != 0) {
    throw Error(
        ErrorCode::runtime,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
        "input.size(-3)=" +
            std::to_string(channels) + " is not divisible by " + std::to_string(square));
  }
  return composed("PixelShuffleBackward0", {x}, [=](const TensorList& in) {
    const std::int64_t h = in[0].size(-2), w = in[0].size(-1);
    Shape sizes = in[0].sizes();
    const std::size_t n = sizes.size();
    sizes[n - 3] = channels / square, sizes[n - 2] = h * factor, sizes[n - 1] = w * factor;
    return in[0]
        .reshape({-1, channels / square, factor, factor, h, w})
        .permute({0, 1, 4, 2, 5, 3})
        .contiguous()
        .reshape(sizes);
  });
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor) {
  if (x.dim() < 3) {
    throw Error(ErrorCode::runtime, "pixel_unshuffle expects input to have at least 3 dimensions, but got input with " +
                                        std::to_string(x.dim()) + " dimension(s)");
  }
  if (factor <= 0) {
    throw Error(ErrorCode::runtime,
                "pixel_unshuffle expects a positive downscale_factor, but got " + std::to_string(factor));
  }
  for (const auto& [dim, what] : {std::pair<std::int64_t, const char*>{-2, "height"}, {-1, "width"}}) {
    if (x.size(dim) % factor == 0) continue;
    throw Error(ErrorCode::runtime, std::string("pixel_unshuffle expects ") + what +
                                        " to be divisible by downscale_factor, but input.size(" + std::to_string(dim) +
                                        ")=" + std::to_string(x.size(dim)) + " is not divisible by " +
                                        std::to_string(factor));
  }
  return composed("PixelUnshuffleBackward0", {x}, [=](const TensorList& in) {
    const std::int64_t channels = in[0].size(-3), h = in[0].size(-2) / factor, w = in[0].size(-1) / factor;
    Shape sizes = in[0].sizes();
    const std::size_t n = sizes.size();
    sizes[n - 3] = channels * factor * factor, sizes[n - 2] = h, sizes[n - 1] = w;
    return in[0].reshape({-1, channels, h, factor, w, factor}).permute({0, 1, 3, 5, 2, 4}).contiguous().reshape(sizes);
  });
}

Tensor channel_shuffle(const Tensor& x, std::int64_t groups) {
  if (x.dim() < 3) {
    throw Error(ErrorCode::runtime,
                "channel_shuffle expects input with > 2 dims, but got input with sizes " + to_list(x.sizes()));
  }
  if (groups <= 0) {
    throw Error(ErrorCode::runtime,
                "Number of groups to divide channels in must be positive. Value of groups:" + std::to_string(groups));
  }
  const std::int64_t channels = x.size(1);
  if (channels % groups != 0) {
    throw Error(ErrorCode::runtime, "Number of channels must be divisible by groups. Got " + std::to_string(channels) +
                                        " channels and " + std::to_string(groups) + " groups.");
  }
  return composed("ChannelShuffleBackward0", {x}, [=](const TensorList& in) {
    return in[0]
        .reshape({in[0].size(0), groups, channels / groups, -1})
        .transpose(1, 2)
        .contiguous()
        .reshape(in[0].sizes());
  });
}

Tensor upsample_nearest(const Tensor& x, const InterpolateOptions& options) {
  InterpolateOptions all = options;
  all.mode = "nearest";
  return interpolate(x, all);
}

Tensor upsample_bilinear(const Tensor& x, const InterpolateOptions& options) {
  InterpolateOptions all = options;
  all.mode = "bilinear";
  all.align_corners = true;
  return interpolate(x, all);
}

}  // namespace core
