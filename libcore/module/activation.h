#pragma once
// Activations as modules. As torch.nn's modules of the same names; the functions themselves are in tensor/ops.h.
// Thread safety: as Module. Use: core::ReLU act; core::Tensor y = act(x);

#include <cstdint>
#include <string>

#include "libcore/module/module.h"
#include "libcore/tensor/nn_ops.h"
#include "libcore/tensor/ops.h"

namespace core {

struct InplaceOptions {
  bool inplace = false;
};

struct ReLU : ModuleOf<ReLU> {
  bool inplace;
  explicit ReLU(const InplaceOptions& options = {}) : inplace(options.inplace) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return inplace ? "inplace=True" : ""; }
  Tensor forward(const Tensor& x) const;
};

struct LeakyReLU : ModuleOf<LeakyReLU> {
  double negative_slope;
  explicit LeakyReLU(double slope = 0.01) : negative_slope(slope) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return leaky_relu(x, negative_slope); }
};

struct ELU : ModuleOf<ELU> {
  double alpha;
  explicit ELU(double a = 1) : alpha(a) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return elu(x, alpha); }
};

struct Softplus : ModuleOf<Softplus> {
  double beta;
  double threshold;
  explicit Softplus(double b = 1, double limit = 20) : beta(b), threshold(limit) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return softplus(x, beta, threshold); }
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

struct SiLU : ModuleOf<SiLU> {
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return silu(x); }
};

struct GELU : ModuleOf<GELU> {
  GeluForm approximate;
  explicit GELU(GeluForm form = GeluForm::exact) : approximate(form) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return gelu(x, approximate); }
};

struct Softmax : ModuleOf<Softmax> {
  std::int64_t dim;
  explicit Softmax(std::int64_t along) : dim(along) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "dim=" + std::to_string(dim); }
  Tensor forward(const Tensor& x) const { return softmax(x, dim); }
};

struct LogSoftmax : ModuleOf<LogSoftmax> {
  std::int64_t dim;
  explicit LogSoftmax(std::int64_t along) : dim(along) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return "dim=" + std::to_string(dim); }
  Tensor forward(const Tensor& x) const { return log_softmax(x, dim); }
};

}  // namespace core
