// Pooling: a lane for every window, or for every element whose gradient the windows give; nothing is added up by
// several lanes, so results are the same every time.
#include <climits>
#include <limits>

#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/nn_table.h"

namespace core::CORE_KERNELS {
namespace {

struct Range {
  std::int64_t begin, end;
  CORE_BODY std::int64_t count() const { return end - begin; }
};

/// Positions of planes of h x w cells of some channels, counted through all planes.
struct Planes {
  SizeDivider per_cell, per_plane, per_row;
  struct Place {
    std::int64_t plane, y, x, channel;
  };

  Planes(std::int64_t h, std::int64_t w, std::int64_t channels) : per_cell(channels), per_plane(h * w), per_row(w) {}
  CORE_BODY Place at(std::int64_t i) const {
    const auto in_cell = per_cell.divide(i);
    const auto in_plane = per_plane.divide(in_cell.quotient);
    const auto in_row = per_row.divide(in_plane.remainder);
    return {in_plane.quotient, in_row.quotient, in_row.remainder, in_cell.remainder};
  }
};

/// The elements of one channel of a plane, whose cells lie `step` apart.
template <class T>
struct PlaneOf {
  const T* first;
  std::int64_t step;
  CORE_BODY const T& operator[](std::int64_t cell) const { return first[cell * step]; }
};
/// Of an array whose planes have `cells` cells of `inner` channels.
template <class T>
CORE_BODY PlaneOf<T> plane_of(const T* array, const Planes::Place& at, std::int64_t cells, std::int64_t inner) {
  return {array + at.plane * cells * inner + at.channel, inner};
}

/// The taps of a window that lie inside [0, size): from `begin` up to `end` in steps of the dilation.
CORE_BODY inline Range inside(std::int64_t start, std::int64_t kernel, std::int64_t dilation, std::int64_t size) {
  const std::int64_t skipped = start < 0 ? (-start + dilation - 1) / dilation : 0;
  return {start + skipped * dilation, smaller(start + kernel * dilation, size)};
}

/// k2x2: windows of 2 x 2 side by side without borders.
template <class T, bool k2x2>
void max_pool2d(const MaxPool2dParams& p) {
  const Pool2dSizes s = p.sizes;
  const Planes windows(s.out_h, s.out_w, s.inner);
  const auto* in = static_cast<const T*>(p.input);
  auto* out = static_cast<T*>(p.output);
  std::int64_t* indices = p.indices;
  for_each(s.planes * s.out_h * s.out_w * s.inner, [=] CORE_BODY(std::int64_t i) {
    const auto at = windows.at(i);
    const auto plane = plane_of(in, at, s.in_h * s.in_w, s.inner);
    const std::int64_t dh = k2x2 ? 1 : s.dilation_h, dw = k2x2 ? 1 : s.dilation_w;
    const Range rows =
        k2x2 ? Range{2 * at.y, 2 * at.y + 2} : inside(at.y * s.stride_h - s.pad_h, s.kernel_h, dh, s.in_h);
    const Range columns =
        k2x2 ? Range{2 * at.x, 2 * at.x + 2} : inside(at.x * s.stride_w - s.pad_w, s.kernel_w, dw, s.in_w);
    Computed<T> best = -std::numeric_limits<Computed<T>>::infinity();
    std::int64_t where = rows.begin * s.in_w + columns.begin;
    for (std::int64_t h = rows.begin; h < rows.end; h += dh) {
      for (std::int64_t w = columns.begin; w < columns.end; w += dw) {
        const Computed<T> value = widen(plane[h * s.in_w + w]);
        if (value > best || value != value) {
          best = value;
          where = h * s.in_w + w;
        }
      }
    }
    out[i] = narrow<T>(best);
    indices[i] = where;
  });
}

/// Adds the values of one plane where they belong, those for the same position in their order: in each round the first
/// value that waits for a position is added to it.
template <class T>
struct ScatterPlane {
  std::int64_t size, picked;
  const std::int64_t* indices;
  const T* values;
  T* out;
  int* first;           // of each position: the first value that waits for it; INT_MAX: none
  unsigned char* done;  // of each value

