#include "libcore/distributions/transform.h"

#include <mutex>
#include <ostream>
#include <typeinfo>

#include "libcore/base/class_name.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"

namespace core::distributions {

/// The last pair.
struct Transform::Cache {
  std::mutex mutex;
  Tensor x, y;
};

Argument TransformRule::sign() const {
  throw Error(ErrorCode::not_implemented, str() + " does not implement sign");
}

Tensor TransformRule::log_abs_det_jacobian(const Tensor&, const Tensor&) const {
  throw Error(ErrorCode::not_implemented, str() + " does not implement log_abs_det_jacobian");
}

std::string TransformRule::str() const {
  return short_class_name(typeid(*this)) + "()";
}

Transform::Transform(std::shared_ptr<const TransformRule> rule, const CacheOptions& options) : rule_(std::move(rule)) {
  if (options.cache_size == 0) return;
  if (options.cache_size != 1) throw Error(ErrorCode::value, "cache_size must be 0 or 1");
  cache_ = std::make_shared<Cache>();
}

Tensor Transform::forward(const Tensor& x) const {
  if (!cache_) return rule_->forward(x);
  const std::scoped_lock lock(cache_->mutex);
  if (!cache_->x.defined() || !cache_->x.is_same(x)) cache_->y = rule_->forward(x), cache_->x = x;
  return cache_->y;
}

Tensor Transform::backward(const Tensor& y) const {
  if (!cache_) return rule_->inverse(y);
  const std::scoped_lock lock(cache_->mutex);
  if (!cache_->y.defined() || !cache_->y.is_same(y)) cache_->x = rule_->inverse(y), cache_->y = y;
  return cache_->x;
}

Tensor Transform::operator()(const Tensor& x) const {
  return is_inverse_ ? backward(x) : forward(x);
}

Transform Transform::inv() const {
  if (auto other = rule_->inverted(); other && !is_inverse_) return Transform(std::move(other));
  Transform result(*this);
  result.is_inverse_ = !is_inverse_;
  return result;
}

Tensor Transform::log_abs_det_jacobian(const Tensor& x, const Tensor& y) const {
  return is_inverse_ ? -rule_->log_abs_det_jacobian(y, x) : rule_->log_abs_det_jacobian(x, y);
}

std::int64_t Transform::event_dim() const {
  const std::int64_t in = domain().event_dim;
  if (in == codomain().event_dim) return in;
  throw Error(ErrorCode::value, "Please use either .domain.event_dim or .codomain.event_dim");
}

Shape Transform::forward_shape(const Shape& sizes) const {
  return is_inverse_ ? rule_->inverse_shape(sizes) : rule_->forward_shape(sizes);
}
Shape Transform::inverse_shape(const Shape& sizes) const {
  return is_inverse_ ? rule_->forward_shape(sizes) : rule_->inverse_shape(sizes);
}

Transform Transform::with_cache(int cache_size) const {
  if ((cache_size == 1) == (cache_ != nullptr)) return *this;
  auto other = rule_->with_cached_parts(cache_size);
  Transform result(other ? std::move(other) : rule_, {.cache_size = cache_size});
  result.is_inverse_ = is_inverse_;
  return result;
}

std::string Transform::str() const {
  return is_inverse_ ? "_InverseTransform(" + rule_->str() + ")" : rule_->str();
}

bool operator==(const Transform& a, const Transform& b) {
  return a.is_inverse_ == b.is_inverse_ && a.rule_->equals(*b.rule_);
}

std::ostream& operator<<(std::ostream& out, const Transform& transform) {
  return out << transform.str();
}

}  // namespace core::distributions
