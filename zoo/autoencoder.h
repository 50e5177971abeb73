#pragma once
// Autoencoder and variational autoencoder over flat images. Source of the latter: Kingma, Welling 2013.
// Thread safety: as core::Module. Use: zoo::VAE net; core::Tensor loss = zoo::vae_loss(net(images), images);

#include <cstdint>
#include <tuple>

#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct CodeOptions {
  std::int64_t inputs = 784;
  std::int64_t hidden = 400;
  std::int64_t code = 20;
};

/// (n, inputs) in [0, 1] -> the same, rebuilt.
struct Autoencoder : core::ModuleOf<Autoencoder> {
  core::Sequential encoder;  ///< (n, inputs) -> (n, code)
  core::Sequential decoder;  ///< (n, code) -> (n, inputs)

  explicit Autoencoder(const CodeOptions& o);
  Autoencoder() : Autoencoder(CodeOptions()) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

struct VAE : core::ModuleOf<VAE> {
  core::Linear fc1, fc21, fc22, fc3, fc4;

  explicit VAE(const CodeOptions& o);
  VAE() : VAE(CodeOptions()) {}
  void members(core::Members& m) override;
  /// (n, inputs) -> the image rebuilt (n, inputs), mean and log-variance of the code (n, code) each. The code is the
  /// mean, or with `noise` (n, code) mean + noise * exp(logvar / 2).
  std::tuple<core::Tensor, core::Tensor, core::Tensor> forward(const core::Tensor& x, const core::Tensor& noise = {});
};

/// Binary cross-entropy of the image and divergence of the code, each a mean over the batch, divided by the inputs.
core::Tensor vae_loss(const std::tuple<core::Tensor, core::Tensor, core::Tensor>& output, const core::Tensor& x);

}  // namespace zoo
