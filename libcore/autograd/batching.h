#pragma once
// All samples of a batch at once: a function runs on the first sample, and every operation that sees it runs on the
// whole batch too, by the rule that it has (batch_rules.h). What has none, or decides by values, ends the attempt:
// NotBatched, before anything outside was changed. Internal to func.h. Thread safety: each thread its own.
// Use: Batching batching(5); Tensor first = batching.first_of(x); Tensor y = f(first); batching.batch_of(y);

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/tensor.h"

namespace core::func::detail {

/// Thrown where the samples cannot be run at once.
struct NotBatched {};

class Batching final : public core::detail::OpBatch {
 public:
  explicit Batching(std::int64_t size);
  ~Batching() override;

  /// That of this thread; none: null.
  static Batching* of_thread();
  /// Whether one may begin here: not where another trace runs.
  static bool may_begin();
  std::int64_t size() const { return size_; }

  /// The first sample of (samples, ...), which stands for all of them from now on.
  Tensor first_of(const Tensor& batch);
  /// As first_of, for tensors of which a copy is not needed.
  Tensor stands_for(const Tensor& first, const Tensor& batch);
  /// (samples, ...); undefined where it is the same for all.
  Tensor batch_of(const Tensor& x);
  /// The same, by copies of what is the same for all.
  Tensor whole(const Tensor& x);
  /// An operation in place may not write there: it is not the batch's own.
  void protect(const Tensor& outside) { outside_.push_back(outside); }
  /// Throws NotBatched. A function that swallows it has failed all the same.
  [[noreturn]] void give_up();
  bool has_failed() const { return failed_; }

  /// Runs as if this batch were not there: within the one around it.
  template <class Call>
  auto outside(Call call) {
    const core::detail::OpBatchScope to(around_);
    return call();
  }

  void begins(core::detail::TracedCall call) override;
  void ran(const std::vector<Tensor>& outputs, bool in_place) override;
  void hears(std::string_view name, const Tensor* const* inputs, std::size_t count, bool covered) override;
  void changes(const Tensor& changed) override;
  void draws() override { give_up(); }
  void runs_backward() override { give_up(); }

 private:
  struct Entry {
    Tensor first, batch;
  };
  Entry* entry_of(const Tensor& x);
  void check_change(const Tensor& changed);
  bool writes_into(std::string_view name, const Tensor& out) const;
  void forget_unused();

  std::int64_t size_;
  core::detail::OpBatch* around_;
  core::detail::TracedCall call_;
  std::vector<Tensor> batches_;
  std::unordered_map<const TensorImpl*, Entry> entries_;
  std::unordered_map<const void*, std::vector<const TensorImpl*>> storages_;
  std::vector<Tensor> outside_;
  std::size_t sweep_at_ = 64;
  bool failed_ = false;
  core::detail::OpBatchScope scope_;
};

}  // namespace core::func::detail
