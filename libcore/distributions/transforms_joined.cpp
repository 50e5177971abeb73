// The transforms of transforms.h that are made of others.
#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/distributions/transforms.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"

namespace core::distributions {
namespace {

using Parts = std::vector<Transform>;

Parts cached(const Parts& parts, int cache_size) {
  Parts result;
  for (const Transform& part : parts) result.push_back(part.with_cache(cache_size));
  return result;
}

/// What they cache is kept where a cache is asked for, and left as it is otherwise.
Parts cached_if(const Parts& parts, int cache_size) {
  return cache_size == 0 ? parts : cached(parts, cache_size);
}

bool all_bijective(const Parts& parts) {
  return std::all_of(parts.begin(), parts.end(), [](const Transform& part) { return part.is_bijective(); });
}

Constraint with_event_dim(const Constraint& base, std::int64_t event_dim) {
  return event_dim > base.event_dim ? constraints::independent(base, event_dim - base.event_dim) : base;
}

struct ComposeRule final : TransformRule {
  explicit ComposeRule(const Parts& given) : parts(given) {}

  Constraint domain() const override {
    if (parts.empty()) return constraints::real();
    std::int64_t event_dim = parts.back().codomain().event_dim;
    for (std::size_t i = parts.size(); i > 0; --i) {
      const std::int64_t in = parts[i - 1].domain().event_dim;
      event_dim = std::max(event_dim + in - parts[i - 1].codomain().event_dim, in);
    }
    return with_event_dim(parts.front().domain(), event_dim);
  }
  Constraint codomain() const override {
    if (parts.empty()) return constraints::real();
    std::int64_t event_dim = parts.front().domain().event_dim;
    for (const Transform& part : parts) {
      const std::int64_t out = part.codomain().event_dim;
      event_dim = std::max(event_dim + out - part.domain().event_dim, out);
    }
    return with_event_dim(parts.back().codomain(), event_dim);
  }
  bool is_bijective() const override { return all_bijective(parts); }
  Argument sign() const override {
    Argument result = 1;
    for (const Transform& part : parts) {
      const Argument factor = part.sign();
      if (result.is_number() && factor.is_number()) {
        result = static_cast<std::int64_t>(result.number() * factor.number());
      } else {
        const std::vector<Tensor> both = broadcast_all({result, factor});
        result = both[0] * both[1];
      }
    }
    return result;
  }
  Tensor forward(const Tensor& x) const override {
    Tensor value = x;
    for (const Transform& part : parts) value = part(value);
    return value;
  }
  Tensor inverse(const Tensor& y) const override {
    Tensor value = y;
    for (std::size_t i = parts.size(); i > 0; --i) value = parts[i - 1].inv()(value);
    return value;
  }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override {
    if (parts.empty()) return zeros_like(x);
    Tensor sum, before = x;
    std::int64_t event_dim = domain().event_dim;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Tensor after = i + 1 < parts.size() ? parts[i](before) : y;
      const std::int64_t in = parts[i].domain().event_dim;
      const Tensor term = sum_rightmost(parts[i].log_abs_det_jacobian(before, after), event_dim - in);
      sum = sum.defined() ? sum + term : term;
      event_dim += parts[i].codomain().event_dim - in;
      before = after;
    }
    return sum;
  }
  Shape forward_shape(const Shape& sizes) const override {
    Shape result = sizes;
    for (const Transform& part : parts) result = part.forward_shape(result);
    return result;
  }
  Shape inverse_shape(const Shape& sizes) const override {
    Shape result = sizes;
    for (std::size_t i = parts.size(); i > 0; --i) result = parts[i - 1].inverse_shape(result);
    return result;
  }
  bool equals(const TransformRule& other) const override {
    const auto* compose = dynamic_cast<const ComposeRule*>(&other);
    return compose != nullptr && parts == compose->parts;
  }
  std::string str() const override {
    std::string text = "ComposeTransform(\n    ";
    for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ",\n    ") + parts[i].str();
    return text + "\n)";
  }
  std::shared_ptr<const TransformRule> inverted() const override {
    Parts other;
    for (std::size_t i = parts.size(); i > 0; --i) other.push_back(parts[i - 1].inv());
    return std::make_shared<ComposeRule>(other);
  }
  std::shared_ptr<const TransformRule> with_cached_parts(int cache_size) const override {
    return std::make_shared<ComposeRule>(cached(parts, cache_size));
  }

