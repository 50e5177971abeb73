#pragma once
// Trainings of several ranks with sparse gradients and with PowerSGD, which throw where something is wrong.
// Use: if (role == "sparse") test::train_sparse_as_dense();

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "libcore/dist/comm_hooks.h"
#include "libcore/dist/distributed_data_parallel.h"
#include "libcore/dist/init.h"
#include "libcore/dist/power_sgd.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace test {

namespace dist = core::distributed;
using core::Tensor;

struct Words : core::ModuleOf<Words> {
  core::Embedding table;
  core::Linear linear{3, 2};
  explicit Words(bool sparse) : table(7, 3, core::EmbeddingOptions{.sparse = sparse}) {}
  void members(core::Members& m) override { m.child("table", table).child("linear", linear); }
  Tensor forward(const Tensor& words) { return linear(table(words)); }
};

/// The gradients of the table in each step: some of several backward passes, some of no words at all, and some of ranks
/// that have no more.
inline std::vector<Tensor> table_gradients(bool sparse) {
  core::manual_seed(5);
  Words net(sparse);
  dist::DistributedDataParallel model(net);
  const std::int64_t rank = dist::get_rank();
  const auto backward = [&](const std::vector<std::int64_t>& words) {
    const Tensor x = core::zeros({static_cast<std::int64_t>(words.size())}, {.dtype = core::DType::i64});
    std::copy(words.begin(), words.end(), x.mutable_data<std::int64_t>());
    core::sum(model(x).square()).backward();
  };
  std::vector<Tensor> found;
  model.join([&] {
    for (std::int64_t step = 0; step < 3 + rank; ++step) {
      if (step != 2) net.zero_grad();  // on top of the sum of the step before
      if (step % 2 == 1) {
        const auto apart = model.no_sync();
        backward({rank, 6});
      }
      backward(step == rank ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{rank, step, rank + 2, step});
      const Tensor grad = net.table.weight.grad();
      if (grad.is_sparse() != sparse) throw std::runtime_error("the gradient is of another kind");
      found.push_back(sparse ? core::to_dense(grad) : grad.clone());
    }
  });
  return found;
}

inline void train_sparse_as_dense() {
  const std::vector<Tensor> dense = table_gradients(false);
  const std::vector<Tensor> sparse = table_gradients(true);
  for (std::size_t step = 0; step < dense.size(); ++step) {
    const auto off = (dense[step] - sparse[step]).abs().max().item<double>();
    if (!(off < 1e-5)) throw std::runtime_error("off by " + std::to_string(off) + " in step " + std::to_string(step));
  }
}

/// Rank 0 has two batches and each rank one more than the one before it.
inline void join_with_power_sgd() {
  core::manual_seed(3);
  core::Linear net(6, 5);
  dist::DistributedDataParallel model(net, {.find_unused_parameters = true});
  const dist::PowerSGDOptions options{
      .start_powerSGD_iter = 1, .min_compression_rate = 0.5, .use_error_feedback = false, .warm_start = false};
  model.register_comm_hook(dist::powerSGD_hook(std::make_shared<dist::PowerSGDState>(options)));
  model.join([&] {
    for (int step = 0; step < 2 + dist::get_rank(); ++step) {
      net.zero_grad();
      core::sum(model(core::randn({4, 6})).square()).backward();
    }
  });
}

