// Rows of the operations of layers and losses.
#include "libcore/ops/activation.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/recurrent.h"
#include "libcore/ops/resize.h"
#include "libcore/ops/softmax.h"
#include "libcore/parallel/replicate.h"
#include "libcore/tensor/generator.h"
#include "tests/libcore/autograd/gradcheck_cases.h"

namespace test {
namespace {

using core::PaddingMode;
using core::Reduction;
using T = const Tensor&;

void add_conv_cases(GradCases& cases) {
  const auto conv = [&cases](const std::string& name, const Shape& x, const Shape& w, std::int64_t out,
                             const std::function<Tensor(T, T, T)>& f) {
    cases.add(name, {irregular(x), irregular(w, -0.7, 0.8), irregular({out})},
              [=](In in) { return f(in[0], in[1], in[2]); });
  };
  conv("conv1d", {2, 2, 5}, {3, 2, 3}, 3,
       [](T x, T w, T b) { return core::conv1d(x, w, b, {.stride = {2}, .padding = {1}}); });
  conv("conv_tbc", {4, 2, 2}, {3, 2, 3}, 3, [](T x, T w, T b) { return core::conv_tbc(x, w, b, 1); });
  conv("conv2d", {1, 2, 4, 4}, {2, 2, 3, 2}, 2,
       [](T x, T w, T b) { return core::conv2d(x, w, b, {.stride = 2, .padding = 1}); });
  conv("conv2d/groups", {1, 4, 3, 3}, {4, 2, 2, 2}, 4,
       [](T x, T w, T b) { return core::conv2d(x, w, b, {.groups = 2}); });
  conv("conv2d/dilated", {1, 1, 4, 4}, {2, 1, 2, 2}, 2,
       [](T x, T w, T b) { return core::conv2d(x, w, b, {.dilation = 2}); });
  conv("conv2d/depthwise", {1, 3, 3, 3}, {3, 1, 2, 2}, 3,
       [](T x, T w, T b) { return core::conv2d(x, w, b, {.groups = 3}); });
  conv("conv2d/one_by_one", {2, 3, 2, 2}, {2, 3, 1, 1}, 2, [](T x, T w, T b) { return core::conv2d(x, w, b); });
  conv("conv3d", {1, 1, 3, 3, 3}, {2, 1, 2, 2, 2}, 2, [](T x, T w, T b) {
    return core::conv3d(x, w, b, {.padding = {1, 0, 1}});
  });
  conv("conv_transpose1d", {1, 2, 3}, {2, 3, 2}, 3,
       [](T x, T w, T b) { return core::conv_transpose1d(x, w, b, {.stride = {2}}); });
  conv("conv_transpose2d", {1, 2, 2, 3}, {2, 2, 2, 2}, 2, [](T x, T w, T b) {
    return core::conv_transpose2d(x, w, b, {.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}});
  });
  conv("conv_transpose3d", {1, 1, 2, 2, 2}, {1, 2, 2, 2, 2}, 2,
       [](T x, T w, T b) { return core::conv_transpose3d(x, w, b); });
  cases.add("unfold/patches", {irregular({1, 2, 3, 3})}, [](In in) {
    return core::unfold(in[0], {2, 2}, {.padding = {1}});
  });
  cases.add("fold", {irregular({1, 8, 4})}, [](In in) { return core::fold(in[0], {3, 3}, {2, 2}); });
}

void add_norm_cases(GradCases& cases) {
  const auto norm = [&cases](const std::string& name, const Shape& x, const Shape& w,
                             const std::function<Tensor(T, T, T)>& f) {
    cases.add(name, {irregular(x), irregular(w, 0.5, 1.5), irregular(w)},
              [=](In in) { return f(in[0], in[1], in[2]); });
  };
  norm("batch_norm", {3, 2, 2}, {2},
       [](T x, T w, T b) { return core::batch_norm(x, {.weight = w, .bias = b, .training = true}); });
  norm("batch_norm/image", {2, 2, 2, 2}, {2},
       [](T x, T w, T b) { return core::batch_norm(x, {.weight = w, .bias = b, .training = true}); });
  norm("batch_norm/running", {3, 2}, {2}, [](T x, T w, T b) {
    return core::batch_norm(x, {.running_mean = fixed({2}).to(x.dtype()),
                                .running_var = fixed({2}, 0.5, 2).to(x.dtype()),
                                .weight = w,
                                .bias = b});
  });
  norm("layer_norm", {2, 2, 3}, {2, 3}, [](T x, T w, T b) {
    return core::layer_norm(x, {2, 3}, {.weight = w, .bias = b});
  });
  norm("group_norm", {2, 4, 2}, {4}, [](T x, T w, T b) { return core::group_norm(x, 2, {.weight = w, .bias = b}); });
  norm("instance_norm", {2, 2, 3}, {2},
       [](T x, T w, T b) { return core::instance_norm(x, {.weight = w, .bias = b, .training = true}); });
  norm("rms_norm", {2, 3}, {3}, [](T x, T w, T b) { return core::rms_norm(x, {3}, {.weight = w, .eps = 1e-3}) + b; });
  cases.add("local_response_norm", {irregular({2, 4, 2})},
            [](In in) { return core::local_response_norm(in[0], 3, {.alpha = 0.5}); });
}

void add_image_cases(GradCases& cases) {
  const auto resize = [&cases](const std::string& mode, const Shape& x, const core::InterpolateOptions& options) {
    cases.add("interpolate/" + mode, {irregular(x)}, [=](In in) { return core::interpolate(in[0], options); });
  };
  resize("nearest", {1, 2, 2, 3}, {.size = {3, 5}});
  cases.add("upsample_nearest", {irregular({1, 2, 2, 3})}, [](In in) {
    return core::upsample_nearest(in[0], {.size = {3, 5}});
  });
  cases.add("upsample_bilinear", {irregular({1, 2, 2, 3})}, [](In in) {
    return core::upsample_bilinear(in[0], {.size = {3, 5}});
  });
  resize("bilinear_antialias", {1, 1, 4, 5}, {.size = {2, 7}, .mode = "bilinear", .antialias = true});
  resize("bicubic_antialias", {1, 1, 5, 4}, {.size = {3, 2}, .mode = "bicubic", .antialias = true});
  resize("nearest-exact", {1, 2, 3}, {.size = {5}, .mode = "nearest-exact"});
  resize("nearest_line", {1, 2, 3}, {.size = {5}});
  resize("nearest_volume", {1, 1, 2, 2, 2}, {.size = {3, 2, 3}});
  resize("exact_image", {1, 1, 2, 3}, {.size = {3, 5}, .mode = "nearest-exact"});
  resize("exact_volume", {1, 1, 2, 2, 2}, {.size = {3, 2, 3}, .mode = "nearest-exact"});
  resize("linear", {1, 2, 3}, {.size = {5}, .mode = "linear"});
  resize("bilinear", {1, 1, 2, 3}, {.size = {3, 4}, .mode = "bilinear", .align_corners = true});
  resize("bilinear_half", {1, 1, 3, 2}, {.scale_factor = {2}, .mode = "bilinear"});
  resize("bicubic", {1, 1, 3, 3}, {.size = {4, 5}, .mode = "bicubic"});
  resize("trilinear", {1, 1, 2, 2, 2}, {.size = {3, 3, 3}, .mode = "trilinear"});
  resize("area", {1, 1, 4, 4}, {.size = {2, 3}, .mode = "area"});
  cases.add("pixel_shuffle", {irregular({1, 4, 2, 2})}, [](In in) { return core::pixel_shuffle(in[0], 2); });
  cases.add("pixel_unshuffle", {irregular({1, 1, 4, 4})}, [](In in) { return core::pixel_unshuffle(in[0], 2); });
  cases.add("channel_shuffle", {irregular({1, 4, 2})}, [](In in) { return core::channel_shuffle(in[0], 2); });
  const auto border = [&cases](const std::string& name, PaddingMode mode) {
    cases.add("pad/" + name, {irregular({1, 2, 4})}, [=](In in) { return core::pad(in[0], {2, 1}, mode); });
    cases.add("pad/volume_" + name, {irregular({1, 1, 2, 2, 3})}, [=](In in) {
      return core::pad(in[0], {1, 1, 0, 1, 1, 0}, mode);
    });
    cases.add("pad/image_" + name, {irregular({1, 1, 3, 3})}, [=](In in) {
      return core::pad(in[0], {1, 1, 0, 2}, mode);
    });
  };
  border("zeros", PaddingMode::zeros);
  border("reflect", PaddingMode::reflect);
  border("replicate", PaddingMode::replicate);
  border("circular", PaddingMode::circular);
}

void add_embedding_cases(GradCases& cases) {
  const Tensor words = core::tensor({{0, 2, 2}, {1, 3, 0}});
  cases.add("embedding", {irregular({4, 2})}, [=](In in) { return core::embedding(words, in[0]); });
  // The row for padding takes no gradient, so it is not an input here.
  cases.add("embedding/padding", {irregular({3, 2})}, [=](In in) {
    return core::embedding(words, core::cat({in[0], fixed({1, 2}).to(in[0].dtype())}), 3);
  });
  for (const auto& [name, mode] :
       {std::pair{"sum", core::BagMode::sum}, {"mean", core::BagMode::mean}, {"max", core::BagMode::max}}) {
    cases.add(std::string("embedding_bag/") + name, {irregular({4, 2})},
              [=, mode = mode](In in) { return core::embedding_bag(words, in[0], {.mode = mode}); });
  }
  cases.add("embedding_bag/weights", {irregular({4, 2}), irregular({2, 3})}, [=](In in) {
    return core::embedding_bag(words, in[0], {.mode = core::BagMode::sum, .per_sample_weights = in[1]});
  });
}

void add_dropout_cases(GradCases& cases) {
  for (const auto& [name, f] : std::initializer_list<std::pair<const char*, Tensor (*)(T, double, bool)>>{
           {"dropout", core::dropout},
           {"feature_dropout", core::feature_dropout},
           {"dropout_", [](T x, double p, bool training) { return core::dropout_(x * 1, p, training); }},
           {"alpha_dropout", core::alpha_dropout},
           {"feature_alpha_dropout", core::feature_alpha_dropout},
           {"dropout1d", core::dropout1d}}) {
    cases.add(name, {irregular({3, 4, 2})}, [f = f](In in) {
      core::manual_seed(3);
      return f(in[0], 0.4, true);
    });
  }
  for (const auto& [name, f] : std::initializer_list<std::pair<const char*, Tensor (*)(T, double, bool)>>{
           {"dropout2d", core::dropout2d}, {"dropout3d", core::dropout3d}}) {
    core::Shape sizes{2, 3, 2, 2};
    if (std::string_view(name) == "dropout3d") sizes.push_back(2);
    cases.add(name, {irregular(sizes)}, [f = f](In in) {
      core::manual_seed(3);
      return f(in[0], 0.4, true);
    });
  }
  cases.add("rrelu/training", {irregular({2, 3})}, [](In in) {
    core::manual_seed(3);
    return core::rrelu(in[0], {.training = true});
  });
}

void add_recurrent_cases(GradCases& cases) {
  const auto cell = [&cases](const std::string& name, std::int64_t gates,
                             const std::function<Tensor(T, T, const core::RecurrentWeights&)>& f) {
    cases.add(name,
              {irregular({2, 3}), irregular({2, 2}), irregular({gates * 2, 3}), irregular({gates * 2, 2}),
               irregular({gates * 2}), irregular({gates * 2}, -0.3, 0.4)},
              [=](In in) {
                return f(in[0], in[1], {in[2], in[3], in[4], in[5]});
              });
  };
  cell("rnn_tanh_cell", 1, core::rnn_tanh_cell);
  cell("rnn_relu_cell", 1, core::rnn_relu_cell);
  cell("gru_cell", 3, core::gru_cell);
  cell("lstm_cell", 4, [](T x, T h, const core::RecurrentWeights& w) {
    const auto next = core::lstm_cell(x, {h, h * 0.5}, w);
    return next.h + next.c * 2;
  });
  using Kind = core::RecurrentKind;
  for (const auto& [name, kind, gates] :
       {std::tuple{"tanh", Kind::tanh, 1}, {"relu", Kind::relu, 1}, {"lstm", Kind::lstm, 4}, {"gru", Kind::gru, 3}}) {
    cases.many(std::string("recurrent_layer/") + name,
               {irregular({2, 1, 2}), irregular({1, 2}), irregular({gates * 2, 2}), irregular({gates * 2, 2}),
                irregular({gates * 2}), irregular({gates * 2}, -0.3, 0.4)},
               [kind = kind](In in) {
                 const core::RecurrentState start{in[1], kind == Kind::lstm ? in[1] * 0.5 : Tensor()};
                 const auto layer = core::recurrent_layer(kind, in[0], start, {in[2], in[3], in[4], in[5]}, true);
                 std::vector<Tensor> results{layer.output, layer.last.h};
                 if (layer.last.c.defined()) results.push_back(layer.last.c);
                 return results;
               });
  }
}

void add_attention_cases(GradCases& cases) {
  const auto attention = [&cases](const std::string& name, const core::AttentionOptions& options) {
    cases.add("scaled_dot_product_attention" + name,
              {irregular({2, 3, 2}), irregular({2, 3, 2}, -0.5, 0.7), irregular({2, 3, 2}, -1, 1)},
              [=](In in) { return core::scaled_dot_product_attention(in[0], in[1], in[2], options); });
  };
  attention("", {});
  attention("/causal", {.is_causal = true});
  attention("/mask", {.mask = core::tensor({{true, false, true}, {true, true, true}, {false, true, true}})});
  cases.add("scaled_dot_product_attention/added", {irregular({1, 3, 2}), irregular({3, 3})},
            [](In in) { return core::scaled_dot_product_attention(in[0], in[0] * 0.5, in[0], {.mask = in[1]}); });
}

}  // namespace