  Parts parts;
};

struct IndependentRule final : TransformRule {
  IndependentRule(const Transform& given, std::int64_t dims) : base(given), count(dims) {}
  Constraint domain() const override { return constraints::independent(base.domain(), count); }
  Constraint codomain() const override { return constraints::independent(base.codomain(), count); }
  bool is_bijective() const override { return base.is_bijective(); }
  Argument sign() const override { return base.sign(); }
  static const Tensor& checked(const Tensor& x, std::int64_t dims) {
    if (x.dim() < dims) throw Error(ErrorCode::value, "Too few dimensions on input");
    return x;
  }
  Tensor forward(const Tensor& x) const override { return base(checked(x, domain().event_dim)); }
  Tensor inverse(const Tensor& y) const override { return base.inv()(checked(y, codomain().event_dim)); }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override {
    return sum_rightmost(base.log_abs_det_jacobian(x, y), count);
  }
  Shape forward_shape(const Shape& sizes) const override { return base.forward_shape(sizes); }
  Shape inverse_shape(const Shape& sizes) const override { return base.inverse_shape(sizes); }
  std::string str() const override { return "IndependentTransform(" + base.str() + ", " + std::to_string(count) + ")"; }
  std::shared_ptr<const TransformRule> with_cached_parts(int cache_size) const override {
    return std::make_shared<IndependentRule>(base.with_cache(cache_size), count);
  }

  Transform base;
  std::int64_t count;
};

void check_part_dim(const Tensor& x, std::int64_t dim) {
  if (dim >= -x.dim() && dim < x.dim()) return;
  throw Error(ErrorCode::assertion, "dim " + std::to_string(dim) + " out of range for tensor with " +
                                        std::to_string(x.dim()) + " dimensions");
}

struct StackRule final : TransformRule {
  StackRule(const Parts& given, std::int64_t along) : parts(given), dim(along) {}
  Constraint domain() const override {
    std::vector<Constraint> each;
    for (const Transform& part : parts) each.push_back(part.domain());
    return constraints::stack(each, dim);
  }
  Constraint codomain() const override {
    std::vector<Constraint> each;
    for (const Transform& part : parts) each.push_back(part.codomain());
    return constraints::stack(each, dim);
  }
  bool is_bijective() const override { return all_bijective(parts); }
  std::vector<Tensor> slices(const Tensor& x) const {
    check_part_dim(x, dim);
    const auto count = static_cast<std::int64_t>(parts.size());
    if (x.size(dim) == count) return x.unbind(dim);
    throw Error(ErrorCode::assertion, "x.size(" + std::to_string(dim) + ") = " + std::to_string(x.size(dim)) +
                                          " must equal len(transforms) " + std::to_string(count));
  }
  Tensor forward(const Tensor& x) const override {
    std::vector<Tensor> each = slices(x);
    for (std::size_t i = 0; i < parts.size(); ++i) each[i] = parts[i](each[i]);
    return stack(each, dim);
  }
  Tensor inverse(const Tensor& y) const override {
    std::vector<Tensor> each = slices(y);
    for (std::size_t i = 0; i < parts.size(); ++i) each[i] = parts[i].inv()(each[i]);
    return stack(each, dim);
  }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override {
    std::vector<Tensor> each = slices(x);
    const std::vector<Tensor> others = slices(y);
    for (std::size_t i = 0; i < parts.size(); ++i) each[i] = parts[i].log_abs_det_jacobian(each[i], others[i]);
    return stack(each, dim);
  }
  std::string str() const override { return "StackTransform()"; }
  std::shared_ptr<const TransformRule> with_cached_parts(int cache_size) const override {
    return std::make_shared<StackRule>(cached(parts, cache_size), dim);
  }

