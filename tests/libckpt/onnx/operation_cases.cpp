#include "operation_cases.h"

#include <limits>
#include <memory>

#include "libcore/core.h"

namespace {

using core::Tensor;

/// (size, 3, 7, 8)
Tensors images(std::int64_t size) {
  return {core::randn({size, 3, 7, 8})};
}
Tensors lines(std::int64_t size) {
  return {core::randn({size, 3, 10})};
}
Tensors volumes(std::int64_t size) {
  return {core::randn({size, 2, 5, 6, 7})};
}
/// (size, 6), no two numbers alike.
Tensors rows(std::int64_t size) {
  return {core::randn({size, 6})};
}
/// (4, size, 3): the size is in the middle.
Tensors middle(std::int64_t size) {
  return {core::randn({4, size, 3})};
}
Tensors numbers(std::int64_t size) {
  return {core::randint(-9, 10, {size, 6}), core::randint(1, 5, {size, 6})};
}
Tensors truths(std::int64_t size) {
  return {core::randn({size, 6}) > 0.2, core::randn({size, 6}) > -0.1};
}
Tensors pairs(std::int64_t size) {
  return {core::randn({size, 6}), core::randn({size, 6})};
}
/// x, an index into its 6 columns, and what is written there.
Tensors writes(std::int64_t size) {
  return {core::randn({size, 6}), core::argsort(core::rand({size, 6})).slice(1, 0, 4), core::randn({size, 5})};
}
/// x, an index into 5 rows, and rows.
Tensors row_writes(std::int64_t size) {
  return {core::randn({5, size}), core::from_values(std::vector<std::int64_t>{3, 0, 4}), core::randn({3, size})};
}

void add_windows(std::vector<OperationCase>& all) {
  const std::vector<OperationCase> cases = {
      {"max_pool1d", lines,
       [](const Tensors& in) {
         return Tensors{core::max_pool1d(in[0], {3}, {.stride = {2}, .padding = {1}}),
                        core::max_pool1d(in[0], {2}, {.dilation = {3}, .ceil_mode = true}),
                        core::max_pool1d(in[0][0], {3})};
       }},
      {"max_pool2d_without_a_batch",
       [](std::int64_t size) {
         return Tensors{core::randn({size, 7, 8})};
       },
       [](const Tensors& in) {
         return Tensors{core::max_pool2d(in[0], 3, {.stride = 2}), core::avg_pool2d(in[0], 2)};
       }},
      {"max_pool3d", volumes,
       [](const Tensors& in) {
         return Tensors{core::max_pool3d(in[0], {2}),
                        core::max_pool3d(in[0], {3, 2, 2}, {.stride = {2, 1, 2}, .padding = {1, 0, 1}})};
       }},
      {"max_pool_with_indices", images,
       [](const Tensors& in) {
         const auto both = core::max_pool2d_with_indices(in[0], 3, {.stride = 2});
         const auto line = core::max_pool1d_with_indices(in[0].flatten(1, 2), {2});
         const auto volume = core::max_pool3d_with_indices(in[0].unsqueeze(1), {2, 2, 3});
         return Tensors{both.values, both.indices, line.indices, volume.values, volume.indices};
       }},
      {"avg_pool", volumes,
       [](const Tensors& in) {
         return Tensors{core::avg_pool3d(in[0], {2, 3, 2}, {.padding = {0, 1, 1}}),
                        core::avg_pool3d(in[0], {2}, {.padding = {1}, .count_include_pad = false}),
                        core::avg_pool1d(in[0].flatten(2), {4}, {.stride = {3}})};
       }},
      {"adaptive_pools", volumes,
       [](const Tensors& in) {
         return Tensors{core::adaptive_avg_pool3d(in[0], {2, 4, 3}), core::adaptive_avg_pool1d(in[0].flatten(2), 7),
                        core::adaptive_max_pool2d(in[0].flatten(1, 2), {4, 3}).values,
                        core::adaptive_max_pool1d(in[0].flatten(2), 5).indices};
       }},
      {"lp_pool",
       [](std::int64_t size) {
         return Tensors{core::rand({size, 3, 7, 8})};
       },
       [](const Tensors& in) {
         return Tensors{core::lp_pool2d(in[0], 2, {3}), core::lp_pool1d(in[0].flatten(2), 3, {4})};
       }},
  };
  all.insert(all.end(), cases.begin(), cases.end());
}

void add_resizing(std::vector<OperationCase>& all) {
  const std::vector<OperationCase> cases = {
      {"interpolate", images,
       [](const Tensors& in) {
         return Tensors{core::interpolate(in[0], {.size = {5, 11}, .mode = "nearest-exact"}),
                        core::interpolate(in[0], {.scale_factor = {2.0}, .mode = "nearest-exact"}),
                        core::interpolate(in[0], {.size = {3, 5}, .mode = "area"}),
                        core::interpolate(in[0], {.size = {9, 5}, .mode = "bicubic", .align_corners = true}),
                        core::interpolate(in[0].flatten(2), {.size = {31}, .mode = "linear"}),
                        core::interpolate(in[0].unsqueeze(1), {.size = {4, 9, 5}, .mode = "trilinear"})};
       }},
      {"shuffles",
       [](std::int64_t size) {
         return Tensors{core::randn({size, 12, 4, 6})};
       },
       [](const Tensors& in) {
         return Tensors{core::pixel_shuffle(in[0], 2), core::pixel_unshuffle(in[0], 2),
                        core::channel_shuffle(in[0], 3)};
       }},
      {"grid_sample",
       [](std::int64_t size) {
         return Tensors{core::randn({size, 3, 7, 8}), core::rand({size, 5, 4, 2}) * 2.2 - 1.1};
       },
       [](const Tensors& in) {
         return Tensors{
             core::grid_sample(in[0], in[1], {.align_corners = true}),
             core::grid_sample(in[0], in[1], {.mode = "nearest", .padding_mode = "border", .align_corners = false}),
             core::grid_sample(in[0], in[1], {.padding_mode = "reflection", .align_corners = false})};
       },
       {0, 0}},
      {"pads", images,
       [](const Tensors& in) {
         return Tensors{core::pad(in[0], {1, 2, 3, 0}, core::PaddingMode::circular),
                        core::pad(in[0], {1, 2, 3, 0}, core::PaddingMode::reflect),
                        core::pad(in[0].flatten(2), {2, 2}, core::PaddingMode::replicate),
                        core::pad_constant(in[0], {1, -2, 0, 1, 2, 0}, 0.5)};
       }},
  };
  all.insert(all.end(), cases.begin(), cases.end());
}

void add_reductions(std::vector<OperationCase>& all) {
  const std::vector<OperationCase> cases = {
      {"order", rows,
       [](const Tensors& in) {
         const auto up = core::sort(in[0]), down = core::sort(in[0], 0, true), top = core::topk(in[0], 3);
         const auto low = core::topk(in[0], 2, 1, false);
         return Tensors{up.values,  up.indices,  down.values, down.indices,
                        top.values, top.indices, low.indices, core::argsort(in[0], 0)};
       }},
      {"extremes",
       middle,
       [](const Tensors& in) {
         const auto top = core::max(in[0], 1), low = core::min(in[0], 1, true);
         return Tensors{core::max(in[0]),
                        core::min(in[0]),
                        top.values,
                        top.indices,
                        low.values,
                        low.indices,
                        core::amin(in[0], 1),
                        core::amax(in[0], {0, 2}),
                        core::argmax(in[0]),
                        core::argmin(in[0], 2),
                        core::argmin(in[0], {}, true),
                        core::argmax(in[0], -2, true)};
       },
       {1}},
      {"variances",
       middle,
       [](const Tensors& in) {
         return Tensors{core::var(in[0]),
                        core::var(in[0], {.dims = {1}}),
                        core::std(in[0], {.dims = {0, 1}, .correction = 0, .keepdim = true}),
                        core::std(in[0], {.dims = {2}, .correction = 2}),
                        core::var_mean(in[0], {.dims = {1}}).mean,
                        core::var_mean(in[0], {.dims = {1}}).var};
       },
       {1}},
  };
  all.insert(all.end(), cases.begin(), cases.end());
}

void add_norms(std::vector<OperationCase>& all) {
  const std::vector<OperationCase> cases = {
      {"norms",
       middle,
       [](const Tensors& in) {
         return Tensors{core::norm(in[0]),
                        core::norm(in[0], {.p = 1, .dims = {1}}),
                        core::norm(in[0], {.p = 3, .dims = {0}, .keepdim = true}),
                        core::norm(in[0], {.p = std::numeric_limits<double>::infinity(), .dims = {1, 2}}),
                        core::norm(in[0], {.p = -std::numeric_limits<double>::infinity(), .dims = {2}}),
                        core::norm(in[0], {.p = 0, .dims = {1}}),
                        core::normalize(in[0])};
       },
       {1}},
      {"sums",
       middle,
       [](const Tensors& in) {
         return Tensors{core::prod(in[0]),
                        core::prod(in[0], 2, true),
                        core::logsumexp(in[0], {1}),
                        core::logsumexp(in[0], {0, 2}, true),
                        core::cumsum(in[0], 1),
                        core::nansum(in[0], 1),
                        core::all(in[0] > -1, 1),
                        core::any(in[0] > 1, {0, 2}, true),
                        core::count_nonzero(in[0], {1})};
       },
       {1}},
      {"flips",
       middle,
       [](const Tensors& in) {
         return Tensors{core::flip(in[0], {1}), core::flip(in[0], {0, -1}), core::roll(in[0], {2}, {1}),
                        core::roll(in[0], {-7, 1}, {1, 2})};
       },
       {1}},
      {"roll_all",
       [](std::int64_t) {
         return Tensors{core::randn({4, 5})};
       },
       [](const Tensors& in) {
         return Tensors{core::roll(in[0], {3}, {}), core::roll(in[0], {-23}, {})};
       },
       {-1}},
  };
  all.insert(all.end(), cases.begin(), cases.end());
}

void add_indexing(std::vector<OperationCase>& all) {
  const std::vector<OperationCase> cases = {
      {"scatter",
       writes,
       [](const Tensors& in) {
         return Tensors{core::scatter(in[0], 1, in[1], in[2]),
                        core::scatter(in[0], -1, in[1], core::Scalar(2.5)),
                        core::scatter_add(in[0], 1, in[1], in[2]),
                        core::scatter_reduce(in[0], 1, in[1], in[2], "sum"),
                        core::gather(in[0], 1, in[1]),
                        core::take_along_dim(in[0], in[1], 1),
                        core::take(in[0], in[1])};
       },
       {0, 0, 0}},
      {"scatter_reduce",
       writes,
       [](const Tensors& in) {
         return Tensors{core::scatter_reduce(in[0], 1, in[1], in[2], "amax"),
                        core::scatter_reduce(in[0], 1, in[1], in[2], "amin"),
                        core::scatter_reduce(in[0], 1, in[1], in[2], "prod")};
       },
       {0, 0, 0},
       18},
      {"index_writes",
       row_writes,
       [](const Tensors& in) {
         return Tensors{core::index_add(in[0], 0, in[1], in[2]), core::index_copy(in[0], 0, in[1], in[2]),
                        core::index_fill(in[0], 0, in[1], 1.5), core::index_select(in[0], 0, in[1])};
       },
       {1, -1, 1}},
  };
  all.insert(all.end(), cases.begin(), cases.end());
}

void add_brackets(std::vector<OperationCase>& all) {
  const auto at = [](std::vector<std::int64_t> values) { return core::from_values(values); };
  const std::vector<OperationCase> cases = {
      {"brackets",
       [](std::int64_t size) {
         return Tensors{core::randn({size, 4, 5, 3})};
       },
       [=](const Tensors& in) {
         const Tensor i = at({3, -1, 0}), j = at({1, 4, 2}), up = i.unsqueeze(1);
         using core::Slice;
         return Tensors{in[0].index({Slice(), i}),
                        in[0].index({Slice(), i, j}),
                        in[0].index({Slice(), i, Slice(), i * 0}),
                        in[0].index({Slice(), up, j}),
                        in[0].index({core::Ellipsis(), j * 0}),
                        in[0].index({0, i, Slice(1, core::None), 2})};
       }},
      {"one_hot",
       [](std::int64_t size) {
         return Tensors{core::randint(0, 5, {size, 3})};
       },
       [](const Tensors& in) {
         return Tensors{core::one_hot(in[0], 5), core::embedding(in[0], core::arange(0, 10).reshape({5, 2}).float_())};
       }},
      {"triangles",
       [](std::int64_t size) {
         return Tensors{core::randn({2, size, 4})};
       },
       [](const Tensors& in) {
         return Tensors{core::tril(in[0]), core::triu(in[0], 1), core::tril(in[0] > -2, -1).float_() + 1};
       },
       {1}},
      {"repeats", rows,
       [](const Tensors& in) {
         return Tensors{in[0].repeat({2, 1, 3}), in[0].expand({2, -1, -1}), core::repeat_interleave(in[0], 2, 1),
                        core::einsum("bi,bj->bij", in[0], in[0]), core::movedim(in[0], {0}, {1}) * 2};
       }},
  };
  all.insert(all.end(), cases.begin(), cases.end());
}

void add_elements(std::vector<OperationCase>& all) {
  const std::vector<OperationCase> cases = {
      {"roundings", rows,
       [](const Tensors& in) {
         const Tensor x = in[0] * 3;
         return Tensors{core::trunc(x),
                        core::frac(x),
                        core::round(x),
                        core::remainder(x, core::full({}, 1.25)),
                        core::fmod(x, core::full({}, 1.25)),
                        core::div(x, core::abs(in[0]) + 0.1, core::Rounding::trunc),
                        core::floor_divide(x, 0.7)};
       }},
      {"whole_numbers",
       numbers,
       [](const Tensors& in) {
         return Tensors{core::remainder(in[0], in[1]),    core::fmod(in[0], in[1]),
                        core::floor_divide(in[0], in[1]), core::div(in[0], in[1], core::Rounding::trunc),
                        core::clamp(in[0], -3, 4),        core::abs(in[0])};
       },
       {0, 0}},
      {"bits",
       numbers,
       [](const Tensors& in) {
         return Tensors{core::bitwise_and(in[0], in[1]), core::bitwise_or(in[0], in[1]),
                        core::bitwise_xor(in[0], in[1]), core::bitwise_not(in[0])};
       },
       {0, 0},
       18},
      {"truths",
       truths,
       [](const Tensors& in) {
         return Tensors{core::bitwise_and(in[0], in[1]), core::bitwise_or(in[0], in[1]),
                        core::logical_xor(in[0], in[1]), core::bitwise_not(in[0]),
                        core::where(in[0], in[1], core::logical_not(in[1]))};
       },
       {0, 0}},
      {"exponents", rows,
       [](const Tensors& in) {
         const Tensor x = core::abs(in[0]) + 0.1;
         return Tensors{core::exp2(in[0]), core::expm1(in[0]), core::log1p(x),
                        core::log2(x),     core::log10(x),     core::logaddexp(in[0], x)};
       }},
      {"angles",
       pairs,
       [](const Tensors& in) {
         const Tensor x = core::tanh(in[0]) * 0.9;
         return Tensors{core::tan(x),  core::asin(x),  core::acos(x),  core::atan(in[0]),        core::sinh(x),
                        core::cosh(x), core::asinh(x), core::atanh(x), core::atan2(in[0], in[1])};
       },
       {0, 0}},
  };
  all.insert(all.end(), cases.begin(), cases.end());
}

void add_activations(std::vector<OperationCase>& all) {
  const std::vector<OperationCase> cases = {
      {"clamps",
       pairs,
       [](const Tensors& in) {
         return Tensors{
             core::clamp(in[0], -0.5, {}),    core::clamp(in[0], {}, 0.5), core::clamp(in[0], in[1], in[1] + 0.3),
             core::threshold(in[0], 0.1, -2), core::relu6(in[0] * 4),      core::hardtanh(in[0], -0.4, 0.6)};
       },
       {0, 0}},
      {"activations", rows,
       [](const Tensors& in) {
         return Tensors{core::selu(in[0]),           core::celu(in[0], 1.3),  core::elu(in[0], 0.7),
                        core::softplus(in[0], 2, 1), core::mish(in[0]),       core::hardswish(in[0] * 3),
                        core::hardsigmoid(in[0]),    core::softsign(in[0]),   core::softshrink(in[0]),
                        core::glu(in[0], 1),         core::log_sigmoid(in[0])};
       }},
      {"blends",
       pairs,
       [](const Tensors& in) {
         return Tensors{core::addcmul(in[0], in[1], in[0], 0.3), core::addcdiv(in[0], in[1], core::abs(in[0]) + 1),
                        core::lerp(in[0], in[1], 0.3), core::lerp(in[0], in[1], core::sigmoid(in[0])),
                        core::where(in[0] > in[1], in[0], 2.0)};
       },
       {0, 0}},
      {"no_numbers", rows,
       [](const Tensors& in) {
         const double inf = std::numeric_limits<double>::infinity();
         const Tensor x = core::where(in[0] > 0.5, core::full({}, inf), in[0]);
         const Tensor y = core::where(in[0] < -0.5, core::full({}, -inf), x);
         const Tensor z = y - y;
         return Tensors{core::isnan(z), core::isinf(y), core::isfinite(y), core::nan_to_num(y, 0, 7.0, -8.0),
                        core::nan_to_num(z, 3.0)};
       }},
  };
  all.insert(all.end(), cases.begin(), cases.end());
}

struct Recurrent {
  core::RNN tanh{4, 3, {.num_layers = 2, .bidirectional = true}};
  core::RNN relu{4, 3, {.nonlinearity = "relu"}};
  core::LSTM lstm{4, 3, {.num_layers = 2, .bidirectional = true}};
  core::GRU gru{4, 3, {.bias = false}};

