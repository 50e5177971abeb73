// func::vmap beside a loop over the samples: every rule, by dimensions, nested, with gradients within and outside.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libcore/core.h"

namespace {

namespace func = core::func;
using core::Tensor;
using Two = std::function<Tensor(const Tensor&, const Tensor&)>;

/// a: (samples, 4, 6), b: (samples, 4, 6), positive.
struct Case {
  const char* name;
  Two function;
  bool differentiable = true;
  bool by_loop = false;  ///< has no rule
  bool loop_for_gradients = false;
  bool loop_where_a_is_shared = false;
};

Tensor index_of(const Tensor& b) {
  return core::argsort(b, 1).slice(1, 0, 3);
}
Tensor modulo(const Tensor& x, std::int64_t by) {
  return core::remainder(x, core::full_like(x, by));
}
/// (2, 3, 4): an image without a batch.
Tensor image(const Tensor& x) {
  return x.reshape({2, 3, 4});
}
Tensor volume(const Tensor& x) {
  return x.reshape({1, 2, 3, 4});
}
/// Weights of six classes, the same for all samples.
Tensor class_weights() {
  return core::arange(6).to(core::DType::f32) / 4 + 0.5;
}

std::vector<Case> element_cases() {
  return {
      {"sums", [](const Tensor& a, const Tensor& b) { return a * 2 + b / 3 - 1 + 2 / b + (1 - a); }},
      {"two", [](const Tensor& a, const Tensor& b) { return a * b + a / b - core::pow(b, 2) + core::add(a, b, 0.5); }},
      {"broadcast", [](const Tensor& a, const Tensor& b) { return a * b.select(0, 0) + b.select(1, 1).unsqueeze(1); }},
      {"scalars", [](const Tensor& a, const Tensor& b) { return a * b.sum() + core::maximum(a.mean(), b.mean()); }},
      {"unary",
       [](const Tensor& a, const Tensor& b) {
         return core::exp(a) + core::log(b) + core::tanh(a) + core::sigmoid(b) + core::sqrt(b) + core::erf(a) +
                core::sin(a) * core::cos(b) + core::abs(a) + core::square(b) + core::rsqrt(b) - core::neg(a);
       }},
      {"activations",
       [](const Tensor& a, const Tensor& b) {
         return core::relu(a) + core::gelu(b) + core::gelu(a, core::GeluForm::tanh) + core::silu(a) +
                core::leaky_relu(a, 0.1) + core::elu(a, 0.7) + core::softplus(b) + core::clamp(a, -0.5, 0.5);
       }},
      {"composed",
       [](const Tensor& a, const Tensor& b) {
         return core::mish(a) + core::glu(b, 1).repeat({1, 2});
       }},
      {"choices",
       [](const Tensor& a, const Tensor& b) {
         return core::where(a > 0.1, a, b) + core::masked_fill(a, b > 1, 0) + core::lerp(a, b, 0.25);
       }},
      {"comparisons",
       [](const Tensor& a, const Tensor& b) {
         return core::logical_and(a > b, core::logical_not(a < 0.2)).to(core::DType::f32) +
                (a == b).to(core::DType::f32);
       },
       false},
      {"types",
       [](const Tensor& a, const Tensor& b) {
         return a.sum().to(core::DType::f64) * b + a.to_long().to(core::DType::f32);
       },
       false},
      {"rounded_quotients", [](const Tensor& a, const Tensor& b) { return core::div(a, b, core::Rounding::floor) + a; },
       true, false, true},
      {"hardswish", [](const Tensor& a, const Tensor& b) { return core::hardswish(a) + b; }, true, false, true},
  };
}

std::vector<Case> shape_cases() {
  return {
      {"views",
       [](const Tensor& a, const Tensor& b) {
         return a.reshape({2, 12}).t().reshape({4, 6}) + b.permute({1, 0}).contiguous().view({4, 6}) +
                a.transpose(0, 1).reshape({-1}).view({4, 6});
       }},
      {"parts",
       [](const Tensor& a, const Tensor& b) {
         return core::cat({a.slice(1, 1, 4), b.slice(1, 0, 6, 2)}, 1) + a[0] + b.select(1, -1).unsqueeze(1) +
                a.split(2, 0)[1].sum(0) + b.unbind(0)[3];
       }},
      {"joins",
       [](const Tensor& a, const Tensor& b) {
         return core::stack({a, b}, -1).sum(2) + core::cat({a, b}).sum(0);
       }},
      {"repetitions",
       [](const Tensor& a, const Tensor& b) {
         return a.repeat({2, 1}).slice(0, 0, 4) + core::roll(b, {1}, {1}) + core::flip(a, {0, 1}) +
                core::roll(b, {5}, {}) + a[1].expand({4, 6});
       }},
      {"triangles", [](const Tensor& a, const Tensor& b) { return core::tril(a) + core::triu(b, 1); }},
      {"pads",
       [](const Tensor& a, const Tensor& b) {
         return core::pad_constant(a, {1, 1}, 0.5).slice(1, 0, 6) +
                core::pad(b, {2, 1}, core::PaddingMode::reflect).slice(1, 0, 6) +
                core::pad(image(a), {1, 0, 0, 1}, core::PaddingMode::replicate).sum();
       }},
      {"squeezes",
       [](const Tensor& a, const Tensor& b) { return a.unsqueeze(1).squeeze(1) + b.unsqueeze(0).squeeze(); }},
      {"in_place",
       [](const Tensor& a, const Tensor& b) {
         const Tensor y = a * 2;
         y.add_(b).mul_(3);
         y.select(0, 1).copy_(b[2]);
         return y;
       },
       true, false, true, true},
  };
}

std::vector<Case> reduction_cases() {
  return {
      {"sums",
       [](const Tensor& a, const Tensor& b) {
         return a.sum(1) * b.mean(1, true).squeeze(1) + core::prod(b, 1) + a.sum() * b.mean() + core::prod(b);
       }},
      {"extremes",
       [](const Tensor& a, const Tensor& b) {
         return core::amax(a, 1) + core::amin(b, {1}) + core::max(a, 1).values + core::min(b, 1).values + core::max(a);
       }},
      {"places",
       [](const Tensor& a, const Tensor& b) {
         return core::argmax(a, 1) + core::argmin(b, 1) + core::argmax(a) + core::max(b, 1).indices;
       },
       false},
      {"statistics",
       [](const Tensor& a, const Tensor& b) {
         return core::var(a, 1) + core::std(b, {.dims = {1}, .correction = 0}) + core::norm(a, {.dims = {1}}) +
                core::logsumexp(b, {1}) + core::var(a) + core::norm(b, {.p = 1});
       }},
      {"order",
       [](const Tensor& a, const Tensor& b) {
         return core::sort(a, 1).values + core::topk(b, 6, 1).values + core::sort(a, 0, true).values;
       }},
      {"truths",
       [](const Tensor& a, const Tensor& b) { return core::logical_or(core::all(a > -1, 1), core::any(b > 2, 1)); },
       false},
      {"running", [](const Tensor& a, const Tensor& b) { return core::cumsum(a, 1) + core::cumprod(b, 0); }},
      {"softmax", [](const Tensor& a, const Tensor& b) { return core::softmax(a, -1) + core::log_softmax(b, 0); }},
  };
}

std::vector<Case> layer_cases() {
  return {
      {"products",
       [](const Tensor& a, const Tensor& b) {
         return core::matmul(a, b.t()).sum() + core::matmul(a, b[0]) + core::matmul(a[1], b.t()) +
                core::matmul(a[0], b[1]) + core::addmm(a.slice(1, 0, 4), a, b.t()).sum(1);
       }},
      {"stacked_products",
       [](const Tensor& a, const Tensor& b) {
         return core::matmul(a.reshape({2, 2, 6}), b.reshape({2, 6, 2})) +
                core::matmul(a.reshape({2, 2, 6}), b.t())[0][0][0];
       }},
      {"linear",
       [](const Tensor& a, const Tensor& b) {
         return core::linear(a, b, b.select(1, 0)) + core::linear(a[0], b, b.select(1, 1)) + core::linear(a, b);
       }},
      {"einsum",
       [](const Tensor& a, const Tensor& b) {
         return core::einsum("ij,kj->ik", {a, b});
       }},
      {"convolutions",
       [](const Tensor& a, const Tensor& b) {
         const Tensor x = image(a), w = b.reshape({4, 2, 3}).slice(2, 0, 2);
         const Tensor kernel = b.slice(1, 0, 4).reshape({2, 2, 2, 2});
         return core::conv2d(x, kernel, b[0].slice(0, 0, 2), {.padding = 1}).sum() +
                core::conv2d(x.unsqueeze(0), kernel, {}, {.stride = 2}).sum() +
                core::conv1d(a.reshape({2, 12}), w, {}, {.padding = {1}, .dilation = {2}}).sum() +
                core::conv1d(a.reshape({2, 12}), w.slice(1, 0, 1), {}, {.groups = 2}).sum();
       }},
      {"pools",
       [](const Tensor& a, const Tensor& b) {
         return core::max_pool2d(image(a), 2, {.stride = 1}) + core::avg_pool2d(image(b), 2, {.stride = 1}) +
                core::adaptive_avg_pool2d(image(b).unsqueeze(0), {2, 3})[0] +
                core::max_pool1d(a.unsqueeze(0), {2}, {.stride = {1}}).sum();
       }},
      {"norms",
       [](const Tensor& a, const Tensor& b) {
         return core::layer_norm(a, {6}, {.weight = b[0], .bias = b[1]}) + core::layer_norm(a, {4, 6}) +
                core::rms_norm(b, {6}, {.weight = a[0]}) + core::group_norm(a, 2);
       }},
      {"attention",
       [](const Tensor& a, const Tensor& b) {
         const Tensor q = a.reshape({2, 4, 3}), k = b.reshape({2, 4, 3});
         return core::scaled_dot_product_attention(q, k, q, {.is_causal = true}) +
                core::scaled_dot_product_attention(q, k, k, {.mask = k.select(2, 0).unsqueeze(2) > 0.7});
       }},
  };
}

std::vector<Case> volume_and_norm_cases() {
  return {
      {"volumes",
       [](const Tensor& a, const Tensor& b) {
         const Tensor x = volume(a), y = volume(b);
         return core::max_pool3d(x, {2}, {.stride = {1}}) + core::avg_pool3d(y, {2}, {.stride = {1}}) +
                core::max_pool3d(x.unsqueeze(0), {2}, {.stride = {1}})[0] +
                core::avg_pool3d(y.unsqueeze(0), {2}, {.padding = {1}, .count_include_pad = false}).sum() +
                core::adaptive_avg_pool3d(x, {1, 2, 3}) + core::adaptive_max_pool3d(y, {1, 2, 3}).values;
       }},
      {"maxima_and_their_places",
       [](const Tensor& a, const Tensor& b) {
         const auto planes = core::max_pool2d_with_indices(image(a), 2, {.stride = 1});
         const auto volumes = core::max_pool3d_with_indices(volume(b), {2}, {.stride = {1}});
         return planes.values.sum() * planes.indices + volumes.values * volumes.indices;
       },
       false},
      {"norms_of_batches",
       [](const Tensor& a, const Tensor& b) {
         const Tensor x = a.reshape({4, 2, 3}), weight = b[0].slice(0, 0, 2), bias = b[1].slice(0, 0, 2);
         return core::batch_norm(x, {.weight = weight, .bias = bias, .training = true}) +
                core::batch_norm(x, {.training = true}) + core::batch_norm(a, {.training = true}).reshape({4, 2, 3}) +
                core::batch_norm(x, {.running_mean = core::ones({2}), .running_var = bias, .weight = weight}) +
                core::group_norm(x, 2, {.weight = weight, .bias = bias});
       }},
      {"norms_of_images",
       [](const Tensor& a, const Tensor& b) {
         return core::instance_norm(image(a),
                                    {.weight = b[0].slice(0, 0, 3), .bias = b[1].slice(0, 0, 3), .training = true}) +
                core::instance_norm(image(b), {.training = true});
       }},
  };
}

std::vector<Case> index_cases() {
  return {
      {"losses",
       [](const Tensor& a, const Tensor& b) {
         const Tensor classes = core::argmax(b.detach(), 1);
         return core::mse_loss(a, b) + core::cross_entropy(a, classes) + core::mse_loss(a, b, core::Reduction::sum) +
                core::nll_loss(core::log_softmax(a, 1), classes, {.ignore_index = 3}) +
                core::cross_entropy(a[0], classes[0]);
       }},
      {"indices",
       [](const Tensor& a, const Tensor& b) {
         const Tensor at = index_of(b.detach());
         return core::gather(a, 1, at).sum(1) + core::scatter_add(b, 1, at, a.slice(1, 0, 3)).sum(1) +
                core::index_select(a, 1, at[0]).sum(1) + core::scatter(b, 1, at, core::Scalar(2)).sum(1) +
                core::index_add(a, 1, at[1], b.slice(1, 0, 3)).sum(1);
       }},
      {"brackets",
       [](const Tensor& a, const Tensor& b) {
         const Tensor at = index_of(b.detach()), rows = modulo(at, 4);
         return a.index({rows, at}) + a.index({core::Slice(), at[0]}).slice(1, 0, 3) + a.index({rows[1]}).sum(0)[0] +
                a.reshape({2, 2, 6}).index({core::Slice(), modulo(rows[0], 2), at[0]}).sum() +
                a.reshape({2, 2, 6}).index({modulo(rows[0], 2), core::Slice(), at[0]}).sum();
       }},
      {"embeddings",
       [](const Tensor& a, const Tensor& b) {
         const Tensor at = modulo(index_of(b.detach()), 4);
         return core::embedding(at, a).sum(1) + core::one_hot(at, 6).sum(1).to(core::DType::f32);
       }},
  };
}

std::vector<Case> loss_cases() {
  return {
      {"losses_of_classes",
       [](const Tensor& a, const Tensor& b) {
         const Tensor classes = core::argmax(b.detach(), 1), weight = class_weights();
         const Tensor planes = a.reshape({2, 6, 2}), of_planes = modulo(classes, 6).reshape({2, 2});
         return core::cross_entropy(a, classes, {.weight = weight, .ignore_index = 3, .label_smoothing = 0.1}) +
                core::cross_entropy(a, classes, {.reduction = core::Reduction::sum, .label_smoothing = 0.2}) +
                core::nll_loss(core::log_softmax(planes, 1), of_planes, {.weight = weight}) +
                core::cross_entropy(a, core::softmax(b, 1), {.weight = weight}) +
                core::cross_entropy(a[0], core::softmax(b[0], 0)) +
                core::cross_entropy(a, core::softmax(b, 1), {.reduction = core::Reduction::none}).sum();
       }},
      {"losses_of_probabilities",
       [](const Tensor& a, const Tensor& b) {
         const Tensor p = core::sigmoid(a), q = core::sigmoid(b), weight = class_weights();
         return core::binary_cross_entropy(p, q) + core::binary_cross_entropy(p, q, {.weight = weight}) +
                core::binary_cross_entropy(p, q, {.weight = b, .reduction = core::Reduction::sum}) +
                core::binary_cross_entropy(p, q, {.reduction = core::Reduction::none}).sum() +
                core::binary_cross_entropy_with_logits(a, q, {.pos_weight = weight}) +
                core::kl_div(core::log_softmax(a, 1), core::softmax(b, 1), {.batch_mean = true}) +
                core::kl_div(core::log_softmax(a, 1), core::log_softmax(b, 1),
                             {.reduction = core::Reduction::sum, .log_target = true});
       }},
      {"losses_of_numbers",
       [](const Tensor& a, const Tensor& b) {
         return core::l1_loss(a, b) + core::smooth_l1_loss(a, b, {.beta = 0.6}) +
                core::huber_loss(a, b, {.delta = 0.7}) +
                core::gaussian_nll_loss(a, b, b.slice(1, 0, 1), {.full = true}) + core::poisson_nll_loss(a, b) +
                core::soft_margin_loss(a, b, core::Reduction::sum);
       }},
  };
}

const std::vector<std::optional<std::int64_t>> kBoth = {0, 0}, kFirst = {0, std::nullopt}, kSecond = {std::nullopt, 0};

Tensor sample(const Tensor& x, std::optional<std::int64_t> dim, std::int64_t i) {
  return dim ? x.select(*dim, i) : x;
}
Tensor by_loop(const Two& f, const func::VmapOptions& o, const Tensor& a, const Tensor& b, std::int64_t samples) {
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < samples; ++i) all.push_back(f(sample(a, o.in_dims[0], i), sample(b, o.in_dims[1], i)));
  return core::stack(all, o.out_dims[0]);
}

