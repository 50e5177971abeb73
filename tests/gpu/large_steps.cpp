// See large_steps.h. The sizes fill the memory system or the tensor cores of one large GPU.
#include "tests/gpu/large_steps.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/cuda_math.h"
#include "libcore/data/dataset.h"
#include "libcore/data/pin_memory.h"
#include "libcore/module/linear.h"
#include "libcore/module/recurrent.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/adam.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/print.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>

namespace bench {

using core::DType;
using core::NoGradGuard;
using core::Tensor;

std::int64_t LargeSteps::sized(std::int64_t n) const {
  return std::max<std::int64_t>(8, static_cast<std::int64_t>(static_cast<double>(n) * scale_) / 8 * 8);
}

Tensor LargeSteps::randn(const core::Shape& shape, DType dtype) const {
  return core::randn(shape, {.dtype = dtype, .device = device_});
}

namespace {

struct Typed {
  const char* name;
  DType dtype;
};

void clear(std::initializer_list<Tensor> tensors) {
  for (Tensor tensor : tensors) tensor.set_grad({});
}

void add_long_vectors(const LargeSteps& steps) {
  const std::int64_t n = steps.sized(1 << 28);
  {
    const Tensor a = steps.randn({n}), b = steps.randn({n});
    steps.add("add f32 2^28", [=] { (void)(a + b); });
    steps.add("exp f32 2^28", [=] { (void)core::exp(a); });
    steps.add("gelu f32 2^28", [=] { (void)core::gelu(a); });
    steps.add("sum f32 2^28", [=] { (void)core::sum(a); });
    steps.add("cast f32 to bf16 2^28", [=] { (void)a.to(DType::bf16); });
    steps.add("cumsum f32 2^28", [=] { (void)core::cumsum(a, 0); });
    const core::Device device = steps.device();
    steps.add("rand f32 2^28", [=] { (void)core::rand({n}, {.device = device}); });
    steps.add("dropout f32 2^28", [=] { (void)core::dropout(a, 0.1, true); });
    const Tensor leaf = a.detach().requires_grad_();
    steps.add("dropout both f32 2^28", [=] {
      core::dropout(leaf, 0.1, true).backward(b);
      clear({leaf});
    });
  }
  const Tensor a = steps.randn({n}, DType::bf16), b = steps.randn({n}, DType::bf16);
  steps.add("add bf16 2^28", [=] { (void)(a + b); });
  steps.add("sum bf16 2^28", [=] { (void)core::sum(a); });
}

void add_rows(const LargeSteps& steps) {
  const std::int64_t rows = steps.sized(16384);
  const Tensor x = steps.randn({rows, 4096}), bias = steps.randn({4096}), column = steps.randn({rows, 1});
  steps.add("add row f32 16384x4096", [=] { (void)(x + bias); });
  steps.add("add column f32 16384x4096", [=] { (void)(x + column); });
  steps.add("transpose f32 16384x4096", [=] { (void)x.t().contiguous(); });
  steps.add("sum rows f32 16384x4096", [=] { (void)core::sum(x, {.dims = core::Shape{1}}); });
  steps.add("sum columns f32 16384x4096", [=] { (void)core::sum(x, {.dims = core::Shape{0}}); });
  steps.add("softmax f32 16384x4096", [=] { (void)core::softmax(x, 1); });
  const Tensor weight = steps.randn({4096});
  steps.add("layer_norm f32 16384x4096", [=] { (void)core::layer_norm(x, {4096}, {.weight = weight, .bias = bias}); });
  const Tensor h = x.to(DType::bf16), hw = weight.to(DType::bf16), hb = bias.to(DType::bf16);
  steps.add("softmax bf16 16384x4096", [=] { (void)core::softmax(h, 1); });
  steps.add("layer_norm bf16 16384x4096", [=] { (void)core::layer_norm(h, {4096}, {.weight = hw, .bias = hb}); });
}

void add_sorts(const LargeSteps& steps) {
  const Tensor keys = steps.randn({std::max<std::int64_t>(512, steps.sized(1 << 24) / 512 * 512)});
  steps.add("sort f32 2^24", [=] { (void)core::sort(keys); });
  steps.add("sort f32 rows of 512", [=] { (void)core::sort(keys.view({-1, 512}), 1); });
}

void add_memory_bound(const LargeSteps& steps) {
  add_long_vectors(steps);
  add_rows(steps);
  add_sorts(steps);
}

void add_products(const LargeSteps& steps) {
  for (const auto& [name, dtype] :
       {Typed{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}, {"f64", DType::f64}}) {
    const std::int64_t n = steps.sized(dtype == DType::f32 || dtype == DType::f64 ? 4096 : 8192);
    const Tensor a = steps.randn({n, n}, dtype), b = steps.randn({n, n}, dtype), c = steps.randn({n}, dtype);
    if (dtype == DType::f32) {
      core::cuda::set_allow_tf32(true);
      steps.add("matmul tf32", [=] { (void)core::matmul(a, b); });
      core::cuda::set_allow_tf32(false);
    }
    steps.add(std::string("matmul ") + name, [=] { (void)core::matmul(a, b); });
    steps.add(std::string("linear with bias ") + name, [=] { (void)core::linear(a, b, c); });
  }
  const std::int64_t batch = steps.sized(1024);
  const Tensor a = steps.randn({batch, 128, 64}, DType::bf16), b = steps.randn({batch, 64, 128}, DType::bf16);
  steps.add("bmm bf16 1024 of 128x64x128", [=] { (void)core::bmm(a, b); });
}

std::int64_t attention_length(const LargeSteps& steps, DType dtype) {
  return steps.sized(dtype == DType::f32 ? 1024 : 4096);
}

void add_attention_of(const LargeSteps& steps, const Typed& type, const std::string& kind, std::int64_t width,
                      const core::AttentionOptions& options) {
  const std::int64_t length = attention_length(steps, type.dtype);
  const std::string text = std::string(type.name) + kind + " " + std::to_string(width);
  const auto make = [&] { return steps.randn({4, 16, length, width}, type.dtype); };
  const Tensor q = make().requires_grad_(), k = make().requires_grad_(), v = make().requires_grad_(), g = make();
  steps.add("sdpa forward " + text, [=] {
    const NoGradGuard none;
    (void)core::scaled_dot_product_attention(q, k, v, options);
  });
  steps.add("sdpa both " + text, [=] {
    core::scaled_dot_product_attention(q, k, v, options).backward(g);
    clear({q, k, v});
  });
}

void add_attention(const LargeSteps& steps) {
  for (const Typed& type : {Typed{"bf16", DType::bf16}, {"f32", DType::f32}}) {
    for (const std::int64_t width : {64, 128}) add_attention_of(steps, type, "", width, {});
    for (const std::int64_t width : {64, 128}) add_attention_of(steps, type, " causal", width, {.is_causal = true});
    const std::int64_t length = attention_length(steps, type.dtype);
    const Tensor seen = core::arange(0, length, 1, {.device = steps.device()}) < length * 3 / 4;
    add_attention_of(steps, type, " padded", 64, {.mask = seen.view({1, 1, 1, length}).expand({4, 1, 1, length})});
    add_attention_of(steps, type, " added", 64, {.mask = steps.randn({length, length}, type.dtype)});
    add_attention_of(steps, type, " dropout", 64, {.dropout = 0.1});
    add_attention_of(steps, type, " causal dropout", 64, {.dropout = 0.1, .is_causal = true});
  }
}

/// Where channels lie.
struct Format {
  const char* name;
  core::MemoryFormat format;
};
constexpr Format kFormats[] = {{"", core::MemoryFormat::contiguous},
                               {" channels-last", core::MemoryFormat::channels_last}};

struct Convolution {
  const char* name;
  std::int64_t batch, in, out, size, kernel, stride, groups;
};

void add_convolution(const LargeSteps& steps, const Convolution& c, const Typed& type, const Format& format) {
  const Tensor x =
      steps.randn({steps.sized(c.batch), c.in, c.size, c.size}, type.dtype).to(format.format).requires_grad_();
  const Tensor w =
      steps.randn({c.out, c.in / c.groups, c.kernel, c.kernel}, type.dtype).to(format.format).requires_grad_();
  const core::Conv2dOptions options{.stride = c.stride, .padding = c.kernel / 2, .groups = c.groups};
  const std::string text = std::string(type.name) + format.name + " " + c.name;
  steps.add("conv forward " + text, [=] {
    const NoGradGuard none;
    (void)core::conv2d(x, w, {}, options);
  });
  steps.add("conv both " + text, [=] {
    core::conv2d(x, w, {}, options).sum().backward();
    clear({x, w});
  });
}

/// A bottleneck of ResNet-50's first stage, forward and backward.
void add_residual_block(const LargeSteps& steps, const Format& format) {
  const auto image = [&](const core::Shape& sizes) { return steps.randn(sizes, DType::bf16).to(format.format); };
  const core::Shape sizes{steps.sized(64), 256, 56, 56};
  const Tensor x = image(sizes).requires_grad_(), g = image(sizes);
  std::vector<Tensor> weights{image({64, 256, 1, 1}), image({64, 64, 3, 3}), image({256, 64, 1, 1})}, scales, shifts;
  for (Tensor& weight : weights) {
    weight.mul_(0.1);
    weight.requires_grad_();
    scales.push_back(steps.randn({weight.size(0)}).requires_grad_());
    shifts.push_back(steps.randn({weight.size(0)}).requires_grad_());
  }
  steps.add(std::string("residual block both bf16") + format.name, [=] {
    Tensor y = x;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      y = core::conv2d(i == 0 ? y : core::relu(y), weights[i], {}, {.padding = i == 1 ? 1 : 0});
      y = core::batch_norm(y, {.weight = scales[i], .bias = shifts[i], .training = true});
    }
    core::relu(y + x).backward(g);
    clear({x});
    for (std::size_t i = 0; i < weights.size(); ++i) clear({weights[i], scales[i], shifts[i]});
  });
}

void add_convolutions(const LargeSteps& steps) {
  for (const Convolution& c : {Convolution{"64-64 56 k3", 64, 64, 64, 56, 3, 1, 1},
                               {"256-256 14 k3", 64, 256, 256, 14, 3, 1, 1},
                               {"3-64 224 k7 s2", 64, 3, 64, 224, 7, 2, 1},
                               {"256-1024 14 k1", 64, 256, 1024, 14, 1, 1, 1},
                               {"96 depthwise 56 k3", 64, 96, 96, 56, 3, 1, 96}}) {
    add_convolution(steps, c, {"f32", DType::f32}, kFormats[0]);
    for (const Format& format : kFormats) add_convolution(steps, c, {"bf16", DType::bf16}, format);
  }
  for (const Format& format : kFormats) add_residual_block(steps, format);
}

void add_indexing(const LargeSteps& steps) {
  const core::Device device = steps.device();
  const std::int64_t n = steps.sized(16384);
  const Tensor table = steps.randn({50304, 768}).requires_grad_(), g = steps.randn({n, 768});
  const Tensor ids = core::randint(0, 50257, {n}, {.device = device}),
               few = core::randint(0, 10, {n}, {.device = device});
  steps.add("embedding forward", [=] {
    const NoGradGuard none;
    (void)core::embedding(ids, table);
  });
  steps.add("embedding both", [=] {
    core::embedding(ids, table).backward(g);
    clear({table});
  });
  const Tensor ten = core::zeros({10, 768}, {.device = device});
  steps.add("index_add into 10 rows", [=] { (void)core::index_add(ten, 0, few, g); });
  const Tensor weights = core::rand({64, 50257}, {.device = device});
  steps.add("multinomial 64 of 50257", [=] { (void)core::multinomial(weights, {.num_samples = 1}); });
}

template <class Layer>
void add_recurrent(const LargeSteps& steps, const char* name, std::int64_t width, const Typed& type) {
  const std::int64_t units = steps.sized(width);
  Layer layer(units, units);
  layer.to(steps.device(), type.dtype);
  const Tensor sequence = steps.randn({steps.sized(96), steps.sized(64), units}, type.dtype);
  const std::string text = std::string(name) + " " + std::to_string(width) + " " + type.name + ", 96 steps, batch 64, ";
  steps.add(text + "forward", [&] {
    const NoGradGuard none;
    (void)layer(sequence);
  });
  steps.add(text + "both", [&] {
    layer.zero_grad();
    std::get<0>(layer(sequence)).sum().backward();
  });
}

/// Wider than what our LSTM holds in shared memory: cuDNN computes them where it is installed.
void add_recurrent_layers(const LargeSteps& steps) {
  for (const std::int64_t width : {512, 1024}) {
    for (const Typed& type : {Typed{"f32", DType::f32}, {"f16", DType::f16}}) {
      add_recurrent<core::LSTM>(steps, "LSTM", width, type);
      add_recurrent<core::GRU>(steps, "GRU", width, type);
    }
  }
}

void add_training(const LargeSteps& steps) {
  add_recurrent_layers(steps);
  std::vector<Tensor> params;
  for (int i = 0; i < 100; ++i) params.push_back(steps.randn({steps.sized(1 << 20)}).requires_grad_());
  for (Tensor& p : params) p.set_grad(steps.randn({p.numel()}));
  core::AdamW adam(params, {.lr = 1e-3});
  steps.add("AdamW of 100 x 2^20", [&] { adam.step(); });
  const Tensor small = steps.randn({64, 64});
  steps.add("add of 64x64 (launch)", [=] { (void)(small + small); });
  core::Linear layer(64, 64);
  layer.to(steps.device());
  steps.add("Linear 64 (launch)", [&] {
    const NoGradGuard none;
    (void)layer(small);
  });
  steps.add("item()", [=] { (void)small.select(0, 0).select(0, 0).item<float>(); });
}

void add_transfers(const LargeSteps& steps) {
  const core::Device device = steps.device();
  const std::int64_t n = steps.sized(1 << 26);
  const Tensor pageable = core::randn({n}), pinned = core::pin_memory(pageable), there = steps.randn({n});
  steps.add("to device, pageable, 256 MiB", [=] { (void)pageable.to(device); });
  steps.add("to device, pinned, 256 MiB", [=] { (void)pinned.to({.device = device, .non_blocking = true}); });
  steps.add("to host, 256 MiB", [=] { (void)there.cpu(); });
}

/// Each step also fails where the result is far from the product and the sum one after the other.
void add_odd_biases(const LargeSteps& steps) {
  for (const auto& [name, dtype] : {Typed{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}}) {
    for (const std::int64_t n : {std::int64_t{64}, std::int64_t{1024}, std::int64_t{4096}}) {
      const Tensor x = steps.randn({256, n}, dtype), w = steps.randn({n, n}, dtype);
      const Tensor bias = steps.randn({n + 1}, dtype).narrow(0, 1, n);
      steps.add(std::string("linear, odd bias ") + name + " " + std::to_string(n),
                [=] { (void)core::linear(x, w, bias); });
      const Tensor near = core::matmul(x, w.t()) + bias, got = core::linear(x, w, bias);
      const double off = core::max(core::abs((near - got).to(DType::f32))).item<double>();
      const double allowed = (dtype == DType::f32 ? 1e-4 : 0.1) * static_cast<double>(n);
      if (!(off <= allowed)) {
        throw core::Error(core::ErrorCode::runtime, std::string("linear, odd bias ") + name + " " + std::to_string(n) +
                                                        ": off by " + std::to_string(off));
      }
    }
  }
}

}  // namespace

std::vector<std::pair<std::string, AddLargeSteps>> large_step_groups() {
  return {{"memory", add_memory_bound},       {"products", add_products},    {"attention", add_attention},
          {"convolutions", add_convolutions}, {"indexing", add_indexing},    {"training", add_training},
          {"transfers", add_transfers},       {"odd biases", add_odd_biases}};
}

}  // namespace bench