  Tensors run(const Tensor& x) {
    return {std::get<0>(tanh(x)), std::get<0>(relu(x)), std::get<0>(lstm(x)), std::get<0>(gru(x))};
  }
};

void add_layers(std::vector<OperationCase>& all) {
  const std::vector<OperationCase> cases = {
      {"instance_norm", images,
       [](const Tensors& in) {
         const Tensor weight = core::from_values(std::vector<float>{1.5F, -0.5F, 2}), bias = weight * 0.3;
         return Tensors{core::instance_norm(in[0], {.weight = weight, .bias = bias, .training = true}),
                        core::instance_norm(in[0].flatten(2), {.training = true}),
                        core::instance_norm(in[0], {.running_mean = bias, .running_var = core::abs(weight)}),
                        core::group_norm(in[0], 3, {.weight = weight, .bias = bias}), core::group_norm(in[0], 1, {})};
       }},
      {"recurrent",
       [](std::int64_t size) {
         return Tensors{core::randn({5, size, 4})};
       },
       [nets = std::make_shared<Recurrent>()](const Tensors& in) { return nets->run(in[0]); },
       {1}},
      {"recurrent_cells",
       [](std::int64_t size) {
         return Tensors{core::randn({size, 4}), core::randn({size, 3})};
       },
       [gru = std::make_shared<core::GRUCell>(4, 3), rnn = std::make_shared<core::RNNCell>(4, 3)](const Tensors& in) {
         return Tensors{(*gru)(in[0], in[1]), (*rnn)(in[0], in[1])};
       },
       {0, 0}},
  };
  all.insert(all.end(), cases.begin(), cases.end());
}

}  // namespace

std::vector<OperationCase> operation_cases() {
  std::vector<OperationCase> all;
  add_windows(all);
  add_resizing(all);
  add_reductions(all);
  add_norms(all);
  add_indexing(all);
  add_brackets(all);
  add_elements(all);
  add_activations(all);
  add_layers(all);
  return all;
}
