#include "libcore/ops/raw/loss.h"

#include <string>

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
namespace {

using core::detail::fail;
using kernel::data_or_null;
using kernel::dense;

[[noreturn]] void fail_value(const std::string& text) {
  throw Error(ErrorCode::value, text);
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
  kernel::check_devices(target, {&log_prob, &weight});
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

NllResult nll_loss(const Tensor& log_prob, const Tensor& target, const NllLossOptions& o) {
  const core::detail::OpScope scope("nll_loss_forward", log_prob, target);
  check_nll(log_prob, target, o.weight);
  const bool each = o.reduction == Reduction::none;
  NllResult out{kernel::empty_as(log_prob, each ? target.sizes() : Shape{}), kernel::empty_as(log_prob, {})};
  if (!kernel::has_bytes(log_prob)) return out;
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
  kernel::run("nll_loss", log_prob, &NnTable::nll, params);
  if (params.failed) {
    throw Error(ErrorCode::index, "Target " + std::to_string(params.bad_target) + " is out of bounds.");
  }
  if (o.reduction == Reduction::mean) out.loss = binary(BinaryOp::div, out.loss, out.total_weight);
  return out;
}

Tensor nll_loss_grad(const Tensor& loss_grad, const Tensor& target, const NllResult& forward, const Shape& sizes,
                     const NllLossOptions& o) {
  const core::detail::OpScope scope("nll_loss_backward", loss_grad, target);
  Tensor out = kernel::empty_as(loss_grad, sizes);
  if (out.numel() == 0 || !kernel::has_bytes(loss_grad)) return out;
  const NllSizes n(sizes);
  const Tensor grad = dense(loss_grad), labels = as_long(target), weight = dense(o.weight);
  const bool mean = o.reduction == Reduction::mean;
  kernel::run("nll_loss_backward", loss_grad, &NnTable::nll_grad,
              NllGradParams{n.batch, n.classes, n.inner, o.ignore_index, o.reduction != Reduction::none,
                            grad.raw_data(), labels.data<std::int64_t>(), data_or_null(weight),
                            mean ? forward.total_weight.raw_data() : nullptr, out.mutable_raw_data()});
  return out;
}

}  // namespace core::raw
