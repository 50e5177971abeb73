// Pooling of lines and volumes, adaptive maxima, power averages and unpooling, out of the kernels for planes and of
// operations on slices.
#include "libcore/ops/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/deterministic.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/size2.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::spread;

/// The pooled dimensions that come out: those given, or what the windows cover.
Shape unpooled_sizes(const Tensor& x, std::size_t rank, const Shape& given, const UnpoolOptions& o) {
  const Shape kernel = spread(given, rank, 1), stride = o.stride.empty() ? kernel : spread(o.stride, rank, 1);
  const Shape padding = spread(o.padding, rank, 0);
  Shape sizes, wanted = o.output_size;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t pooled = x.size(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(rank));
    sizes.push_back((pooled - 1) * stride[i] + kernel[i] - 2 * padding[i]);
  }
  if (wanted.empty()) return sizes;
  if (wanted.size() == rank + 2) {  // with the batch and the channels
    wanted.erase(0);
    wanted.erase(0);
  }
  if (wanted.size() != rank) {
    throw Error(ErrorCode::value, "output_size should be a sequence containing " + std::to_string(rank) + " or " +
                                      std::to_string(rank + 2) + " elements, but it has a length of '" +
                                      std::to_string(wanted.size()) + "'");
  }
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t low = sizes[i] - stride[i], high = sizes[i] + stride[i];
    if (low < wanted[i] && wanted[i] < high) continue;
    throw Error(ErrorCode::value, "invalid output_size \"" + to_list(wanted) + "\" (dim " + std::to_string(i) +
                                      " must be between " + std::to_string(low) + " and " + std::to_string(high) + ")");
  }
  return wanted;
}

/// As a trace notes the options of three dimensions.
std::vector<core::detail::TraceAttribute> volume_attributes(const Shape& kernel, const MaxPoolOptions& o) {
  const Shape k = spread(kernel, 3, 1);
  return {{"kernel", k},
          {"stride", o.stride.empty() ? k : spread(o.stride, 3, 1)},
          {"padding", spread(o.padding, 3, 0)},
          {"dilation", spread(o.dilation, 3, 1)},
          {"ceil_mode", o.ceil_mode}};
}
std::vector<core::detail::TraceAttribute> volume_attributes(const Shape& kernel, const AvgPoolOptions& o) {
  const Shape k = spread(kernel, 3, 1);
  return {{"kernel", k},
          {"stride", o.stride.empty() ? k : spread(o.stride, 3, 1)},
          {"padding", spread(o.padding, 3, 0)},
          {"ceil_mode", o.ceil_mode},
          {"count_include_pad", o.count_include_pad},
          {"divisor", o.divisor_override.value_or(0)}};
}

/// Windows over one dimension.
struct Windows {
  std::int64_t in, kernel, stride, pad, dilation, out;

  std::int64_t span() const { return dilation * (kernel - 1) + 1; }
  /// How many elements must lie behind the last one for every window to be whole.
  std::int64_t pad_after() const { return std::max<std::int64_t>(0, (out - 1) * stride + span() - in - pad); }
};

Windows windows_over(std::int64_t in, Windows w, bool ceil_mode) {
  w.in = in;
  const std::int64_t room = in + 2 * w.pad - w.span();
  w.out = (ceil_mode ? (room + w.stride - 1) / w.stride : room / w.stride) + 1;
  if (ceil_mode && (w.out - 1) * w.stride >= in + w.pad) --w.out;  // the last window begins inside
  return w;
}

std::vector<Windows> windows_of(const Tensor& x, const Shape& kernel, const MaxPoolOptions& o) {
  const std::size_t rank = 3;
  const Shape k = spread(kernel, rank, 1), stride = o.stride.empty() ? k : spread(o.stride, rank, 1);
  const Shape pad = spread(o.padding, rank, 0), dilation = spread(o.dilation, rank, 1);
  std::vector<Windows> all;
  for (std::size_t i = 0; i < rank; ++i) {
    if (pad[i] * 2 > dilation[i] * (k[i] - 1) + 1) {
      throw Error(ErrorCode::runtime,
                  "pad should be at most half of effective kernel size, but got pad=" + std::to_string(pad[i]) +
                      ", kernel_size=" + std::to_string(k[i]) + " and dilation=" + std::to_string(dilation[i]));
    }
    const std::int64_t in = x.size(static_cast<std::int64_t>(i) - 3);
    all.push_back(windows_over(in, {in, k[i], stride[i], pad[i], dilation[i], 0}, o.ceil_mode));
    if (all.back().out < 1) throw Error(ErrorCode::runtime, "Output size is too small");
  }
  return all;
}

