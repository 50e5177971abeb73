#include "libcore/tensor/nn_common.h"
#include "libcore/tensor/raw_nn_ops.h"

namespace core {

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

namespace raw {
namespace {

using detail::data_or_null;
using detail::dense;

/// (outer, length, inner) around one dimension.
SoftmaxParams softmax_params(const Shape& sizes, std::int64_t dim) {
  SoftmaxParams params{1, 1, 1, nullptr, nullptr};
  const auto wrapped = static_cast<std::size_t>(wrap_dim(dim, static_cast<std::int64_t>(sizes.size())));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    (i < wrapped ? params.outer : i == wrapped ? params.length : params.inner) *= sizes[i];
  }
  return params;
}

bool is_half(const Tensor& x) {
  return x.dtype() == DType::f16 || x.dtype() == DType::bf16;
}

/// Where a device has no kernel for the half types, they are computed in f32 and rounded once, at the end.
template <class Row>
bool goes_by_f32(const Tensor& x, Row NnTable::*row) {
  if (!is_half(x)) return false;
  const NnTable* table = backend_of(x).ops().nn;
  return table == nullptr || (table->*row)[static_cast<std::size_t>(x.dtype())] == nullptr;
}

Tensor softmax_with(const char* name, const Tensor& x, std::int64_t dim, KernelRow<SoftmaxParams> NnTable::*row) {
  if (goes_by_f32(x, row)) return cast(softmax_with(name, cast(x, DType::f32), dim, row), x.dtype());
  SoftmaxParams params = softmax_params(x.sizes(), dim);
  Tensor out = detail::empty_as(x, x.sizes());
  if (x.numel() == 0 || !detail::has_bytes(x)) return out;
  const Tensor in = dense(x);
  params.input = in.raw_data();
  params.output = out.mutable_raw_data();
  detail::run(name, x, row, params);
  return out;
}

Tensor softmax_grad_with(const char* name, const Tensor& output_grad, const Tensor& output, std::int64_t dim,
                         KernelRow<SoftmaxGradParams> NnTable::*row) {
  if (goes_by_f32(output, row)) {
    Tensor wide = softmax_grad_with(name, cast(output_grad, DType::f32), cast(output, DType::f32), dim, row);
    return cast(wide, output.dtype());
  }
  const SoftmaxParams sizes = softmax_params(output.sizes(), dim);
  Tensor out = detail::empty_as(output, output.sizes());
  if (output.numel() == 0 || !detail::has_bytes(output)) return out;
  const Tensor grad = dense(output_grad);
  detail::run(name, output, row,
              SoftmaxGradParams{sizes.outer, sizes.length, sizes.inner, grad.raw_data(), output.raw_data(),
                                out.mutable_raw_data()});
  return out;
}

[[noreturn]] void fail_value(const std::string& text) {
  throw Error(ErrorCode::value, text);
}
[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::runtime, text);
}

/// (batch, classes, inner); one unbatched sample counts as a batch of 1.
struct NllSizes {
  std::int64_t batch, classes, inner;

