// SyncBatchNorm over the ranks of the default group. The statistics of a rank's batch are its mean, its variance and
// its size, gathered from all and put together; backward needs two sums over all ranks.
#include "libcore/module/detail/synchronized_norm.h"

#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/hooks.h"
#include "libcore/dist/init.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"

namespace core::distributed {
namespace {

/// All dimensions but the channels'.
Shape other_dims(const Tensor& x) {
  Shape dims;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

/// (C) as (1, C, 1, ...) beside x.
Tensor beside(const Tensor& channels, const Tensor& x) {
  Shape sizes(static_cast<std::size_t>(x.dim()), 1);
  sizes[1] = channels.numel();
  return channels.view(sizes);
}

Tensor sum_of_channels(const Tensor& x) {
  return sum(x, {.dims = other_dims(x)});
}

struct Statistics {
  Tensor mean;  // (C), of all ranks
  Tensor variance;
  double count = 0;
};

/// One row a rank: means, variances, size. All ranks sum them in the same order, so that all get the same bits.
Statistics gathered(const Tensor& x) {
  const std::int64_t channels = x.size(1);
  const std::int64_t own_count = channels == 0 ? 0 : x.numel() / channels;
  Tensor own = zeros({2 * channels + 1}, {.dtype = DType::f64});
  if (own_count > 0) {
    const Tensor wide = x.to(Device(DeviceType::cpu), DType::f64);
    const Tensor mean = sum_of_channels(wide) / own_count;
    const Tensor centred = wide - beside(mean, wide);
    own.narrow(0, 0, channels).copy_(mean);
    own.narrow(0, channels, channels).copy_(sum_of_channels(centred * centred) / own_count);
    own.narrow(0, 2 * channels, 1).fill_(static_cast<double>(own_count));
  }
  const Device place = default_group()->own_device();
  const Tensor sent = zeros({get_world_size(), own.numel()}, {.dtype = DType::f64, .device = place});
  all_gather_into_tensor(sent, own.to(place), {.label = "statistics of SyncBatchNorm"});
  const Tensor all = sent.cpu();
  const Tensor counts = all.narrow(1, 2 * channels, 1);
  Statistics result;
  result.count = sum(counts).item<double>();
  if (result.count == 0) core::detail::fail_value("SyncBatchNorm: the batches of all ranks are empty");
  const Tensor means = all.narrow(1, 0, channels);
  const Tensor mean = sum(means * counts, {.dims = {0}}) / result.count;
  const Tensor apart = means - mean.unsqueeze(0);
  const Tensor variances = all.narrow(1, channels, channels) + apart * apart;
  result.variance = (sum(variances * counts, {.dims = {0}}) / result.count);
  result.mean = mean;
  return result;
}

void update_running(const core::detail::SynchronizedBatch& batch, const Statistics& all) {
  const auto follow = [&](const Tensor& running, const Tensor& value) {
    if (!running.defined()) return;
    running.mul_(1 - batch.factor);
    running.add_(value.to(running.device(), running.dtype()), batch.factor);
  };
  follow(batch.running_mean, all.mean);
  follow(batch.running_var, all.variance * (all.count / std::max(all.count - 1, 1.0)));
}

struct SyncBatchNormBackward final : Node {
  double count = 0;
  std::string_view name() const override { return "SyncBatchNormBackward"; }

  /// Saved: the normalised batch, 1 / deviation, weight.
  TensorList apply(TensorList grads) override {
    const Tensor normal = saved(0);
    const Tensor inverse = saved(1);
    const Tensor weight = saved(2);
    const NoGradGuard no_grad;
    const Tensor& dy = grads[0];
    const Tensor sum_dy = sum_of_channels(dy);
    const Tensor sum_dy_normal = sum_of_channels(dy * normal);
    TensorList results{Tensor(), Tensor(), Tensor()};
    if (wants(0)) {
      const Tensor both = cat({sum_dy, sum_dy_normal});
      all_reduce(both, {.label = "gradients of SyncBatchNorm"});
      const std::int64_t channels = sum_dy.numel();
      const Tensor mean_dy = beside(both.narrow(0, 0, channels) / count, dy);
      const Tensor mean_dy_normal = beside(both.narrow(0, channels, channels) / count, dy);
      const Tensor scale = weight.defined() ? inverse * weight : inverse;
      results[0] = (dy - mean_dy - normal * mean_dy_normal) * beside(scale, dy);
    }
    if (wants(1)) results[1] = sum_dy_normal;
    if (wants(2)) results[2] = sum_dy;
    return results;
  }
};

Tensor normalise(const core::detail::SynchronizedBatch& batch) {
  const Tensor& x = batch.x;
  Tensor y;
  Tensor normal;
  Tensor inverse;
  double count = 0;
  {
    const NoGradGuard no_grad;
    const Statistics all = gathered(x.detach());
    update_running(batch, all);
    count = all.count;
    inverse = rsqrt(all.variance + batch.eps).to(x.device(), x.dtype());
    normal = (x.detach() - beside(all.mean.to(x.device(), x.dtype()), x)) * beside(inverse, x);
    y = batch.weight.defined() ? normal * beside(batch.weight.detach(), x) : normal.clone();
    if (batch.bias.defined()) y = y + beside(batch.bias.detach(), x);
  }
  if (!is_grad_enabled()) return y;
  const auto tracked = [](const Tensor& t) { return t.defined() && t.requires_grad(); };
  if (!tracked(x) && !tracked(batch.weight) && !tracked(batch.bias)) return y;
  auto node = make_node<SyncBatchNormBackward>(x, batch.weight, batch.bias);
  node->count = count;
  node->save(normal);
  node->save(inverse);
  node->save(batch.weight);
  record(y, node);
  return y;
}

}  // namespace

void install_norm() {
  core::detail::set_synchronized_norm(get_world_size() > 1 ? normalise : nullptr);
}
void remove_norm() {
  core::detail::set_synchronized_norm(nullptr);
}

}  // namespace core::distributed
