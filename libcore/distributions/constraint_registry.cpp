#include "libcore/distributions/constraint_registry.h"

#include <map>
#include <mutex>

#include "libcore/base/error.h"
#include "libcore/distributions/transforms.h"
#include "libcore/ops/operators.h"

namespace core::distributions {
namespace {

class Registry {
 public:
  explicit Registry(const std::map<std::string, TransformFactory>& factories) : factories_(factories) {}

  void add(const std::string& kind, const TransformFactory& factory) {
    const std::scoped_lock lock(mutex_);
    factories_[kind] = factory;
  }

  Transform operator()(const Constraint& constraint) const {
    const TransformFactory factory = found(constraint.kind());
    return factory(constraint);  // may ask for the transforms of its parts
  }

 private:
  TransformFactory found(const std::string& kind) const {
    const std::scoped_lock lock(mutex_);
    if (const auto it = factories_.find(kind); it != factories_.end()) return it->second;
    const std::string class_name = (kind.ends_with("Constraint") && kind.starts_with("Mixture") ? "" : "_") + kind;
    throw Error(ErrorCode::not_implemented, "Cannot transform " + class_name + " constraints");
  }

  mutable std::mutex mutex_;
  std::map<std::string, TransformFactory> factories_;
};

/// exp(x), mirrored for sign -1, moved to the bound.
Transform from_bound(const Constraint& constraint, int sign) {
  const Argument& bound = constraint.bounds.at(0);
  return ComposeTransform({ExpTransform(), AffineTransform(bound, sign)});
}

Transform above(const Constraint& constraint) {
  return from_bound(constraint, 1);
}
Transform below(const Constraint& constraint) {
  return from_bound(constraint, -1);
}

bool is_number(const Argument& argument, double value) {
  return argument.is_number() && argument.number() == value;
}

Argument difference(const Argument& a, const Argument& b) {
  if (a.is_number() && b.is_number()) return a.number() - b.number();
  if (b.is_number()) return a.tensor() - b.number();
  return a.is_number() ? a.number() - b.tensor() : a.tensor() - b.tensor();
}

Transform between(const Constraint& constraint) {
  const Argument &low = constraint.bounds.at(0), &high = constraint.bounds.at(1);
  if (is_number(low, 0) && is_number(high, 1)) return SigmoidTransform();
  return ComposeTransform({SigmoidTransform(), AffineTransform(low, difference(high, low))});
}

/// What both registries hold; `each`: the registry itself, for parts.
std::map<std::string, TransformFactory> shared_factories(Transform (*each)(const Constraint&)) {
  const auto all = [each](const Constraint& constraint) {
    std::vector<Transform> parts;
    for (const Constraint& part : constraint.parts) parts.push_back(each(part));
    return parts;
  };
  return {
      {"Real", [](const Constraint&) { return identity_transform(); }},
      {"GreaterThan", above},
      {"GreaterThanEq", above},
      {"LessThan", below},
      {"Interval", between},
      {"HalfOpenInterval", between},
      {"CorrCholesky", [](const Constraint&) { return CorrCholeskyTransform(); }},
      {"IndependentConstraint",
       [each](const Constraint& c) { return IndependentTransform(each(c.parts.at(0)), c.dim); }},
      {"Stack", [all](const Constraint& c) { return StackTransform(all(c), c.dim); }},
      {"Cat", [all](const Constraint& c) { return CatTransform(all(c), c.dim, c.lengths); }},
  };
}

std::map<std::string, TransformFactory> bijection_factories() {
  std::map<std::string, TransformFactory> result = shared_factories(biject_to);
  result["Simplex"] = [](const Constraint&) { return StickBreakingTransform(); };
  return result;
}

std::map<std::string, TransformFactory> transform_factories() {
  std::map<std::string, TransformFactory> result = shared_factories(transform_to);
  result["Simplex"] = [](const Constraint&) { return SoftmaxTransform(); };
  result["LowerCholesky"] = [](const Constraint&) { return LowerCholeskyTransform(); };
  for (const char* kind : {"PositiveDefinite", "PositiveSemidefinite"}) {
    result[kind] = [](const Constraint&) { return PositiveDefiniteTransform(); };
  }
  return result;
}

Registry& bijections() {
  static Registry all(bijection_factories());
  return all;
}
Registry& transforms_onto() {
  static Registry all(transform_factories());
  return all;
}

}  // namespace

Transform biject_to(const Constraint& constraint) {
  return bijections()(constraint);
}
Transform transform_to(const Constraint& constraint) {
  return transforms_onto()(constraint);
}

void register_biject_to(const std::string& kind, const TransformFactory& factory) {
  bijections().add(kind, factory);
}
void register_transform_to(const std::string& kind, const TransformFactory& factory) {
  transforms_onto().add(kind, factory);
}

}  // namespace core::distributions
