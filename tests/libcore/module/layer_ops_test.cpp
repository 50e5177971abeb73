// Operations of layers: gradients of every one against finite differences, and what the golden data leave out.
#include <gtest/gtest.h>

#include <functional>

#include "libcore/core.h"

namespace {

using core::Shape;
using core::Tensor;
using Inputs = std::span<const Tensor>;

/// Values without ties and away from kinks.
Tensor input(const Shape& sizes, std::int64_t seed = 1) {
  core::manual_seed(seed);
  return core::randn(sizes, {.dtype = core::DType::f64}).mul_(1.3).add_(0.037).detach().requires_grad_();
}

struct GradientCase {
  const char* name;
  std::function<Tensor(Inputs)> function;
  std::vector<Tensor> inputs;
};

void PrintTo(const GradientCase& c, std::ostream* out) {
  *out << c.name;
}

class LayerGradient : public testing::TestWithParam<GradientCase> {};

TEST_P(LayerGradient, AgreesWithFiniteDifferences) {
  EXPECT_NO_THROW(EXPECT_TRUE(core::gradcheck(GetParam().function, GetParam().inputs)));
}

std::vector<GradientCase> activation_cases() {
  const std::vector<Tensor> x{input({3, 4})};
  return {{"hardtanh", [](Inputs in) { return core::hardtanh(in[0]); }, x},
          {"hardsigmoid", [](Inputs in) { return core::hardsigmoid(in[0]); }, x},
          {"hardswish", [](Inputs in) { return core::hardswish(in[0]); }, x},
          {"selu", [](Inputs in) { return core::selu(in[0]); }, x},
          {"celu", [](Inputs in) { return core::celu(in[0], 1.3); }, x},
          {"mish", [](Inputs in) { return core::mish(in[0]); }, x},
          {"softsign", [](Inputs in) { return core::softsign(in[0]); }, x},
          {"softshrink", [](Inputs in) { return core::softshrink(in[0]); }, x},
          {"hardshrink", [](Inputs in) { return core::hardshrink(in[0]); }, x},
          {"glu", [](Inputs in) { return core::glu(in[0], 1); }, x},
          {"prelu", [](Inputs in) { return core::prelu(in[0], in[1]); }, {input({2, 3, 2}), input({3}, 2)}},
          {"logit", [](Inputs in) { return core::logit(core::sigmoid(in[0])); }, x}};
}

std::vector<GradientCase> image_cases() {
  const Tensor volume = input({1, 2, 4, 3, 5}), plane = input({1, 2, 5, 4}), line = input({2, 4, 7});
  return {
      {"conv1d",
       [](Inputs in) {
         return core::conv1d(in[0], in[1], in[2], {.stride = {2}, .padding = {1}, .dilation = {2}, .groups = 2});
       },
       {line, input({4, 2, 3}, 2), input({4}, 3)}},
      {"conv3d",
       [](Inputs in) {
         return core::conv3d(in[0], in[1], in[2], {.stride = {2, 1, 2}, .padding = {1}, .dilation = {1, 2, 1}});
       },
       {volume, input({3, 2, 2, 2, 2}, 2), input({3}, 3)}},
      {"conv_transpose2d",
       [](Inputs in) {
         return core::conv_transpose2d(in[0], in[1], in[2], {.stride = {2}, .padding = {1}, .output_padding = {1}});
       },
       {plane, input({2, 3, 3, 3}, 2), input({3}, 3)}},
      {"conv_transpose3d",
       [](Inputs in) { return core::conv_transpose3d(in[0], in[1], {}, {.stride = {2}}); },
       {input({1, 2, 2, 2, 3}), input({2, 1, 2, 2, 2}, 2)}},
      {"unfold", [](Inputs in) { return core::unfold(in[0], {2}, {.padding = {1}, .stride = {2}}); }, {plane}},
      {"fold",
       [](Inputs in) {
         return core::fold(in[0], {4, 5}, {2});
       },
       {input({1, 8, 12})}},
      {"reflect",
       [](Inputs in) {
         return core::pad(in[0], {1, 2, 2, 0}, core::PaddingMode::reflect);
       },
       {plane}},
      {"circular",
       [](Inputs in) {
         return core::pad(in[0], {1, 2, 2, 0}, core::PaddingMode::circular);
       },
       {plane}},
      {"max_pool3d", [](Inputs in) { return core::max_pool3d(in[0], {2}, {.stride = {1}}); }, {volume}},
      {"avg_pool3d",
       [](Inputs in) {
         return core::avg_pool3d(in[0], {2}, {.padding = {1}, .ceil_mode = true, .count_include_pad = false});
       },
       {volume}},
      {"adaptive_max_pool2d", [](Inputs in) { return core::adaptive_max_pool2d(in[0], {3}).values; }, {plane}},
      {"adaptive_avg_pool3d", [](Inputs in) { return core::adaptive_avg_pool3d(in[0], {2}); }, {volume}},
      {"lp_pool2d", [](Inputs in) { return core::lp_pool2d(core::exp(in[0]), 2, {2}); }, {plane}},
      {"bilinear",
       [](Inputs in) { return core::interpolate(in[0], {.scale_factor = {1.7}, .mode = "bilinear"}); },
       {plane}},
      {"bicubic",
       [](Inputs in) {
         return core::interpolate(in[0], {.size = {3, 7}, .mode = "bicubic"});
       },
       {plane}},
      {"trilinear",
       [](Inputs in) { return core::interpolate(in[0], {.size = {3}, .mode = "trilinear", .align_corners = true}); },
       {volume}},
      {"pixel_shuffle", [](Inputs in) { return core::pixel_shuffle(in[0], 2); }, {input({1, 4, 2, 3})}}};
}

std::vector<GradientCase> norm_cases() {
  const Tensor x = input({2, 4, 3}), w = input({4}, 2), b = input({4}, 3);
  return {
      {"group_norm",
       [](Inputs in) {
         return core::group_norm(in[0], 2, {in[1], in[2]});
       },
       {x, w, b}},
      {"instance_norm",
       [](Inputs in) { return core::instance_norm(in[0], {.weight = in[1], .bias = in[2], .training = true}); },
       {x, w, b}},
      {"rms_norm", [](Inputs in) { return core::rms_norm(in[0], {3}, {.weight = in[1]}); }, {x, input({3}, 2)}},
      {"local_response_norm", [](Inputs in) { return core::local_response_norm(in[0], 3); }, {x}},
      {"normalize", [](Inputs in) { return core::normalize(in[0]); }, {x}},
      {"cosine_similarity", [](Inputs in) { return core::cosine_similarity(in[0], in[1]); }, {x, input({2, 4, 3}, 5)}},
      {"cdist", [](Inputs in) { return core::cdist(in[0], in[1]); }, {input({3, 4}), input({2, 4}, 2)}},
      {"bilinear_form",
       [](Inputs in) { return core::bilinear(in[0], in[1], in[2], in[3]); },
       {input({3, 2}), input({3, 4}, 2), input({5, 2, 4}, 3), input({5}, 4)}},
      {"attention",
       [](Inputs in) { return core::scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true}); },
       {input({1, 2, 3, 4}), input({1, 2, 3, 4}, 2), input({1, 2, 3, 4}, 3)}}};
}

