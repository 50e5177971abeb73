#pragma once
// Transform: a function with an inverse and a density, as torch.distributions.transforms.Transform. The transforms that
// there are stand in transforms.h.
// Thread safety: values; one with a cache locks it. Errors: PyTorch's texts.
// Use: core::distributions::Transform f = core::distributions::TanhTransform({.cache_size = 1}); core::Tensor z = f(x);

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "libcore/distributions/constraints.h"
#include "libcore/tensor/tensor.h"

namespace core::distributions {

struct CacheOptions {
  int cache_size = 0;  ///< 1: the inverse of the last result is what went in
};

/// What a transform computes. One of your own derives from this and is wrapped: Transform(std::make_shared<Mine>()).
class TransformRule {
 public:
  virtual ~TransformRule() = default;
  virtual Constraint domain() const = 0;
  virtual Constraint codomain() const = 0;
  virtual bool is_bijective() const { return true; }
  /// 1 or -1 for functions of one variable that grow or fall. Error(not_implemented) where that means nothing.
  virtual Argument sign() const;
  virtual Tensor forward(const Tensor& x) const = 0;
  virtual Tensor inverse(const Tensor& y) const = 0;
  virtual Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const;
  virtual Shape forward_shape(const Shape& sizes) const { return sizes; }
  virtual Shape inverse_shape(const Shape& sizes) const { return sizes; }
  virtual bool equals(const TransformRule& other) const { return this == &other; }
  virtual std::string str() const;
  /// The rule of the inverse, where it is one of its own; null: this one from behind.
  virtual std::shared_ptr<const TransformRule> inverted() const { return nullptr; }
  /// The same with caches in its parts; null: it has no parts.
  virtual std::shared_ptr<const TransformRule> with_cached_parts(int) const { return nullptr; }
};

class Transform {
 public:
  explicit Transform(std::shared_ptr<const TransformRule> rule, const CacheOptions& options = {});

  Tensor operator()(const Tensor& x) const;
  Transform inv() const;
  /// log |dy/dx|, for y = f(x).
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const;
  Constraint domain() const { return is_inverse_ ? rule_->codomain() : rule_->domain(); }
  Constraint codomain() const { return is_inverse_ ? rule_->domain() : rule_->codomain(); }
  bool is_bijective() const { return rule_->is_bijective(); }
  Argument sign() const { return rule_->sign(); }
  /// Error(value) "Please use either .domain.event_dim or .codomain.event_dim" where they differ.
  std::int64_t event_dim() const;
  Shape forward_shape(const Shape& sizes) const;
  Shape inverse_shape(const Shape& sizes) const;
  Transform with_cache(int cache_size = 1) const;
  /// "ExpTransform()", "_InverseTransform(ExpTransform())".
  std::string str() const;
  const TransformRule& rule() const { return *rule_; }
  friend bool operator==(const Transform& a, const Transform& b);

 private:
  struct Cache;
  Tensor forward(const Tensor& x) const;
  Tensor backward(const Tensor& y) const;

  std::shared_ptr<const TransformRule> rule_;
  std::shared_ptr<Cache> cache_;
  bool is_inverse_ = false;
};

std::ostream& operator<<(std::ostream& out, const Transform& transform);

}  // namespace core::distributions
