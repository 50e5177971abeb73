#include "libcore/ops/conv.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/ops/ops_golden.h"

namespace test {
namespace {

using core::Size2;
using core::Tensor;

Size2 size2(const OpCase& c, const char* key, Size2 otherwise) {
  if (!c.has(key)) return otherwise;
  core::Shape both = c.shape(key);
  return both.size() == 1 ? Size2(both[0]) : Size2(both[0], both[1]);
}

core::Padding padding(const OpCase& c) {
  if (c.has("padding") && member(c.kwargs, "padding").is_string()) return core::Padding(c.text("padding", ""));
  return core::Padding(size2(c, "padding", 0));
}

core::Reduction reduction(const OpCase& c) {
  return core::parse_reduction(c.text("reduction", "mean"));
}

Tensor input(const OpCase& c, std::size_t i) {
  return i < c.in.size() ? c.in[i] : Tensor();
}

std::vector<Tensor> conv2d(const OpCase& c) {
  core::Conv2dOptions options{.stride = size2(c, "stride", 1),
                              .padding = padding(c),
                              .dilation = size2(c, "dilation", 1),
                              .groups = c.integer("groups", 1)};
  return {core::conv2d(c.in[0], c.in[1], input(c, 2), options)};
}

std::vector<Tensor> max_pool2d(const OpCase& c) {
  core::MaxPool2dOptions options{
      .padding = size2(c, "padding", 0), .dilation = size2(c, "dilation", 1), .ceil_mode = c.flag("ceil_mode")};
  Size2 kernel = size2(c, "kernel_size", 1);
  options.stride = size2(c, "stride", kernel);
  if (!c.flag("return_indices")) return {core::max_pool2d(c.in[0], kernel, options)};
  auto both = core::max_pool2d_with_indices(c.in[0], kernel, options);
  return {both.values, both.indices};
}

std::vector<Tensor> avg_pool2d(const OpCase& c) {
  Size2 kernel = size2(c, "kernel_size", 1);
  core::AvgPool2dOptions options{.stride = size2(c, "stride", kernel),
                                 .padding = size2(c, "padding", 0),
                                 .ceil_mode = c.flag("ceil_mode"),
                                 .count_include_pad = c.flag("count_include_pad", true)};
  if (c.has("divisor_override")) options.divisor_override = c.integer("divisor_override", 1);
  return {core::avg_pool2d(c.in[0], kernel, options)};
}

std::vector<Tensor> adaptive_avg_pool2d(const OpCase& c) {
  Json size = member(c.kwargs, "output_size");
  if (!size.is_array()) return {core::adaptive_avg_pool2d(c.in[0], integer(size))};
  auto part = [&](std::size_t i) {
    Json value = items(size).at(i);
    return is_null(value) ? std::nullopt : std::optional(integer(value));
  };
  return {core::adaptive_avg_pool2d(c.in[0], core::AdaptiveSize(part(0), part(1)))};
}

std::vector<Tensor> batch_norm(const OpCase& c) {
  core::BatchNormArguments arguments{.running_mean = input(c, 1),
                                     .running_var = input(c, 2),
                                     .weight = input(c, 3),
                                     .bias = input(c, 4),
                                     .training = c.flag("training"),
                                     .momentum = c.number("momentum", 0.1),
                                     .eps = c.number("eps", 1e-5)};
  for (Tensor* statistic : {&arguments.running_mean, &arguments.running_var}) {
    if (statistic->defined()) *statistic = statistic->clone();
  }
  return {core::batch_norm(c.in[0], arguments)};
}

}  // namespace

void add_nn_calls(OpCalls& calls) {
  calls["F.conv2d"] = {conv2d};
  calls["F.max_pool2d"] = {max_pool2d};
  calls["F.avg_pool2d"] = {avg_pool2d};
  calls["F.adaptive_avg_pool2d"] = {adaptive_avg_pool2d};
  calls["batch_norm"] = {batch_norm};
  calls["F.layer_norm"] = {[](const OpCase& c) {
    return std::vector{core::layer_norm(c.in[0], c.shape("normalized_shape"),
                                        {.weight = input(c, 1), .bias = input(c, 2), .eps = c.number("eps", 1e-5)})};
  }};
  calls["F.softmax"] = {[](const OpCase& c) { return std::vector{core::softmax(c.in[0], c.integer("dim", 0))}; }};
  calls["F.log_softmax"] = {
      [](const OpCase& c) { return std::vector{core::log_softmax(c.in[0], c.integer("dim", 0))}; }};
  calls["F.dropout"] = {
      [](const OpCase& c) { return std::vector{core::dropout(c.in[0], c.number("p", 0.5), c.flag("training"))}; }};
  calls["embedding"] = {[](const OpCase& c) {
    auto padding_idx = c.has("padding_idx") ? std::optional(c.integer("padding_idx", 0)) : std::nullopt;
    return std::vector{core::embedding(c.in[0], c.in[1], padding_idx)};
  }};
  calls["F.mse_loss"] = {[](const OpCase& c) { return std::vector{core::mse_loss(c.in[0], c.in[1], reduction(c))}; }};
  calls["F.nll_loss"] = {[](const OpCase& c) {
    return std::vector{core::nll_loss(
        c.in[0], c.in[1],
        {.weight = input(c, 2), .ignore_index = c.integer("ignore_index", -100), .reduction = reduction(c)})};
  }};
  calls["F.cross_entropy"] = {[](const OpCase& c) {
    return std::vector{core::cross_entropy(c.in[0], c.in[1],
                                           {.weight = input(c, 2),
                                            .ignore_index = c.integer("ignore_index", -100),
                                            .reduction = reduction(c),
                                            .label_smoothing = c.number("label_smoothing", 0)})};
  }};
}

}  // namespace test