void expect_same(const Tensor& got, const Tensor& wanted, const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  ASSERT_EQ(got.dtype(), wanted.dtype()) << what;
  EXPECT_EQ(got.strides(), wanted.strides()) << what;
  EXPECT_TRUE(core::allclose(got.detach().to(core::DType::f64), wanted.detach().to(core::DType::f64),
                             {.rtol = 2e-5, .atol = 2e-5}))
      << what;
}

class Vmap : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    core::manual_seed(7);
    a = core::randn({5, 4, 6});
    b = core::rand({5, 4, 6}) + 0.3;
  }
  Tensor a, b;
};

TEST_P(Vmap, GivesWhatALoopGives) {
  for (const auto& dims : {kBoth, kFirst, kSecond}) {
    const Tensor x = dims[0] ? a : a[0], y = dims[1] ? b : b[0];
    int calls = 0;
    const auto counted = [&](const Tensor& p, const Tensor& q) {
      ++calls;
      return GetParam().function(p, q);
    };
    const func::VmapOptions o{.in_dims = dims, .out_dims = {-1}};
    const Tensor got = func::vmap(counted, o)(x, y);
    const bool loop = GetParam().by_loop || (GetParam().loop_where_a_is_shared && !dims[0]);
    EXPECT_EQ(calls, loop ? 6 : 1);
    expect_same(got, by_loop(GetParam().function, o, x, y, 5), GetParam().name);
  }
}