Shape border(const std::vector<Windows>& all) {
  Shape pads;
  for (std::size_t i = all.size(); i-- > 0;) {
    pads.push_back(all[i].pad);
    pads.push_back(all[i].pad_after());
  }
  return pads;
}

/// The elements of a padded volume under tap (d, h, w) of every window.
Tensor under_tap(const Tensor& padded, const std::vector<Windows>& all, const Shape& tap) {
  Tensor part = padded;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t first = tap[i] * all[i].dilation, dim = padded.dim() - 3 + static_cast<std::int64_t>(i);
    part = part.slice(dim, first, first + (all[i].out - 1) * all[i].stride + 1, all[i].stride);
  }
  return part;
}

template <class Visit>
void for_each_tap(const std::vector<Windows>& all, Visit visit) {
  for (std::int64_t d = 0; d < all[0].kernel; ++d) {
    for (std::int64_t h = 0; h < all[1].kernel; ++h) {
      for (std::int64_t w = 0; w < all[2].kernel; ++w) visit(Shape{d, h, w});
    }
  }
}

/// Positions (d * H + h) * W + w of a volume, as a tensor of its sizes.
Tensor positions(const Tensor& x) {
  const Shape sizes{x.size(-3), x.size(-2), x.size(-1)};
  return arange(sizes[0] * sizes[1] * sizes[2], {.device = x.device()}).reshape(sizes);
}

/// The positions of the largest element of each window; NaN counts as largest, the first wins.
Tensor largest(const Tensor& x, const std::vector<Windows>& all) {
  const double lowest = -std::numeric_limits<double>::infinity();
  const Tensor padded = pad_constant(x, border(all), lowest);
  const Tensor places = pad_constant(positions(x), border(all), -1);
  Tensor best, where_best;
  for_each_tap(all, [&](const Shape& tap) {
    const Tensor value = under_tap(padded, all, tap), place = under_tap(places, all, tap).expand(value.sizes());
    if (!best.defined()) {
      best = value, where_best = place;
      return;
    }
    Tensor better = logical_or(value > best, logical_and(isnan(value), logical_not(isnan(best))));
    better = logical_or(better, logical_and(ge(place, Scalar(0)), lt(where_best, Scalar(0))));
    best = where(better, value, best);
    where_best = where(better, place, where_best);
  });
  return where_best.contiguous();
}

/// Values of the last `rank` dimensions of x at flat positions in them.
Tensor pick(const Tensor& x, const Tensor& places, std::int64_t rank) {
  const Tensor flat = x.flatten(x.dim() - rank, -1);
  const Tensor index = places.flatten(places.dim() - rank, -1);
  return gather(flat, -1, index).reshape(places.sizes());
}

ValuesIndices picked(const char* printed, const Tensor& x, const Tensor& places, std::int64_t rank) {
  Tensor values = composed(printed, {x}, [places, rank](const TensorList& in) { return pick(in[0], places, rank); });
  return {values, places};
}

Size2 row(const Shape& given, std::int64_t otherwise) {
  return given.empty() ? Size2(1, otherwise) : Size2(1, given[0]);
}

void check_line(const Tensor& x, const char* operation) {
  if (x.dim() == 2 || x.dim() == 3) return;
  throw Error(ErrorCode::runtime, "Expected 2 to 3 dimensions, but got " + std::to_string(x.dim()) +
                                      "-dimensional tensor for argument #1 'self' (while checking arguments for " +
                                      operation + ")");
}

/// "3D or 4D", with the batch or without.
void check_rank(const Tensor& x, std::int64_t least, const std::string& before, const std::string& behind) {
  if (x.dim() == least || x.dim() == least + 1) return;
  const std::string ranks = std::to_string(least) + "D or " + std::to_string(least + 1) + "D";
  throw Error(ErrorCode::runtime, before + ranks + behind);
}
void check_volume(const Tensor& x) {
  check_rank(x, 4, "non-empty ", " (batch mode) tensor expected for input");
}

MaxPool2dOptions row_options(const Shape& kernel, const MaxPoolOptions& o) {
  return {row(o.stride.empty() ? kernel : o.stride, 1), o.padding.empty() ? Size2(0) : Size2(0, o.padding[0]),
          row(o.dilation, 1), o.ceil_mode};
}