  CORE_BODY void operator()(const Team& team) const {
    for (std::int64_t i = team.lane(); i < size; i += team.size()) {
      out[i] = narrow<T>(0);
      first[i] = INT_MAX;
    }
    for (std::int64_t i = team.lane(); i < picked; i += team.size()) done[i] = 0;
    while (add_round(team)) {
    }
  }

 private:
  CORE_BODY bool add_round(const Team& team) const {
    team.sync();
    for (std::int64_t i = team.lane(); i < picked; i += team.size()) {
      if (!done[i]) atomic_min(first + indices[i], static_cast<int>(i));
    }
    team.sync();
    int waiting = 0;
    for (std::int64_t i = team.lane(); i < picked; i += team.size()) {
      if (done[i]) continue;
      if (first[indices[i]] == i) {
        T& sum = out[indices[i]];
        sum = narrow<T>(widen(sum) + widen(values[i]));
        done[i] = 1;
      } else {
        waiting = 1;
      }
    }
    team.sync();
    for (std::int64_t i = team.lane(); i < picked; i += team.size()) {
      if (done[i] == 1) {
        first[indices[i]] = INT_MAX;
        done[i] = 2;
      }
    }
    return team.reduce(waiting, Plus()) != 0;
  }
};

/// The windows that see position `at` of one dimension.
CORE_BODY inline Range windows_over(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t count) {
  const std::int64_t before = at - kernel;
  return {before < 0 ? 0 : before / stride + 1, smaller(at / stride + 1, count)};
}

/// A lane for each position, which looks at the windows over it in their order.
template <class T>
void scatter_by_windows(const PickParams& p) {
  const Pool2dSizes s = p.windows;
  const Planes places(s.in_h, s.in_w, s.inner);
  const std::int64_t* indices = p.indices;
  const auto* values = static_cast<const T*>(p.in);
  auto* out = static_cast<T*>(p.out);
  for_each(p.planes * p.size * s.inner, [=] CORE_BODY(std::int64_t i) {
    const auto at = places.at(i);
    const auto picked = plane_of(indices, at, s.out_h * s.out_w, s.inner);
    const auto grads = plane_of(values, at, s.out_h * s.out_w, s.inner);
    const std::int64_t height = s.dilation_h * (s.kernel_h - 1) + 1, width = s.dilation_w * (s.kernel_w - 1) + 1;
    const Range rows = windows_over(at.y + s.pad_h, height, s.stride_h, s.out_h);
    const Range columns = windows_over(at.x + s.pad_w, width, s.stride_w, s.out_w);
    T sum = narrow<T>(0);
    for (std::int64_t y = rows.begin; y < rows.end; ++y) {
      for (std::int64_t x = columns.begin; x < columns.end; ++x) {
        const std::int64_t window = y * s.out_w + x;
        if (picked[window] == at.y * s.in_w + at.x) sum = narrow<T>(widen(sum) + widen(grads[window]));
      }
    }
    out[i] = sum;
  });
}

template <class T>
void scatter_picked(const PickParams& p) {
  if (p.windows.inner != 1) return scatter_by_windows<T>(p);
  constexpr std::int64_t kMostShared = 64 << 10;
  const std::int64_t size = p.size, picked = p.picked;
  const auto* values = static_cast<const T*>(p.in);
  const std::int64_t* indices = p.indices;
  auto* out = static_cast<T*>(p.out);
  const std::int64_t bytes = size * std::int64_t{sizeof(int)} + divide_up(picked, 4) * 4;
  const bool fits = bytes <= kMostShared;
  const Scratch scratch(fits ? 0 : static_cast<std::size_t>(bytes * p.planes));
  auto* work = scratch.as<unsigned char>();
  for_each_row(p.planes, size, fits ? static_cast<std::size_t>(bytes) : 0,
               [=] CORE_BODY(const Team& team, std::int64_t plane) {
                 unsigned char* mine = fits ? team.shared<unsigned char>() : work + plane * bytes;
                 const ScatterPlane<T> body{size,
                                            picked,
                                            indices + plane * picked,
                                            values + plane * picked,
                                            out + plane * size,
                                            reinterpret_cast<int*>(mine),
                                            mine + size * std::int64_t{sizeof(int)}};
                 body(team);
               });
}

template <class T>
void gather_picked(const PickParams& p) {
  const std::int64_t size = p.size, inner = p.windows.inner;
  const Planes places(1, p.picked, inner);
  const std::int64_t* indices = p.indices;
  const auto* in = static_cast<const T*>(p.in);
  auto* out = static_cast<T*>(p.out);
  for_each(p.planes * p.picked * inner,
           [=] CORE_BODY(std::int64_t i) { out[i] = plane_of(in, places.at(i), size, inner)[indices[i]]; });
}

/// The part of an average's window that counts, and what its sum is divided by.
struct AvgWindow {
  Range rows, columns;
  double divisor;