std::vector<GradientCase> loss_cases() {
  const Tensor x = input({3, 4}), y = input({3, 4}, 2).detach(), signs = core::sign(y);
  const Tensor classes = core::tensor({1, 3, 0});
  return {{"smooth_l1", [y](Inputs in) { return core::smooth_l1_loss(in[0], y, {.beta = 0.7}); }, {x}},
          {"huber", [y](Inputs in) { return core::huber_loss(in[0], y, {.delta = 0.7}); }, {x}},
          {"bce", [y](Inputs in) { return core::binary_cross_entropy(core::sigmoid(in[0]), core::sigmoid(y)); }, {x}},
          {"bce_with_logits",
           [y](Inputs in) {
             return core::binary_cross_entropy_with_logits(in[0], core::sigmoid(y),
                                                           {.pos_weight = core::tensor({0.5, 1.5, 2.0, 1.0})});
           },
           {x}},
          {"soft_margin", [signs](Inputs in) { return core::soft_margin_loss(in[0], signs); }, {x}},
          {"multi_margin", [classes](Inputs in) { return core::multi_margin_loss(in[0], classes); }, {x}},
          {"multilabel_margin",
           [](Inputs in) {
             return core::multilabel_margin_loss(in[0], core::tensor({{3, 0, -1, 1}, {1, -1, 0, 0}, {2, 1, 0, -1}}));
           },
           {x}},
          {"ctc",
           [](Inputs in) {
             return core::ctc_loss(core::log_softmax(in[0], 2), core::tensor({{1, 2, 2}, {3, 1, 0}}), {6, 5}, {3, 2});
           },
           {input({6, 2, 4})}}};
}