/// 1 / divisor of each window of one dimension, and how the divisors of three dimensions multiply up.
Tensor window_counts(const Windows& w, bool with_padding, const Tensor& like) {
  std::vector<double> counts;
  for (std::int64_t i = 0; i < w.out; ++i) {
    const std::int64_t begin = i * w.stride - w.pad;
    const std::int64_t end = std::min(begin + w.kernel, w.in + w.pad);
    const std::int64_t inside = std::min(end, w.in) - std::max<std::int64_t>(begin, 0);
    counts.push_back(static_cast<double>(with_padding ? end - begin : inside));
  }
  return from_values(counts, {.dtype = like.dtype(), .device = like.device()});
}

Tensor window_sums(const Tensor& x, const std::vector<Windows>& all) {
  const Tensor padded = pad_constant(x, border(all), 0);
  Tensor total;
  for_each_tap(all, [&](const Shape& tap) {
    const Tensor part = under_tap(padded, all, tap);
    total = total.defined() ? total + part : part;
  });
  return total;
}

/// [floor(i * in / out), ceil((i + 1) * in / out))
struct Span {
  std::int64_t begin, end;
};
Span adaptive_span(std::int64_t i, std::int64_t in, std::int64_t out) {
  return {i * in / out, ((i + 1) * in + out - 1) / out};
}

std::vector<std::int64_t> resolved(const Tensor& x, const AdaptiveSizes& sizes, std::size_t rank) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto& wanted = sizes.size() == 1 ? sizes[0] : sizes.at(i);
    out.push_back(wanted.value_or(x.size(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(rank))));
  }
  return out;
}

/// Calls visit(window of x, its first position in each dimension) for every cell of an adaptive pooling, row-major.
template <class Visit>
void for_each_cell(const Tensor& x, const std::vector<std::int64_t>& out, Visit visit) {
  std::int64_t cells = 1;
  for (const std::int64_t size : out) cells *= size;
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    Tensor part = x;
    Shape first(out.size(), 0);
    std::int64_t rest = cell;
    for (std::size_t i = out.size(); i-- > 0; rest /= out[i]) {
      const std::int64_t dim = x.dim() - static_cast<std::int64_t>(out.size() - i);
      const Span span = adaptive_span(rest % out[i], x.size(dim), out[i]);
      part = part.slice(dim, span.begin, span.end);
      first[i] = span.begin;
    }
    visit(part, first);
  }
}

Shape front_sizes(const Tensor& x, const std::vector<std::int64_t>& out) {
  Shape sizes;
  for (std::int64_t d = 0; d < x.dim() - static_cast<std::int64_t>(out.size()); ++d) sizes.push_back(x.size(d));
  for (const std::int64_t size : out) sizes.push_back(size);
  return sizes;
}

/// Only a batch may be empty. `first`: the dimension behind it.
void check_holds_some(const Tensor& x, std::int64_t first, const char* operation) {
  for (std::int64_t d = first; d < x.dim(); ++d) {
    if (x.size(d) != 0) continue;
    throw Error(ErrorCode::runtime,
                std::string(operation) +
                    "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes " +
                    to_list(x.sizes()) + " with dimension " + std::to_string(d) + " being empty");
  }
}

ValuesIndices adaptive_max(const char* printed, const Tensor& x, const AdaptiveSizes& sizes, std::size_t rank) {
  const std::vector<std::int64_t> out = resolved(x, sizes, rank);
  const auto depth = static_cast<std::int64_t>(rank);
  if (const Shape found = front_sizes(x, out); found.numel() == 0) {
    return picked(printed, x, zeros(found, {.dtype = DType::i64, .device = x.device()}), depth);
  }
  std::vector<Tensor> cells;
  for_each_cell(x.detach(), out, [&](const Tensor& part, const Shape& first) {
    Tensor place = part.flatten(part.dim() - depth, -1).max(-1).indices;
    Tensor at = zeros_like(place);
    std::int64_t scale = 1;
    for (std::size_t i = rank; i-- > 0;) {
      const std::int64_t dim = static_cast<std::int64_t>(i) - depth, width = part.size(dim);
      at = at + (remainder(place, full({}, width, {.dtype = DType::i64, .device = x.device()})) + first[i]) * scale;
      place = floor_divide(place, width);
      scale *= x.size(dim);
    }
    cells.push_back(at);
  });
  const Tensor places = stack(cells, -1).reshape(front_sizes(x, out));
  return picked(printed, x, places, depth);
}

Tensor root_of_power(const Tensor& mean_power, double p, double count) {
  return pow(sign(mean_power) * relu(abs(mean_power)) * count, 1 / p);
}

