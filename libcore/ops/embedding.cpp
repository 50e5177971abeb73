#include "libcore/ops/embedding.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/device_assert.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;

[[noreturn]] void fail_value(const std::string& text) {
  throw Error(ErrorCode::value, text);
}

void limit_rows(const Tensor& weight, const std::vector<std::int64_t>& indices, double max_norm, double p) {
  const NoGradGuard no_history;
  for (const auto index : indices) {
    const Tensor row = weight.detach().select(0, index);
    const double length = row.norm(p).item<double>();
    if (length > max_norm) row.mul_(max_norm / (length + 1e-7));
  }
}

/// The gradient of each looked-up row is to be multiplied by these.
std::vector<double> grad_scales(const std::vector<std::int64_t>& indices, const EmbeddingArguments& a) {
  std::map<std::int64_t, double> counts;
  for (const std::int64_t index : indices) counts[index] += 1;
  std::vector<double> scales;
  for (const std::int64_t index : indices) {
    const bool padding = a.padding_idx && *a.padding_idx == index;
    scales.push_back(padding ? 0 : a.scale_grad_by_freq ? 1 / counts[index] : 1);
  }
  return scales;
}

/// Which indices belong to which bag.
using Bags = std::vector<std::vector<std::int64_t>>;

Bags bags_of(const Tensor& indices, const EmbeddingBagArguments& a) {
  Bags bags;
  if (indices.dim() == 2) {
    if (a.offsets.defined()) {
      fail_value(
          "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. "
          "However, found offsets of type <class 'torch.Tensor'>");
    }
    for (std::int64_t row = 0; row < indices.size(0); ++row) {
      bags.emplace_back();
      for (std::int64_t i = 0; i < indices.size(1); ++i) bags.back().push_back(row * indices.size(1) + i);
    }
    return bags;
  }
  if (indices.dim() != 1) {
    fail_value("input has to be 1D or 2D Tensor, but got Tensor of dimension " + std::to_string(indices.dim()));
  }
  if (!a.offsets.defined()) fail_value("offsets has to be a 1D Tensor but got None");
  if (a.offsets.dim() != 1) fail_value("offsets has to be a 1D Tensor");
  std::vector<std::int64_t> begins = a.offsets.to_vector<std::int64_t>();
  if (!a.include_last_offset) begins.push_back(indices.numel());
  for (std::size_t bag = 0; bag + 1 < begins.size(); ++bag) {
    bags.emplace_back();
    for (std::int64_t i = begins[bag]; i < begins[bag + 1]; ++i) bags.back().push_back(i);
  }
  return bags;
}

/// One bag. rows: (count, width), in the order of the indices.
Tensor bagged(const Tensor& rows, const std::vector<std::int64_t>& own, BagMode mode) {
  if (own.empty()) return rows.narrow(0, 0, 0).sum(Shape{0});
  const Tensor mine = index_select(rows, 0, from_values(own, {.device = rows.device()}));
  if (mode == BagMode::sum) return mine.sum(Shape{0});
  return mode == BagMode::mean ? mine.mean(Shape{0}) : mine.max(0).values;
}

