#include "libcore/dist/power_sgd.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/fail.h"
#include "libcore/dist/init.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/random.h"

namespace core::distributed {
namespace {

/// Gram and Schmidt's way, column by column, of (n, rows, columns).
void orthogonalize_columns(const Tensor& matrices, double epsilon) {
  const std::int64_t columns = matrices.size(2);
  for (std::int64_t i = 0; i < columns; ++i) {
    const Tensor column = matrices.narrow(2, i, 1);
    const Tensor length = norm(column, NormOptions{.dims = {1}, .keepdim = true});
    column.div_(epsilon == 0 ? length : length + epsilon);
    if (i + 1 == columns) break;
    const Tensor rest = matrices.narrow(2, i + 1, columns - i - 1);
    rest.sub_(sum(column * rest, core::ReduceOptions{.dims = {1}, .keepdim = true}) * column);
  }
}

void orthogonalize(const Tensor& matrices, double epsilon) {
  const bool is_half = matrices.dtype() == DType::f16 || matrices.dtype() == DType::bf16;
  if (matrices.size(2) <= 2 || is_half) return orthogonalize_columns(matrices, epsilon);
  matrices.copy_(linalg::qr(matrices).q);
}

Tensor elements_of(const std::vector<Tensor>& tensors, const Tensor& like) {
  if (tensors.empty()) return empty({0}, {.dtype = like.dtype(), .device = like.device()});
  std::vector<Tensor> flat;
  for (const Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  return cat(flat, 0);
}

}  // namespace

PowerSGDState::PowerSGDState(const PowerSGDOptions& options) : options_(options), seeds_(options.random_seed) {
  if ((options.use_error_feedback || options.warm_start) && options.start_powerSGD_iter <= 1) {
    core::detail::fail_value(
        "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can "
        "only be applied after the first two iterations in DDP.");
  }
}

/// NumPy's RandomState(seed).randint(1_000_000_000).
std::uint64_t PowerSGDState::next_seed() {
  constexpr std::uint32_t kLargest = 999'999'999;
  constexpr std::uint32_t kMask = (1U << 30) - 1;
  std::uint32_t drawn = 0;
  do {
    drawn = static_cast<std::uint32_t>(seeds_()) & kMask;
  } while (drawn > kLargest);
  return drawn;
}

/// One bucket of one step.
class PowerSGDStep {
 public:
  PowerSGDStep(std::shared_ptr<PowerSGDState> state, Group group, const GradBucket& bucket)
      : state_(std::move(state)),
        options_(state_->options_),
        group_(std::move(group)),
        is_last_(bucket.is_last()),
        kept_(state_->kept_[bucket.index()]),
        buffer_(bucket.buffer()) {
    add_error();
    for (const Tensor& gradient : bucket.gradients()) sort(gradient);
    uncompressed_ = elements_of(left_, buffer_);
    bool is_fresh = !options_.warm_start || !kept_.ps.defined();
    lay_out(is_fresh);
    is_fresh ? draw_qs() : orthogonalize_all(qs_);
    for (std::size_t i = 0; i < matrices_.size(); ++i) ps_[i].copy_(bmm(matrices_[i], qs_[i]));
  }

  Work sum_left() const { return summed(uncompressed_); }

