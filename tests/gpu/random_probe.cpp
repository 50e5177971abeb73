// Prints what the random functions draw on a device as JSON, for random_peer.py to compare with PyTorch's on the same
// GPU. usage: random_probe [DEVICE]
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "libcore/core.h"

namespace {

using core::DType;
using core::Tensor;

class Draws {
 public:
  /// Prints about 1,000 of the numbers of a second draw: it shows how far the first one moved the generator.
  void show(const std::string& name, const std::function<Tensor()>& draw) {
    core::manual_seed(1234);
    std::printf("%s\"%s\": [", first_ ? "" : ", ", name.c_str());
    first_ = false;
    try {
      draw();
      const Tensor x = draw().flatten().cpu().to(DType::f64);
      const std::int64_t n = x.numel(), step = n > 2000 ? n / 1000 : 1;
      const auto* data = static_cast<const double*>(x.raw_data());
      for (std::int64_t i = 0; i < n; i += step) std::printf("%s%.17g", i == 0 ? "" : ", ", data[i]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    }
    std::printf("]");
  }

 private:
  bool first_ = true;
};

void show_floats(Draws& draws, const std::string& of, const core::RandomOptions& options, std::int64_t n) {
  const auto fresh = [=] { return core::empty({n}, {.dtype = options.dtype, .device = options.device}); };
  draws.show("uniform" + of, [=] { return core::rand({n}, options); });
  draws.show("uniform-0.1" + of, [=] { return core::uniform_(fresh(), -0.1, 0.1); });
  draws.show("normal" + of, [=] { return core::randn({n}, options); });
  draws.show("bernoulli" + of, [=] { return core::bernoulli_(fresh(), 0.3); });
  draws.show("exponential" + of, [=] { return core::exponential_(fresh(), 2); });
  draws.show("geometric" + of, [=] { return core::geometric_(fresh(), 0.2); });
  draws.show("cauchy" + of, [=] { return core::cauchy_(fresh(), 0, 1); });
  draws.show("log_normal" + of, [=] { return core::log_normal_(fresh(), 0, 1); });
  draws.show("dropout" + of, [=] {
    return core::dropout(core::ones({n}, {.dtype = options.dtype, .device = options.device}), 0.3, true);
  });
}

/// Which weights dropout of attention keeps: those of 64 equal scores a row, times the rows of an identity matrix.
Tensor kept_weights(std::int64_t rows, const core::TensorOptions& options) {
  const Tensor q = core::zeros({1, 1, rows, 64}, options), k = core::zeros({1, 1, 64, 64}, options);
  const Tensor v = core::eye(64, 64, options).view({1, 1, 64, 64});
  return core::scaled_dot_product_attention(q, k, v, {.dropout = 0.3}) > 0;
}

}  // namespace

int main(int argc, char** argv) {
  const core::Device device(argc > 1 ? argv[1] : "cuda:0");
  const std::pair<const char*, DType> types[] = {
      {"float32", DType::f32}, {"float64", DType::f64}, {"float16", DType::f16}, {"bfloat16", DType::bf16}};
  Draws draws;
  std::printf("{");
  for (const std::int64_t n : {std::int64_t{1000}, std::int64_t{3000001}}) {
    for (const auto& [name, dtype] : types) {
      const std::string of = std::string(" ") + name + " " + std::to_string(n);
      show_floats(draws, of, {.dtype = dtype, .device = device}, n);
      if (dtype == DType::f64) continue;  // whose attention has no kernel
      draws.show("attention" + of,
                 [&, type = dtype] { return kept_weights(n / 64, {.dtype = type, .device = device}); });
    }
    const std::string of = " int64 " + std::to_string(n);
    draws.show("randint100" + of, [&] { return core::randint(0, 100, {n}, {.device = device}); });
    draws.show("randint2^40" + of, [&] { return core::randint(0, std::int64_t{1} << 40, {n}, {.device = device}); });
    draws.show("randperm" + of, [&] { return core::randperm(n, {.device = device}); });
  }
  std::printf("}\n");
}
