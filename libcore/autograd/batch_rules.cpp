#include "libcore/autograd/batch_rules.h"

#include <unordered_map>

#include "libcore/autograd/batching.h"
#include "libcore/ops/raw/checks.h"

namespace core::func::detail {
namespace {

using core::detail::TraceAttribute;
using RuleTable = std::unordered_map<std::string_view, BatchRule>;

RuleTable table_of(const std::vector<std::vector<NamedBatchRule>>& lists) {
  RuleTable table;
  for (const auto& list : lists) {
    for (const NamedBatchRule& one : list) table[one.name] = one.rule;
  }
  return table;
}

BatchRule found_in(const RuleTable& table, std::string_view name) {
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

const TraceAttribute& attribute(const BatchedCall& call, std::string_view key) {
  for (const TraceAttribute& one : call.traced.attributes) {
    if (key == one.name) return one;
  }
  no_batch_rule();
}

Shape in_front(std::int64_t first, const Shape& sizes) {
  Shape all{first};
  for (const std::int64_t size : sizes) all.push_back(size);
  return all;
}

}  // namespace

void no_batch_rule() {
  throw NotBatched();
}

BatchRule find_batch_rule(std::string_view name) {
  static const RuleTable table = table_of({elementwise_batch_rules(), shape_batch_rules(), reduction_batch_rules(),
                                           layer_batch_rules(), loss_batch_rules(), indexing_batch_rules()});
  return found_in(table, name);
}

BatchRule find_batch_rule_in_place(std::string_view name) {
  static const RuleTable table = table_of({in_place_batch_rules()});
  return found_in(table, name);
}

Tensor BatchedCall::each(std::size_t i) const {
  if (!has(i) || is_batch(i)) return has(i) ? batches[i] : Tensor();
  return given(i).expand(in_front(size, given(i).sizes()));
}

Tensor BatchedCall::aligned(std::size_t i, std::int64_t rank) const {
  if (!has(i) || !is_batch(i)) return has(i) ? given(i) : Tensor();
  const std::int64_t own = given(i).dim();
  if (own >= rank) return batches[i];
  Shape sizes{size};
  for (std::int64_t d = own; d < rank; ++d) sizes.push_back(1);
  for (const std::int64_t s : given(i).sizes()) sizes.push_back(s);
  return batches[i].reshape(sizes);
}

const Tensor& BatchedCall::shared(std::size_t i) const {
  if (is_batch(i)) no_batch_rule();
  static const Tensor none;
  return has(i) ? given(i) : none;
}

std::int64_t BatchedCall::behind(std::int64_t dim, std::int64_t rank) const {
  if (rank == 0) no_batch_rule();
  return raw::wrap_dim(dim, rank) + 1;
}

Shape BatchedCall::output_sizes(std::size_t i) const {
  return in_front(size, outputs[i].sizes());
}

bool BatchedCall::is_given(std::string_view key) const {
  for (const TraceAttribute& one : traced.attributes) {
    if (key == one.name) return true;
  }
  return false;
}

std::int64_t BatchedCall::integer(std::string_view key) const {
  const TraceAttribute& one = attribute(*this, key);
  if (const auto* truth = std::get_if<bool>(&one.value)) return *truth ? 1 : 0;
  if (const auto* scalar = std::get_if<Scalar>(&one.value)) return scalar->to_int();
  return std::get<std::int64_t>(one.value);
}

double BatchedCall::number(std::string_view key) const {
  const TraceAttribute& one = attribute(*this, key);
  if (const auto* real = std::get_if<double>(&one.value)) return *real;
  if (const auto* scalar = std::get_if<Scalar>(&one.value)) return scalar->to_double();
  return static_cast<double>(integer(key));
}

Scalar BatchedCall::scalar(std::string_view key) const {
  return std::get<Scalar>(attribute(*this, key).value);
}

std::string_view BatchedCall::text(std::string_view key) const {
  return std::get<std::string>(attribute(*this, key).value);
}

Shape BatchedCall::shape(std::string_view key) const {
  Shape shape;
  for (const std::int64_t number : std::get<core::detail::TraceNumbers>(attribute(*this, key).value)) {
    shape.push_back(number);
  }
  return shape;
}

}  // namespace core::func::detail
