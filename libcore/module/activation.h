#pragma once
// Activations as modules. As torch.nn's modules of the same names; the functions themselves are in ops/activation.h.
// Thread safety: as Module. Use: core::ReLU act; core::Tensor y = act(x);

#include <cstdint>
#include <string>

#include "libcore/module/module.h"
#include "libcore/module/parameter.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct InplaceOptions {
  bool inplace = false;
};

namespace detail {
/// function(x), or x after these values were put into it.
template <class Function>
Tensor maybe_in_place(const Tensor& x, bool inplace, Function function) {
  return inplace ? x.copy_(function(x.clone())) : function(x);
}
/// ", inplace=True" behind what a module says, or nothing.
std::string inplace_text(std::string text, bool inplace);
}  // namespace detail

struct ReLU : ModuleOf<ReLU> {
  bool inplace;
  explicit ReLU(const InplaceOptions& options = {}) : inplace(options.inplace) {}
  template <std::same_as<bool> Bool>
  explicit ReLU(Bool in_place) : inplace(in_place) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return inplace ? "inplace=True" : ""; }
  Tensor forward(const Tensor& x) const;
};

struct ReLU6 : ModuleOf<ReLU6> {
  bool inplace;
  explicit ReLU6(const InplaceOptions& options = {}) : inplace(options.inplace) {}
  template <std::same_as<bool> Bool>
  explicit ReLU6(Bool in_place) : inplace(in_place) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return detail::inplace_text("", inplace); }
  Tensor forward(const Tensor& x) const;
};

struct SELU : ModuleOf<SELU> {
  bool inplace;
  explicit SELU(const InplaceOptions& options = {}) : inplace(options.inplace) {}
  template <std::same_as<bool> Bool>
  explicit SELU(Bool in_place) : inplace(in_place) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return detail::inplace_text("", inplace); }
  Tensor forward(const Tensor& x) const;
};

struct SiLU : ModuleOf<SiLU> {
  bool inplace;
  explicit SiLU(const InplaceOptions& options = {}) : inplace(options.inplace) {}
  template <std::same_as<bool> Bool>
  explicit SiLU(Bool in_place) : inplace(in_place) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return detail::inplace_text("", inplace); }
  Tensor forward(const Tensor& x) const;
};

struct Mish : ModuleOf<Mish> {
  bool inplace;
  explicit Mish(const InplaceOptions& options = {}) : inplace(options.inplace) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return detail::inplace_text("", inplace); }
  Tensor forward(const Tensor& x) const;
};

/// Its printed form does not say inplace, as PyTorch's.
struct Hardswish : ModuleOf<Hardswish> {
  bool inplace;
  explicit Hardswish(const InplaceOptions& options = {}) : inplace(options.inplace) {}
  template <std::same_as<bool> Bool>
  explicit Hardswish(Bool in_place) : inplace(in_place) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const;
};

/// Its printed form does not say inplace, as PyTorch's.
struct Hardsigmoid : ModuleOf<Hardsigmoid> {
  bool inplace;
  explicit Hardsigmoid(const InplaceOptions& options = {}) : inplace(options.inplace) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const;
};

struct LeakyReLU : ModuleOf<LeakyReLU> {
  Scalar negative_slope;
  bool inplace;
  explicit LeakyReLU(Scalar negative_slope_value = 0.01, const InplaceOptions& options = {})
      : negative_slope(negative_slope_value), inplace(options.inplace) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

struct ELU : ModuleOf<ELU> {
  Scalar alpha;
  bool inplace;
  explicit ELU(Scalar alpha_value = 1.0, const InplaceOptions& options = {})
      : alpha(alpha_value), inplace(options.inplace) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

struct CELU : ModuleOf<CELU> {
  Scalar alpha;
  bool inplace;
  explicit CELU(Scalar alpha_value = 1.0, const InplaceOptions& options = {})
      : alpha(alpha_value), inplace(options.inplace) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

struct Hardtanh : ModuleOf<Hardtanh> {
  Scalar min_val;
  Scalar max_val;
  bool inplace;
  explicit Hardtanh(Scalar min_val_value = -1.0, Scalar max_val_value = 1.0, const InplaceOptions& options = {})
      : min_val(min_val_value), max_val(max_val_value), inplace(options.inplace) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

struct Threshold : ModuleOf<Threshold> {
  Scalar limit;
  Scalar value;
  bool inplace;
  explicit Threshold(Scalar limit_value, Scalar value_value, const InplaceOptions& options = {})
      : limit(limit_value), value(value_value), inplace(options.inplace) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

struct Softplus : ModuleOf<Softplus> {
  Scalar beta;
  Scalar threshold;
  explicit Softplus(Scalar beta_value = 1.0, Scalar threshold_value = 20.0)
      : beta(beta_value), threshold(threshold_value) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return core::softplus(x, beta.to_double(), threshold.to_double()); }
};

struct Softshrink : ModuleOf<Softshrink> {
  Scalar lambda;
  explicit Softshrink(Scalar lambda_value = 0.5) : lambda(lambda_value) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return softshrink(x, lambda.to_double()); }
};

struct Hardshrink : ModuleOf<Hardshrink> {
  Scalar lambda;
  explicit Hardshrink(Scalar lambda_value = 0.5) : lambda(lambda_value) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return hardshrink(x, lambda.to_double()); }
};

struct Sigmoid : ModuleOf<Sigmoid> {
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return sigmoid(x); }
};

struct LogSigmoid : ModuleOf<LogSigmoid> {
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return log_sigmoid(x); }
};