  explicit NllSizes(const Shape& log_prob) {
    batch = log_prob.size() == 1 ? 1 : log_prob[0];
    classes = log_prob.size() == 1 ? log_prob[0] : log_prob[1];
    inner = 1;
    for (std::size_t i = 2; i < log_prob.size(); ++i) inner *= log_prob[i];
  }
};

Shape target_sizes(const Shape& log_prob) {
  Shape sizes = log_prob;
  sizes.erase(sizes.size() == 1 ? 0 : 1);
  return sizes;
}

void check_nll(const Tensor& log_prob, const Tensor& target, const Tensor& weight) {
  detail::check_devices(target, {&log_prob, &weight});
  if (log_prob.dim() < 1) fail_value("Expected 1 or more dimensions (got 0)");
  if (log_prob.dim() != 1 && target.dim() > 0 && log_prob.size(0) != target.size(0)) {
    fail_value("Expected input batch_size (" + std::to_string(log_prob.size(0)) + ") to match target batch_size (" +
               std::to_string(target.size(0)) + ").");
  }
  if (target.dtype() != DType::i64 && target.dtype() != DType::u8) {
    fail(std::string("expected target dtype to be Long or Byte, but got ") + scalar_type_name(target.dtype()));
  }
  if (!(target.sizes() == target_sizes(log_prob.sizes()))) {
    fail("size mismatch (got input: " + to_list(log_prob.sizes()) + ", target: " + to_list(target.sizes()) + ")");
  }
  const std::int64_t classes = NllSizes(log_prob.sizes()).classes;
  if (weight.defined() && (weight.dim() != 1 || weight.numel() != classes)) {
    fail("weight tensor should be defined either for all " + std::to_string(classes) +
         " classes or no classes but got weight tensor of shape: " + to_list(weight.sizes()));
  }
}

Tensor as_long(const Tensor& target) {
  return dense(cast(target, DType::i64));
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim) {
  return softmax_with("softmax_lastdim_kernel_impl", x, dim, &NnTable::softmax);
}

Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  return softmax_with("log_softmax_lastdim_kernel_impl", x, dim, &NnTable::log_softmax);
}

Tensor softmax_grad(const Tensor& output_grad, const Tensor& output, std::int64_t dim) {
  return softmax_grad_with("softmax_backward", output_grad, output, dim, &NnTable::softmax_grad);
}

Tensor log_softmax_grad(const Tensor& output_grad, const Tensor& output, std::int64_t dim) {
  return softmax_grad_with("log_softmax_backward", output_grad, output, dim, &NnTable::log_softmax_grad);
}

NllResult nll_loss(const Tensor& log_prob, const Tensor& target, const NllLossOptions& o) {
  check_nll(log_prob, target, o.weight);
  const bool each = o.reduction == Reduction::none;
  NllResult out{detail::empty_as(log_prob, each ? target.sizes() : Shape{}), detail::empty_as(log_prob, {})};
  if (!detail::has_bytes(log_prob)) return out;
  const NllSizes sizes(log_prob.sizes());
  const Tensor in = dense(log_prob), labels = as_long(target), weight = dense(o.weight);
  void* loss = out.loss.mutable_raw_data();
  NllParams params{sizes.batch,
                   sizes.classes,
                   sizes.inner,
                   o.ignore_index,
                   in.raw_data(),
                   labels.data<std::int64_t>(),
                   data_or_null(weight),
                   each ? loss : nullptr,
                   each ? nullptr : loss,
                   out.total_weight.mutable_raw_data(),
                   0,
                   false};
  detail::run("nll_loss", log_prob, &NnTable::nll, params);
  if (params.failed) {
    throw Error(ErrorCode::index, "Target " + std::to_string(params.bad_target) + " is out of bounds.");
  }
  if (o.reduction == Reduction::mean) out.loss = binary(BinaryOp::div, out.loss, out.total_weight);
  return out;
}

Tensor nll_loss_grad(const Tensor& loss_grad, const Tensor& target, const NllResult& forward, const Shape& sizes,
                     const NllLossOptions& o) {
  Tensor out = detail::empty_as(loss_grad, sizes);
  if (out.numel() == 0 || !detail::has_bytes(loss_grad)) return out;
  const NllSizes n(sizes);
  const Tensor grad = dense(loss_grad), labels = as_long(target), weight = dense(o.weight);
  const bool mean = o.reduction == Reduction::mean;
  detail::run("nll_loss_backward", loss_grad, &NnTable::nll_grad,
              NllGradParams{n.batch, n.classes, n.inner, o.ignore_index, o.reduction != Reduction::none,
                            grad.raw_data(), labels.data<std::int64_t>(), data_or_null(weight),
                            mean ? forward.total_weight.raw_data() : nullptr, out.mutable_raw_data()});
  return out;
}

}  // namespace raw
}  // namespace core