  CORE_BODY AvgWindow(const AvgPool2dParams& p, std::int64_t y, std::int64_t x) {
    const Pool2dSizes& s = p.sizes;
    const std::int64_t top = y * s.stride_h - s.pad_h, left = x * s.stride_w - s.pad_w;
    const std::int64_t bottom = smaller(top + s.kernel_h, s.in_h + s.pad_h);
    const std::int64_t right = smaller(left + s.kernel_w, s.in_w + s.pad_w);
    rows = {larger<std::int64_t>(top, 0), smaller(bottom, s.in_h)};
    columns = {larger<std::int64_t>(left, 0), smaller(right, s.in_w)};
    const std::int64_t padded = (bottom - top) * (right - left), real = rows.count() * columns.count();
    divisor = static_cast<double>(p.divisor != 0 ? p.divisor : p.count_pad ? padded : real);
  }
};

template <class T>
CORE_BODY Computed<T> sum_of(const PlaneOf<T>& plane, std::int64_t width, Range rows, Range columns) {
  Computed<T> sum = 0;
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    for (std::int64_t x = columns.begin; x < columns.end; ++x) sum += widen(plane[y * width + x]);
  }
  return sum;
}

template <class T>
void avg_pool2d(const AvgPool2dParams& p) {
  const AvgPool2dParams params = p;
  const Planes windows(p.sizes.out_h, p.sizes.out_w, p.sizes.inner);
  for_each(p.sizes.planes * p.sizes.out_h * p.sizes.out_w * p.sizes.inner, [=] CORE_BODY(std::int64_t i) {
    const Pool2dSizes& s = params.sizes;
    const auto at = windows.at(i);
    const AvgWindow window(params, at.y, at.x);
    const auto plane = plane_of(static_cast<const T*>(params.in), at, s.in_h * s.in_w, s.inner);
    const Computed<T> sum = sum_of(plane, s.in_w, window.rows, window.columns);
    static_cast<T*>(params.out)[i] = narrow<T>(sum / static_cast<Computed<T>>(window.divisor));
  });
}

template <class T>
void avg_pool2d_grad(const AvgPool2dParams& p) {
  const AvgPool2dParams params = p;
  const Planes places(p.sizes.in_h, p.sizes.in_w, p.sizes.inner);
  for_each(p.sizes.planes * p.sizes.in_h * p.sizes.in_w * p.sizes.inner, [=] CORE_BODY(std::int64_t i) {
    const Pool2dSizes& s = params.sizes;
    const auto at = places.at(i);
    const auto grad = plane_of(static_cast<const T*>(params.in), at, s.out_h * s.out_w, s.inner);
    const Range rows = windows_over(at.y + s.pad_h, s.kernel_h, s.stride_h, s.out_h);
    const Range columns = windows_over(at.x + s.pad_w, s.kernel_w, s.stride_w, s.out_w);
    Computed<T> sum = 0;
    for (std::int64_t y = rows.begin; y < rows.end; ++y) {
      for (std::int64_t x = columns.begin; x < columns.end; ++x) {
        const Computed<T> share = widen(grad[y * s.out_w + x]);
        sum += share / static_cast<Computed<T>>(AvgWindow(params, y, x).divisor);
      }
    }
    static_cast<T*>(params.out)[i] = narrow<T>(sum);
  });
}

CORE_BODY inline Range adaptive_range(std::int64_t i, std::int64_t in, std::int64_t out) {
  return {i * in / out, ((i + 1) * in + out - 1) / out};
}

/// A lane for each window, or a team where windows are large.
template <class T>
struct AdaptiveAverage {
  AdaptivePool2dParams p;
  Planes windows;

