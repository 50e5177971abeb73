#pragma once
// What a parameter or a value may be, as torch.distributions.constraints: the same checks and printed text.
// Thread safety: plain values. Use: core::Tensor fits = core::distributions::constraints::positive().check(x);

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core::distributions {

/// A parameter as a user gives it: a tensor, or a number, which becomes a tensor without dimensions.
class Argument {
 public:
  Argument(const Tensor& tensor) : tensor_(tensor) {}  // NOLINT(google-explicit-constructor): stands for it
  template <class T>
  requires std::is_arithmetic_v<T> Argument(T number)  // NOLINT(google-explicit-constructor): stands for it
      : number_(static_cast<double>(number)), is_number_(true), is_integer_(std::is_integral_v<T>) {}

  bool is_number() const { return is_number_; }
  /// An undefined tensor stands for None.
  bool is_none() const { return !is_number_ && !tensor_.defined(); }
  double number() const { return number_; }
  /// The tensor, or one without dimensions of the dtype and device of `like` (of the default dtype where that is
  /// undefined).
  Tensor tensor(const Tensor& like = {}) const;
  /// Sizes of the tensor; none for a number.
  Shape sizes() const { return is_number() ? Shape() : tensor_.sizes(); }
  /// As Python formats it: "0.5", "2", "tensor([1., 2.])".
  std::string str() const;

 private:
  Tensor tensor_;
  double number_ = 0;
  bool is_number_ = false;
  bool is_integer_ = false;
};

/// All as tensors of one shape; numbers take the dtype and device of the first tensor.
std::vector<Tensor> broadcast_all(const std::vector<Argument>& arguments);
/// A tensor in an f-string: the number where it has no dimensions, else what printing gives.
std::string formatted(const Tensor& x);

struct Constraint {
  std::function<Tensor(const Tensor&)> check;  ///< true where a value fits; without the event's dimensions
  std::function<std::string()> str;            ///< "GreaterThan(lower_bound=0.0)"
  bool is_discrete = false;
  std::int64_t event_dim = 0;  ///< how many of the last dimensions one value has

  // What it is made of, for biject_to() and transform_to().
  std::vector<Argument> bounds = {};       ///< the lower and the upper one, or the one there is
  std::vector<Constraint> parts = {};      ///< of independent, mixture_same_family, stack and cat
  std::int64_t dim = 0;                    ///< of stack and cat; of independent how many more an event has
  std::vector<std::int64_t> lengths = {};  ///< of cat

  /// As PyTorch's class without its underscore: "GreaterThan".
  std::string kind() const;
};
std::ostream& operator<<(std::ostream& out, const Constraint& constraint);

namespace constraints {

Constraint boolean();
Constraint one_hot();
Constraint integer_interval(const Argument& lower, const Argument& upper);
Constraint nonnegative_integer();
Constraint positive_integer();
/// Anything but NaN.
Constraint real();
Constraint real_vector();
Constraint positive();
Constraint nonnegative();
Constraint greater_than(const Argument& lower);
Constraint greater_than_eq(const Argument& lower);
Constraint less_than(const Argument& upper);
Constraint unit_interval();
Constraint interval(const Argument& lower, const Argument& upper);
Constraint half_open_interval(const Argument& lower, const Argument& upper);
Constraint simplex();
/// Numbers that are not negative and sum to `most` at most.
Constraint multinomial(const Argument& most);
Constraint lower_triangular();
Constraint lower_cholesky();
/// The same with rows of length 1.
Constraint corr_cholesky();
Constraint square();
Constraint symmetric();
Constraint positive_semidefinite();
Constraint positive_definite();
/// An event has `count` more of the last dimensions. Error(value) "Expected value.dim() >= 2 but got 1".
Constraint independent(const Constraint& base, std::int64_t count);
/// As MixtureSameFamilyConstraint: of values without the components' dimension, which `base` has in front of an event.
Constraint mixture_same_family(const Constraint& base);
/// One for each slice along a dimension.
Constraint stack(const std::vector<Constraint>& each, std::int64_t dim = 0);
/// One for each part of `lengths` along a dimension.
Constraint cat(const std::vector<Constraint>& each, std::int64_t dim = 0,
               const std::vector<std::int64_t>& lengths = {});

}  // namespace constraints
}  // namespace core::distributions
