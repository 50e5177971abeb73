#include "libcore/ops/blas.h"

#include <string>
#include <string_view>
#include <utility>

#include "libcore/autograd/anomaly_mode.h"
#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/detail/view_nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/blas.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_view.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

/// a^T g, the gradient of the second factor, in that factor's own layout (a transposed weight's comes out transposed,
/// so that the weight's gradient needs no copy).
Tensor second_factor_grad(const Tensor& a, const Tensor& g, bool transposed) {
  return transposed ? mm(g.t(), a).t() : mm(a.t(), g);
}
bool is_transposed(const Tensor& matrix) {
  return matrix.stride(0) == 1 && matrix.stride(1) == matrix.size(0);
}

struct MmBackward final : Node {
  bool transposed = false;
  std::string_view name() const override { return "MmBackward0"; }
  TensorList apply(TensorList g) override {
    return {wants(0) ? mm(g[0], saved(1).t()) : Tensor(),
            wants(1) ? second_factor_grad(saved(0), g[0], transposed) : Tensor()};
  }
};
CORE_NODE(BmmBackward, "BmmBackward0",
          return {wants(0) ? bmm(g[0], saved(1).transpose(1, 2)) : Tensor(),
                  wants(1) ? bmm(saved(0).transpose(1, 2), g[0]) : Tensor()};)
CORE_NODE(MvBackward, "MvBackward0",
          return {wants(0) ? outer(g[0], saved(1)) : Tensor(), wants(1) ? mv(saved(0).t(), g[0]) : Tensor()};)
/// The row that a vector times a matrix gives.
CORE_NODE(SqueezeRowBackward, "SqueezeBackward4", return {g[0].unsqueeze(0)};)
CORE_NODE(DotBackward, "DotBackward0",
          return {wants(0) ? g[0] * saved(1) : Tensor(), wants(1) ? g[0] * saved(0) : Tensor()};)
struct AddmmBackward final : Node {
  Scalar beta = 1, alpha = 1;
  bool transposed = false;
  std::string_view name() const override { return "AddmmBackward0"; }
  Tensor scaled(const Tensor& t, Scalar by) const { return by.to_double() == 1 ? t : t * by; }
  TensorList apply(TensorList g) override {
    return {wants(0) ? scaled(g[0], beta) : Tensor(), wants(1) ? scaled(mm(g[0], saved(1).t()), alpha) : Tensor(),
            wants(2) ? scaled(second_factor_grad(saved(0), g[0], transposed), alpha) : Tensor()};
  }
};

/// x @ weight^T + bias in one kernel. Gradients go where those of addmm(bias, x, weight.t()) go, the weight's through a
/// TBackward0, without the transposed views in between; and without that node where nobody looks.
struct LinearBackward final : Node {
  std::string_view name() const override { return "AddmmBackward0"; }
  TensorList apply(TensorList grads) override {
    TensorList result = of_others(grads[0]);
    if (wants(2)) result[2] = is_grad_enabled() ? mm(grads[0].t(), saved(0)).t() : turned(weight_grad(grads[0]));
    return result;
  }
  TensorList apply_directly(TensorList grads) override {
    TensorList result = of_others(grads[0]);
    if (wants(2)) result[2] = is_grad_enabled() ? mm(grads[0].t(), saved(0)).t().t() : weight_grad(grads[0]);
    return result;
  }

 protected:
  IntrusivePtr<Node> skipped_node(Edge edge) const override {
    const OutputMeta weight = edge.node->outputs()[edge.input_nr];
    auto node = make_intrusive<detail::TBackward>();
    node->add_edge(std::move(edge));
    node->add_output(OutputMeta{{weight.sizes[1], weight.sizes[0]}, weight.dtype, weight.device});
    return node;
  }