void add_layer_cases(GradCases& cases) {
  add_conv_cases(cases);
  add_norm_cases(cases);
  add_image_cases(cases);
  add_embedding_cases(cases);
  add_dropout_cases(cases);
  add_recurrent_cases(cases);
  add_attention_cases(cases);
}

void add_pool_cases(GradCases& cases) {
  const auto pool = [&cases](const std::string& name, const Shape& x, const std::function<Tensor(T)>& f) {
    cases.add(name, {irregular(x, 0.2, 2)}, [=](In in) { return f(in[0]); });
  };
  pool("max_pool1d", {1, 2, 5}, [](T x) { return core::max_pool1d(x, {2}); });
  pool("max_pool2d", {1, 1, 4, 4}, [](T x) { return core::max_pool2d(x, 3, {.stride = 1, .padding = 1}); });
  pool("max_pool3d", {1, 1, 3, 3, 3}, [](T x) { return core::max_pool3d(x, {2}, {.stride = {1}}); });
  pool("max_pool1d_with_indices", {1, 2, 5}, [](T x) { return core::max_pool1d_with_indices(x, {2}).values; });
  pool("max_pool2d_with_indices", {1, 1, 4, 4}, [](T x) { return core::max_pool2d_with_indices(x, 2).values; });
  pool("max_pool3d_with_indices", {1, 1, 2, 3, 3}, [](T x) { return core::max_pool3d_with_indices(x, {2}).values; });
  pool("avg_pool1d", {1, 2, 5}, [](T x) { return core::avg_pool1d(x, {2}); });
  pool("avg_pool2d", {1, 1, 4, 4},
       [](T x) { return core::avg_pool2d(x, 3, {.stride = 2, .padding = 1, .count_include_pad = false}); });
  pool("avg_pool3d", {1, 1, 2, 3, 3}, [](T x) { return core::avg_pool3d(x, {2}, {.stride = {1}}); });
  pool("adaptive_avg_pool1d", {1, 2, 5}, [](T x) { return core::adaptive_avg_pool1d(x, 3); });
  pool("adaptive_avg_pool2d", {1, 2, 4, 3}, [](T x) { return core::adaptive_avg_pool2d(x, {3, 2}); });
  pool("adaptive_avg_pool2d/one", {1, 2, 4, 3}, [](T x) { return core::adaptive_avg_pool2d(x, 1); });
  pool("adaptive_avg_pool3d", {1, 1, 3, 2, 3}, [](T x) { return core::adaptive_avg_pool3d(x, {2}); });
  pool("adaptive_max_pool1d", {1, 2, 5}, [](T x) { return core::adaptive_max_pool1d(x, 3).values; });
  pool("adaptive_max_pool2d", {1, 1, 4, 3}, [](T x) { return core::adaptive_max_pool2d(x, {2}).values; });
  pool("adaptive_max_pool3d", {1, 1, 3, 3, 2}, [](T x) { return core::adaptive_max_pool3d(x, {2}).values; });
  pool("lp_pool1d", {1, 2, 4}, [](T x) { return core::lp_pool1d(x, 2, {2}); });
  pool("lp_pool2d", {1, 1, 4, 4}, [](T x) { return core::lp_pool2d(x, 3, {2}); });
  pool("lp_pool3d", {1, 1, 2, 2, 2}, [](T x) { return core::lp_pool3d(x, 2, {2}); });
  pool("max_unpool", {1, 1, 2}, [](T x) { return core::max_unpool(x, core::tensor({{{1, 3}}}), {5}); });
  pool("max_unpool1d", {1, 1, 2}, [](T x) { return core::max_unpool1d(x, core::tensor({{{1, 3}}}), {2}); });
  pool("max_unpool2d", {1, 1, 1, 2}, [](T x) { return core::max_unpool2d(x, core::tensor({{{{1, 7}}}}), {2, 2}); });
  pool("max_unpool3d", {1, 1, 1, 1, 2}, [](T x) {
    return core::max_unpool3d(x, core::tensor({{{{{1, 15}}}}}), {2, 2, 2});
  });
  pool("max_unpool/volume", {1, 1, 1, 1, 2}, [](T x) {
    return core::max_unpool(x, core::tensor({{{{{1, 7}}}}}), {2, 2, 2});
  });
}

