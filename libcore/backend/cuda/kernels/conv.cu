// Convolution: by cuDNN where that is there and has a deterministic way, else as a product of matrices whose patches
// are gathered on the way, or directly where groups are narrow. Any dilation, stride and padding.
#include "libcore/backend/cuda/kernels/conv_problems.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/image_table.h"
#ifdef __CUDACC__
#include "libcore/backend/cuda/cudnn_convolution.h"
#endif

namespace core::CORE_KERNELS {
namespace {

/// Groups of fewer channels leave most of a tile empty.
constexpr std::int64_t kNarrow = 16;

/// The arrays of a pass, one of which it writes.
struct ConvArrays {
  const void *image, *weight, *output;
  const void* bias = nullptr;
};

enum class Done { nothing, all_but_bias, all };

/// Nothing where cuDNN is not there, or has no way to do it.
Done by_cudnn([[maybe_unused]] ConvPass pass, [[maybe_unused]] const Conv2dSizes& sizes, [[maybe_unused]] DType dtype,
              [[maybe_unused]] const ConvArrays& arrays) {
#ifdef __CUDACC__
  gpu::Cudnn* cudnn = gpu::loaded_cudnn();
  int device = 0;
  if (cudnn == nullptr || cudaGetDevice(&device) != cudaSuccess) return Done::nothing;
  const gpu::CudnnPlan* plan = cudnn->plan({pass, sizes, dtype, device});
  if (plan == nullptr) return Done::nothing;
  const Scratch workspace(plan->workspace_bytes);
  gpu::CudnnArrays all{arrays.image, arrays.weight, arrays.output, current_stream(), workspace.as<void>()};
  if (arrays.bias != nullptr && plan->bias != nullptr) {
    all.bias = arrays.bias;
    if (cudnn->run(*plan, all)) return Done::all;
    all.bias = nullptr;
  }
  if (!cudnn->run(*plan, all)) return Done::nothing;
  return arrays.bias == nullptr ? Done::all : Done::all_but_bias;
#else
  return Done::nothing;
#endif
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

/// The sum of the output's gradient over all pixels of each channel.
template <class T>
void bias_grad(const Conv2dWeightGradParams& p) {
  const ConvShape shape(p.sizes);
  const auto* grad = static_cast<const T*>(p.output_grad);
  auto* out = static_cast<T*>(p.bias_grad);
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
  const SizeDivider per_channel(p.sizes.out_h * p.sizes.out_w), channels(p.sizes.out_channels);
  const auto* bias = static_cast<const T*>(p.bias);
  auto* output = static_cast<T*>(p.output);
  for_each(p.sizes.batch * channels.divisor() * per_channel.divisor(), [=] CORE_BODY(std::int64_t i) {
    const std::int64_t channel = channels.divide(per_channel.divide(i).quotient).remainder;
    output[i] = narrow<T>(widen(output[i]) + widen(bias[channel]));
  });
}

template <class T>
void conv2d(const Conv2dParams& p) {
  const Done done = by_cudnn(ConvPass::forward, p.sizes, dtype_of<T>, {p.input, p.weight, p.output, p.bias});
  if (done == Done::all_but_bias) add_bias<T>(p);
  if (done != Done::nothing) return;
  const ConvForward<T> problem(p);
  if (p.sizes.groups > 1 && problem.rows < kNarrow) {
    return product_direct(problem, problem.shape.output(), p.sizes.out_channels);
  }
  multiply_tiles(TileGrid(problem.rows, problem.columns, problem.depth, p.sizes.groups, 1), problem);
}

template <class T>
void conv2d_input_grad(const Conv2dInputGradParams& p) {
  const ConvArrays arrays{p.input_grad, p.weight, p.output_grad};
  if (by_cudnn(ConvPass::input_grad, p.sizes, dtype_of<T>, arrays) == Done::all) return;
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
  if (by_cudnn(ConvPass::weight_grad, p.sizes, dtype_of<T>, arrays) == Done::all) return;
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
