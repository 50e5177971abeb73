#include "libcore/distributions/distribution.h"

#include <algorithm>
#include <atomic>
#include <ostream>
#include <sstream>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/class_name.h"
#include "libcore/base/error.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/number_limits.h"

namespace core::distributions {
namespace {

std::atomic<bool> validates_by_default{true};

std::string size_text(const Shape& sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

[[noreturn]] void throw_value(const std::string& message) {
  throw Error(ErrorCode::value, message);
}

}  // namespace

void ProbsOrLogits::check() const {
  if (has_probs() == has_logits()) throw_value("Either `probs` or `logits` must be specified, but not both.");
}

ProbsOrLogits ProbsOrLogits::with_default_checks() const {
  ProbsOrLogits result(*this);
  result.validate_args.reset();
  return result;
}

Distribution::Distribution(const Shape& batch_shape, const Shape& event_shape, const std::optional<bool>& validate_args)
    : batch_shape_(batch_shape),
      event_shape_(event_shape),
      validates_(validate_args.value_or(validates_by_default.load())) {}

void Distribution::set_default_validate_args(bool value) {
  validates_by_default = value;
}

void Distribution::throw_not_implemented(const char* what) const {
  throw Error(ErrorCode::not_implemented, class_name() + " does not implement " + what);
}

Tensor Distribution::mean() const {
  throw_not_implemented("mean");
}
Tensor Distribution::mode() const {
  throw_not_implemented("mode");
}
Tensor Distribution::variance() const {
  throw_not_implemented("variance");
}
Tensor Distribution::stddev() const {
  return variance().sqrt();
}
Tensor Distribution::rsample(const Shape&) const {
  throw_not_implemented("rsample");
}
Tensor Distribution::cdf(const Tensor&) const {
  throw_not_implemented("cdf");
}
Tensor Distribution::icdf(const Tensor&) const {
  throw_not_implemented("icdf");
}
Tensor Distribution::entropy() const {
  throw_not_implemented("entropy");
}
Tensor Distribution::enumerate_support(bool) const {
  throw_not_implemented("enumerate_support");
}

Tensor Distribution::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  return rsample(sample_shape);
}

Tensor Distribution::perplexity() const {
  return entropy().exp();
}

std::string Distribution::class_name() const {
  return short_class_name(typeid(*this));
}

std::string Distribution::str() const {
  std::string text;
  for (const Parameter& p : parameters()) {
    if (!p.is_shown) continue;
    text += (text.empty() ? "" : ", ") + std::string(p.name) + ": " + shown(p.value);
  }
  return class_name() + "(" + text + ")";
}

std::ostream& operator<<(std::ostream& out, const Distribution& distribution) {
  return out << distribution.str();
}

void Distribution::validate() const {
  if (!validates_) return;
  for (const Parameter& p : parameters()) {
    if (p.constraint.check(p.value).all().item<bool>()) continue;
    throw_value(std::string("Expected parameter ") + p.name + " (Tensor of shape " + tuple_text(p.value.sizes()) +
                ") of distribution " + str() + " to satisfy the constraint " + p.constraint.str() +
                ", but found invalid values:\n" + formatted(p.value));
  }
}

void Distribution::validate_sample(const Tensor& value) const {
  const Shape& sizes = value.sizes();
  const std::size_t events = event_shape_.size();
  const bool is_long = sizes.size() >= events;
  if (!is_long || !std::equal(event_shape_.begin(), event_shape_.end(), sizes.end() - events)) {
    throw_value("The right-most size of value must match event_shape: " + size_text(sizes) + " vs " +
                size_text(event_shape_) + ".");
  }
  const Shape wanted = joined(batch_shape_, event_shape_);
  for (std::size_t i = 1; i <= std::min(sizes.size(), wanted.size()); ++i) {
    const std::int64_t a = sizes[sizes.size() - i], b = wanted[wanted.size() - i];
    if (a == 1 || b == 1 || a == b) continue;
    throw_value("Value is not broadcastable with batch_shape+event_shape: " + size_text(sizes) + " vs " +
                size_text(wanted) + ".");
  }
  const Constraint allowed = support();
  if (allowed.check(value).all().item<bool>()) return;
  throw_value("Expected value argument (Tensor of shape " + tuple_text(sizes) + ") to be within the support (" +
              allowed.str() + ") of the distribution " + str() + ", but found invalid values:\n" + formatted(value));
}

void Distribution::set_shapes(const Shape& sizes, std::size_t event_dims) {
  batch_shape_ = first_dims(sizes, sizes.size() - event_dims);
  event_shape_ = Shape(sizes.span().last(event_dims));
}

Shape Distribution::extended_shape(const Shape& sample_shape) const {
  for (std::size_t i = 0; i < sample_shape.size(); ++i) {
    if (sample_shape[i] >= 0) continue;
    throw Error(ErrorCode::runtime, "The expanded size of the tensor (" + std::to_string(sample_shape[i]) +
                                        ") isn't allowed in a leading, non-existing dimension " + std::to_string(i));
  }
  return joined(joined(sample_shape, batch_shape_), event_shape_);
}

Shape joined(const Shape& a, const Shape& b) {
  Shape result = a;
  for (const std::int64_t size : b) result.push_back(size);
  return result;
}

Shape first_dims(const Shape& sizes, std::size_t count) {
  if (count > sizes.size()) throw_value("Too few dimensions on input");
  return Shape(sizes.span().first(count));
}

std::string shown(const Tensor& parameter) {
  return parameter.numel() == 1 ? formatted(parameter) : size_text(parameter.sizes());
}

std::string tuple_text(const Shape& sizes) {
  std::string text = "(";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return text + (sizes.size() == 1 ? ",)" : ")");
}

Tensor sum_rightmost(const Tensor& x, std::int64_t count) {
  return count == 0 ? x : x.flatten(-count).sum(-1);
}

ProbsOrLogits broadcast_with(const Argument& count, const ProbsOrLogits& given) {
  given.check();
  const Tensor each = broadcast_all({count, given.has_probs() ? *given.probs : *given.logits})[1];
  if (given.has_probs()) return {.probs = each, .validate_args = given.validate_args};
  return {.logits = each, .validate_args = given.validate_args};
}

Tensor clamp_probs(const Tensor& probs) {
  const double eps = finfo(probs.dtype()).eps;
  return probs.clamp(eps, 1 - eps);
}

Tensor probs_to_logits(const Tensor& probs, bool is_binary) {
  const Tensor clamped = clamp_probs(probs);
  return is_binary ? clamped.log() - (-clamped).log1p() : clamped.log();
}

Tensor logits_to_probs(const Tensor& logits, bool is_binary) {
  return is_binary ? sigmoid(logits) : softmax(logits, -1);
}

}  // namespace core::distributions
