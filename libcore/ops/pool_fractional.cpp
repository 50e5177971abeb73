#include "libcore/ops/pool.h"

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/index.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::spread;

/// One pooled dimension.
struct PooledLine {
  std::int64_t in, out, kernel;
};

/// Where the windows begin. The arithmetic is that of x's type.
template <class T>
std::vector<std::int64_t> window_starts(const PooledLine& line, T sample) {
  std::vector<std::int64_t> starts(static_cast<std::size_t>(line.out));
  if (line.out > 1) {
    const T alpha = static_cast<T>(line.in - line.kernel) / static_cast<T>(line.out - 1);
    for (std::int64_t i = 0; i + 1 < line.out; ++i) {
      starts[static_cast<std::size_t>(i)] =
          static_cast<std::int64_t>((static_cast<T>(i) + sample) * alpha) - static_cast<std::int64_t>(sample * alpha);
    }
  }
  if (line.out > 0) starts.back() = line.in - line.kernel;
  return starts;
}

/// Calls visit for every position of a box, the last dimension fastest.
template <class Visit>
void each_place(const std::vector<std::int64_t>& sizes, Visit visit) {
  std::vector<std::int64_t> at(sizes.size(), 0);
  for (;;) {
    visit(at);
    std::size_t d = sizes.size();
    while (d > 0 && ++at[d - 1] == sizes[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

/// The positions of the largest elements in one plane or volume; NaN counts as largest.
template <class T>
void largest_places(const T* x, const std::vector<PooledLine>& lines, const T* samples,
                    std::vector<std::int64_t>& places) {
  std::vector<std::vector<std::int64_t>> starts;
  std::vector<std::int64_t> out, kernel;
  for (std::size_t d = 0; d < lines.size(); ++d) {
    // In planes the first sample is that of the width.
    starts.push_back(window_starts<T>(lines[d], samples[lines.size() == 2 ? 1 - d : d]));
    out.push_back(lines[d].out);
    kernel.push_back(lines[d].kernel);
  }
  each_place(out, [&](const std::vector<std::int64_t>& window) {
    T best = -std::numeric_limits<T>::infinity();
    std::int64_t where = -1;
    each_place(kernel, [&](const std::vector<std::int64_t>& tap) {
      std::int64_t place = 0;
      for (std::size_t d = 0; d < lines.size(); ++d) {
        place = place * lines[d].in + starts[d][static_cast<std::size_t>(window[d])] + tap[d];
      }
      if (where >= 0 && !(x[place] > best || std::isnan(x[place]))) return;
      best = x[place];
      where = place;
    });
    places.push_back(where);
  });
}

std::vector<PooledLine> lines_of(const Tensor& x, const Shape& kernel, const FractionalPoolOptions& o,
                                 std::size_t rank) {
  static constexpr const char* kNames[] = {"time", "height", "width"};
  const Shape k = spread(kernel, rank, 1);
  std::vector<PooledLine> lines;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t in = x.size(static_cast<std::int64_t>(d) - static_cast<std::int64_t>(rank));
    std::int64_t out = 0;
    if (o.output_ratio.empty()) {
      out = spread(o.output_size, rank, 1)[d];
    } else {
      out = static_cast<std::int64_t>(static_cast<double>(in) * o.output_ratio[o.output_ratio.size() == 1 ? 0 : d]);
    }
    if (out + k[d] - 1 > in) {
      const std::string name = kNames[d + 3 - rank];
      throw Error(ErrorCode::runtime,
                  std::string(rank == 2 ? "fractional_max_pool2d()" : "fractional_max_pool3d_out()") + ": pool " +
                      name + " " + std::to_string(k[d]) + " too large relative to input " + name + " " +
                      std::to_string(in));
    }
    lines.push_back({in, out, k[d]});
  }
  return lines;
}

template <class T>
std::vector<std::int64_t> all_places(const Tensor& x, const std::vector<PooledLine>& lines, const Tensor& samples) {
  const Tensor values = x.detach().to(Device(), dtype_of<T>).contiguous();
  const Tensor draws = samples.to(Device(), dtype_of<T>).contiguous();
  std::int64_t plane = 1;
  for (const PooledLine& line : lines) plane *= line.in;
  std::vector<std::int64_t> places;
  const std::int64_t planes = plane == 0 ? 0 : values.numel() / plane;
  for (std::int64_t p = 0; p < planes; ++p) {
    largest_places<T>(values.data<T>() + p * plane, lines,
                      draws.data<T>() + p * static_cast<std::int64_t>(lines.size()), places);
  }
  return places;
}

ValuesIndices pooled(const Tensor& x, const Shape& kernel, const FractionalPoolOptions& o, std::size_t rank) {
  const auto spatial = static_cast<std::int64_t>(rank);
  detail::check_fractional(o, rank == 2 ? "fractional_max_pool2d" : "fractional_max_pool3d");
  const std::vector<PooledLine> lines = lines_of(x, kernel, o, rank);
  const std::int64_t batch = x.dim() == spatial + 1 ? 1 : x.size(0), channels = x.size(-spatial - 1);
  const Tensor samples = o.random_samples.defined()
                             ? o.random_samples
                             : rand({batch, channels, spatial}, {.dtype = x.dtype(), .device = x.device()});
  Shape sizes;
  for (std::int64_t d = 0; d < x.dim() - spatial; ++d) sizes.push_back(x.size(d));
  for (const PooledLine& line : lines) sizes.push_back(line.out);
  const std::vector<std::int64_t> places =
      x.dtype() == DType::f64 ? all_places<double>(x, lines, samples) : all_places<float>(x, lines, samples);
  const Tensor indices = from_values(std::span<const std::int64_t>(places), sizes, {.device = x.device()});
  const char* printed = rank == 2 ? "FractionalMaxPool2DBackward0" : "FractionalMaxPool3DBackward0";
  const Tensor values = composed(printed, {x}, [indices, sizes, spatial](const TensorList& in) {
    return gather(in[0].flatten(-spatial), -1, indices.flatten(-spatial)).reshape(sizes);
  });
  return {values, indices};
}

}  // namespace

ValuesIndices fractional_max_pool2d(const Tensor& x, const Shape& kernel, const FractionalPoolOptions& options) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return fractional_max_pool2d(to(x), kernel, options);
  return pooled(x, kernel, options, 2);
}

ValuesIndices fractional_max_pool3d(const Tensor& x, const Shape& kernel, const FractionalPoolOptions& options) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return fractional_max_pool3d(to(x), kernel, options);
  return pooled(x, kernel, options, 3);
}

}  // namespace core
