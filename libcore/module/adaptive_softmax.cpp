#include "libcore/module/adaptive_softmax.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

std::vector<std::int64_t> checked_cutoffs(std::vector<std::int64_t> cuts, std::int64_t classes) {
  if (cuts.empty()) throw Error(ErrorCode::value, "cutoffs should be a sequence of length larger than 0");
  const bool ascends = std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end();
  if (!ascends || cuts.front() <= 0 || cuts.back() > classes - 1) {
    throw Error(
        ErrorCode::value,
        "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is "
        "between 1 and n_classes-1");
  }
  cuts.push_back(classes);
  return cuts;
}

void check_target(const Tensor& x, const Tensor& target) {
  if (target.dim() > 1) throw Error(ErrorCode::runtime, "0D or 1D target tensor expected, multi-target not supported");
  if (target.dim() == 1 && x.size(0) != target.size(0)) {
    throw Error(ErrorCode::runtime, "Input and target should have the same size in the batch dimension.");
  }
  if (x.dim() == target.dim() + 1) return;
  throw Error(ErrorCode::runtime, std::to_string(target.dim()) + "D target tensor expects " +
                                      std::to_string(target.dim() + 1) +
                                      "D input tensors, but found inputs with size "
                                      "torch.Size(" +
                                      to_list(x.sizes()) + ")");
}

/// Which targets lie in [low, high): their positions.
std::vector<std::int64_t> rows_between(const std::vector<std::int64_t>& targets, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] >= low && targets[i] < high) rows.push_back(static_cast<std::int64_t>(i));
  }
  return rows;
}

}  // namespace

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(std::int64_t in, std::int64_t classes,
                                                       const std::vector<std::int64_t>& cuts, const Options& o)
    : in_features(in),
      n_classes(classes),
      cutoffs(checked_cutoffs(cuts, classes)),
      head(in, cutoffs[0] + clusters(), {.bias = o.head_bias, .dtype = o.dtype, .device = o.device}) {
  const LinearOptions plain{.bias = false, .dtype = o.dtype, .device = o.device};
  for (std::int64_t i = 0; i < clusters(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double narrower = std::pow(o.div_value, static_cast<double>(i + 1));
    const auto width = static_cast<std::int64_t>(std::floor(static_cast<double>(in) / narrower));
    Linear inner(in, width, plain);
    Linear outer(width, cutoffs[at + 1] - cutoffs[at], plain);
    tail.push_back(Sequential(std::move(inner), std::move(outer)));
  }
}

void AdaptiveLogSoftmaxWithLoss::reset_parameters() {
  for (Module* module : modules()) {
    if (auto* linear = dynamic_cast<Linear*>(module)) linear->reset_parameters();
  }
}

Tensor AdaptiveLogSoftmaxWithLoss::cluster_log_prob(std::int64_t cluster, const Tensor& x) {
  return log_softmax(tail[cluster].call(x), 1);
}

AdaptiveLogSoftmaxWithLoss::Output AdaptiveLogSoftmaxWithLoss::forward(const Tensor& given, const Tensor& target) {
  check_target(given, target);
  const bool single = target.dim() == 0;
  const Tensor x = single ? given.unsqueeze(0) : given;
  const std::vector<std::int64_t> targets = target.reshape({-1}).to_vector<std::int64_t>();
  std::vector<std::int64_t> in_head = targets;
  Tensor output = zeros({x.size(0)}, {.dtype = x.dtype(), .device = x.device()});
  std::size_t used = rows_between(targets, 0, cutoffs[0]).size();
  for (std::int64_t i = 0; i < clusters(); ++i) {
    const std::int64_t low = cutoffs[static_cast<std::size_t>(i)];
    const auto rows = rows_between(targets, low, cutoffs[static_cast<std::size_t>(i) + 1]);
    if (rows.empty()) continue;
    used += rows.size();
    std::vector<std::int64_t> within;
    for (const std::int64_t row : rows) {
      within.push_back(targets[static_cast<std::size_t>(row)] - low);
      in_head[static_cast<std::size_t>(row)] = cutoffs[0] + i;
    }
    const Tensor index = from_values(rows, {.device = x.device()});
    const Tensor all = cluster_log_prob(i, index_select(x, 0, index));
    const Tensor own = gather(all, 1, from_values(within, {.device = x.device()}).unsqueeze(1));
    output = index_copy(output, 0, index, own.squeeze(1));
  }
  if (used != targets.size()) {
    const auto [least, most] = std::minmax_element(targets.begin(), targets.end());
    throw Error(ErrorCode::runtime, "Target values should be in [0, " + std::to_string(n_classes - 1) +
                                        "], but values in range [" + std::to_string(*least) + ", " +
                                        std::to_string(*most) + "] were found. ");
  }
  const Tensor of_head = gather(log_softmax(head(x), 1), 1, from_values(in_head, {.device = x.device()}).unsqueeze(1));
  output = output + of_head.squeeze();
  const Tensor loss = (-output).mean();
  return {single ? output.squeeze(0) : output, loss};
}

Tensor AdaptiveLogSoftmaxWithLoss::log_prob(const Tensor& x) {
  const Tensor of_head = log_softmax(head(x), 1);
  std::vector<Tensor> parts{of_head.narrow(1, 0, cutoffs[0])};
  for (std::int64_t i = 0; i < clusters(); ++i) {
    parts.push_back(cluster_log_prob(i, x) + of_head.select(1, cutoffs[0] + i).unsqueeze(1));
  }
  return cat(parts, 1);
}

Tensor AdaptiveLogSoftmaxWithLoss::predict(const Tensor& x) {
  const Tensor in_head = argmax(head(x), 1), clustered = ge(in_head, cutoffs[0]);
  if (!clustered.any().item<bool>()) return in_head;
  return where(clustered, argmax(log_prob(x), 1), in_head);
}

template class ModuleOf<AdaptiveLogSoftmaxWithLoss>;

}  // namespace core
