// Embeddings with a limit on the norm, gradients scaled by frequency, and bags.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libcore/autograd/composed.h"
#include "libcore/base/error.h"
#include "libcore/tensor/embedding_ops.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"
#include "libcore/tensor/sparse.h"

namespace core {
namespace {

[[noreturn]] void fail(const std::string& text) {
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
      fail(
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
    fail("input has to be 1D or 2D Tensor, but got Tensor of dimension " + std::to_string(indices.dim()));
  }
  if (!a.offsets.defined()) fail("offsets has to be a 1D Tensor but got None");
  if (a.offsets.dim() != 1) fail("offsets has to be a 1D Tensor");
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

}  // namespace

namespace {

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

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingArguments& a) {
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
  if (a.per_sample_weights.defined() && a.mode != BagMode::sum) {
    throw Error(ErrorCode::not_implemented,
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                "(got mode='" +
                    std::string(a.mode == BagMode::mean ? "mean" : "max") +
                    "'). Please open a feature request on GitHub.");
  }
  if (a.mode == BagMode::max && a.scale_grad_by_freq) {
    fail("max mode does not support scaling the gradient by the frequency");
  }
  if (a.mode == BagMode::max && a.sparse) fail("max mode does not support sparse weights");
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

}  // namespace core
