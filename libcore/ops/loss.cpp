#include "libcore/ops/loss.h"

#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/loss_reduction.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/detail/pointwise.h"
#include "libcore/ops/index.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/loss.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/python_tuple.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

Tensor nll_grad(const Tensor& loss_grad, const Tensor& target, const Tensor& total_weight, const Shape& sizes,
                const NllLossOptions& options);

/// What both nodes of the loss keep. Saved: target, weight, total_weight.
struct NllNode : Node {
  Shape sizes;
  NllLossOptions options;  // without the weight, which is saved

  void keep(const Tensor& target, const Tensor& total_weight, const Shape& log_prob_sizes,
            const NllLossOptions& given) {
    sizes = log_prob_sizes;
    options = given;
    options.weight = {};
    save(target);
    save(given.weight);
    save(total_weight);
  }
  NllLossOptions with_weight() const {
    NllLossOptions result = options;
    result.weight = saved(1);
    return result;
  }
};

struct NllLossBackward final : NllNode {
  std::string_view name() const override { return sizes.size() <= 2 ? "NllLossBackward0" : "NllLoss2DBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    return {nll_grad(grads[0], saved(0), saved(2), sizes, with_weight())};
  }
};

/// The loss is linear in the log probabilities, so its gradient's derivative is the loss again.
struct NllLossGradBackward final : NllNode {
  std::string_view name() const override { return "NllLossBackwardBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    return {nll_loss(grads[0], saved(0), with_weight())};
  }
};

Tensor nll_grad(const Tensor& loss_grad, const Tensor& target, const Tensor& total_weight, const Shape& sizes,
                const NllLossOptions& options) {
  Tensor out = raw::nll_loss_grad(loss_grad, target, {{}, total_weight}, sizes, options);
  if (needs_grad(loss_grad)) {
    auto node = make_node<NllLossGradBackward>(loss_grad);
    node->keep(target, total_weight, sizes, options);
    record(out, node);
  }
  return out;
}

/// Saved: x, target.
struct MseLossBackward final : Node {
  Reduction reduction = Reduction::mean;
  std::string_view name() const override { return "MseLossBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result{Tensor(), Tensor()};
    if (!grads[0].defined()) return result;
    const Tensor difference = sub(saved(0), saved(1));
    const double scale = reduction == Reduction::mean ? 2.0 / static_cast<double>(difference.numel()) : 2.0;
    const Tensor grad = mul(mul(difference, scale), grads[0]);
    if (wants(0)) result[0] = grad;
    if (wants(1)) result[1] = neg(grad);
    return result;
  }
};

/// The dimension of the classes.
std::int64_t class_dim(const Tensor& logits) {
  return logits.dim() == 1 ? 0 : 1;
}

/// Class weights as the logits see them.
Tensor weight_beside(const Tensor& weight, const Tensor& logits) {
  Shape sizes(logits.sizes().size(), 1);
  sizes[static_cast<std::size_t>(class_dim(logits))] = weight.numel();
  return weight.reshape(sizes);
}

Tensor probability_loss(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
  if (!target.is_floating_point()) {
    throw Error(ErrorCode::runtime,
                std::string("Expected floating point type for target with class probabilities, got ") +
                    scalar_type_name(target.dtype()));
  }
  if (o.ignore_index >= 0) {
    throw Error(ErrorCode::runtime, "ignore_index is not supported for floating point target");
  }
  const std::int64_t dim = class_dim(logits), classes = logits.size(dim);
  const double smoothing = o.label_smoothing;
  const Tensor wanted =
      smoothing > 0 ? add(mul(target, 1 - smoothing), smoothing / static_cast<double>(classes)) : target;
  Tensor terms = mul(log_softmax(logits, dim), wanted);
  if (o.weight.defined()) terms = mul(terms, weight_beside(o.weight, logits));
  if (o.reduction == Reduction::none) return neg(sum(terms, {.dims = {dim}}));
  const Tensor total = neg(sum(terms));
  if (o.reduction == Reduction::sum) return total;
  const double rows = static_cast<double>(logits.numel()) / static_cast<double>(classes);
  return detail::div_by_number(total, rows, "DivBackward1");
}

Tensor smoothed_loss(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
  const std::int64_t dim = class_dim(logits);
  const Tensor log_prob = log_softmax(logits, dim);
  const Tensor plain = nll_loss(log_prob, target, {o.weight, o.ignore_index, o.reduction});
  const Tensor terms = o.weight.defined() ? mul(log_prob, weight_beside(o.weight, logits)) : log_prob;
  const Tensor ignored = eq(target, o.ignore_index);
  Tensor smooth = masked_fill(neg(sum(terms, {.dims = {dim}})), ignored, 0);
  if (o.reduction != Reduction::none) smooth = sum(smooth);
  if (o.reduction == Reduction::mean) {
    const Tensor kept = logical_not(ignored);
    const Tensor divisor =
        o.weight.defined() ? sum(index_select(o.weight, 0, masked_select(target, kept))) : sum(kept.to(logits.dtype()));
    smooth = div(smooth, divisor);
  }
  const double share = o.label_smoothing / static_cast<double>(logits.size(dim));
  return add(mul(plain, 1 - o.label_smoothing), mul(smooth, share));
}