  template <class Lanes>
  CORE_BODY void operator()(const Lanes& team, std::int64_t i) const {
    const auto at = windows.at(i);
    const Range rows = adaptive_range(at.y, p.in_h, p.out_h), columns = adaptive_range(at.x, p.in_w, p.out_w);
    const auto in = plane_of(static_cast<const T*>(p.in), at, p.in_h * p.in_w, p.inner);
    const std::int64_t first = rows.begin * p.in_w + columns.begin;
    Computed<T> mine = 0;
    for (std::int64_t k = team.lane(); k < rows.count() * columns.count(); k += team.size()) {
      const auto n = static_cast<std::uint32_t>(k), width = static_cast<std::uint32_t>(columns.count());
      mine += widen(in[first + n / width * p.in_w + n % width]);
    }
    const Computed<T> sum = team.reduce(mine, Plus());
    const auto area = static_cast<Computed<T>>(rows.count() * columns.count());
    if (team.lane() == 0) static_cast<T*>(p.out)[i] = narrow<T>(sum / area);
  }
};

template <class T>
void adaptive_avg_pool2d(const AdaptivePool2dParams& p) {
  const std::int64_t outputs = p.out_h * p.out_w, area = outputs == 0 ? 0 : p.in_h * p.in_w / outputs;
  // Of channels side by side each lane has its own.
  const bool alone = area <= 2 * kShortRow || p.inner > 1;
  for_each_line(p.planes * outputs * p.inner, area, alone, AdaptiveAverage<T>{p, Planes(p.out_h, p.out_w, p.inner)});
}

template <class T>
void adaptive_avg_pool2d_grad(const AdaptivePool2dParams& p) {
  const AdaptivePool2dParams params = p;
  const Planes places(p.in_h, p.in_w, p.inner);
  for_each(p.planes * p.in_h * p.in_w * p.inner, [=] CORE_BODY(std::int64_t i) {
    const AdaptivePool2dParams& s = params;
    const auto at = places.at(i);
    const auto grad = plane_of(static_cast<const T*>(s.in), at, s.out_h * s.out_w, s.inner);
    // The windows over a position are those of the opposite pooling.
    const Range rows = adaptive_range(at.y, s.out_h, s.in_h), columns = adaptive_range(at.x, s.out_w, s.in_w);
    Computed<T> sum = 0;
    for (std::int64_t y = rows.begin; y < rows.end; ++y) {
      for (std::int64_t x = columns.begin; x < columns.end; ++x) {
        const std::int64_t area =
            adaptive_range(y, s.in_h, s.out_h).count() * adaptive_range(x, s.in_w, s.out_w).count();
        const Computed<T> share = widen(grad[y * s.out_w + x]);
        sum += share / static_cast<Computed<T>>(area);
      }
    }
    static_cast<T*>(s.out)[i] = narrow<T>(sum);
  });
}

}  // namespace

void fill_pooling(NnTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.max_pool2d[slot] = max_pool2d<T, false>;
    table.max_pool2d_2x2[slot] = max_pool2d<T, true>;
    table.scatter_picked[slot] = scatter_picked<T>;
    table.gather_picked[slot] = gather_picked<T>;
    table.avg_pool2d[slot] = avg_pool2d<T>;
    table.avg_pool2d_grad[slot] = avg_pool2d_grad<T>;
    table.adaptive_avg_pool2d[slot] = adaptive_avg_pool2d<T>;
    table.adaptive_avg_pool2d_grad[slot] = adaptive_avg_pool2d_grad<T>;
  });
}

}  // namespace core::CORE_KERNELS