double count_of(const Shape& kernel, std::size_t rank) {
  double count = 1;
  for (const std::int64_t size : spread(kernel, rank, 1)) count *= static_cast<double>(size);
  return count;
}

}  // namespace

ValuesIndices max_pool1d_with_indices(const Tensor& x, const Shape& kernel, const MaxPoolOptions& o) {
  check_line(x, "max_pool1d");
  const ValuesIndices out = max_pool2d_with_indices(x.unsqueeze(-2), Size2(1, kernel[0]), row_options(kernel, o));
  return {out.values.squeeze(-2), out.indices.squeeze(-2)};
}

Tensor max_pool1d(const Tensor& x, const Shape& kernel, const MaxPoolOptions& options) {
  const bool is_empty = x.dim() > 0 && (x.size(-1) == 0 || (x.dim() > 1 && x.size(-2) == 0));
  if ((x.dim() != 2 && x.dim() != 3) || is_empty) {
    throw Error(ErrorCode::runtime,
                "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:" +
                    to_list(x.sizes()));
  }
  return max_pool2d(x.unsqueeze(-2), Size2(1, kernel[0]), row_options(kernel, options)).squeeze(-2);
}

ValuesIndices max_pool3d_with_indices(const Tensor& x, const Shape& kernel, const MaxPoolOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("max_pool_with_indices", {x}, volume_attributes(kernel, options),
                                [&] { return max_pool3d_with_indices(x, kernel, options); });
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return max_pool3d_with_indices(to(x), kernel, options);
  check_volume(x);
  check_holds_some(x, x.dim() - 4, "max_pool3d_with_indices_out_cpu_template");
  const Tensor places = largest(x.detach(), windows_of(x, kernel, options));
  return picked("MaxPool3DWithIndicesBackward0", x, places, 3);
}

Tensor max_pool3d(const Tensor& x, const Shape& kernel, const MaxPoolOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("max_pool3d", {x}, volume_attributes(kernel, options),
                                [&] { return max_pool3d(x, kernel, options); });
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return max_pool3d(to(x), kernel, options);
  return max_pool3d_with_indices(x, kernel, options).values;
}

Tensor avg_pool1d(const Tensor& x, const Shape& kernel, const AvgPoolOptions& o) {
  check_line(x, "avg_pool1d");
  const Size2 padding = o.padding.empty() ? Size2(0) : Size2(0, o.padding[0]);
  return avg_pool2d(x.unsqueeze(-2), Size2(1, kernel[0]),
                    {row(o.stride.empty() ? kernel : o.stride, 1), padding, o.ceil_mode, o.count_include_pad, {}})
      .squeeze(-2);
}

Tensor avg_pool3d(const Tensor& x, const Shape& kernel, const AvgPoolOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("avg_pool3d", {x}, volume_attributes(kernel, o),
                                [&] { return avg_pool3d(x, kernel, o); });
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return avg_pool3d(to(x), kernel, o);
  check_volume(x);
  check_holds_some(x, x.dim() - 4, "avg_pool3d");
  if (o.divisor_override == 0) throw Error(ErrorCode::runtime, "divisor must be not zero");
  const std::vector<Windows> all = windows_of(x, kernel, {o.stride, o.padding, {}, o.ceil_mode});
  Tensor divisor;
  if (o.divisor_override) {
    divisor = full({1, 1, 1}, static_cast<double>(*o.divisor_override), {.dtype = x.dtype(), .device = x.device()});
  } else {
    const auto counts = [&](std::size_t i) { return window_counts(all[i], o.count_include_pad, x); };
    divisor = counts(0).reshape({-1, 1, 1}) * counts(1).reshape({-1, 1}) * counts(2);
  }
  return composed("AvgPool3DBackward0", {x},
                  [all, divisor](const TensorList& in) { return window_sums(in[0], all) / divisor; });
}

Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size) {
  check_line(x, "adaptive_avg_pool1d");
  return adaptive_avg_pool2d(x.unsqueeze(-2), AdaptiveSize(1, size)).squeeze(-2);
}

Tensor adaptive_avg_pool3d(const Tensor& x, const AdaptiveSizes& sizes) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return adaptive_avg_pool3d(to(x), sizes);
  check_rank(x, 4, "adaptive_avg_pool3d(): Expected ", " tensor, but got " + to_list(x.sizes()));
  check_holds_some(x, 1, "adaptive_avg_pool3d");
  const std::vector<std::int64_t> out = resolved(x, sizes, 3);
  if (out == std::vector<std::int64_t>{1, 1, 1}) return mean(x, {.dims = {-1, -2, -3}, .keepdim = true});
  return composed("AdaptiveAvgPool3DBackward0", {x}, [out](const TensorList& in) {
    std::vector<Tensor> cells;
    for_each_cell(in[0], out, [&](const Tensor& part, const Shape&) {
      cells.push_back(mean(part, {.dims = {-1, -2, -3}}));
    });
    return stack(cells, -1).reshape(front_sizes(in[0], out));
  });
}

