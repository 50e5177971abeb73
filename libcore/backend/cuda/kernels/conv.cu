// Convolution: by cuDNN where that is there and has a deterministic way, else as a product of matrices whose patches
// are gathered on the way, or directly where groups are narrow. Any dilation, stride and padding. Channels that lie
// last stay so for cuDNN; what it refuses is done on channels that lie first, between copies.
#include "libcore/backend/cuda/cudnn_convolution.h"
#include "libcore/backend/cuda/kernels/columns.h"
#include "libcore/backend/cuda/kernels/conv_problems.h"
#include "libcore/backend/cuda/kernels/move_tiles.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/image_table.h"
#include "libcore/backend/memory_stats.h"

namespace core::CORE_KERNELS {

#ifndef __CUDACC__
/// What a test has put in the place of the library, or null.
gpu::Cudnn* simulated_cudnn();
#endif

namespace {

/// Groups of fewer channels leave most of a tile empty.
constexpr std::int64_t kNarrow = 16;

/// The arrays of a pass, one of which it writes.
struct ConvArrays {
  const void *image, *weight, *output;
  const void* bias = nullptr;
};

std::int64_t image_count(const Conv2dSizes& s) {
  return s.batch * s.in_channels * s.in_h * s.in_w;
}
std::int64_t output_count(const Conv2dSizes& s) {
  return s.batch * s.out_channels * s.out_h * s.out_w;
}
std::int64_t weight_count(const Conv2dSizes& s) {
  return s.out_channels * (s.in_channels / s.groups) * s.kernel_h * s.kernel_w;
}

/// Where work for cuDNN goes.
struct CudnnPlace {
  gpu::Cudnn* cudnn;
  int device;
  void* stream;
};

CudnnPlace cudnn_place() {
#ifdef __CUDACC__
  gpu::Cudnn* cudnn = gpu::loaded_cudnn();
  int device = 0;
  if (cudnn == nullptr || cudaGetDevice(&device) != cudaSuccess) return {};
  return {cudnn, device, current_stream()};
#else
  return {simulated_cudnn(), 0, nullptr};
#endif
}

/// cuDNN's kernels load 16 bytes at once.
constexpr std::size_t kCudnnAlignment = 16;

template <class T>
void copy_elements(const T* in, T* out, std::int64_t count) {
  for_each(count, [=] CORE_BODY(std::int64_t i) { out[i] = in[i]; });
}

/// An array as cuDNN wants it: itself, or a copy where it begins in the middle of a load, as slices may.
template <class T>
class Aligned {
 public:
  Aligned(const void* data, std::int64_t count)
      : is_aligned_(is_aligned(data, kCudnnAlignment)),
        copy_(is_aligned_ ? 0 : static_cast<std::size_t>(count) * sizeof(T)),
        data_(is_aligned_ ? data : copy_.template as<T>()) {
    if (!is_aligned_) copy_elements(static_cast<const T*>(data), copy_.template as<T>(), count);
  }
  const void* data() const { return data_; }

 private:
  bool is_aligned_;
  Scratch copy_;
  const void* data_;
};

enum class Done { nothing, all_but_bias, all };

/// REQUIRES: aligned arrays.
Done run_plan(const CudnnPlace& place, const gpu::CudnnPlan& plan, const ConvArrays& arrays) {
  const Scratch workspace(plan.workspace_bytes);
  gpu::CudnnArrays all{arrays.image, arrays.weight, arrays.output, place.stream, workspace.as<void>()};
  if (arrays.bias != nullptr && plan.bias != nullptr && is_aligned(arrays.bias, kCudnnAlignment)) {
    all.bias = arrays.bias;
    if (place.cudnn->run(plan, all)) return Done::all;
    all.bias = nullptr;
  }
  if (!place.cudnn->run(plan, all)) return Done::nothing;
  return arrays.bias == nullptr ? Done::all : Done::all_but_bias;
}

/// Nothing where cuDNN is not there, or has no way to do it.
template <class T>
Done by_cudnn(ConvPass pass, const Conv2dSizes& s, const ConvArrays& arrays) {
  const CudnnPlace place = cudnn_place();
  if (place.cudnn == nullptr) return Done::nothing;
  const gpu::CudnnPlan* plan = place.cudnn->plan({pass, s, dtype_of<T>, place.device});
  const void* written = pass == ConvPass::forward      ? arrays.output
                        : pass == ConvPass::input_grad ? arrays.image
                                                       : arrays.weight;
  if (plan == nullptr || !is_aligned(written, kCudnnAlignment)) return Done::nothing;
  try {
    const Aligned<T> image(arrays.image, image_count(s)), weight(arrays.weight, weight_count(s));
    const Aligned<T> output(arrays.output, output_count(s));
    return run_plan(place, *plan, {image.data(), weight.data(), output.data(), arrays.bias});
  } catch (const OutOfMemoryError&) {
    return Done::nothing;  // no room for what it works with: other kernels need less
  }
}

/// An array (count, channels, cells) whose channels lie last, with channels first.
template <class T>
class PlanarCopy {
 public:
  PlanarCopy(std::int64_t count, std::int64_t channels, std::int64_t cells)
      : count_(count),
        channels_(channels),
        cells_(cells),
        copy_(static_cast<std::size_t>(count * channels * cells) * sizeof(T)) {}
  void take(const void* last) const { transpose(count_, cells_, channels_, static_cast<const T*>(last), data()); }
  void give(void* last) const { transpose(count_, channels_, cells_, data(), static_cast<T*>(last)); }
  T* data() const { return copy_.template as<T>(); }