namespace {

using Loss = std::function<Tensor(T, T, Reduction)>;

/// With each reduction. The target has the dtype of the input, or is of integers.
void add_loss(GradCases& cases, const std::string& name, const Loss& f, const Tensor& target, double from = -0.9,
              double to = 1.1) {
  for (const auto& [tail, how] :
       {std::pair{"/mean", Reduction::mean}, {"/sum", Reduction::sum}, {"/none", Reduction::none}}) {
    cases.add(name + tail, {irregular({2, 3}, from, to)}, [=, how = how](In in) {
      return f(in[0], target.is_floating_point() ? target.to(in[0].dtype()) : target, how);
    });
  }
}

void add_regression_losses(GradCases& cases) {
  const Tensor target = fixed({2, 3}, -0.8, 1.3);
  add_loss(
      cases, "l1_loss", [](T x, T y, Reduction r) { return core::l1_loss(x, y, r); }, target);
  add_loss(
      cases, "mse_loss", [](T x, T y, Reduction r) { return core::mse_loss(x, y, r); }, target);
  add_loss(
      cases, "smooth_l1_loss",
      [](T x, T y, Reduction r) {
        return core::smooth_l1_loss(x, y, {r, 0.3});
      },
      target);
  add_loss(
      cases, "huber_loss",
      [](T x, T y, Reduction r) {
        return core::huber_loss(x, y, {r, 0.3});
      },
      target);
  add_loss(
      cases, "poisson_nll_loss", [](T x, T y, Reduction r) { return core::poisson_nll_loss(x, y, {.reduction = r}); },
      fixed({2, 3}, 0.5, 3));
  add_loss(
      cases, "kl_div", [](T x, T y, Reduction r) { return core::kl_div(x, y, {.reduction = r}); },
      fixed({2, 3}, 0.1, 0.9));
  add_loss(
      cases, "binary_cross_entropy",
      [](T x, T y, Reduction r) { return core::binary_cross_entropy(x, y, {.reduction = r}); }, fixed({2, 3}, 0.1, 0.9),
      0.1, 0.9);
  add_loss(
      cases, "binary_cross_entropy_with_logits",
      [](T x, T y, Reduction r) {
        return core::binary_cross_entropy_with_logits(x, y,
                                                      {.weight = fixed({3}, 0.5, 1.5).to(x.dtype()),
                                                       .pos_weight = fixed({3}, 0.5, 1.5).to(x.dtype()),
                                                       .reduction = r});
      },
      fixed({2, 3}, 0.1, 0.9));
}

void add_sign_losses(GradCases& cases) {
  const Tensor signs = core::tensor({{1.0, -1.0, 1.0}, {-1.0, -1.0, 1.0}}, {.dtype = core::DType::f64});
  add_loss(
      cases, "soft_margin_loss", [](T x, T y, Reduction r) { return core::soft_margin_loss(x, y, r); }, signs);
  add_loss(
      cases, "hinge_embedding_loss",
      [](T x, T y, Reduction r) {
        return core::hinge_embedding_loss(x, y, {0.7, r});
      },
      signs);
  const Tensor bits = core::tensor({{1.0, 0.0, 1.0}, {0.0, 0.0, 1.0}}, {.dtype = core::DType::f64});
  add_loss(
      cases, "multilabel_soft_margin_loss",
      [](T x, T y, Reduction r) { return core::multilabel_soft_margin_loss(x, y, {.reduction = r}); }, bits);
  add_loss(
      cases, "multilabel_margin_loss", [](T x, T y, Reduction r) { return core::multilabel_margin_loss(x, y, r); },
      core::tensor({{2, 0, -1}, {1, -1, 0}}));
  add_loss(
      cases, "multi_margin_loss",
      [](T x, T y, Reduction r) { return core::multi_margin_loss(x, y, {.p = 2, .reduction = r}); },
      core::tensor({2, 0}));
}

void add_losses_of_both_sides(GradCases& cases) {
  cases.add("mse_loss/target", {irregular({3}), irregular({3}, -0.8, 1.3)},
            [](In in) { return core::mse_loss(in[0], in[1]); });
  cases.add("l1_loss/target", {irregular({3}), irregular({3}, -0.8, 1.3)},
            [](In in) { return core::l1_loss(in[0], in[1]); });
  cases.add("smooth_l1_loss/target", {irregular({3}), irregular({3}, -0.8, 1.3)},
            [](In in) { return core::smooth_l1_loss(in[0], in[1]); });
  cases.add("huber_loss/target", {irregular({3}), irregular({3}, -0.8, 1.3)},
            [](In in) { return core::huber_loss(in[0], in[1]); });
  cases.add("kl_div/target", {irregular({3}), irregular({3}, 0.1, 0.9)},
            [](In in) { return core::kl_div(in[0], in[1]); });
  cases.add("kl_div/log_target", {irregular({3}), irregular({3}, 0.1, 0.9)},
            [](In in) { return core::kl_div(in[0], in[1], {.log_target = true}); });
  cases.add("gaussian_nll_loss", {irregular({3}), irregular({3}, 0, 1), irregular({3}, 0.4, 2)},
            [](In in) { return core::gaussian_nll_loss(in[0], in[1], in[2]); });
  cases.add("binary_cross_entropy_with_logits/target", {irregular({3}), irregular({3}, 0.1, 0.9)},
            [](In in) { return core::binary_cross_entropy_with_logits(in[0], in[1]); });
}

void add_class_losses(GradCases& cases) {
  const Tensor classes = core::tensor({2, 0, 1});
  for (const auto& [tail, how] :
       {std::pair{"/mean", Reduction::mean}, {"/sum", Reduction::sum}, {"/none", Reduction::none}}) {
    cases.add(std::string("nll_loss") + tail, {irregular({3, 4})}, [=, how = how](In in) {
      return core::nll_loss(in[0], classes,
                            {.weight = fixed({4}, 0.5, 1.5).to(in[0].dtype()), .ignore_index = 1, .reduction = how});
    });
    cases.add(std::string("cross_entropy") + tail, {irregular({3, 4})}, [=, how = how](In in) {
      return core::cross_entropy(
          in[0], classes, {.weight = fixed({4}, 0.5, 1.5).to(in[0].dtype()), .reduction = how, .label_smoothing = 0.1});
    });
  }
  cases.add("nll_loss/image", {irregular({2, 3, 2})}, [](In in) {
    return core::nll_loss(in[0], core::tensor({{0, 2}, {1, 1}}));
  });
  cases.add("linear_cross_entropy", {irregular({3, 2}), irregular({4, 2}), irregular({4})},
            [=](In in) { return core::linear_cross_entropy(in[0], in[1], classes, in[2]); });
  cases.add("cross_entropy/plain", {irregular({3, 4})}, [=](In in) { return core::cross_entropy(in[0], classes); });
  cases.add("cross_entropy/probabilities", {irregular({2, 3}), irregular({2, 3}, 0.1, 0.6)},
            [](In in) { return core::cross_entropy(in[0], in[1]); });
  const Tensor side = core::tensor({1, -1, 1});
  cases.add("margin_ranking_loss", {irregular({3}), irregular({3}, -0.8, 1.3)},
            [=](In in) { return core::margin_ranking_loss(in[0], in[1], side.to(in[0].dtype()), {.margin = 0.2}); });
  cases.add("cosine_embedding_loss", {irregular({3, 2}), irregular({3, 2}, -0.8, 1.3)},
            [=](In in) { return core::cosine_embedding_loss(in[0], in[1], side.to(in[0].dtype())); });
  cases.add("triplet_margin_loss", {irregular({2, 3}), irregular({2, 3}, -0.8, 1.3), irregular({2, 3}, -0.5, 0.7)},
            [](In in) { return core::triplet_margin_loss(in[0], in[1], in[2], {.swap = true}); });
  cases.add("triplet_margin_with_distance_loss",
            {irregular({2, 3}), irregular({2, 3}, -0.8, 1.3), irregular({2, 3}, -0.5, 0.7)}, [](In in) {
              return core::triplet_margin_with_distance_loss(in[0], in[1], in[2],
                                                             [](const core::Tensor& a, const core::Tensor& b) {
                                                               return core::square(a - b).sum(core::Shape{-1});
                                                             });
            });
  cases.add("ctc_loss", {irregular({4, 2, 3})}, [](In in) {
    return core::ctc_loss(core::log_softmax(in[0], 2), core::tensor({{1, 2}, {2, 1}}), {4, 3}, {2, 1});
  });
}

}  // namespace

void add_loss_cases(GradCases& cases) {
  add_regression_losses(cases);
  add_sign_losses(cases);
  add_losses_of_both_sides(cases);
  add_class_losses(cases);
}

}  // namespace test