TEST_P(Vmap, OverOtherDimensions) {
  const func::VmapOptions o{.in_dims = {2, 1}, .out_dims = {0}};
  const Tensor x = a.movedim(0, 2).contiguous(), y = b.movedim(0, 1);
  expect_same(func::vmap(GetParam().function, o)(x, y), by_loop(GetParam().function, o, x, y, 5), GetParam().name);
}

TEST_P(Vmap, WithinAnother) {
  const Tensor x = core::randn({3, 5, 4, 6}), y = core::rand({3, 5, 4, 6}) + 0.3;
  const func::VmapOptions o{.in_dims = kBoth};
  int calls = 0;
  const auto counted = [&](const Tensor& p, const Tensor& q) {
    ++calls;
    return GetParam().function(p, q);
  };
  const Tensor got = func::vmap(func::vmap(counted, o), o)(x, y);
  EXPECT_TRUE(calls == 1 || GetParam().by_loop) << calls;
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < 3; ++i) all.push_back(by_loop(GetParam().function, o, x[i], y[i], 5));
  expect_same(got, core::stack(all), GetParam().name);
}

TEST_P(Vmap, GradientsOfEachSample) {
  if (!GetParam().differentiable) return;
  const auto total = [&](const Tensor& p, const Tensor& q) { return GetParam().function(p, q).sum(); };
  for (const auto& dims : {kBoth, kSecond}) {
    const Tensor x = dims[0] ? a : a[0];
    const func::VmapOptions o{.in_dims = dims};
    int calls = 0;
    const auto counted = [&](const Tensor& p, const Tensor& q) {
      ++calls;
      return total(p, q);
    };
    const Tensor got = func::vmap(func::grad(counted), o)(x, b);
    EXPECT_TRUE(calls == 1 || GetParam().by_loop || GetParam().loop_for_gradients) << calls;
    expect_same(got, by_loop(func::grad(total), o, x, b, 5), GetParam().name);
  }
}

