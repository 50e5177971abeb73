#include "libcore/module/norm.h"

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/load_rules.h"
#include "libcore/base/text.h"
#include "libcore/module/detail/synchronized_norm.h"
#include "libcore/module/init.h"
#include "libcore/module/print.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/tensor.h"

namespace core {

namespace {
detail::NormaliseSynchronized over_processes = nullptr;
}  // namespace

detail::NormaliseSynchronized detail::synchronized_norm() {
  return over_processes;
}
void detail::set_synchronized_norm(NormaliseSynchronized normalise) {
  over_processes = normalise;
}

BatchNormState::BatchNormState(std::int64_t features, const BatchNormOptions& given)
    : num_features(features), options(given) {
  const TensorOptions made{.dtype = given.dtype, .device = given.device};
  if (given.affine) weight = Parameter(ones({features}, made));
  if (given.affine && given.bias) bias = Parameter(zeros({features}, made));
  if (!given.track_running_stats) return;
  running_mean = zeros({features}, made);
  running_var = ones({features}, made);
  num_batches_tracked = zeros({}, {.dtype = DType::i64, .device = given.device});
}

void BatchNormState::reset_parameters() {
  reset_running_stats();
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

void BatchNormState::reset_running_stats() {
  if (!options.track_running_stats) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

void BatchNormState::list(Members& m) {
  m.parameter("weight", weight).parameter("bias", bias).buffer("running_mean", running_mean);
  m.buffer("running_var", running_var).buffer("num_batches_tracked", num_batches_tracked);
}

std::string BatchNormState::describe() const {
  const std::string momentum = options.momentum ? python_float(*options.momentum) : "None";
  return std::to_string(num_features) + ", eps=" + python_float(options.eps) + ", momentum=" + momentum +
         ", affine=" + detail::python_bool(options.affine) + ", bias=" + detail::python_bool(bias.defined()) +
         ", track_running_stats=" + detail::python_bool(options.track_running_stats);
}

void BatchNormState::upgrade(StateDict& state, std::string_view prefix, std::optional<int> saved_version) const {
  if (!load_adds_counter(saved_version) || !options.track_running_stats) return;
  const std::string key = std::string(prefix) + "num_batches_tracked";
  if (!state.contains(key)) state.set(key, num_batches_tracked.detach());
}

namespace {

/// After the batch, as vmap takes a count for what each sample would write on its own; it refuses the batch before.
void count_batch(const Tensor& batches) {
  if (!batches.defined() || batches.is_meta()) return;
  const NoGradGuard no_history;
  batches.add_(1);  // on the device: nobody waits
}

}  // namespace

double BatchNormState::average_factor() {
  if (options.momentum || !num_batches_tracked.defined()) return options.momentum.value_or(0);
  const std::int64_t before = num_batches_tracked.is_meta() ? 0 : num_batches_tracked.item<std::int64_t>();
  return 1.0 / static_cast<double>(before + 1);
}

Tensor BatchNormState::normalise(const Tensor& x, bool training) {
  const bool tracked = options.track_running_stats;
  const double factor = training && tracked ? average_factor() : options.momentum.value_or(0);
  const bool by_batch = training || !running_mean.defined();
  const bool use_running = !training || tracked;
  const Tensor mean = use_running ? running_mean : Tensor(), var = use_running ? running_var : Tensor();
  const bool by_all = synchronized && training && over_processes != nullptr;
  const bool counts = training && tracked;
  Tensor out;
  try {
    out = by_all ? over_processes({x, mean, var, weight, bias, factor, options.eps})
                 : batch_norm(x, {mean, var, weight, bias, by_batch, factor, options.eps});
  } catch (const Error&) {  // PyTorch counts a batch that it refuses, too
    const detail::OpBatchScope alone(nullptr);
    if (counts) count_batch(num_batches_tracked);
    throw;
  }
  if (counts) count_batch(num_batches_tracked);
  return out;
}

void BatchNormState::check_rank(const Tensor& x, std::int64_t low, std::int64_t high) const {
  const std::string found = "D input (got " + std::to_string(x.dim()) + "D input)";
  if (synchronized) {
    if (x.dim() < 2) throw Error(ErrorCode::value, "expected at least 2" + found);
    if (x.size(1) > 0) return;
    throw Error(ErrorCode::value, "SyncBatchNorm number of input channels should be non-zero");
  }
  if (x.dim() == low || x.dim() == high) return;
  const std::string both = low == high ? "" : std::to_string(low) + "D or ";
  throw Error(ErrorCode::value, "expected " + both + std::to_string(high) + found);
}

Tensor SyncBatchNorm::forward(const Tensor& x) {
  check_rank(x, 2, 2);
  return normalise(x, is_training());
}

void SyncBatchNorm::convert_all(Module& module) {
  for (Module* each : module.modules()) {
    const bool is_batch_norm = dynamic_cast<BatchNorm1d*>(each) != nullptr ||
                               dynamic_cast<BatchNorm2d*>(each) != nullptr ||
                               dynamic_cast<BatchNorm3d*>(each) != nullptr;
    if (is_batch_norm) dynamic_cast<BatchNormState*>(each)->synchronized = true;
  }
}

Tensor BatchNorm1d::forward(const Tensor& x) {
  check_rank(x, 2, 3);
  return normalise(x, is_training());
}

Tensor BatchNorm2d::forward(const Tensor& x) {
  check_rank(x, 4, 4);
  return normalise(x, is_training());
}

Tensor BatchNorm3d::forward(const Tensor& x) {
  check_rank(x, 5, 5);
  return normalise(x, is_training());
}

Tensor BatchNormState::normalise_instances(const Tensor& x, std::int64_t rank, bool training) {
  if (x.dim() != rank + 1 && x.dim() != rank + 2) {
    throw Error(ErrorCode::value, "expected " + std::to_string(rank + 1) + "D or " + std::to_string(rank + 2) +
                                      "D input (got " + std::to_string(x.dim()) + "D input)");
  }
  const bool single = x.dim() == rank + 1;
  const std::int64_t channels = x.size(single ? 0 : 1);
  if (channels != num_features && options.affine) {
    throw Error(ErrorCode::value, "expected input's size at dim=" + std::string(single ? "0" : "1") +
                                      " to match num_features (" + std::to_string(num_features) +
                                      "), but got: " + std::to_string(channels) + ".");
  }
  const Tensor y = instance_norm(single ? x.unsqueeze(0) : x,
                                 {running_mean, running_var, weight, bias, training || !options.track_running_stats,
                                  options.momentum.value_or(0), options.eps});
  return single ? y.squeeze(0) : y;
}

LayerNorm::LayerNorm(const Shape& shape, const LayerNormOptions& given) : normalized_shape(shape), options(given) {
  const TensorOptions made{.dtype = given.dtype, .device = given.device};
  if (given.elementwise_affine) weight = Parameter(ones(shape, made));
  if (given.elementwise_affine && given.bias) bias = Parameter(zeros(shape, made));
}

void LayerNorm::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

void LayerNorm::members(Members& m) {
  m.parameter("weight", weight).parameter("bias", bias);
}

std::string LayerNorm::extra_repr() const {
  return detail::python_tuple(normalized_shape.to_vector()) + ", eps=" + python_float(options.eps) +
         ", elementwise_affine=" + detail::python_bool(options.elementwise_affine) +
         ", bias=" + detail::python_bool(bias.defined());
}

Tensor LayerNorm::forward(const Tensor& x) const {
  return layer_norm(x, normalized_shape, {weight, bias, options.eps});
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& given)
    : num_groups(groups), num_channels(channels), options(given) {
  if (groups < 1 || channels % groups != 0) {
    throw Error(ErrorCode::value, "num_channels (" + std::to_string(channels) + ") must be divisible by num_groups (" +
                                      std::to_string(groups) + ")");
  }
  const TensorOptions made{.dtype = given.dtype, .device = given.device};
  if (given.affine) weight = Parameter(ones({channels}, made));
  if (given.affine && given.bias) bias = Parameter(zeros({channels}, made));
}

std::string GroupNorm::extra_repr() const {
  return std::to_string(num_groups) + ", " + std::to_string(num_channels) + ", eps=" + python_float(options.eps) +
         ", affine=" + detail::python_bool(options.affine) + ", bias=" + detail::python_bool(bias.defined());
}

RMSNorm::RMSNorm(const Shape& shape, const RmsNormOptions& given) : normalized_shape(shape), options(given) {
  if (given.elementwise_affine) weight = Parameter(ones(shape, {.dtype = given.dtype, .device = given.device}));
}

std::string RMSNorm::extra_repr() const {
  return detail::python_tuple(normalized_shape.to_vector()) +
         ", eps=" + (options.eps ? python_float(*options.eps) : "None") +
         ", elementwise_affine=" + detail::python_bool(options.elementwise_affine);
}

std::string LocalResponseNorm::extra_repr() const {
  return std::to_string(size) + ", alpha=" + python_float(options.alpha) + ", beta=" + python_float(options.beta) +
         ", k=" + python_float(options.k);
}

std::string CrossMapLRN2d::extra_repr() const {
  return std::to_string(size) + ", alpha=" + python_float(options.alpha) + ", beta=" + python_float(options.beta) +
         ", k=" + detail::python_number(options.k);
}

Tensor CrossMapLRN2d::forward(const Tensor& x) const {
  return cross_map_lrn2d(x, size, {options.alpha, options.beta, options.k.to_double()});
}

template class ModuleOf<BatchNorm1d>;
template class ModuleOf<BatchNorm2d>;
template class ModuleOf<BatchNorm3d>;
template class ModuleOf<SyncBatchNorm>;
template class ModuleOf<InstanceNorm1d>;
template class ModuleOf<InstanceNorm2d>;
template class ModuleOf<InstanceNorm3d>;
template class ModuleOf<LayerNorm>;
template class ModuleOf<GroupNorm>;
template class ModuleOf<RMSNorm>;
template class ModuleOf<LocalResponseNorm>;
template class ModuleOf<CrossMapLRN2d>;

}  // namespace core