 private:
  std::int64_t count_, channels_, cells_;
  Scratch copy_;
};

/// The arrays of a convolution whose channels lie last, for kernels that want them first.
template <class T>
struct ChannelsFirst {
  Conv2dSizes sizes;
  PlanarCopy<T> image, weight, output;

  explicit ChannelsFirst(const Conv2dSizes& s)
      : sizes(s),
        image(s.batch, s.in_channels, s.in_h * s.in_w),
        weight(s.out_channels, s.in_channels / s.groups, s.kernel_h * s.kernel_w),
        output(s.batch, s.out_channels, s.out_h * s.out_w) {
    sizes.order = ImageOrder::channels_first;
  }
};

bool lies_last(const Conv2dSizes& s) {
  return s.order == ImageOrder::channels_last;
}

/// Every element of the result by itself: `all_channels` in all groups, of `plane` elements each.
template <class Problem>
void product_direct(const Problem& problem, std::int64_t plane, std::int64_t all_channels) {
  const SizeDivider per_channel(plane), channels(all_channels), per_group(problem.rows);
  for_each(problem.columns * all_channels, [=] CORE_BODY(std::int64_t i) {
    const auto at = per_channel.divide(i);
    const auto channel = channels.divide(at.quotient);
    const auto row = per_group.divide(channel.remainder);
    const Problem one = problem.of(row.quotient, 0);
    const ConvPlace column = one.column(channel.quotient * per_channel.divisor() + at.remainder);
    Four<typename Problem::Sum> sum{};
    for (std::int64_t k = 0; k < one.depth; ++k) {
      const ConvPlace step = one.step(k);
      sum.values[0] += one.a(row.remainder, step) * one.b(step, column);
    }
    one.finish(row.remainder, 0, &column, 1, sum);
  });
}

/// A team for every element of the weight.
template <class T>
void weight_grad_direct(const ConvWeightGrad<T>& problem) {
  const SizeDivider per_group(problem.rows * problem.columns), per_row(problem.columns);
  const std::int64_t weights = problem.shape.s.groups * problem.rows * problem.columns;
  for_each_row(weights, divide_up(problem.depth, 8), [=] CORE_BODY(const Team& team, std::int64_t i) {
    const auto group = per_group.divide(i);
    const auto at = per_row.divide(group.remainder);
    const ConvWeightGrad<T> one = problem.of(group.quotient, 0);
    const ConvPlace tap = one.column(at.remainder);
    Computed<T> mine = 0;
    for (std::int64_t k = team.lane(); k < one.depth; k += team.size()) {
      const ConvPlace window = one.step(k);
      mine += one.a(at.quotient, window) * one.b(window, tap);
    }
    const Four<Computed<T>> sum{{team.reduce(mine, Plus())}};
    if (team.lane() == 0) one.finish(at.quotient, at.remainder, &tap, 1, sum);
  });
}

template <class T>
void weight_grad_tiles(ConvWeightGrad<T> problem) {
  constexpr std::int64_t kTeams = 528, kFewest = 512;  // teams that fill a GPU; steps worth a part
  const std::int64_t groups = problem.shape.s.groups, weights = groups * problem.rows * problem.columns;
  const TileGrid whole(problem.rows, problem.columns, problem.depth, groups, 1);
  const std::int64_t wanted = smaller(kTeams / larger<std::int64_t>(1, whole.count()), problem.depth / kFewest);
  const TileGrid grid(problem.rows, problem.columns, problem.depth, groups, wanted);
  const bool one_part = grid.parts == 1;
  const Scratch scratch(one_part ? 0 : static_cast<std::size_t>(grid.parts * weights) * sizeof(Computed<T>));
  auto* parts_grad = scratch.as<Computed<T>>();
  if (!one_part) problem.parts_grad = parts_grad;
  multiply_tiles(grid, problem);
  if (one_part) return;
  T* out = problem.weight_grad;
  const std::int64_t parts = grid.parts;
  for_each(weights, [=] CORE_BODY(std::int64_t i) {
    Computed<T> sum = parts_grad[i];
    for (std::int64_t part = 1; part < parts; ++part) sum += parts_grad[part * weights + i];
    out[i] = narrow<T>(sum);
  });
}

/// The sum of some of the rows of a column.
template <class T>
struct ColumnSum {
  const T* in;
  std::int64_t columns;
  CORE_BODY Computed<T> operator()(std::int64_t column, std::int64_t begin, std::int64_t end, std::int64_t step) const {
    Computed<T> sum = 0;
    for (std::int64_t row = begin; row < end; row += step) sum += widen(in[row * columns + column]);
    return sum;
  }
};

/// The sum of the output's gradient over all pixels of each channel.
template <class T>
void bias_grad(const Conv2dWeightGradParams& p) {
  const ConvShape shape(p.sizes);
  const auto* grad = static_cast<const T*>(p.output_grad);
  auto* out = static_cast<T*>(p.bias_grad);
  if (lies_last(p.sizes)) {
    const ColumnSum<T> pixels{grad, shape.s.out_channels};
    return sum_columns<Computed<T>>(
        shape.s.batch * shape.output(), shape.s.out_channels, pixels, Plus(),
        [=] CORE_BODY(std::int64_t channel, Computed<T> sum) { out[channel] = narrow<T>(sum); });
  }
  const std::int64_t pixels = shape.s.batch * shape.output();
  for_each_row(shape.s.out_channels, divide_up(pixels, 4), [=] CORE_BODY(const Team& team, std::int64_t channel) {
    Computed<T> mine = 0;
    for (std::int64_t i = team.lane(); i < pixels; i += team.size()) {
      mine += widen(grad[shape.window(i).other + channel * shape.output()]);
    }
    const Computed<T> sum = team.reduce(mine, Plus());
    if (team.lane() == 0) out[channel] = narrow<T>(sum);
  });
}

template <class T>
void add_bias(const Conv2dParams& p) {
  const std::int64_t plane = p.sizes.out_h * p.sizes.out_w;
  const SizeDivider per_channel(lies_last(p.sizes) ? 1 : plane), channels(p.sizes.out_channels);
  const auto* bias = static_cast<const T*>(p.bias);
  auto* output = static_cast<T*>(p.output);
  for_each(p.sizes.batch * p.sizes.out_channels * plane, [=] CORE_BODY(std::int64_t i) {
    const std::int64_t channel = channels.divide(per_channel.divide(i).quotient).remainder;
    output[i] = narrow<T>(widen(output[i]) + widen(bias[channel]));
  });
}

template <class T>
void conv2d(const Conv2dParams& p) {
  const Done done = by_cudnn<T>(ConvPass::forward, p.sizes, {p.input, p.weight, p.output, p.bias});
  if (done == Done::all_but_bias) add_bias<T>(p);
  if (done != Done::nothing) return;
  if (lies_last(p.sizes)) {
    const ChannelsFirst<T> first(p.sizes);
    first.image.take(p.input);
    first.weight.take(p.weight);
    conv2d<T>({first.sizes, first.image.data(), first.weight.data(), p.bias, first.output.data()});
    return first.output.give(p.output);
  }
  const ConvForward<T> problem(p);
  if (p.sizes.groups > 1 && problem.rows < kNarrow) {
    return product_direct(problem, problem.shape.output(), p.sizes.out_channels);
  }
  multiply_tiles(TileGrid(problem.rows, problem.columns, problem.depth, p.sizes.groups, 1), problem);
}

template <class T>
void conv2d_input_grad(const Conv2dInputGradParams& p) {
  const ConvArrays arrays{p.input_grad, p.weight, p.output_grad};
  if (by_cudnn<T>(ConvPass::input_grad, p.sizes, arrays) == Done::all) return;
  if (lies_last(p.sizes)) {
    const ChannelsFirst<T> first(p.sizes);
    first.output.take(p.output_grad);
    first.weight.take(p.weight);
    conv2d_input_grad<T>({first.sizes, first.output.data(), first.weight.data(), first.image.data()});
    return first.image.give(p.input_grad);
  }
  const ConvInputGrad<T> problem(p);
  if (p.sizes.groups > 1 && problem.rows < kNarrow) {
    return product_direct(problem, problem.shape.image(), p.sizes.in_channels);
  }
  multiply_tiles(TileGrid(problem.rows, problem.columns, problem.depth, p.sizes.groups, 1), problem);
}

template <class T>
void conv2d_weight_grad(const Conv2dWeightGradParams& p) {
  if (p.bias_grad != nullptr) bias_grad<T>(p);
  const ConvArrays arrays{p.input, p.weight_grad, p.output_grad};
  if (by_cudnn<T>(ConvPass::weight_grad, p.sizes, arrays) == Done::all) return;
  if (lies_last(p.sizes)) {
    const ChannelsFirst<T> first(p.sizes);
    first.output.take(p.output_grad);
    first.image.take(p.input);
    conv2d_weight_grad<T>({first.sizes, first.output.data(), first.image.data(), first.weight.data(), nullptr});
    return first.weight.give(p.weight_grad);
  }
  const ConvWeightGrad<T> problem(p);
  if (p.sizes.groups > 1 && problem.rows < kNarrow) return weight_grad_direct(problem);
  weight_grad_tiles(problem);
}

}  // namespace

void fill_convolution(NnTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.conv2d[slot] = conv2d<T>;
    table.conv2d_input_grad[slot] = conv2d_input_grad<T>;
    table.conv2d_weight_grad[slot] = conv2d_weight_grad<T>;
  });
}

}  // namespace core::CORE_KERNELS