TEST_P(Vmap, GradientsThroughIt) {
  if (!GetParam().differentiable) return;
  const func::VmapOptions o{.in_dims = kFirst};
  std::vector<Tensor> grads[2];
  for (const bool loop : {false, true}) {
    const Tensor x = a.clone().requires_grad_(), y = b[0].clone().requires_grad_();
    const Tensor out = loop ? by_loop(GetParam().function, o, x, y, 5) : func::vmap(GetParam().function, o)(x, y);
    ASSERT_TRUE(out.requires_grad());
    (out * core::arange(out.numel()).reshape(out.sizes()).to(out.dtype())).mean().backward();
    grads[loop ? 1 : 0] = {x.grad(), y.grad()};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(grads[0][i].defined(), grads[1][i].defined());
    if (!grads[0][i].defined()) continue;
    EXPECT_TRUE(core::allclose(grads[0][i], grads[1][i], {.rtol = 1e-4, .atol = 1e-4})) << i;
  }
}

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}
std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Elements, Vmap, testing::ValuesIn(element_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Shapes, Vmap, testing::ValuesIn(shape_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Reductions, Vmap, testing::ValuesIn(reduction_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Indices, Vmap, testing::ValuesIn(index_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Layers, Vmap, testing::ValuesIn(layer_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Norms, Vmap, testing::ValuesIn(volume_and_norm_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Losses, Vmap, testing::ValuesIn(loss_cases()), name_of);

/// What has no rule, or follows values, is done sample by sample.
TEST(VmapLoop, StandsInWhereThereIsNoRule) {
  core::manual_seed(1);
  const Tensor x = core::randn({5, 3});
  int calls = 0;
  const auto branches = [&](const Tensor& v) {
    ++calls;
    return v.sum().item<float>() > 0 ? v * 2 : v - 1;
  };
  const Tensor y = func::vmap(branches)(x);
  EXPECT_EQ(calls, 6);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_TRUE(core::equal(y[i], branches(x[i])));
  const auto engine = [](const Tensor& v) {
    const Tensor leaf = v.clone().detach().requires_grad_();
    (leaf * leaf).sum().backward();
    return leaf.grad();
  };
  EXPECT_TRUE(core::allclose(func::vmap(engine)(x), x * 2));
  const auto swallows = [](const Tensor& v) {
    try {
      return v * v.sum().item<float>();
    } catch (...) {
      return v;
    }
  };
  const Tensor z = func::vmap(swallows)(x);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_TRUE(core::equal(z[i], swallows(x[i])));
}

/// Operations without a word to a trace that read the memory of a sample.
TEST(VmapLoop, StandsInWhereMemoryIsRead) {
  core::manual_seed(6);
  const Tensor x = core::randn({5, 3, 3});
  const std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [](const Tensor& v) { return core::linalg::det(v); },
      [](const Tensor& v) { return core::view_as_real(core::fft::rfft(v)); },
      [](const Tensor& v) { return v * v.data<float>()[0]; },
  };
  for (const auto& f : functions) {
    const Tensor y = func::vmap(f)(x);
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_TRUE(core::allclose(y[i], f(x[i]))) << i;
  }
}

TEST(VmapLoop, ChangesInPlaceHappenOncePerSample) {
  const Tensor x = core::ones({3, 2});
  const auto into_sample = [](const Tensor& v) {
    v.add_(1);
    return v * 2;
  };
  EXPECT_EQ(func::vmap(into_sample)(x).to_vector<float>(), std::vector<float>(6, 4));
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(6, 2));
  const Tensor total = core::zeros({2});
  func::vmap([&](const Tensor& v) {
    total.add_(v);
    return v * 1;
  })(x);
  EXPECT_EQ(total.to_vector<float>(), (std::vector<float>{6, 6}));
  const auto before = core::default_generator().state();
  const auto drawn = [](const Tensor& v) { return v + core::rand({2}); };
  const Tensor noisy = func::vmap(drawn, {.randomness = func::Randomness::different})(x);
  core::default_generator().set_state(before);
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < 3; ++i) all.push_back(drawn(x[i]));
  EXPECT_TRUE(core::equal(noisy, core::stack(all)));
}

/// What is the same for all samples of the inner one differs by those of the outer.
TEST(VmapNested, FollowsWhatOnlyTheOuterSamplesSee) {
  core::manual_seed(2);
  const Tensor a = core::randn({3, 4}), b = core::randn({5, 4});
  const std::vector<Two> functions = {
      [](const Tensor& x, const Tensor& y) { return (x * 2) * y; },
      [](const Tensor& x, const Tensor&) { return core::exp(x); },
      [](const Tensor& x, const Tensor& y) { return core::exp(x).sum() * y.slice(0, 1, 3); },
      [](const Tensor& x, const Tensor& y) { return x.sum().item<float>() > 0 ? y * 2 : y - x; },
      [](const Tensor& x, const Tensor& y) {
        return func::grad([&](const Tensor& w) { return (core::sin(w) * core::exp(x) * y).sum(); })(y);
      },
  };
  for (const Two& f : functions) {
    const auto inner = [&](const Tensor& x) { return func::vmap([&](const Tensor& y) { return f(x, y); })(b); };
    std::vector<Tensor> all;
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t k = 0; k < 5; ++k) all.push_back(f(a[i], b[k]));
    }
    const Tensor wanted = core::stack(all);
    const Tensor got = func::vmap(inner)(a);
    EXPECT_TRUE(core::allclose(got.reshape(wanted.sizes()), wanted)) << got << wanted;
  }
}

