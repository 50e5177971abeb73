#pragma once
// biject_to and transform_to, as torch.distributions: from numbers that may be anything to those that satisfy a
// constraint. Thread safety: all functions.
// Use: namespace dist = core::distributions;
//      core::Tensor scale = dist::transform_to(dist::constraints::positive())(core::zeros({3}));

#include <functional>
#include <string>

#include "libcore/distributions/constraints.h"
#include "libcore/distributions/transform.h"

namespace core::distributions {

/// A bijection. Error(not_implemented) "Cannot transform _LowerCholesky constraints".
Transform biject_to(const Constraint& constraint);
/// A function onto it, which need not be a bijection: of more constraints, and often of better shape to optimize over.
/// The same error.
Transform transform_to(const Constraint& constraint);

using TransformFactory = std::function<Transform(const Constraint& constraint)>;
/// For constraints of such a Constraint::kind(), in place of what is there.
void register_biject_to(const std::string& kind, const TransformFactory& factory);
void register_transform_to(const std::string& kind, const TransformFactory& factory);

}  // namespace core::distributions
