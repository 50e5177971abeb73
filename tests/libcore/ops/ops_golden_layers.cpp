// Activations, convolutions, pooling, normalisation, losses and modules of ops.json.
#include "libcore/base/error.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/distance.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/resize.h"
#include "libcore/ops/softmax.h"
#include "libcore/parallel/parallel_apply.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/libcore/ops/ops_golden.h"

namespace test {
namespace {

using core::Tensor;

Tensor input(const OpCase& c, std::size_t i) {
  return i < c.in.size() ? c.in[i] : Tensor();
}

core::Reduction reduction(const OpCase& c) {
  return core::parse_reduction(c.text("reduction", "mean"));
}

template <class F>
OpCall one(F function) {
  return {[function](const OpCase& c) { return std::vector<Tensor>{function(c)}; }};
}

void add_activations(OpCalls& calls) {
  calls["torch.logit"] = one([](const OpCase& c) { return core::logit(c.in[0]); });
  calls["F.hardswish"] = one([](const OpCase& c) { return core::hardswish(c.in[0]); });
  calls["F.hardsigmoid"] = one([](const OpCase& c) { return core::hardsigmoid(c.in[0]); });
  calls["F.hardtanh"] =
      one([](const OpCase& c) { return core::hardtanh(c.in[0], c.number("min_val", -1), c.number("max_val", 1)); });
  calls["F.relu6"] = one([](const OpCase& c) { return core::relu6(c.in[0]); });
  calls["F.selu"] = one([](const OpCase& c) { return core::selu(c.in[0]); });
  calls["F.celu"] = one([](const OpCase& c) { return core::celu(c.in[0], c.number("alpha", 1)); });
  calls["F.mish"] = one([](const OpCase& c) { return core::mish(c.in[0]); });
  calls["F.softsign"] = one([](const OpCase& c) { return core::softsign(c.in[0]); });
  calls["F.tanhshrink"] = one([](const OpCase& c) { return core::tanhshrink(c.in[0]); });
  calls["F.softshrink"] = one([](const OpCase& c) { return core::softshrink(c.in[0], c.number("lambd", 0.5)); });
  calls["F.hardshrink"] = one([](const OpCase& c) { return core::hardshrink(c.in[0], c.number("lambd", 0.5)); });
  calls["F.glu"] = one([](const OpCase& c) { return core::glu(c.in[0], c.integer("dim", -1)); });
  calls["F.prelu"] = one([](const OpCase& c) { return core::prelu(c.in[0], c.in[1]); });
  calls["F.softmin"] = one([](const OpCase& c) { return core::softmin(c.in[0], c.integer("dim", 0)); });
}

core::ConvOptions conv_options(const OpCase& c) {
  core::ConvOptions o;
  o.stride = c.shape("stride");
  if (c.has("padding") && member(c.kwargs, "padding").is_string()) {
    static std::string rule;
    rule = c.text("padding", "");
    o.rule = rule;
  } else {
    o.padding = c.shape("padding");
  }
  o.dilation = c.shape("dilation");
  o.groups = c.integer("groups", 1);
  return o;
}

core::ConvTransposeOptions transposed_options(const OpCase& c) {
  return {c.shape("stride"), c.shape("padding"), c.shape("output_padding"), c.integer("groups", 1),
          c.shape("dilation")};
}

core::AdaptiveSizes adaptive_sizes(const OpCase& c) {
  core::AdaptiveSizes sizes;
  for (const std::int64_t size : c.shape("output_size")) sizes.emplace_back(size);
  return sizes;
}

core::InterpolateOptions interpolate_options(const OpCase& c) {
  core::InterpolateOptions o;
  o.size = c.shape("size");
  if (c.has("scale_factor")) o.scale_factor = {c.number("scale_factor", 1)};
  o.mode = c.text("mode", "nearest");
  if (c.has("align_corners")) o.align_corners = c.flag("align_corners");
  return o;
}

core::PaddingMode padding_mode(const OpCase& c) {
  const std::string mode = c.text("mode", "constant");
  return mode == "constant" ? core::PaddingMode::zeros : core::parse_padding_mode(mode);
}

void add_images(OpCalls& calls) {
  calls["F.conv1d"] = one([](const OpCase& c) { return core::conv1d(c.in[0], c.in[1], input(c, 2), conv_options(c)); });
  calls["F.conv3d"] = one([](const OpCase& c) { return core::conv3d(c.in[0], c.in[1], input(c, 2), conv_options(c)); });
  calls["F.conv_transpose1d"] =
      one([](const OpCase& c) { return core::conv_transpose1d(c.in[0], c.in[1], input(c, 2), transposed_options(c)); });
  calls["F.conv_transpose2d"] =
      one([](const OpCase& c) { return core::conv_transpose2d(c.in[0], c.in[1], input(c, 2), transposed_options(c)); });
  calls["F.unfold"] = one([](const OpCase& c) {
    return core::unfold(c.in[0], c.shape("kernel_size"), {c.shape("dilation"), c.shape("padding"), c.shape("stride")});
  });
  calls["F.max_pool1d"] = one([](const OpCase& c) {
    return core::max_pool1d(c.in[0], c.shape("kernel_size"), {c.shape("stride"), c.shape("padding")});
  });
  calls["F.avg_pool1d"] = one([](const OpCase& c) {
    return core::avg_pool1d(c.in[0], c.shape("kernel_size"), {c.shape("stride"), c.shape("padding")});
  });
  calls["F.adaptive_avg_pool1d"] =
      one([](const OpCase& c) { return core::adaptive_avg_pool1d(c.in[0], c.integer("output_size", 1)); });
  calls["F.adaptive_max_pool2d"] =
      one([](const OpCase& c) { return core::adaptive_max_pool2d(c.in[0], adaptive_sizes(c)).values; });
  calls["F.interpolate"] = one([](const OpCase& c) { return core::interpolate(c.in[0], interpolate_options(c)); });
  calls["F.pixel_shuffle"] =
      one([](const OpCase& c) { return core::pixel_shuffle(c.in[0], c.integer("upscale_factor", 1)); });
  calls["F.pixel_unshuffle"] =
      one([](const OpCase& c) { return core::pixel_unshuffle(c.in[0], c.integer("downscale_factor", 1)); });
  calls["F.pad"] = one([](const OpCase& c) {
    return core::pad(c.in[0], OpCase::shape_of(c.args[0]), padding_mode(c), c.scalar("value", 0));
  });
}

Tensor instance_norm(const OpCase& c) {
  core::BatchNormArguments arguments{.running_mean = input(c, 1),
                                     .running_var = input(c, 2),
                                     .weight = input(c, 3),
                                     .bias = input(c, 4),
                                     .training = c.flag("use_input_stats"),
                                     .momentum = c.number("momentum", 0.1)};
  for (Tensor* statistic : {&arguments.running_mean, &arguments.running_var}) {
    if (statistic->defined()) *statistic = statistic->clone();
  }
  return core::instance_norm(c.in[0], arguments);
}

void add_norms(OpCalls& calls) {
  calls["group_norm"] = one([](const OpCase& c) {
    return core::group_norm(c.in[0], c.integer("num_groups", 1), {input(c, 1), input(c, 2), c.number("eps", 1e-5)});
  });
  calls["instance_norm"] = one(instance_norm);
  calls["F.rms_norm"] = one([](const OpCase& c) {
    core::RmsNormArguments arguments{.weight = input(c, 1)};
    if (c.has("eps")) arguments.eps = c.number("eps", 0);
    return core::rms_norm(c.in[0], c.shape("normalized_shape"), arguments);
  });
  calls["F.local_response_norm"] =
      one([](const OpCase& c) { return core::local_response_norm(c.in[0], c.integer("size", 1)); });
  calls["F.normalize"] = one(
      [](const OpCase& c) { return core::normalize(c.in[0], {.p = c.number("p", 2), .dim = c.integer("dim", 1)}); });
  calls["F.cosine_similarity"] =
      one([](const OpCase& c) { return core::cosine_similarity(c.in[0], c.in[1], {.dim = c.integer("dim", 1)}); });
  calls["F.pairwise_distance"] = one([](const OpCase& c) { return core::pairwise_distance(c.in[0], c.in[1]); });
  calls["torch.cdist"] = one([](const OpCase& c) { return core::cdist(c.in[0], c.in[1], c.number("p", 2)); });
  calls["F.bilinear"] = one([](const OpCase& c) { return core::bilinear(c.in[0], c.in[1], c.in[2], input(c, 3)); });
  calls["F.scaled_dot_product_attention"] = one([](const OpCase& c) {
    core::AttentionOptions o{.is_causal = c.flag("is_causal")};
    if (c.has("scale")) o.scale = c.number("scale", 1);
    return core::scaled_dot_product_attention(c.in[0], c.in[1], c.in[2], o);
  });
  calls["sdpa_mask"] = one(
      [](const OpCase& c) { return core::scaled_dot_product_attention(c.in[0], c.in[1], c.in[2], {.mask = c.in[3]}); });
}

core::KlDivOptions kl_options(const OpCase& c) {
  const bool batch_mean = c.text("reduction", "mean") == "batchmean";
  return {batch_mean ? core::Reduction::mean : reduction(c), batch_mean, c.flag("log_target")};
}

void add_losses(OpCalls& calls) {
  calls["F.l1_loss"] = one([](const OpCase& c) { return core::l1_loss(c.in[0], c.in[1], reduction(c)); });
  calls["F.smooth_l1_loss"] = one([](const OpCase& c) {
    return core::smooth_l1_loss(c.in[0], c.in[1], {reduction(c), c.number("beta", 1)});
  });
  calls["F.huber_loss"] = one([](const OpCase& c) {
    return core::huber_loss(c.in[0], c.in[1], {reduction(c), c.number("delta", 1)});
  });
  calls["F.binary_cross_entropy"] = one([](const OpCase& c) {
    return core::binary_cross_entropy(c.in[0], c.in[1], {input(c, 2), reduction(c)});
  });
  calls["F.binary_cross_entropy_with_logits"] = one([](const OpCase& c) {
    return core::binary_cross_entropy_with_logits(c.in[0], c.in[1], {input(c, 2), input(c, 3), reduction(c)});
  });
  calls["bce_logits_full"] = calls["F.binary_cross_entropy_with_logits"];
  calls["F.kl_div"] = one([](const OpCase& c) { return core::kl_div(c.in[0], c.in[1], kl_options(c)); });
  calls["F.poisson_nll_loss"] = one([](const OpCase& c) { return core::poisson_nll_loss(c.in[0], c.in[1]); });
  calls["F.gaussian_nll_loss"] =
      one([](const OpCase& c) { return core::gaussian_nll_loss(c.in[0], c.in[1], c.in[2]); });
  calls["F.soft_margin_loss"] =
      one([](const OpCase& c) { return core::soft_margin_loss(c.in[0], c.in[1], reduction(c)); });
  calls["F.hinge_embedding_loss"] = one([](const OpCase& c) { return core::hinge_embedding_loss(c.in[0], c.in[1]); });
  calls["F.margin_ranking_loss"] = one([](const OpCase& c) {
    return core::margin_ranking_loss(c.in[0], c.in[1], c.in[2], {.margin = c.number("margin", 0)});
  });
  calls["F.cosine_embedding_loss"] =
      one([](const OpCase& c) { return core::cosine_embedding_loss(c.in[0], c.in[1], c.in[2]); });
  calls["F.triplet_margin_loss"] =
      one([](const OpCase& c) { return core::triplet_margin_loss(c.in[0], c.in[1], c.in[2]); });
  calls["F.multi_margin_loss"] = one([](const OpCase& c) { return core::multi_margin_loss(c.in[0], c.in[1]); });
  calls["F.multilabel_soft_margin_loss"] =
      one([](const OpCase& c) { return core::multilabel_soft_margin_loss(c.in[0], c.in[1]); });
  calls["F.ctc_loss"] = one([](const OpCase& c) {
    return core::ctc_loss(core::log_softmax(c.in[0], 2), c.in[1], c.in[2].to_vector<std::int64_t>(),
                          c.in[3].to_vector<std::int64_t>());
  });
}

/// A module with the recorded parameters, called; its parameters take their places in the case.
std::vector<Tensor> run_module(const std::string& name, const OpCase& c) {
  const std::string text = "{\"type\":\"" + name + "\",\"kwargs\":" + simdjson::minify(c.kwargs) + "}";
  simdjson::dom::parser parser;
  const BuiltModule built = build_module(parser.parse(text));
  if (!built.module) throw std::runtime_error("no " + built.missing);
  for (auto& [key, value] : c.params) {
    Tensor& parameter = built.module->parameter(key);
    parameter.set_data(value);
    value = parameter;
  }
  return call_module(*built.module, c.in);
}

}  // namespace

void add_nn_more_calls(OpCalls& calls) {
  add_activations(calls);
  add_images(calls);
  add_norms(calls);
  add_losses(calls);
  for (const char* name :
       {"RNN", "RNNCell", "LSTM", "LSTMCell", "GRU", "GRUCell", "MultiheadAttention", "TransformerEncoderLayer"}) {
    calls["nn." + std::string(name)] = {[name](const OpCase& c) { return run_module(name, c); }};
  }
}

}  // namespace test