 private:
  /// The gradients of bias and x.
  TensorList of_others(const Tensor& g) const {
    const bool differentiable = is_grad_enabled();
    TensorList result(3);
    if (wants(0)) result[0] = differentiable ? sum(g, {.dims = {0}}) : raw::column_sums(g);
    if (wants(1)) result[1] = differentiable ? mm(g, weight()) : raw::product(g, weight());
    return result;
  }
  /// The weight that was kept. PyTorch keeps its transposed view, and says of a change in place what it then knows of
  /// it.
  Tensor weight() const {
    try {
      return saved(1);
    } catch (const Error& error) {
      std::string text = error.message();
      const std::size_t begin = text.find("Tensor ["), end = text.find("] is at version");
      if (begin == std::string::npos || end == std::string::npos) throw;
      const auto& view = next_edges()[2].node ? next_edges()[2].node->outputs()[0].sizes : Shape{};
      const std::string sizes = view.size() == 2 ? to_list(view) : text.substr(begin + 7, end - begin - 7);
      text.replace(begin + 7, end - begin - 6, sizes + "], which is output 0 of AsStrided,");
      throw Error(error.code(), text);
    }
  }
  Tensor weight_grad(const Tensor& g) const { return raw::turned_product(g, saved(0)); }
  static Tensor turned(const Tensor& grad) {
    return raw::view(grad, {grad.sizes()[1], grad.sizes()[0]}, {1, grad.sizes()[1]}, 0);
  }
};

std::string by(const Tensor& t) {
  return std::to_string(t.size(0)) + "x" + std::to_string(t.size(1));
}

void check_matrices(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.dim() != 2) {
    throw Error(ErrorCode::runtime,
                std::string(operation) + ": self must be a matrix, got " + std::to_string(a.dim()) + "-D tensor");
  }
  if (b.dim() != 2) {
    throw Error(ErrorCode::runtime,
                std::string(operation) + ": mat2 must be a matrix, got " + std::to_string(b.dim()) + "-D tensor");
  }
  if (a.size(1) != b.size(0)) {
    throw Error(ErrorCode::runtime, std::string(operation) + ": mat1 and mat2 shapes cannot be multiplied (" + by(a) +
                                        " and " + by(b) + ")");
  }
}

template <class N>
Tensor with_both(const Tensor& a, const Tensor& b, Tensor out) {
  if (!needs_grad(a, b)) return out;
  auto node = make_node<N>(a, b);
  node->save(b.requires_grad() ? a : Tensor());
  node->save(a.requires_grad() ? b : Tensor());
  record(out, node);
  return out;
}

Shape leading(const Tensor& t) {
  return Shape(t.sizes().span().first(t.sizes().size() - 2));
}

Shape joined(Shape lead, std::initializer_list<std::int64_t> last) {
  for (std::int64_t size : last) lead.push_back(size);
  return lead;
}

/// (..., m, k) @ (k, n) or (k): one product over all rows.
Tensor matmul_folded(const Tensor& a, const Tensor& b) {
  Shape rows(a.sizes().span().first(a.sizes().size() - 1));
  Tensor flat = a.reshape({rows.numel(), a.size(-1)});
  if (b.dim() == 1) return unsafe_view(mv(flat, b), rows);
  return unsafe_view(mm(flat, b), joined(rows, {b.size(1)}));
}

Tensor vector_times_matrix(const Tensor& a, const Tensor& b) {
  Tensor row = mm(a.unsqueeze(0), b);
  return detail::with_node<SqueezeRowBackward>(row, raw::view(row, {row.size(1)}, {row.stride(1)}, 0));
}

Tensor matmul_batched(const Tensor& a, const Tensor& b) {
  Tensor x = a.dim() == 1 ? a.unsqueeze(0) : a;
  Tensor y = b.dim() == 1 ? b.unsqueeze(1) : b;
  Shape batch = broadcast_shapes(leading(x), leading(y));
  std::int64_t count = batch.numel();
  Tensor p = x.expand(joined(batch, {x.size(-2), x.size(-1)})).reshape({count, x.size(-2), x.size(-1)});
  Tensor q = y.expand(joined(batch, {y.size(-2), y.size(-1)})).reshape({count, y.size(-2), y.size(-1)});
  Shape out = batch;
  if (a.dim() != 1) out.push_back(x.size(-2));
  if (b.dim() != 1) out.push_back(y.size(-1));
  return unsafe_view(bmm(p, q), out);
}