/// `change` writes into what is the same for all samples: as often as there are samples, also where a loop takes over.
void expect_changes_of_a_loop(const Tensor& state, const std::function<Tensor(const Tensor&, const Tensor&)>& change,
                              const Tensor& x) {
  for (const bool reads : {false, true}) {
    const auto f = [&](const Tensor& kept, const Tensor& v) {
      const Tensor y = change(kept, v) * 1;
      return reads ? y * y.sum().item<float>() : y;
    };
    const Tensor got = state.clone(), wanted = state.clone();
    const Tensor y = func::vmap([&](const Tensor& v) { return f(got, v); })(x);
    std::vector<Tensor> all;
    for (std::int64_t i = 0; i < x.size(0); ++i) all.push_back(f(wanted, x[i]));
    EXPECT_TRUE(core::allclose(y, core::stack(all)));
    EXPECT_TRUE(core::allclose(got, wanted)) << got << wanted;
  }
}

TEST(VmapLoop, WritesIntoWhatAllShareAsALoopDoes) {
  core::manual_seed(4);
  const Tensor x = core::randn({3, 6, 2});
  const auto filled = [](const Tensor& kept, const Tensor& v) {
    kept.fill_(kept.sum().item<float>() + 1);
    return v;
  };
  expect_changes_of_a_loop(core::ones({4}), filled, x);
  const auto limited = [](const Tensor& table, const Tensor& at) {
    return core::embedding(at, table, core::EmbeddingArguments{.max_norm = 1});
  };
  expect_changes_of_a_loop(core::randn({6, 3}) * 5, limited, core::arange(6).reshape({3, 2}));
}