struct Tanh : ModuleOf<Tanh> {
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return tanh(x); }
};

struct Softsign : ModuleOf<Softsign> {
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return softsign(x); }
};

struct Tanhshrink : ModuleOf<Tanhshrink> {
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return tanhshrink(x); }
};

struct GELU : ModuleOf<GELU> {
  GeluForm approximate;
  explicit GELU(GeluForm form = GeluForm::exact) : approximate(form) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return gelu(x, approximate); }
};

struct Softmax : ModuleOf<Softmax> {
  std::optional<std::int64_t> dim;
  explicit Softmax(std::optional<std::int64_t> along = {}) : dim(along) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "dim=" + (dim ? std::to_string(*dim) : "None"); }
  Tensor forward(const Tensor& x) const { return dim ? softmax(x, *dim) : softmax(x); }
};

struct LogSoftmax : ModuleOf<LogSoftmax> {
  std::optional<std::int64_t> dim;
  explicit LogSoftmax(std::optional<std::int64_t> along = {}) : dim(along) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "dim=" + (dim ? std::to_string(*dim) : "None"); }
  Tensor forward(const Tensor& x) const { return dim ? log_softmax(x, *dim) : log_softmax(x); }
};

struct Softmin : ModuleOf<Softmin> {
  std::optional<std::int64_t> dim;
  explicit Softmin(std::optional<std::int64_t> along = {}) : dim(along) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "dim=" + (dim ? std::to_string(*dim) : "None"); }
  Tensor forward(const Tensor& x) const { return dim ? softmin(x, *dim) : softmin(x); }
};

struct GLU : ModuleOf<GLU> {
  std::int64_t dim;
  explicit GLU(std::int64_t along = -1) : dim(along) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "dim=" + std::to_string(dim); }
  Tensor forward(const Tensor& x) const { return glu(x, dim); }
};

/// Softmax over the channels of (N, C, H, W) or (C, H, W).
struct Softmax2d : ModuleOf<Softmax2d> {
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const;
};

/// leaky_relu with a learnt slope: one, or one for each channel.
struct PReLU : ModuleOf<PReLU> {
  std::int64_t num_parameters;
  Parameter weight;
  explicit PReLU(std::int64_t count = 1, double init = 0.25);
  void members(Members& m) override { m.parameter("weight", weight); }
  std::string extra_repr() const override { return "num_parameters=" + std::to_string(num_parameters); }
  Tensor forward(const Tensor& x) const { return prelu(x, weight); }
};

/// leaky_relu with slopes drawn from [lower, upper] in training.
struct RReLU : ModuleOf<RReLU> {
  double lower;
  double upper;
  bool inplace;
  explicit RReLU(double from = 1.0 / 8, double to = 1.0 / 3, const InplaceOptions& options = {})
      : lower(from), upper(to), inplace(options.inplace) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

// Made once, in the source of this header.
extern template class ModuleOf<ReLU>;
extern template class ModuleOf<ReLU6>;
extern template class ModuleOf<SELU>;
extern template class ModuleOf<SiLU>;
extern template class ModuleOf<Mish>;
extern template class ModuleOf<Hardswish>;
extern template class ModuleOf<Hardsigmoid>;
extern template class ModuleOf<LeakyReLU>;
extern template class ModuleOf<ELU>;
extern template class ModuleOf<CELU>;
extern template class ModuleOf<Hardtanh>;
extern template class ModuleOf<Threshold>;
extern template class ModuleOf<Softplus>;
extern template class ModuleOf<Softshrink>;
extern template class ModuleOf<Hardshrink>;
extern template class ModuleOf<Sigmoid>;
extern template class ModuleOf<LogSigmoid>;
extern template class ModuleOf<Tanh>;
extern template class ModuleOf<Softsign>;
extern template class ModuleOf<Tanhshrink>;
extern template class ModuleOf<GELU>;
extern template class ModuleOf<Softmax>;
extern template class ModuleOf<LogSoftmax>;
extern template class ModuleOf<Softmin>;
extern template class ModuleOf<GLU>;
extern template class ModuleOf<Softmax2d>;
extern template class ModuleOf<PReLU>;
extern template class ModuleOf<RReLU>;

}  // namespace core