Tensor recorded_linear(Tensor out, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!needs_grad(bias, x, weight)) return out;
  if (weight.requires_grad()) Node::count_skipped_node();
  auto node = make_node<LinearBackward>(bias, x, weight);
  if (weight.requires_grad()) node->skip_node_of(2);
  if (core::detail::anomaly_mode_on()) node->next_edges();  // which notes where
  node->save(weight.requires_grad() ? x : Tensor());
  node->save(x.requires_grad() ? weight : Tensor());
  record(out, node);
  return out;
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  if (core::detail::traced_now()) return core::detail::traced("matmul", {a, b}, {}, [&] { return mm(a, b); });
  if (const Casts to(CastRule::lower, CastOn::any, {&a, &b}); to) return mm(to(a), to(b));
  check_matrices("mm", a, b);
  Tensor out = raw::product(a, b);
  if (!needs_grad(a, b)) return out;
  auto node = make_node<MmBackward>(a, b);
  node->transposed = is_transposed(b);
  node->save(b.requires_grad() ? a : Tensor());
  node->save(a.requires_grad() ? b : Tensor());
  record(out, node);
  return out;
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (core::detail::traced_now()) return core::detail::traced("matmul", {a, b}, {}, [&] { return bmm(a, b); });
  if (const Casts to(CastRule::lower, CastOn::any, {&a, &b}); to) return bmm(to(a), to(b));
  if (a.dim() != 3) throw Error(ErrorCode::runtime, "batch1 must be a 3D tensor");
  if (a.dtype() != b.dtype()) {
    throw Error(ErrorCode::runtime, std::string("expected scalar type ") + scalar_type_name(a.dtype()) + " but found " +
                                        scalar_type_name(b.dtype()));
  }
  if (b.dim() != 3) throw Error(ErrorCode::runtime, "batch2 must be a 3D tensor");
  if (a.size(0) != b.size(0) || a.size(2) != b.size(1)) {
    throw Error(ErrorCode::runtime, "Expected size for first two dimensions of batch2 tensor to be: [" +
                                        std::to_string(a.size(0)) + ", " + std::to_string(a.size(2)) + "] but got: [" +
                                        std::to_string(b.size(0)) + ", " + std::to_string(b.size(1)) + "].");
  }
  return with_both<BmmBackward>(a, b, raw::product(a, b));
}

Tensor mv(const Tensor& matrix, const Tensor& vector) {
  if (const Casts to(CastRule::lower, CastOn::cuda, {&matrix, &vector}); to) return mv(to(matrix), to(vector));
  if (matrix.dim() != 2 || vector.dim() != 1) {
    throw Error(ErrorCode::runtime, "vector + matrix @ vector expected, got 1, " + std::to_string(matrix.dim()) + ", " +
                                        std::to_string(vector.dim()));
  }
  if (matrix.size(1) != vector.size(0)) {
    throw Error(ErrorCode::runtime, "size mismatch, got input (" + std::to_string(matrix.size(0)) + "), mat (" +
                                        by(matrix) + "), vec (" + std::to_string(vector.size(0)) + ")");
  }
  Tensor column = raw::view(vector, {vector.size(0), 1}, {vector.stride(0), 1}, vector.storage_offset());
  Tensor out = raw::product(matrix, column);
  return with_both<MvBackward>(matrix, vector, raw::view(out, {matrix.size(0)}, {1}, 0));
}