void check_linear_loss(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto text_of = [](const Shape& sizes) { return core::detail::python_tuple(sizes.to_vector()); };
  const auto check = [](bool holds, const std::string& text) {
    if (!holds) throw Error(ErrorCode::runtime, text);
  };
  check(x.dim() == 1 || x.dim() == 2, "expected input with dimensionality 1 or 2, got " + std::to_string(x.dim()));
  check(weight.dim() >= 2,
        "expected linear_weight with dimensionality at least 2, got " + std::to_string(weight.dim()));
  check(x.size(-1) == weight.size(-1), "expected equal input and linear_weight last dimensions (in_features), got " +
                                           std::to_string(x.size(-1)) + " and " + std::to_string(weight.size(-1)) +
                                           ", respectively");
  Shape classes = weight.sizes();
  classes.pop_back();
  check(!bias.defined() || bias.sizes() == classes, "expected linear_bias shape " + text_of(classes) + ", got " +
                                                        (bias.defined() ? text_of(bias.sizes()) : std::string()));
  check(weight.dim() == 2 || x.dim() == 2, "K-dimensional loss defined by linear_weight shape " +
                                               text_of(weight.sizes()) + " requires batched input, (N, " +
                                               std::to_string(x.size(-1)) + "), got unbatched input with shape " +
                                               text_of(x.sizes()));
}

}  // namespace

Tensor nll_loss(const Tensor& log_prob, const Tensor& target, const NllLossOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced(
        "nll_loss", {log_prob, target, options.weight},
        {{"reduction", static_cast<std::int64_t>(options.reduction)}, {"ignore_index", options.ignore_index}},
        [&] { return nll_loss(log_prob, target, options); });
  const core::detail::OpScope scope("nll_loss", log_prob, target);
  if (const Casts to(CastRule::f32, CastOn::any, {&log_prob, &target}); to)
    return nll_loss(to(log_prob), to(target), options);
  raw::NllResult result = raw::nll_loss(log_prob, target, options);
  if (needs_grad(log_prob)) {
    auto node = make_node<NllLossBackward>(log_prob);
    node->keep(target, result.total_weight, log_prob.sizes(), options);
    record(result.loss, node);
  }
  return result.loss;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("cross_entropy", {logits, target, o.weight},
                                {{"reduction", static_cast<std::int64_t>(o.reduction)},
                                 {"ignore_index", o.ignore_index},
                                 {"label_smoothing", o.label_smoothing}},
                                [&] { return cross_entropy(logits, target, o); });
  const core::detail::OpScope scope("cross_entropy_loss", logits, target);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&logits, &target}); to)
    return cross_entropy(to(logits), to(target), o);
  if (o.label_smoothing < 0 || o.label_smoothing > 1) {
    std::string number = std::to_string(o.label_smoothing);
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
    throw Error(ErrorCode::runtime, "label_smoothing must be between 0.0 and 1.0. Got: " + number);
  }
  if (logits.sizes() == target.sizes()) return probability_loss(logits, target, o);
  if (o.label_smoothing > 0) return smoothed_loss(logits, target, o);
  return nll_loss(log_softmax(logits, class_dim(logits)), target, {o.weight, o.ignore_index, o.reduction});
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  if (core::detail::traced_now())
    return core::detail::traced("mse_loss", {x, target}, {{"reduction", static_cast<std::int64_t>(reduction)}},
                                [&] { return mse_loss(x, target, reduction); });
  const core::detail::OpScope scope("mse_loss", x, target);
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to) return mse_loss(to(x), to(target), reduction);
  if (is_complex(x.dtype()) || is_complex(target.dtype())) {
    raw::throw_unsupported("mse_cpu", raw::backend_of(x), is_complex(x.dtype()) ? x.dtype() : target.dtype());
  }
  detail::warn_sizes(x, target);
  Tensor out;
  {
    const NoGradGuard no_history;
    out = detail::reduced(square(sub(x, target)), reduction);
  }
  if (needs_grad(x, target)) {
    auto node = make_node<MseLossBackward>(x, target);
    node->reduction = reduction;
    node->save(x);
    node->save(target);
    record(out, node);
  }
  return out;
}

Reduction parse_reduction(std::string_view text) {
  if (text == "none") return Reduction::none;
  if (text == "mean") return Reduction::mean;
  if (text == "sum") return Reduction::sum;
  throw Error(ErrorCode::value, std::string(text) + " is not a valid value for reduction");
}

std::string_view name(Reduction reduction) {
  switch (reduction) {
    case Reduction::none:
      return "none";
    case Reduction::mean:
      return "mean";
    case Reduction::sum:
      return "sum";
  }
  return "";
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias,
                            const CrossEntropyOptions& options) {
  check_linear_loss(x, weight, bias);
  const std::int64_t in = weight.size(-1);
  const Tensor scores = linear(x, weight.reshape({-1, in}), bias.defined() ? bias.reshape({-1}) : bias);
  Shape sizes = x.dim() == 2 ? Shape{x.size(0)} : Shape{};
  for (std::int64_t d = 0; d + 1 < weight.dim(); ++d) sizes.push_back(weight.size(d));
  return cross_entropy(scores.reshape(sizes), target, options);
}

}  // namespace core