  /// After the sum of what is not compressed.
  Tensor finish() {
    const NoGradGuard no_grad;
    uncompressed_.div_(static_cast<double>(group_->size()));
    std::int64_t at = 0;
    for (const Tensor& tensor : left_) {
      tensor.copy_(uncompressed_.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
    summed(kept_.ps).wait();  // not divided: only where they point counts
    orthogonalize_all(ps_);
    for (std::size_t i = 0; i < matrices_.size(); ++i) qs_[i].copy_(bmm(matrices_[i].transpose(1, 2), ps_[i]));
    summed(kept_.qs).wait();
    kept_.qs.div_(static_cast<double>(group_->size()));
    for (std::size_t i = 0; i < matrices_.size(); ++i) matrices_[i].copy_(bmm(ps_[i], qs_[i].transpose(1, 2)));
    give_back_stacks();
    if (options_.use_error_feedback) kept_.error = before_ - buffer_;
    if (!options_.warm_start) kept_.ps = kept_.qs = Tensor();
    state_->end_bucket(is_last_);
    return buffer_;
  }

 private:
  /// Gradients of one shape, as one block of matrices.
  struct Stack {
    Tensor block;
    std::vector<Tensor> members;
  };

  void add_error() {
    if (!options_.use_error_feedback) return;
    if (kept_.error.defined()) buffer_.add_(kept_.error);
    before_ = buffer_.clone();
  }

  void sort(const Tensor& gradient) {
    const Tensor matrix = gradient.view({gradient.size(0), -1});
    const std::int64_t rank = rank_for(matrix);
    const std::int64_t small = (matrix.size(0) + matrix.size(1)) * rank;
    const bool is_compressed = static_cast<double>(small) * options_.min_compression_rate < matrix.numel();
    state_->numel_before_ += matrix.numel();
    state_->numel_after_ += is_compressed ? small : matrix.numel();
    if (!is_compressed) {
      left_.push_back(gradient);
      return;
    }
    auto same = std::find_if(shapes_.begin(), shapes_.end(),
                             [&](const auto& each) { return each.front().sizes() == matrix.sizes(); });
    same == shapes_.end() ? shapes_.push_back({matrix}) : same->push_back(matrix);
  }

  std::int64_t rank_for(const Tensor& matrix) const {
    return std::min({matrix.size(-2), matrix.size(-1), options_.matrix_approximation_rank});
  }

  /// The matrices, and which part of the memory that is sent is whose.
  void lay_out(bool is_fresh) {
    for (const std::vector<Tensor>& members : shapes_) {
      if (options_.batch_tensors_with_same_shape && members.size() > 1) {
        stacks_.push_back({stack(members), members});
        matrices_.push_back(stacks_.back().block);
        continue;
      }
      for (const Tensor& member : members) matrices_.push_back(member.unsqueeze(0));
    }
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    for (const Tensor& matrix : matrices_) {
      rows += matrix.size(0) * matrix.size(1) * rank_for(matrix);
      columns += matrix.size(0) * matrix.size(2) * rank_for(matrix);
    }
    const TensorOptions like{.dtype = buffer_.dtype(), .device = buffer_.device()};
    if (is_fresh) {
      kept_.ps = empty({rows}, like);
      kept_.qs = empty({columns}, like);
    }
    rows = columns = 0;
    for (const Tensor& matrix : matrices_) {
      ps_.push_back(part_of(kept_.ps, rows, {matrix.size(0), matrix.size(1), rank_for(matrix)}));
      qs_.push_back(part_of(kept_.qs, columns, {matrix.size(0), matrix.size(2), rank_for(matrix)}));
    }
  }

  static Tensor part_of(const Tensor& memory, std::int64_t& at, const Shape& sizes) {
    const std::int64_t begin = std::exchange(at, at + sizes.numel());
    return memory.narrow(0, begin, sizes.numel()).view(sizes);
  }

  /// The same on every rank, and another one in each step.
  void draw_qs() {
    Generator generator;
    generator.manual_seed(state_->next_seed());
    for (const Tensor& q : qs_) {
      q.copy_(randn(q.sizes(), {.dtype = q.dtype(), .device = Device(), .generator = generator}));
      orthogonalize(q, options_.orthogonalization_epsilon);
    }
  }

  void orthogonalize_all(const std::vector<Tensor>& all) const {
    for (const Tensor& matrices : all) orthogonalize(matrices, options_.orthogonalization_epsilon);
  }

  void give_back_stacks() const {
    for (const Stack& each : stacks_) {
      for (std::size_t i = 0; i < each.members.size(); ++i) {
        each.members[i].copy_(each.block.select(0, static_cast<std::int64_t>(i)));
      }
    }
  }

  /// What all have none of is not asked for.
  Work summed(const Tensor& tensor) const {
    if (tensor.numel() == 0) return {};
    return all_reduce(tensor, {.group = group_, .async_op = true, .label = "PowerSGD"});
  }

  std::shared_ptr<PowerSGDState> state_;
  const PowerSGDOptions& options_;
  Group group_;
  bool is_last_;
  PowerSGDState::Kept& kept_;
  Tensor buffer_;
  Tensor before_;                            ///< the gradients with the error, before compression
  std::vector<Tensor> left_;                 ///< gradients that are not compressed
  Tensor uncompressed_;                      ///< their elements
  std::vector<std::vector<Tensor>> shapes_;  ///< the others, those of one shape together
  std::vector<Stack> stacks_;
  std::vector<Tensor> matrices_, ps_, qs_;  ///< (n, rows, columns), (n, rows, rank), (n, columns, rank)
};

CommHook powerSGD_hook(std::shared_ptr<PowerSGDState> state) {
  return [state = std::move(state)](GradBucket& bucket) -> CommFuture {
    const NoGradGuard no_grad;
    const Group group = state->options_.process_group ? state->options_.process_group : default_group();
    if (bucket.buffer().is_sparse()) core::detail::fail("powerSGD_hook: gradients must be dense");
    if (state->iter_ < state->options_.start_powerSGD_iter) {
      state->end_bucket(bucket.is_last());
      return allreduce_hook(group)(bucket);
    }
    auto step = std::make_shared<PowerSGDStep>(state, group, bucket);
    return CommFuture(step->sum_left(), bucket.buffer()).then([step](const Tensor&) { return step->finish(); });
  };
}

}  // namespace core::distributed