/// The rows that were looked up, but for the padding, with the gradients that arrive at them.
struct SparseEmbeddingBackward final : Node {
  Shape weight_sizes;
  std::optional<std::int64_t> padding_idx;
  bool scale_grad_by_freq = false;
  std::string_view name() const override { return "EmbeddingBackward0"; }
  TensorList apply(TensorList g) override {
    if (scale_grad_by_freq) {
      throw Error(ErrorCode::runtime, "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    }
    const NoGradGuard no_history;
    Tensor indices = saved(0).to(DType::i64).reshape({-1});
    Tensor rows = g[0].reshape({-1, weight_sizes[1]});
    if (padding_idx) {
      const Tensor kept = nonzero(ne(indices, *padding_idx)).reshape({-1});
      rows = index_select(rows, 0, kept);
      indices = index_select(indices, 0, kept);
    }
    return {sparse_coo_tensor(indices.unsqueeze(0), rows, weight_sizes)};
  }
};

Tensor sparse_embedding(const Tensor& indices, const Tensor& weight, const EmbeddingArguments& a) {
  Tensor out = embedding(indices, weight.detach(), a.padding_idx);
  if (!needs_grad(weight)) return out;
  auto node = make_node<SparseEmbeddingBackward>(weight);
  node->weight_sizes = weight.sizes();
  node->padding_idx = a.padding_idx;
  node->scale_grad_by_freq = a.scale_grad_by_freq;
  node->save(indices);
  record(out, node);
  return out;
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

Tensor one_hot(const Tensor& index, std::int64_t classes) {
  if (core::detail::traced_now() && classes > 0)
    return core::detail::traced("one_hot", {index}, {{"classes", classes}}, [&] { return one_hot(index, classes); });
  if (index.dtype() != DType::i64) {
    fail("one_hot is only applicable to index tensor of type LongTensor.");
  }
  if (index.numel() == 0 && classes <= 0) fail("Can not infer total number of classes from empty tensor.");
  const NoGradGuard no_history;
  if (classes > 0 && index.numel() > 0 && detail::asserts_later(index)) {
    detail::assert_none(logical_or(lt(index, 0), ge(index, classes)));
    return eq(index.unsqueeze(-1), arange(classes, {.device = index.device()})).to(DType::i64);
  }
  const std::int64_t top = index.numel() == 0 ? -1 : max(index).item<std::int64_t>();
  if (index.numel() > 0 && min(index).item<std::int64_t>() < 0) fail("Class values must be non-negative.");
  if (classes == -1) classes = top + 1;
  if (classes < 1) fail("num_classes should be positive");
  if (top >= classes) fail("Class values must be smaller than num_classes.");
  return eq(index.unsqueeze(-1), arange(classes, {.device = index.device()})).to(DType::i64);
}

Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingArguments& a) {
  if (core::detail::traced_now()) {
    const bool plain = !a.padding_idx && !a.max_norm && !a.scale_grad_by_freq && !a.sparse;
    return core::detail::traced("embedding", {indices, weight},
                                {{"plain", plain}, {"limits_rows", a.max_norm.has_value()}},
                                [&] { return embedding(indices, weight, a); });
  }
  const core::detail::OpScope scope("embedding", weight, indices);
  if (a.max_norm) limit_rows(weight, indices.to_vector<std::int64_t>(), *a.max_norm, a.norm_type);
  if (a.sparse) return sparse_embedding(indices, weight, a);
  if (!a.scale_grad_by_freq) return embedding(indices, weight, a.padding_idx);
  const std::vector<double> scales = grad_scales(indices.to_vector<std::int64_t>(), a);
  return composed("EmbeddingBackward0", {weight}, [indices, scales](const TensorList& in) {
    const Tensor rows = embedding(indices, in[0]);
    const Tensor scale =
        from_values(scales, {.dtype = rows.dtype(), .device = rows.device()}).reshape(indices.sizes()).unsqueeze(-1);
    return rows * scale + (rows * (1 - scale)).detach();
  });
}

Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const EmbeddingBagArguments& a) {
  const core::detail::OpScope scope("embedding_bag", weight, indices);
  if (a.per_sample_weights.defined() && a.mode != BagMode::sum) {
    throw Error(ErrorCode::not_implemented,
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                "(got mode='" +
                    std::string(a.mode == BagMode::mean ? "mean" : "max") +
                    "'). Please open a feature request on GitHub.");
  }
  if (a.mode == BagMode::max && a.scale_grad_by_freq) {
    fail_value("max mode does not support scaling the gradient by the frequency");
  }
  if (a.mode == BagMode::max && a.sparse) fail_value("max mode does not support sparse weights");
  Bags bags = bags_of(indices, a);
  const std::vector<std::int64_t> flat = indices.to_vector<std::int64_t>();
  if (a.max_norm) limit_rows(weight, flat, *a.max_norm, a.norm_type);
  for (auto& bag : bags) {
    if (a.padding_idx)
      std::erase_if(bag, [&](std::int64_t i) { return flat[static_cast<std::size_t>(i)] == *a.padding_idx; });
  }
  const BagMode mode = a.mode;
  // Gradients that are sparse or scaled are those of the rows.
  const bool by_rows = a.sparse || a.scale_grad_by_freq;
  const EmbeddingArguments plain{.scale_grad_by_freq = a.scale_grad_by_freq, .sparse = a.sparse};
  const Tensor source = by_rows ? embedding(indices.reshape({-1}), weight, plain) : weight;
  return composed("EmbeddingBagBackward0", {source, a.per_sample_weights}, [=](const TensorList& in) {
    Tensor rows = by_rows ? in[0] : embedding(indices.reshape({-1}), in[0]);
    if (in[1].defined()) rows = rows * in[1].reshape({-1, 1});
    std::vector<Tensor> results;
    for (const auto& bag : bags) results.push_back(bagged(rows, bag, mode));
    return results.empty() ? rows.narrow(0, 0, 0) : stack(results);
  });
}

Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  if (core::detail::traced_now())
    return core::detail::traced("embedding", {indices, weight}, {{"plain", !padding_idx.has_value()}},
                                [&] { return embedding(indices, weight, padding_idx); });
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

const Tensor& embedding_renorm_(const Tensor& weight, const Tensor& indices, double max_norm, double norm_type) {
  limit_rows(weight, indices.to_vector<std::int64_t>(), max_norm, norm_type);
  return weight;
}

}  // namespace core
