// Softmax, losses, embedding.
#include "libcore/autograd/function_nodes.h"
#include "libcore/autograd/loss_common.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/tensor/device_assert.h"
#include "libcore/tensor/nn_ops.h"
#include "libcore/tensor/raw_nn_ops.h"

namespace core {
namespace {

/// Saved: the output.
struct SoftmaxBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "SoftmaxBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    const Tensor out = saved(0);
    if (!is_grad_enabled()) return {raw::softmax_grad(grads[0], out, dim)};
    const Tensor total = sum(mul(grads[0], out), {.dims = {dim}, .keepdim = true});
    return {mul(sub(grads[0], total), out)};
  }
};

/// Saved: the output.
struct LogSoftmaxBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "LogSoftmaxBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    const Tensor out = saved(0);
    if (!is_grad_enabled()) return {raw::log_softmax_grad(grads[0], out, dim)};
    return {sub(grads[0], mul(exp(out), sum(grads[0], {.dims = {dim}, .keepdim = true})))};
  }
};

template <class N>
Tensor recorded_softmax(Tensor out, const Tensor& x, std::int64_t dim) {
  if (needs_grad(x)) {
    auto node = make_node<N>(x);
    node->dim = dim;
    record(out, node);
    node->save_output(out);
  }
  return out;
}

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

/// The gradient of row padding_idx stays 0. Saved: indices.
struct EmbeddingBackward final : Node {
  Shape weight_sizes;
  std::optional<std::int64_t> padding_idx;
  std::string_view name() const override { return "EmbeddingBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    const Tensor indices = saved(0).to(DType::i64).reshape({-1});
    Tensor rows = grads[0].reshape({indices.numel(), weight_sizes[1]});
    if (padding_idx) rows = masked_fill(rows, eq(indices, *padding_idx).unsqueeze(1), 0);
    const Tensor zero = zeros(weight_sizes, {.dtype = rows.dtype(), .device = rows.device()});
    return {index_add(zero, 0, indices, rows)};
  }
};

void check_indices(const Tensor& indices, std::int64_t count) {
  if (indices.numel() == 0 || indices.is_meta()) return;
  if (detail::asserts_later(indices)) return;  // the kernel that picks the rows looks
  const NoGradGuard no_history;
  if (min(indices).item<std::int64_t>() < 0 || max(indices).item<std::int64_t>() >= count) {
    throw Error(ErrorCode::index, "index out of range in self");
  }
}

}  // namespace

Tensor detail::reduced(const Tensor& x, Reduction reduction) {
  if (reduction == Reduction::none) return x;
  return reduction == Reduction::mean ? mean(x) : sum(x);
}

void detail::warn_sizes(const Tensor& x, const Tensor& target) {
  if (x.sizes() == target.sizes()) return;
  warn("Using a target size (torch.Size(" + to_list(target.sizes()) +
       ")) that is different to the input size (torch.Size(" + to_list(x.sizes()) +
       ")). This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.");
}

Tensor softmax(const Tensor& x, std::int64_t dim) {
  return recorded_softmax<SoftmaxBackward>(raw::softmax(x, dim), x, dim);
}

Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  return recorded_softmax<LogSoftmaxBackward>(raw::log_softmax(x, dim), x, dim);
}

Tensor nll_loss(const Tensor& log_prob, const Tensor& target, const NllLossOptions& options) {
  raw::NllResult result = raw::nll_loss(log_prob, target, options);
  if (needs_grad(log_prob)) {
    auto node = make_node<NllLossBackward>(log_prob);
    node->keep(target, result.total_weight, log_prob.sizes(), options);
    record(result.loss, node);
  }
  return result.loss;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
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

Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  if (weight.dim() != 2) throw Error(ErrorCode::runtime, "'weight' must be 2-D");
  if (indices.dtype() != DType::i64 && indices.dtype() != DType::i32) {
    throw Error(
        ErrorCode::runtime,
        std::string("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                    "Int; but got torch.") +
            scalar_type_name(indices.dtype()) + "Tensor instead (while checking arguments for embedding)");
  }
  check_indices(indices, weight.size(0));
  Shape sizes = indices.sizes();
  sizes.push_back(weight.size(1));
  Tensor out = index_select(weight.detach(), 0, indices.to(DType::i64).reshape({-1})).reshape(sizes);
  if (needs_grad(weight)) {
    auto node = make_node<EmbeddingBackward>(weight);
    node->weight_sizes = weight.sizes();
    node->padding_idx = padding_idx;
    node->save(indices);
    record(out, node);
  }
  return out;
}

}  // namespace core