TEST(VmapLoop, RowsOfEachSamplesTableStayWithinIt) {
  const Tensor tables = core::randn({3, 4, 2});
  const auto rows = [](const Tensor& at, const Tensor& table) { return core::embedding(at, table); };
  const Tensor at = core::arange(6).reshape({3, 2});
  EXPECT_ANY_THROW(func::vmap(rows)(at, tables));
  EXPECT_ANY_THROW(func::vmap(rows)(1 - core::arange(3).reshape({3, 1}), tables));
}

TEST(VmapLoop, DrawsFromAGeneratorOfItsOwnForEachSample) {
  const Tensor x = core::zeros({3, 4});
  core::Generator generator;
  const auto drawn = [&](const Tensor& v) { return v + core::rand({4}, {.generator = generator}); };
  generator.manual_seed(5);
  const Tensor got = func::vmap(drawn, {.randomness = func::Randomness::different})(x);
  generator.manual_seed(5);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_TRUE(core::equal(got[i], drawn(x[i]))) << i;
}

/// Kernels of one run: for 64 samples not 64 times as many.
std::size_t kernels(const std::function<void()>& run) {
  core::profiler::profile prof(core::profiler::ProfileOptions{});
  run();
  prof.stop();
  return prof.events().size();
}

TEST(VmapCost, KernelsDoNotFollowTheSamples) {
  core::manual_seed(3);
  core::Sequential net(core::Linear(8, 16), core::Tanh(), core::Linear(16, 4));
  core::NamedTensors params;
  for (const auto& [name, p] : net.named_parameters()) params.emplace_back(name, p.detach());
  const auto loss = [&](const core::NamedTensors& p, const Tensor& x, const Tensor& y) {
    return core::cross_entropy(func::functional_call(net, p, x), y);
  };
  const auto each = func::vmap(func::grad(loss), {.in_dims = {std::nullopt, 0, 0}});
  const auto count = [&](std::int64_t samples) {
    const Tensor x = core::randn({samples, 8}), y = core::randint(0, 4, {samples});
    return kernels([&] { each(params, x, y); });
  };
  const std::size_t few = count(4), many = count(64);
  const std::size_t one = count(1);
  EXPECT_EQ(few, many);
  EXPECT_LT(many, 4 * one);
  std::cout << "gradients of 64 samples: " << many << " operations; of one: " << one << "\n";
}

}  // namespace