/// The gradient of a matrix of rank one: PowerSGD keeps all of it, in 16 bits too.
inline void wrap_power_sgd() {
  core::Linear net(6, 5);
  dist::DistributedDataParallel model(net);
  const auto state = std::make_shared<dist::PowerSGDState>(
      dist::PowerSGDOptions{.start_powerSGD_iter = 2, .min_compression_rate = 0.5});
  model.register_comm_hook(dist::fp16_compress_wrapper(dist::powerSGD_hook(state)));
  for (int step = 0; step < 4; ++step) {
    net.zero_grad();
    core::sum(model(core::full({1, 6}, dist::get_rank() + 1.0))).backward();
  }
  double worst = 0;
  for (const Tensor& parameter : net.parameters()) {
    const double wanted = parameter.dim() > 1 ? (dist::get_world_size() + 1) / 2.0 : 1;
    for (const double each : parameter.grad().to_vector<double>()) worst = std::max(worst, std::abs(each - wanted));
  }
  if (worst > 1e-2) throw std::runtime_error("off by " + std::to_string(worst));
  if (state->total_numel_after_compression() >= state->total_numel_before_compression()) {
    throw std::runtime_error("nothing was compressed");
  }
}

/// Of three matrices in several buckets, so that the sums of one bucket wait while those of the next begin.
struct Layers : core::ModuleOf<Layers> {
  core::Linear first{24, 16}, second{16, 12}, third{12, 8};
  void members(core::Members& m) override { m.child("first", first).child("second", second).child("third", third); }
  Tensor forward(const Tensor& x) { return third(second(first(x))); }
};

/// The gradients of four steps, and how many buckets the last of them was in.
inline std::vector<Tensor> gradients_of_layers(const dist::CommHook& hook, std::size_t& buckets) {
  core::manual_seed(11);
  Layers net;
  dist::DistributedDataParallel model(net, {.bucket_cap_mb = 0.0005});
  model.register_comm_hook([&](dist::GradBucket& bucket) {
    buckets = std::max(buckets, bucket.index() + 1);
    return hook(bucket);
  });
  std::vector<Tensor> found;
  for (int step = 0; step < 4; ++step) {
    net.zero_grad();
    core::manual_seed(static_cast<std::uint64_t>(100 * step + dist::get_rank()));
    core::sum(model(core::randn({4, 24})).square()).backward();
    for (const Tensor& parameter : net.parameters()) found.push_back(parameter.grad().clone());
  }
  return found;
}

/// Matrices of full rank lose nothing: several buckets come to the means that a plain sum gives.
inline void power_sgd_in_buckets() {
  std::size_t buckets = 0;
  const auto state = std::make_shared<dist::PowerSGDState>(dist::PowerSGDOptions{
      .matrix_approximation_rank = 16, .start_powerSGD_iter = 2, .min_compression_rate = 0.1, .random_seed = 7});
  const std::vector<Tensor> plain = gradients_of_layers(dist::allreduce_hook(), buckets);
  buckets = 0;
  const std::vector<Tensor> power = gradients_of_layers(dist::powerSGD_hook(state), buckets);
  if (buckets < 2) throw std::runtime_error(std::to_string(buckets) + " buckets");
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double size = plain[i].abs().max().item<double>();
    const double off = (plain[i] - power[i]).abs().max().item<double>();
    if (!(off < 1e-4 * size)) throw std::runtime_error("off by " + std::to_string(off) + " in " + std::to_string(i));
  }
  if (state->total_numel_before_compression() == 0) throw std::runtime_error("nothing was compressed");
}

/// Rank 0 has no batch at all and each rank one more than the one before it, with a graph that is said to be the same
/// in each step. The gradient of a weight is the batch, so the mean is known.
inline void join_static_graph() {
  core::Linear net(3, 2);
  dist::DistributedDataParallel model(net, {.static_graph = true});
  const int size = dist::get_world_size();
  model.join([&] {
    for (int step = 0; step < dist::get_rank(); ++step) {
      net.zero_grad();
      core::sum(model(core::full({1, 3}, dist::get_rank() + 10.0 * step))).backward();
      double wanted = 0;  // of the ranks that have this step
      for (int rank = step + 1; rank < size; ++rank) wanted += (rank + 10.0 * step) / size;
      for (const double each : net.weight.grad().to_vector<double>()) {
        if (std::abs(each - wanted) < 1e-5) continue;
        throw std::runtime_error("step " + std::to_string(step) + " has " + std::to_string(each));
      }
    }
  });
}

}  // namespace test
