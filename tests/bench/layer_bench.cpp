// Times one pass of one layer in a number type; layer_table.py sets it beside PyTorch.
// usage: layer_bench KIND PASS DTYPE THREADS SIZE...
//   linear BATCH IN OUT | conv BATCH IN OUT KERNEL STRIDE GROUPS SIDE | lstm, gru STEPS BATCH WIDTH
//   attention BATCH HEADS LENGTH WIDTH | layer_norm ROWS WIDTH
// PASS: forward (under no_grad), or training: forward and the gradients of input and parameters.
// Prints {} when it is warm, then for each line that it reads the nanoseconds of a pass; of processor time with one
// thread, by the clock on the wall with several.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "libcore/core.h"

namespace {

using core::Tensor;
using Clock = std::chrono::steady_clock;

struct Work {
  std::string kind;
  bool trains = false;
  core::DType dtype = core::DType::f32;
  int threads = 1;
  std::vector<std::int64_t> sizes;
};

Tensor first_of(const Tensor& y) {
  return y;
}
template <class State>
Tensor first_of(const std::tuple<Tensor, State>& outputs) {
  return std::get<0>(outputs);
}
template <class State>
Tensor first_of(const std::pair<Tensor, State>& outputs) {
  return outputs.first;
}

/// An image may be held in another layout until somebody reads it: reading it is a part of the pass.
void read(const Tensor& y) {
  y.data_ptr();
}

template <class Layer>
std::function<void()> pass_of(Layer layer, const core::Shape& input, const Work& work) {
  layer.to(work.dtype);
  const auto net = std::make_shared<Layer>(std::move(layer));
  const Tensor x = core::randn(input).to(work.dtype);
  if (!work.trains) {
    return [=]() {
      const core::NoGradGuard no_grad;
      read(first_of((*net)(x)));
    };
  }
  x.requires_grad_();
  const Tensor grad = core::randn_like(first_of((*net)(x)).detach());
  return [=]() {
    net->zero_grad();
    x.set_grad({});
    const Tensor y = first_of((*net)(x));
    read(y);
    y.backward(grad);
    read(x.grad());
  };
}

/// Attention of rows to themselves: one tensor is queries, keys and values.
struct Attention : core::ModuleOf<Attention> {
  void members(core::Members&) override {}
  Tensor forward(const Tensor& x) { return core::scaled_dot_product_attention(x, x, x); }  // (B, heads, T, width)
};

std::function<void()> pass_of(const Work& w) {
  const auto& s = w.sizes;
  if (w.kind == "linear" && s.size() == 3) return pass_of(core::Linear(s[1], s[2]), {s[0], s[1]}, w);
  if (w.kind == "conv" && s.size() == 7) {
    core::Conv2d conv(s[1], s[2], s[3], {.stride = s[4], .padding = s[3] / 2, .groups = s[5], .bias = false});
    return pass_of(std::move(conv), {s[0], s[1], s[6], s[6]}, w);
  }
  if (w.kind == "lstm" && s.size() == 3) return pass_of(core::LSTM(s[2], s[2]), {s[0], s[1], s[2]}, w);
  if (w.kind == "gru" && s.size() == 3) return pass_of(core::GRU(s[2], s[2]), {s[0], s[1], s[2]}, w);
  if (w.kind == "attention" && s.size() == 4) return pass_of(Attention(), {s[0], s[1], s[2], s[3]}, w);
  if (w.kind == "layer_norm" && s.size() == 2) return pass_of(core::LayerNorm({s[1]}), {s[0], s[1]}, w);
  return nullptr;
}

double seconds_of(const std::function<void()>& pass, int count, bool by_processor) {
  const std::clock_t ticks = std::clock();
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) pass();
  if (by_processor) return static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC / count;
  return std::chrono::duration<double>(Clock::now() - begin).count() / count;
}

void serve(const std::function<void()>& pass, bool by_processor) {
  seconds_of(pass, 3, false);
  double best = seconds_of(pass, 3, false);  // a thread may have to wait for a core in some
  for (int i = 0; i < 4; ++i) best = std::min(best, seconds_of(pass, 3, false));
  const int count = std::max(1, static_cast<int>(5e-3 / best));
  std::puts("{}");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%.1f\n", seconds_of(pass, count, by_processor) * 1e9);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    std::function<void()> pass;
    Work work;
    if (words.size() > 4) {
      work = {words[0], words[1] == "training", core::parse_dtype(words[2]), std::stoi(words[3]), {}};
      for (std::size_t i = 4; i < words.size(); ++i) work.sizes.push_back(std::stoll(words[i]));
      core::set_num_threads(work.threads);
      core::manual_seed(0);
      pass = pass_of(work);
    }
    if (!pass) {
      std::fputs(
          "usage: layer_bench linear|conv|lstm|gru|attention|layer_norm forward|training DTYPE THREADS SIZE...\n",
          stderr);
      return 2;
    }
    serve(pass, work.threads == 1);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "layer_bench: %s\n", error.what());
    return 1;
  }
}
