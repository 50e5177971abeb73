#include "libcore/dist/sparse_sum.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/fail.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"

namespace core::distributed {
namespace {

using core::detail::SparseParts;

/// What goes between the ranks. The engine may use the memory after an error, so the request keeps all of it.
class SparseSum {
 public:
  SparseSum(const Tensor& tensor, int ranks) : tensor_(tensor), ranks_(static_cast<std::size_t>(ranks)) {
    const NoGradGuard no_grad;
    const Tensor once = coalesce(tensor.detach());
    indices_ = sparse_indices(once).cpu().contiguous();
    values_ = sparse_values(once).cpu().contiguous();
    row_ = bit_width(values_.dtype()) / 8;
    for (std::int64_t d = 1; d < values_.dim(); ++d) row_ *= values_.size(d);
  }

  void exchange(Engine& engine, const Call& call) {
    const std::int64_t own[] = {indices_.size(0), indices_.size(1)};
    facts_.resize(2 * ranks_);
    engine.all_gather(own, facts_.data(), sizeof own, call);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (facts_[2 * rank] != own[0]) core::detail::fail("Sparse dimensions do not match");
      most_ = std::max(most_, facts_[2 * rank + 1]);
    }
    if (most_ == 0) return;
    gather(engine, call, indices_.raw_data(), indices_.nbytes(), most_ * own[0] * width_of_index(), sent_indices_,
           all_indices_);
    gather(engine, call, values_.raw_data(), values_.nbytes(), most_ * row_, sent_values_, all_values_);
  }

  /// Into the tensor.
  void add_up() const {
    const NoGradGuard no_grad;
    Tensor sum = of_rank(0);
    for (std::size_t rank = 1; rank < ranks_; ++rank) sum = core::detail::sparse_add(sum, of_rank(rank), 1);
    sum = coalesce(sum);
    if (!tensor_.device().is_cpu()) sum = sum.to(tensor_.device());
    core::detail::set_parts(tensor_, core::detail::parts_of(sum));
  }

 private:
  static std::int64_t width_of_index() { return static_cast<std::int64_t>(sizeof(std::int64_t)); }

  /// Ranks have different numbers of places: all send as many bytes as the longest list has.
  void gather(Engine& engine, const Call& call, const void* own, std::int64_t bytes, std::int64_t most,
              std::vector<char>& sent, std::vector<char>& all) const {
    sent.assign(static_cast<std::size_t>(most), 0);
    if (bytes > 0) std::memcpy(sent.data(), own, static_cast<std::size_t>(bytes));
    all.resize(sent.size() * ranks_);
    if (most > 0) engine.all_gather(sent.data(), all.data(), most, call);
  }

  Tensor of_rank(std::size_t rank) const {
    const std::int64_t count = facts_[2 * rank + 1];
    const Tensor indices = empty({indices_.size(0), count}, {.dtype = DType::i64});
    Shape sizes = values_.sizes();
    sizes[0] = count;
    const Tensor values = empty(sizes, {.dtype = values_.dtype()});
    const auto copy = [&](const Tensor& to, const std::vector<char>& all) {
      if (to.nbytes() == 0) return;
      std::memcpy(to.mutable_raw_data(), all.data() + rank * (all.size() / ranks_),
                  static_cast<std::size_t>(to.nbytes()));
    };
    copy(indices, all_indices_);
    copy(values, all_values_);
    return sparse_coo_tensor(indices, values, tensor_.sizes());
  }

  Tensor tensor_;
  std::size_t ranks_;
  Tensor indices_;
  Tensor values_;
  std::int64_t row_ = 0;             ///< bytes of the values at one place
  std::int64_t most_ = 0;            ///< places that a rank has
  std::vector<std::int64_t> facts_;  ///< of each rank: sparse dimensions, places
  std::vector<char> sent_indices_, all_indices_, sent_values_, all_values_;
};

}  // namespace

Work sum_sparse(const Tensor& tensor, const Group& group, const ReduceOptions& options) {
  if (options.op != ReduceOp::sum) {
    core::detail::fail(
        "ProcessGroupGloo::allreduce: unsupported reduction operation (allreduce of sparse tensors only works with "
        "ReduceOp.SUM)");
  }
  const auto sum = std::make_shared<SparseSum>(tensor, group->size());
  Work work = group->start({.fingerprint = {.op = "ALLREDUCE",
                                            .shapes = {tensor.sizes()},
                                            .dtypes = {tensor.dtype()},
                                            .devices = {tensor.device().is_cpu() ? "cpu" : "cuda"},
                                            .detail = std::string(name(options.op)) + " sparse"},
                            .what = "all_reduce",
                            .label = options.label,
                            .run = [sum](Engine& engine, const Call& call) { sum->exchange(engine, call); },
                            .finish = [sum] { sum->add_up(); }});
  if (!options.async_op) work.wait();
  return work;
}

void divide_by(const Tensor& tensor, double number) {
  const NoGradGuard no_grad;
  if (!tensor.is_sparse()) {
    tensor.div_(number);
    return;
  }
  const SparseParts& parts = core::detail::parts_of(tensor);
  core::detail::set_parts(tensor, {parts.indices, parts.values / number, parts.coalesced});
}

}  // namespace core::distributed
