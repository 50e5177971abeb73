// Connectionist temporal classification (Graves et al. 2006): the forward variables of all alignments, in logarithms.
#include "libcore/ops/loss.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

constexpr double kImpossible = -1e30;  // the logarithm of 0; finite, so that gradients are

/// The labels with blanks around each.
std::vector<std::int64_t> with_blanks(const std::vector<std::int64_t>& labels, std::int64_t blank) {
  std::vector<std::int64_t> result{blank};
  for (const std::int64_t label : labels) {
    result.push_back(label);
    result.push_back(blank);
  }
  return result;
}

/// `x` moved `by` places towards the end, impossible in front.
Tensor shifted(const Tensor& x, std::int64_t by) {
  return pad_constant(x, {by, 0}, kImpossible).narrow(0, 0, x.size(0));
}

/// -log of the probability of one sample. log_prob: (T, C).
Tensor sample_loss(const Tensor& log_prob, const std::vector<std::int64_t>& labels, std::int64_t blank) {
  const std::vector<std::int64_t> path = with_blanks(labels, blank);
  const auto count = static_cast<std::int64_t>(path.size());
  std::vector<double> skip(path.size(), kImpossible), start(path.size(), kImpossible);
  for (std::size_t s = 2; s < path.size(); ++s) {
    if (path[s] != blank && path[s] != path[s - 2]) skip[s] = 0;
  }
  start[0] = 0;
  if (count > 1) start[1] = 0;
  const TensorOptions made{.dtype = log_prob.dtype(), .device = log_prob.device()};
  const Tensor may_skip = from_values(skip, made);
  const Tensor emitted = index_select(log_prob, 1, from_values(path, {.device = log_prob.device()}));
  Tensor alpha = from_values(start, made) + emitted[0];
  for (std::int64_t t = 1; t < log_prob.size(0); ++t) {
    const Tensor ways =
        stack({alpha, shifted(alpha, 1), count > 2 ? shifted(alpha, 2) + may_skip : alpha + kImpossible});
    alpha = logsumexp(ways, {0}) + emitted[t];
  }
  return -logsumexp(alpha.slice(0, std::max<std::int64_t>(0, count - 2)), {0});
}

/// The labels of each sample.
std::vector<std::vector<std::int64_t>> labels_of(const Tensor& targets, const std::vector<std::int64_t>& lengths) {
  const std::vector<std::int64_t> all = targets.to_vector<std::int64_t>();
  std::vector<std::vector<std::int64_t>> result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::size_t first = targets.dim() == 2 ? i * static_cast<std::size_t>(targets.size(1)) : next;
    const std::size_t last = first + static_cast<std::size_t>(lengths[i]);
    if (lengths[i] < 0 || last > all.size()) throw Error(ErrorCode::runtime, "Expected tensor to have enough targets");
    result.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(first),
                        all.begin() + static_cast<std::ptrdiff_t>(last));
    next = last;
  }
  return result;
}

}  // namespace

Tensor ctc_loss(const Tensor& log_prob, const Tensor& targets, const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths, const CtcOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&log_prob, &targets}); to)
    return ctc_loss(to(log_prob), to(targets), input_lengths, target_lengths, o);
  const Tensor batch = log_prob.dim() == 2 ? log_prob.unsqueeze(1) : log_prob;
  const auto samples = static_cast<std::size_t>(batch.size(1));
  if (input_lengths.size() != samples) {
    throw Error(ErrorCode::runtime, "input_lengths must be of size batch_size");
  }
  if (target_lengths.size() != samples) {
    throw Error(ErrorCode::runtime, "target_lengths must be of size batch_size");
  }
  if (o.blank < 0 || o.blank >= batch.size(2)) throw Error(ErrorCode::runtime, "blank must be in label range");
  const auto labels = labels_of(targets, target_lengths);
  const Tensor losses = composed("CtcLossBackward0", {batch}, [=](const TensorList& in) {
    std::vector<Tensor> each;
    for (std::size_t i = 0; i < samples; ++i) {
      const Tensor own = in[0].select(1, static_cast<std::int64_t>(i)).narrow(0, 0, input_lengths[i]);
      const Tensor loss = sample_loss(own, labels[i], o.blank);
      const Tensor impossible = loss > 1e29;
      each.push_back(masked_fill(loss, impossible, o.zero_infinity ? 0 : HUGE_VAL));
    }
    return stack(each);
  });
  if (o.reduction == Reduction::none) return log_prob.dim() == 2 ? losses.squeeze(0) : losses;
  if (o.reduction == Reduction::sum) return sum(losses);
  std::vector<double> lengths(target_lengths.begin(), target_lengths.end());
  for (double& length : lengths) length = std::max(length, 1.0);
  return mean(losses / from_values(lengths, {.dtype = losses.dtype(), .device = losses.device()}));
}

}  // namespace core
