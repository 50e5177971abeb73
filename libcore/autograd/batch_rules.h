#pragma once
// How operations run on all samples of a batch at once, by the names that they have in a trace (op_trace.h). The
// samples lie along dimension 0 of what differs between them. Internal to func.h. Thread safety: pure functions.
// Use: BatchRule rule = find_batch_rule("matmul"); std::vector<Tensor> y = rule(call);

#include <cstdint>
#include <string_view>
#include <vector>

#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::func::detail {

/// One operation: what the first sample saw, and the batch.
struct BatchedCall {
  const core::detail::TracedCall& traced;
  const std::vector<Tensor>& batches;  ///< undefined: the same for all
  const std::vector<Tensor>& outputs;  ///< of the first sample
  const Tensor& changed;               ///< in place: the batch that is written into
  std::int64_t size;

  const Tensor& given(std::size_t i) const { return traced.inputs[i]; }
  std::size_t count() const { return traced.inputs.size(); }
  bool has(std::size_t i) const { return i < count() && given(i).defined(); }
  bool is_batch(std::size_t i) const { return i < count() && batches[i].defined(); }
  const Tensor& output() const { return outputs[0]; }
  std::int64_t rank(std::size_t i = 0) const { return given(i).dim(); }

  /// (samples, ...), by repetition where it is the same for all. Undefined where the input is.
  Tensor each(std::size_t i) const;
  /// What differs, with ones behind the samples up to `rank` dimensions of a sample; what does not, as it is.
  Tensor aligned(std::size_t i, std::int64_t rank) const;
  /// As it is, or the same for all. Throws NotBatched where it differs.
  const Tensor& shared(std::size_t i) const;
  /// `dim` of a sample, which may be negative, in the batch.
  std::int64_t behind(std::int64_t dim, std::int64_t rank) const;
  /// (samples, sizes of the output...)
  Shape output_sizes(std::size_t i = 0) const;

  bool is_given(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  bool flag(std::string_view key) const { return integer(key) != 0; }
  double number(std::string_view key) const;
  Scalar scalar(std::string_view key) const;
  std::string_view text(std::string_view key) const;
  Shape shape(std::string_view key) const;
};

using Results = std::vector<Tensor>;  ///< of one operation, each with the samples along dimension 0
using BatchRule = Results (*)(const BatchedCall& call);
/// Null: none.
BatchRule find_batch_rule(std::string_view name);
BatchRule find_batch_rule_in_place(std::string_view name);

struct NamedBatchRule {
  std::string_view name;
  BatchRule rule;
};
/// Who has them.
std::vector<NamedBatchRule> elementwise_batch_rules();
std::vector<NamedBatchRule> shape_batch_rules();
std::vector<NamedBatchRule> reduction_batch_rules();
std::vector<NamedBatchRule> layer_batch_rules();
std::vector<NamedBatchRule> loss_batch_rules();
std::vector<NamedBatchRule> indexing_batch_rules();
/// Of operations in place.
std::vector<NamedBatchRule> in_place_batch_rules();

/// Throws NotBatched.
[[noreturn]] void no_batch_rule();

}  // namespace core::func::detail