ValuesIndices adaptive_max_pool1d(const Tensor& x, std::int64_t size) {
  check_line(x, "adaptive_max_pool1d");
  check_holds_some(x, 1, "adaptive_max_pool1d");
  const ValuesIndices out = adaptive_max_pool2d(x.unsqueeze(-2), {1, size});
  return {out.values.squeeze(-2), out.indices.squeeze(-2)};
}

ValuesIndices adaptive_max_pool2d(const Tensor& x, const AdaptiveSizes& sizes) {
  check_holds_some(x, 1, "adaptive_max_pool2d");
  check_rank(x, 3, "adaptive_max_pool2d(): Expected ", " tensor, but got: " + to_list(x.sizes()));
  return adaptive_max("AdaptiveMaxPool2DBackward0", x, sizes, 2);
}

ValuesIndices adaptive_max_pool3d(const Tensor& x, const AdaptiveSizes& sizes) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return adaptive_max_pool3d(to(x), sizes);
  check_holds_some(x, 1, "adaptive_max_pool3d");
  check_rank(x, 4, "adaptive_max_pool3d(): Expected ", " tensor, but got: " + to_list(x.sizes()));
  return adaptive_max("AdaptiveMaxPool3DBackward0", x, sizes, 3);
}

Tensor lp_pool1d(const Tensor& x, double p, const Shape& kernel, const LpPoolOptions& o) {
  return root_of_power(avg_pool1d(pow(x, p), kernel, {.stride = o.stride, .ceil_mode = o.ceil_mode}), p,
                       count_of(kernel, 1));
}

Tensor lp_pool2d(const Tensor& x, double p, const Shape& kernel, const LpPoolOptions& o) {
  const Shape k = spread(kernel, 2, 1), stride = o.stride.empty() ? k : spread(o.stride, 2, 1);
  const Tensor out =
      avg_pool2d(pow(x, p), Size2(k[0], k[1]), {.stride = Size2(stride[0], stride[1]), .ceil_mode = o.ceil_mode});
  return root_of_power(out, p, count_of(kernel, 2));
}

Tensor lp_pool3d(const Tensor& x, double p, const Shape& kernel, const LpPoolOptions& o) {
  return root_of_power(avg_pool3d(pow(x, p), kernel, {.stride = o.stride, .ceil_mode = o.ceil_mode}), p,
                       count_of(kernel, 3));
}

Tensor max_unpool(const Tensor& x, const Tensor& indices, const Shape& output_size) {
  core::detail::alert_not_deterministic(output_size.size() == 3 ? "max_unpooling3d_forward_out"
                                                                : "max_unpooling2d_forward_out");
  if (x.sizes() != indices.sizes()) {
    throw Error(ErrorCode::runtime, "Expected shape of indices to be same as that of the input tensor (" +
                                        to_list(x.sizes()) +
                                        ") but got indices tensor with shape: " + to_list(indices.sizes()));
  }
  const auto rank = static_cast<std::int64_t>(output_size.size());
  Shape sizes, flat;
  for (std::int64_t d = 0; d < x.dim() - rank; ++d) sizes.push_back(x.size(d));
  flat = sizes;
  flat.push_back(output_size.numel());
  for (const std::int64_t size : output_size) sizes.push_back(size);
  const char* printed = rank == 3 ? "MaxUnpool3DBackward0" : "MaxUnpool2DBackward0";
  return composed(printed, {x}, [=](const TensorList& in) {
    const Tensor zero = zeros(flat, {.dtype = in[0].dtype(), .device = in[0].device()});
    return scatter(zero, -1, indices.flatten(in[0].dim() - rank, -1), in[0].flatten(in[0].dim() - rank, -1))
        .reshape(sizes);
  });
}

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const Shape& kernel, const UnpoolOptions& options) {
  return max_unpool(x, indices, unpooled_sizes(x, 1, kernel, options));
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const Shape& kernel, const UnpoolOptions& options) {
  return max_unpool(x, indices, unpooled_sizes(x, 2, kernel, options));
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const Shape& kernel, const UnpoolOptions& options) {
  return max_unpool(x, indices, unpooled_sizes(x, 3, kernel, options));
}

}  // namespace core