std::vector<GradientCase> tensor_cases() {
  const Tensor x = input({3, 4});
  return {{"logcumsumexp", [](Inputs in) { return core::logcumsumexp(in[0], 1); }, {x}},
          {"median", [](Inputs in) { return core::median(in[0], 1).values; }, {x}},
          {"var_mean", [](Inputs in) { return core::var_mean(in[0], {.dims = {1}}).var; }, {x}},
          {"einsum",
           [](Inputs in) {
             return core::einsum("bij,jk,k->bi", {in[0], in[1], in[2]});
           },
           {input({2, 3, 4}), input({4, 2}, 2), input({2}, 3)}},
          {"einsum_diagonal", [](Inputs in) { return core::einsum("...ii->...i", {in[0]}); }, {input({2, 3, 3})}},
          {"diag", [](Inputs in) { return core::diag(in[0], 1); }, {input({3})}},
          {"repeat_interleave", [](Inputs in) { return core::repeat_interleave(in[0], 3, 1); }, {x}},
          {"embedding_bag",
           [](Inputs in) {
             return core::embedding_bag(core::tensor({{0, 2}, {1, 1}}), in[0]);
           },
           {x}},
          {"checkpoint",
           [](Inputs in) {
             return core::checkpoint([](const std::vector<Tensor>& t) { return core::tanh(t[0]) * t[0]; }, {in[0]});
           },
           {x}}};
}

std::string case_name(const testing::TestParamInfo<GradientCase>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Activations, LayerGradient, testing::ValuesIn(activation_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Images, LayerGradient, testing::ValuesIn(image_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Norms, LayerGradient, testing::ValuesIn(norm_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Losses, LayerGradient, testing::ValuesIn(loss_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Tensors, LayerGradient, testing::ValuesIn(tensor_cases()), case_name);

TEST(Composed, HasSecondDerivatives) {
  const Tensor x = input({3});
  const Tensor first = core::grad({core::mish(x).sum()}, {x}, {.create_graph = true})[0];
  const Tensor second = core::grad({first.sum()}, {x})[0];
  const Tensor plain = x.detach().requires_grad_();
  const Tensor by_hand =
      core::grad({(plain * core::tanh(core::softplus(plain))).sum()}, {plain}, {.create_graph = true})[0];
  EXPECT_TRUE(core::allclose(second, core::grad({by_hand.sum()}, {plain})[0]));
}

TEST(MaxUnpool, PutsValuesBack) {
  const Tensor x = core::arange(16, {.dtype = core::DType::f32}).view({1, 1, 4, 4});
  const auto [values, places] = core::max_pool2d_with_indices(x, 2);
  const Tensor back = core::MaxUnpool2d(Shape{2})(values, places);
  EXPECT_EQ(back.to_vector<int>(), (std::vector<int>{0, 0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 0, 0, 13, 0, 15}));
}

TEST(Fold, CountsOverlapsOfUnfold) {
  const Tensor ones = core::ones({1, 1, 3, 3});
  const Tensor counts = core::fold(core::unfold(ones, {2}), {3, 3}, {2});
  EXPECT_EQ(counts.to_vector<int>(), (std::vector<int>{1, 2, 1, 2, 4, 2, 1, 2, 1}));
}

TEST(Embedding, LimitsTheNormOfRowsItReads) {
  core::Embedding table(3, 2, {.max_norm = 1.0});
  {
    const core::NoGradGuard no_history;
    table.weight.fill_(3);
  }
  table(core::tensor({1}));
  EXPECT_NEAR(table.weight[1].norm().item<double>(), 1, 1e-5);
  EXPECT_EQ(table.weight[0][0].item<float>(), 3);
}

TEST(Hooks, RunInsideSequentialAndEndWhenRemoved) {
  core::Sequential net(core::Linear(2, 2), core::ReLU());
  int calls = 0;
  const std::int64_t id = net[0].register_forward_pre_hook([&](core::Module&, const auto&) { ++calls; });
  net(core::ones({1, 2}));
  net[0].remove_hook(id);
  net(core::ones({1, 2}));
  EXPECT_EQ(calls, 1);
}

TEST(TransformerEncoder, StacksCopiesWithWeightsOfTheirOwn) {
  const core::TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 8, .dropout = 0});
  core::TransformerEncoder encoder(layer, 2);
  EXPECT_EQ(encoder(core::ones({3, 1, 4})).sizes(), (Shape{3, 1, 4}));
  EXPECT_EQ(encoder.state_dict().size(), 24u);
  encoder.parameter("layers.0.linear1.bias").detach().fill_(7);
  EXPECT_NE(encoder.parameter("layers.1.linear1.bias")[0].item<float>(), 7);
}

TEST(ParameterList, PrintsAndListsItsTensors) {
  core::ParameterList list{core::Parameter(core::zeros({2, 3})), core::Parameter(core::zeros({1}))};
  EXPECT_EQ(
      list.str(),
      "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2x3]\n    (1): Parameter containing: "
      "[torch.float32 of size 1]\n)");
  EXPECT_EQ(list.state_dict().keys(), (std::vector<std::string>{"0", "1"}));
}

}  // namespace
