#pragma once
// Distribution: what every distribution can do, as torch.distributions.Distribution. Properties of Python are functions
// here: normal.mean(), normal.loc().
// Thread safety: distributions are values that nothing changes; draws lock the generator. Errors: PyTorch's texts;
// Error(not_implemented) for what a distribution has not. Draws are those of PyTorch from the same seed.
// Use: core::Tensor z = core::distributions::Normal(0.0, 1.0).sample({3});

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libcore/distributions/constraints.h"
#include "libcore/tensor/tensor.h"

namespace core::distributions {

struct Options {
  std::optional<bool> validate_args = {};  ///< parameters and values are checked; the default is true
};

/// Probabilities, or their logarithms, which need not be normalized: one of the two.
struct ProbsOrLogits {
  std::optional<Argument> probs = {};
  std::optional<Argument> logits = {};
  std::optional<bool> validate_args = {};

  bool has_probs() const { return probs && !probs->is_none(); }
  bool has_logits() const { return logits && !logits->is_none(); }
  /// Error(value) "Either `probs` or `logits` must be specified, but not both."
  void check() const;
  /// Without validate_args, as PyTorch makes a categorical distribution inside of another one.
  ProbsOrLogits with_default_checks() const;
};

class Distribution {
 public:
  virtual ~Distribution() = default;

  /// Sizes over which parameters differ, and those of one value.
  const Shape& batch_shape() const { return batch_shape_; }
  const Shape& event_shape() const { return event_shape_; }
  virtual Tensor mean() const;
  virtual Tensor mode() const;
  virtual Tensor variance() const;
  virtual Tensor stddev() const;
  /// (sample_shape, batch_shape, event_shape), without history.
  virtual Tensor sample(const Shape& sample_shape = {}) const;
  /// The same with gradients of the parameters, where has_rsample().
  virtual Tensor rsample(const Shape& sample_shape = {}) const;
  virtual bool has_rsample() const { return false; }
  /// Logarithm of the density or probability of a value.
  virtual Tensor log_prob(const Tensor& value) const = 0;
  virtual Tensor cdf(const Tensor& value) const;
  virtual Tensor icdf(const Tensor& probability) const;
  virtual Tensor entropy() const;
  Tensor perplexity() const;
  /// All values, along dimension 0; expand = false: with ones in place of the sizes of the batch.
  virtual Tensor enumerate_support(bool expand = true) const;
  virtual bool has_enumerate_support() const { return false; }
  virtual Constraint support() const = 0;

  /// What the constructor was given, with what it must satisfy.
  struct Parameter {
    const char* name;
    Tensor value;
    Constraint constraint;
    bool is_shown = true;  ///< in the printed text
  };
  virtual std::vector<Parameter> parameters() const { return {}; }
  virtual std::shared_ptr<Distribution> copy() const = 0;
  /// expand() of the class: one whose parameters repeat to that shape of the batch, without copies of them.
  virtual std::shared_ptr<Distribution> expanded(const Shape& batch_shape) const = 0;
  /// "Normal(loc: 0.0, scale: torch.Size([3]))".
  virtual std::string str() const;
  std::string class_name() const;

  bool validates_args() const { return validates_; }
  /// Of distributions that do not say.
  static void set_default_validate_args(bool value);
  /// As log_prob checks its argument. Error(value).
  void validate_sample(const Tensor& value) const;

 protected:
  Distribution(const Shape& batch_shape, const Shape& event_shape, const std::optional<bool>& validate_args);
  Distribution(const Distribution&) = default;
  Distribution& operator=(const Distribution&) = default;

  /// At the end of each constructor. Error(value) "Expected parameter scale (Tensor of shape ()) of distribution ...".
  void validate() const;
  void check_sample(const Tensor& value) const {
    if (validates_) validate_sample(value);
  }
  Shape extended_shape(const Shape& sample_shape = {}) const;
  void set_batch_shape(const Shape& sizes) { batch_shape_ = sizes; }
  /// The last `event_dims` of the sizes are those of an event.
  void set_shapes(const Shape& sizes, std::size_t event_dims);
  [[noreturn]] void throw_not_implemented(const char* what) const;

 private:
  Shape batch_shape_, event_shape_;
  bool validates_;
};

std::ostream& operator<<(std::ostream& out, const Distribution& distribution);

/// Base of a distribution of type D, which has `D expand(const Shape& batch_shape) const`.
template <class D, class Base = Distribution>
class DistributionOf : public Base {
 public:
  std::shared_ptr<Distribution> copy() const override { return std::make_shared<D>(static_cast<const D&>(*this)); }
  std::shared_ptr<Distribution> expanded(const Shape& batch_shape) const override {
    return std::make_shared<D>(static_cast<const D&>(*this).expand(batch_shape));
  }

 protected:
  using Base::Base;
};

// For the distributions.

Shape joined(const Shape& a, const Shape& b);
Shape first_dims(const Shape& sizes, std::size_t count);
/// A parameter as printing shows it: its number, or its sizes.
std::string shown(const Tensor& parameter);
/// "(2, 3)", "(2,)".
std::string tuple_text(const Shape& sizes);
/// The last `count` dimensions summed.
Tensor sum_rightmost(const Tensor& x, std::int64_t count);
/// What is given, of the shape that it and the count have together. Error(value): check().
ProbsOrLogits broadcast_with(const Argument& count, const ProbsOrLogits& given);
Tensor clamp_probs(const Tensor& probs);
Tensor probs_to_logits(const Tensor& probs, bool is_binary = false);
Tensor logits_to_probs(const Tensor& logits, bool is_binary = false);

}  // namespace core::distributions