Tensor dot(const Tensor& a, const Tensor& b) {
  if (const Casts to(CastRule::widest, CastOn::cuda, {&a, &b}); to) return dot(to(a), to(b));
  if (a.dim() != 1 || b.dim() != 1) {
    throw Error(ErrorCode::runtime, "1D tensors expected, but got " + std::to_string(a.dim()) + "D and " +
                                        std::to_string(b.dim()) + "D tensors");
  }
  if (a.dtype() != b.dtype()) {
    throw Error(ErrorCode::runtime, std::string("dot : expected both vectors to have same dtype, but found ") +
                                        scalar_type_name(a.dtype()) + " and " + scalar_type_name(b.dtype()));
  }
  if (a.numel() != b.numel()) {
    throw Error(ErrorCode::runtime, "inconsistent tensor size, expected tensor " + to_list(a.sizes()) + " and src " +
                                        to_list(b.sizes()) + " to have the same number of elements, but got " +
                                        std::to_string(a.numel()) + " and " + std::to_string(b.numel()) +
                                        " elements respectively");
  }
  Tensor row = raw::view(a, {1, a.numel()}, {a.numel(), a.stride(0)}, a.storage_offset());
  Tensor column = raw::view(b, {b.numel(), 1}, {b.stride(0), 1}, b.storage_offset());
  return with_both<DotBackward>(a, b, raw::view(raw::product(row, column), {}, {}, 0));
}

Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  if (core::detail::traced_now())
    return core::detail::traced("addmm", {c, a, b}, {{"beta", beta}, {"alpha", alpha}},
                                [&] { return addmm(c, a, b, beta, alpha); });
  if (const Casts to(CastRule::lower, CastOn::any, {&c, &a, &b}); to) return addmm(to(c), to(a), to(b), beta, alpha);
  check_matrices("addmm", a, b);
  raw::product_factor(beta, a.dtype());
  raw::product_factor(alpha, a.dtype());
  Tensor out = raw::product(a, b, {.beta = beta, .alpha = alpha, .start = c});
  if (!needs_grad(c, a, b)) return out;
  auto node = make_node<AddmmBackward>(c, a, b);
  node->beta = beta;
  node->alpha = alpha;
  node->transposed = is_transposed(b);
  node->save(b.requires_grad() ? a : Tensor());
  node->save(a.requires_grad() ? b : Tensor());
  record(out, node);
  return out;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (core::detail::traced_now()) return core::detail::traced("matmul", {a, b}, {}, [&] { return matmul(a, b); });
  const core::detail::OpScope scope("matmul", a, b);
  if (const Casts to(CastRule::lower, CastOn::any, {&a, &b}); to) return matmul(to(a), to(b));
  if (a.dim() == 0 || b.dim() == 0) {
    throw Error(ErrorCode::runtime, "both arguments to matmul need to be at least 1D, but they are " +
                                        std::to_string(a.dim()) + "D and " + std::to_string(b.dim()) + "D");
  }
  if (a.dim() == 1 && b.dim() == 1) return dot(a, b);
  if (a.dim() == 2 && b.dim() == 1) return mv(a, b);
  if (a.dim() == 1 && b.dim() == 2) return vector_times_matrix(a, b);
  if (a.dim() == 2 && b.dim() == 2) return mm(a, b);
  if (a.dim() >= 3 && b.dim() <= 2) return matmul_folded(a, b);
  if (a.dim() == 2 && needs_grad(a)) {  // folded the other way round, so that a's gradient is one product
    return matmul_folded(b.transpose(-2, -1), a.t()).transpose(-2, -1).contiguous();
  }
  return matmul_batched(a, b);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (core::detail::traced_now())
    return core::detail::traced("linear", {x, weight, bias}, {}, [&] { return linear(x, weight, bias); });
  const core::detail::OpScope scope("linear", x, weight, bias);
  if (const Casts to(CastRule::lower, CastOn::any, {&x, &weight, &bias}); to)
    return linear(to(x), to(weight), to(bias));
  if (x.dtype() != weight.dtype()) {
    throw Error(ErrorCode::runtime, std::string("mat1 and mat2 must have the same dtype, but got ") +
                                        scalar_type_name(x.dtype()) + " and " + scalar_type_name(weight.dtype()));
  }
  if (bias.defined()) {
    if (Tensor out = raw::try_linear(x, weight, bias, !needs_grad(bias, x, weight)); out.defined()) {
      return recorded_linear(std::move(out), x, weight, bias);
    }
  }
  Tensor transposed = weight.t();
  if (!bias.defined()) return matmul(x, transposed);
  if (x.dim() == 2) return addmm(bias, x, transposed);
  if (x.dim() == 1 || x.is_contiguous()) {
    const Shape rows(x.sizes().span().first(x.sizes().size() - 1));
    const Tensor flat = x.reshape({rows.numel(), x.size(-1)});
    Tensor out = raw::try_linear(flat, weight, bias);
    out = out.defined() ? recorded_linear(std::move(out), flat, weight, bias) : addmm(bias, flat, transposed);
    return unsafe_view(out, joined(rows, {weight.size(0)}));
  }
  return matmul(x, transposed) + bias;
}

}  // namespace core