  Parts parts;
  std::int64_t dim;
};

struct CatRule final : TransformRule {
  CatRule(const Parts& given, std::int64_t along, const std::vector<std::int64_t>& sizes)
      : parts(given), dim(along), lengths(sizes.empty() ? std::vector<std::int64_t>(given.size(), 1) : sizes) {
    if (lengths.size() == parts.size()) return;
    throw Error(ErrorCode::assertion, "lengths (" + std::to_string(lengths.size()) + ") must match transforms (" +
                                          std::to_string(parts.size()) + ")");
  }
  Constraint domain() const override {
    std::vector<Constraint> each;
    for (const Transform& part : parts) each.push_back(part.domain());
    return constraints::cat(each, dim, lengths);
  }
  Constraint codomain() const override {
    std::vector<Constraint> each;
    for (const Transform& part : parts) each.push_back(part.codomain());
    return constraints::cat(each, dim, lengths);
  }
  bool is_bijective() const override { return all_bijective(parts); }
  std::vector<Tensor> slices(const Tensor& x) const {
    check_part_dim(x, dim);
    std::int64_t length = 0;
    for (const std::int64_t each : lengths) length += each;
    if (x.size(dim) == length) return x.split(Shape(lengths), dim);
    throw Error(ErrorCode::assertion, "x.size(" + std::to_string(dim) + ") = " + std::to_string(x.size(dim)) +
                                          " must equal length " + std::to_string(length));
  }
  Tensor forward(const Tensor& x) const override {
    std::vector<Tensor> each = slices(x);
    for (std::size_t i = 0; i < parts.size(); ++i) each[i] = parts[i](each[i]);
    return cat(each, dim);
  }
  Tensor inverse(const Tensor& y) const override {
    std::vector<Tensor> each = slices(y);
    for (std::size_t i = 0; i < parts.size(); ++i) each[i] = parts[i].inv()(each[i]);
    return cat(each, dim);
  }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override {
    std::vector<Tensor> each = slices(x);
    const std::vector<Tensor> others = slices(y);
    std::int64_t event_dim = 0;
    for (const Transform& part : parts) event_dim = std::max(event_dim, part.event_dim());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      each[i] = sum_rightmost(parts[i].log_abs_det_jacobian(each[i], others[i]), event_dim - parts[i].event_dim());
    }
    const std::int64_t along = (dim >= 0 ? dim - x.dim() : dim) + event_dim;
    if (along < 0) return cat(each, along);
    Tensor sum = each[0];
    for (std::size_t i = 1; i < each.size(); ++i) sum = sum + each[i];
    return sum;
  }
  std::string str() const override { return "CatTransform()"; }
  std::shared_ptr<const TransformRule> with_cached_parts(int cache_size) const override {
    return std::make_shared<CatRule>(cached(parts, cache_size), dim, lengths);
  }

  Parts parts;
  std::int64_t dim;
  std::vector<std::int64_t> lengths;
};

}  // namespace

ComposeTransform::ComposeTransform(const Parts& parts, const CacheOptions& options)
    : Transform(std::make_shared<ComposeRule>(cached_if(parts, options.cache_size)), options) {}
IndependentTransform::IndependentTransform(const Transform& base, std::int64_t count, const CacheOptions& options)
    : Transform(std::make_shared<IndependentRule>(base.with_cache(options.cache_size), count), options) {}
StackTransform::StackTransform(const Parts& parts, std::int64_t dim, const CacheOptions& options)
    : Transform(std::make_shared<StackRule>(cached_if(parts, options.cache_size), dim), options) {}
CatTransform::CatTransform(const Parts& parts, std::int64_t dim, const std::vector<std::int64_t>& lengths,
                           const CacheOptions& options)
    : Transform(std::make_shared<CatRule>(cached_if(parts, options.cache_size), dim, lengths), options) {}

Transform identity_transform() {
  static const ComposeTransform kNothing({});
  return kNothing;
}

}  // namespace core::distributions
