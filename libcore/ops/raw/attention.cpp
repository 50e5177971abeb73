#include "libcore/ops/raw/attention.h"

#include "libcore/backend/op_tables.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/random_on_device.h"
#include "libcore/tensor/tensor.h"

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

std::int64_t weights_of(const AttentionSizes& s) {
  return s.batch * s.heads * s.queries * s.keys;
}

/// Whether a kernel can read the mask beside the scores of q and k.
bool fits_scores(const Tensor& mask, const Tensor& q, const Tensor& k) {
  if (mask.dim() > 4 || (mask.dtype() != DType::boolean && mask.dtype() != q.dtype())) return false;
  if (&backend_of(mask) != &backend_of(q)) return false;
  const std::int64_t sizes[] = {q.size(0), q.size(1), q.size(2), k.size(2)};
  for (std::int64_t d = 1; d <= mask.dim(); ++d) {
    if (mask.size(-d) != 1 && mask.size(-d) != sizes[4 - d]) return false;
  }
  return true;
}

AttentionMask mask_of(const Tensor& mask) {
  const auto stride = [&](std::int64_t from_last) {
    return mask.dim() < from_last || mask.size(-from_last) == 1 ? 0 : mask.stride(-from_last);
  };
  return {mask.raw_data(), stride(4), stride(3), stride(2), stride(1), mask.dtype() == DType::boolean};
}

/// The decisions that were drawn before.
AttentionDropout dropout_again(const AttentionPlan& plan, const Tensor& drawn) {
  return {.p = plan.dropout, .state = static_cast<const std::uint64_t*>(drawn.raw_data())};
}

}  // namespace

bool has_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || k.dtype() != q.dtype() || v.dtype() != q.dtype()) return false;
  const bool same_device = &backend_of(q) == &backend_of(k) && &backend_of(q) == &backend_of(v);
  const NnTable* table = backend_of(q).ops().nn;
  if (!same_device || table == nullptr || !table->attention[static_cast<std::size_t>(q.dtype())]) return false;
  const bool fits = !table->attention_has_tiles || k.size(3) <= NnTable::kWidestTiles;
  return fits && k.sizes() == v.sizes() && q.size(0) == k.size(0) && q.size(1) == k.size(1) && q.size(3) == k.size(3) &&
         q.numel() != 0 && k.numel() != 0;
}

bool has_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan) {
  if (!has_attention(q, k, v)) return false;
  if (!plan.mask.defined() && plan.dropout == 0) return true;
  const bool fits = plan.dropout < 1 && (!plan.mask.defined() || fits_scores(plan.mask, q, k));
  return fits && backend_of(q).ops().nn->attention_has_tiles;
}

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionPlan& plan) {
  const core::detail::OpScope scope("_scaled_dot_product_flash_attention", q, k, v);
  const Tensor queries = with_rows(q), keys = with_rows(k), values = with_rows(v);
  const DType sums = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Shape rows{q.size(0), q.size(1), q.size(2)};
  AttentionResult out{make_like(queries, q.dtype()), make(rows, sums, backend_of(q))};
  AttentionParams params{sizes_of(q, k, plan), array_of(queries),    array_of(keys),
                         array_of(values),     array_of(out.output), out.log_sums.mutable_raw_data()};
  if (plan.mask.defined()) {
    out.row_maxima = make(rows, sums, backend_of(q));
    params.row_maxima = out.row_maxima.mutable_raw_data();
    params.mask = mask_of(plan.mask);
  }
  const auto run = [&] { kernel::run("scaled_dot_product_attention", q, &NnTable::attention, params); };
  if (plan.dropout == 0) return run(), out;
  out.drawn = make({2}, DType::i64, backend_of(q));
  const std::uint64_t used = attention_offset_step(weights_of(params.sizes));
  core::detail::draw_on_device(q.device(), default_generator(q.device()), used, [&](const RandomParams& at) {
    auto* drawn = static_cast<std::uint64_t*>(out.drawn.mutable_raw_data());
    params.dropout = {plan.dropout, at.seed, at.offset, at.state, drawn};
    run();
  });
  return out;
}

AttentionGrads attention_grad(const Tensor& output_grad, const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionResult& forward, const AttentionPlan& plan) {
  const core::detail::OpScope scope("_scaled_dot_product_flash_attention_backward", output_grad, q, k, v);
  const Tensor queries = with_rows(q), keys = with_rows(k), values = with_rows(v), grad = with_rows(output_grad);
  const Tensor output = with_rows(forward.output);
  AttentionGrads out{make_like(queries, q.dtype()), make_like(keys, k.dtype()), make_like(values, v.dtype())};
  AttentionGradParams params{
      sizes_of(q, k, plan), array_of(queries),           array_of(keys),  array_of(values), array_of(output),
      array_of(grad),       forward.log_sums.raw_data(), array_of(out.q), array_of(out.k),  array_of(out.v)};
  if (plan.mask.defined()) params.mask = mask_of(plan.mask);
  params.row_maxima = kernel::data_or_null(forward.row_maxima);
  if (plan.dropout > 0) params.dropout = dropout_again(plan, forward.drawn);
  kernel::run("scaled_dot_product_attention_backward", q, &NnTable::attention_grad, params);
  return out;
}

Tensor attention_kept(const Tensor& q, const Tensor& k, const AttentionPlan& plan, const Tensor& drawn) {
  const Tensor kept = make({q.size(0), q.size(1), q.size(2), k.size(2)}, DType::boolean, backend_of(q));
  kernel::run("scaled_dot_product_attention_dropout", kept, &NnTable::attention_kept,
              AttentionKeptParams{sizes_of(q, k, plan), dropout_again(plan, drawn),
                                  static_cast<bool*>(kept.mutable_raw_data())});
  return kept;
}

}  // namespace core::raw
