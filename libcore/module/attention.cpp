#include "libcore/module/attention.h"

#include <cmath>
#include <limits>

#include "libcore/base/error.h"
#include "libcore/module/init.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void check_sizes(std::int64_t embed, std::int64_t heads) {
  if (embed <= 0 || heads <= 0) {
    throw Error(ErrorCode::value, "embed_dim and num_heads must be greater than 0, got embed_dim=" +
                                      std::to_string(embed) + " and num_heads=" + std::to_string(heads) + " instead");
  }
  if (embed % heads != 0) throw Error(ErrorCode::assertion, "embed_dim must be divisible by num_heads");
}

std::int64_t checked(std::int64_t embed, std::int64_t heads) {
  check_sizes(embed, heads);
  return embed;
}

/// A mask as numbers to add.
Tensor added(const Tensor& mask, const Tensor& like) {
  if (!mask.defined() || mask.dtype() != DType::boolean) return mask;
  return masked_fill(zeros(mask.sizes(), {.dtype = like.dtype(), .device = like.device()}), mask, kNever);
}

/// Both masks together: (batch, heads or 1, length or 1, keys), or what `mask` alone is.
Tensor bias_of(const Tensor& mask, const Tensor& hidden, std::int64_t batch) {
  const bool by_head = mask.defined() && mask.dim() == 3 && mask.size(0) != 1;
  const Tensor bias = by_head ? mask.reshape({batch, mask.size(0) / batch, mask.size(1), mask.size(2)}) : mask;
  if (!hidden.defined()) return bias;
  const Tensor each = hidden.view({batch, 1, 1, hidden.size(-1)});
  return bias.defined() ? bias + each : each;
}

/// One more column that hides nothing.
Tensor one_wider(const Tensor& mask) {
  return mask.defined() ? pad_constant(mask, {0, 1}) : mask;
}

/// Where one head's keys lie: (length, batch, embed) to (batch * heads, length, embed / heads).
Tensor by_heads(const Tensor& x, std::int64_t heads) {
  const std::int64_t batch = x.size(1), width = x.size(2) / heads;
  return x.reshape({x.size(0), batch * heads, width}).transpose(0, 1);
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed, std::int64_t heads, const AttentionLayerOptions& given)
    : embed_dim(checked(embed, heads)),
      num_heads(heads),
      options(given),
      out_proj(embed, embed, {.bias = given.bias, .dtype = given.dtype, .device = given.device}) {
  const TensorOptions made{.dtype = given.dtype, .device = given.device};
  if (options.kdim == 0) options.kdim = embed;
  if (options.vdim == 0) options.vdim = embed;
  if (same_widths()) {
    in_proj_weight = Parameter(empty({3 * embed, embed}, made));
  } else {
    q_proj_weight = Parameter(empty({embed, embed}, made));
    k_proj_weight = Parameter(empty({embed, options.kdim}, made));
    v_proj_weight = Parameter(empty({embed, options.vdim}, made));
  }
  if (given.bias) in_proj_bias = Parameter(empty({3 * embed}, made));
  if (given.add_bias_kv) bias_k = Parameter(empty({1, 1, embed}, made));
  if (given.add_bias_kv) bias_v = Parameter(empty({1, 1, embed}, made));
  reset_parameters();
}

bool MultiheadAttention::same_widths() const {
  return options.kdim == embed_dim && options.vdim == embed_dim;
}

void MultiheadAttention::reset_parameters() {
  for (const Parameter* weight : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight}) {
    if (weight->defined()) init::xavier_uniform_(*weight);
  }
  if (in_proj_bias.defined()) init::zeros_(in_proj_bias);
  if (in_proj_bias.defined()) init::zeros_(out_proj.linear.bias);
  if (bias_k.defined()) init::xavier_normal_(bias_k);
  if (bias_v.defined()) init::xavier_normal_(bias_v);
}

void MultiheadAttention::members(Members& m) {
  m.parameter("in_proj_weight", in_proj_weight);
  m.parameter("q_proj_weight", q_proj_weight).parameter("k_proj_weight", k_proj_weight);
  m.parameter("v_proj_weight", v_proj_weight).parameter("in_proj_bias", in_proj_bias);
  m.parameter("bias_k", bias_k).parameter("bias_v", bias_v).child("out_proj", out_proj);
}

