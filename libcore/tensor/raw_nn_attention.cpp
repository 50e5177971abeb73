#include "libcore/tensor/nn_common.h"
#include "libcore/tensor/raw_nn_ops.h"

namespace core::raw {
namespace {

AttentionSizes sizes_of(const Tensor& q, const Tensor& k, const AttentionPlan& plan) {
  return {q.size(0), q.size(1), q.size(2), k.size(2), q.size(3), plan.scale, plan.causal};
}

/// With neighbouring elements in each row.
Tensor with_rows(const Tensor& x) {
  return x.stride(3) == 1 || x.size(3) == 1 ? x : contiguous(x);
}

AttentionArray array_of(const Tensor& x) {
  return {x.raw_data(), x.stride(0), x.stride(1), x.stride(2)};
}

}  // namespace

bool has_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  constexpr std::int64_t kMostOnHost = 32768;  // elements of one head's keys: more are faster as products
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || k.dtype() != q.dtype() || v.dtype() != q.dtype()) return false;
  const bool same_device = &backend_of(q) == &backend_of(k) && &backend_of(q) == &backend_of(v);
  const NnTable* table = backend_of(q).ops().nn;
  if (!same_device || table == nullptr || !table->attention[static_cast<std::size_t>(q.dtype())]) return false;
  const bool fits =
      table->attention_has_tiles ? k.size(3) <= NnTable::kWidestTiles : k.size(2) * k.size(3) <= kMostOnHost;
  return fits && k.sizes() == v.sizes() && q.size(0) == k.size(0) && q.size(1) == k.size(1) && q.size(3) == k.size(3) &&
         q.numel() != 0 && k.numel() != 0;
}

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan) {
  const Tensor queries = with_rows(q), keys = with_rows(k), values = with_rows(v);
  const DType sums = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  AttentionResult out{make_like(queries, q.dtype()), make({q.size(0), q.size(1), q.size(2)}, sums, backend_of(q))};
  detail::run("scaled_dot_product_attention", q, &NnTable::attention,
              AttentionParams{sizes_of(q, k, plan), array_of(queries), array_of(keys), array_of(values),
                              array_of(out.output), out.log_sums.mutable_raw_data()});
  return out;
}

AttentionGrads attention_grad(const Tensor& output_grad, const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionResult& forward, const AttentionPlan& plan) {
  const Tensor queries = with_rows(q), keys = with_rows(k), values = with_rows(v), grad = with_rows(output_grad);
  const Tensor output = with_rows(forward.output);
  AttentionGrads out{make_like(queries, q.dtype()), make_like(keys, k.dtype()), make_like(values, v.dtype())};
  detail::run("scaled_dot_product_attention_backward", q, &NnTable::attention_grad,
              AttentionGradParams{sizes_of(q, k, plan), array_of(queries), array_of(keys), array_of(values),
                                  array_of(output), array_of(grad), forward.log_sums.raw_data(), array_of(out.q),
                                  array_of(out.k), array_of(out.v)});
  return out;
}

Tensor try_gelu_tanh_grad(const Tensor& output_grad, const Tensor& x) {
  const NnTable* table = backend_of(x).ops().nn;
  const auto slot = static_cast<std::size_t>(x.dtype());
  const bool fits = output_grad.sizes() == x.sizes() && output_grad.dtype() == x.dtype() &&
                    &backend_of(output_grad) == &backend_of(x);
  if (!fits || table == nullptr || table->gelu_tanh_grad[slot] == nullptr) return {};
  const Tensor grad = detail::dense(output_grad), in = detail::dense(x);
  Tensor out = detail::empty_as(x, x.sizes());
  table->gelu_tanh_grad[slot]({x.numel(), grad.raw_data(), in.raw_data(), out.mutable_raw_data()});
  return out;
}

}  // namespace core::raw