MultiheadAttention::Projected MultiheadAttention::project(const Tensor& q, const Tensor& k, const Tensor& v) const {
  if (same_widths() && q.is_same(k) && k.is_same(v)) {
    const std::vector<Tensor> parts = linear(q, in_proj_weight, in_proj_bias).chunk(3, -1);
    return {parts[0], parts[1], parts[2]};
  }
  const std::vector<Tensor> weights =
      same_widths() ? in_proj_weight.chunk(3, 0) : std::vector<Tensor>{q_proj_weight, k_proj_weight, v_proj_weight};
  const std::vector<Tensor> biases = in_proj_bias.defined() ? in_proj_bias.chunk(3, 0) : std::vector<Tensor>(3);
  return {linear(q, weights[0], biases[0]), linear(k, weights[1], biases[1]), linear(v, weights[2], biases[2])};
}

/// q, k, v with the length first and a batch.
std::tuple<Tensor, Tensor> MultiheadAttention::attend(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const AttentionCall& call) const {
  const std::int64_t length = q.size(0), batch = q.size(1), width = embed_dim / num_heads;
  Projected p = project(q, k, v);
  Tensor mask = added(call.attn_mask, q), hidden = added(call.key_padding_mask, q);
  if (bias_k.defined()) {
    p.k = cat({p.k, bias_k.repeat({1, batch, 1})});
    p.v = cat({p.v, bias_v.repeat({1, batch, 1})});
    mask = one_wider(mask), hidden = one_wider(hidden);
  }
  Tensor heads_q = by_heads(p.q, num_heads), heads_k = by_heads(p.k, num_heads), heads_v = by_heads(p.v, num_heads);
  if (options.add_zero_attn) {
    const Tensor nothing = zeros({batch * num_heads, 1, width}, {.dtype = q.dtype(), .device = q.device()});
    heads_k = cat({heads_k, nothing}, 1);
    heads_v = cat({heads_v, nothing}, 1);
    mask = one_wider(mask), hidden = one_wider(hidden);
  }
  const std::int64_t keys = heads_k.size(1);
  const double dropped = is_training() ? options.dropout : 0;
  if (!call.need_weights) {
    const auto four = [&](const Tensor& x) { return x.reshape({batch, num_heads, x.size(1), width}); };
    const Tensor y = scaled_dot_product_attention(four(heads_q), four(heads_k), four(heads_v),
                                                  {.mask = bias_of(mask, hidden, batch), .dropout = dropped});
    const Tensor rows = y.permute({2, 0, 1, 3}).contiguous().view({batch * length, embed_dim});
    return {out_proj.forward(rows).view({length, batch, embed_dim}), Tensor()};
  }
  if (hidden.defined()) {
    const Tensor each = hidden.view({batch, 1, 1, keys}).expand({batch, num_heads, 1, keys});
    const Tensor all = each.reshape({batch * num_heads, 1, keys});
    mask = mask.defined() ? mask + all : all;
  }
  Tensor scores = bmm(heads_q * std::sqrt(1.0 / static_cast<double>(width)), heads_k.transpose(-2, -1));
  if (mask.defined()) scores = scores + mask;
  Tensor weights = dropout(softmax(scores, -1), dropped, dropped > 0);
  const Tensor rows = bmm(weights, heads_v).transpose(0, 1).contiguous().view({length * batch, embed_dim});
  const Tensor y = out_proj.forward(rows).view({length, batch, embed_dim});
  weights = weights.view({batch, num_heads, length, keys});
  return {y, call.average_attn_weights ? weights.mean(Shape{1}) : weights};
}

std::tuple<Tensor, Tensor> MultiheadAttention::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                       const AttentionCall& call) const {
  if (q.size(-1) != embed_dim) {
    throw Error(ErrorCode::assertion, "was expecting embedding dimension of " + std::to_string(embed_dim) +
                                          ", but got " + std::to_string(q.size(-1)));
  }
  const bool batched = q.dim() == 3, turned = options.batch_first && batched;
  const auto prepared = [&](const Tensor& x) { return turned ? x.transpose(1, 0) : batched ? x : x.unsqueeze(1); };
  const Tensor query = prepared(q), key = k.is_same(q) ? query : prepared(k);
  const Tensor value = v.is_same(k) ? key : prepared(v);
  AttentionCall inner = call;
  if (!batched && call.key_padding_mask.defined()) inner.key_padding_mask = call.key_padding_mask.unsqueeze(0);
  auto [y, weights] = attend(query, key, value, inner);
  if (turned) return {y.transpose(1, 0), weights};
  if (batched) return {y, weights};
  return {y.squeeze(1), weights.defined() ? weights.squeeze(0) : weights};
}

template class ModuleOf<NonDynamicallyQuantizableLinear>;
template class ModuleOf<MultiheadAttention>;

}  // namespace core
