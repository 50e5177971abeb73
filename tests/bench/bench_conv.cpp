// Steps of convolutional networks and of a small transformer, built from modules: ResNet-18 and a GPT-2 of four layers.
// Each is the twin of the peers' step of the same name: same shapes, loss, gradients and update.
#include <memory>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/module/conv.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/attention.h"
#include "libcore/optim/adam.h"
#include "tests/bench/bench_training.h"

namespace bench {
namespace {

using core::Device;
using core::Tensor;

core::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return core::Conv2d(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false});
}

/// Two 3 x 3 convolutions with a way around them.
struct BasicBlock : core::ModuleOf<BasicBlock> {
  core::Conv2d conv1, conv2;
  core::BatchNorm2d bn1, bn2;
  std::shared_ptr<core::Sequential> downsample;  // null where the shape stays

  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(conv(in, out, 3, stride)), conv2(conv(out, out, 3, 1)), bn1(out), bn2(out) {
    if (stride != 1 || in != out) {
      downsample = std::make_shared<core::Sequential>(conv(in, out, 1, stride), core::BatchNorm2d(out));
    }
  }
  void members(core::Members& m) override {
    m.child("conv1", conv1).child("bn1", bn1).child("conv2", conv2).child("bn2", bn2);
    if (downsample) m.child("downsample", downsample);
  }
  Tensor forward(const Tensor& x) {  // x: (N, in, H, W)
    const Tensor h = core::relu(bn1(conv1(x)));
    const Tensor around = downsample ? (*downsample)(x) : x;
    return core::relu(bn2(conv2(h)) + around);  // (N, out, H / stride, W / stride)
  }
};

struct ResNet18 : core::ModuleOf<ResNet18> {
  core::Conv2d conv1{3, 64, 7, {.stride = 2, .padding = 3, .bias = false}};
  core::BatchNorm2d bn1{64};
  core::MaxPool2d maxpool{3, {.stride = 2, .padding = 1}};
  core::Sequential layer1{BasicBlock(64, 64, 1), BasicBlock(64, 64, 1)};
  core::Sequential layer2{BasicBlock(64, 128, 2), BasicBlock(128, 128, 1)};
  core::Sequential layer3{BasicBlock(128, 256, 2), BasicBlock(256, 256, 1)};
  core::Sequential layer4{BasicBlock(256, 512, 2), BasicBlock(512, 512, 1)};
  core::AdaptiveAvgPool2d avgpool{1};
  core::Linear fc{512, 1000};

  void members(core::Members& m) override {
    m.child("conv1", conv1).child("bn1", bn1).child("maxpool", maxpool);
    m.child("layer1", layer1).child("layer2", layer2).child("layer3", layer3).child("layer4", layer4);
    m.child("avgpool", avgpool).child("fc", fc);
  }
  Tensor forward(const Tensor& x) {                 // x: (N, 3, H, W)
    Tensor h = maxpool(core::relu(bn1(conv1(x))));  // (N, 64, H / 4, W / 4)
    h = layer4(layer3(layer2(layer1(h))));          // (N, 512, H / 32, W / 32)
    return fc(avgpool(h).flatten(1));               // (N, 1000)
  }
};

constexpr std::int64_t kWidth = 128, kHeads = 4, kContext = 64, kVocabulary = 256;

struct Gpt2Block : core::ModuleOf<Gpt2Block> {
  core::LayerNorm ln_1{{kWidth}}, ln_2{{kWidth}};
  core::Linear attn{kWidth, 3 * kWidth}, proj{kWidth, kWidth};
  core::Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};

  void members(core::Members& m) override {
    m.child("ln_1", ln_1).child("ln_2", ln_2).child("attn", attn).child("proj", proj).child("up", up);
    m.child("down", down);
  }
  Tensor forward(const Tensor& input) {  // (B, T, 128), as the result
    const std::int64_t b = input.size(0), t = input.size(1);
    const auto heads = [&](const Tensor& part) { return part.view({b, t, kHeads, kWidth / kHeads}).transpose(1, 2); };
    const std::vector<Tensor> qkv = attn(ln_1(input)).split(kWidth, 2);
    Tensor y = core::scaled_dot_product_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), {.is_causal = true});
    const Tensor x = input + proj(y.transpose(1, 2).reshape({b, t, kWidth}));
    return x + down(core::gelu(up(ln_2(x)), core::GeluForm::tanh));
  }
};

struct Gpt2 : core::ModuleOf<Gpt2> {
  core::Embedding wte{kVocabulary, kWidth}, wpe{kContext, kWidth};
  core::Sequential blocks{Gpt2Block(), Gpt2Block(), Gpt2Block(), Gpt2Block()};
  core::LayerNorm ln_f{{kWidth}};
  core::Linear head{kWidth, kVocabulary, {.bias = false}};

  void members(core::Members& m) override {
    m.child("wte", wte).child("wpe", wpe).child("blocks", blocks).child("ln_f", ln_f).child("head", head);
  }
  Tensor forward(const Tensor& ids) { return head(ln_f(blocks(wte(ids) + wpe.weight))); }  // (B, T) -> (B, T, 256)
};

Step resnet18_forward(Device d, std::int64_t batch) {
  auto net = on<ResNet18>(d);
  net->eval();
  Tensor x = randn_on({batch, 3, 224, 224}, d);
  return [=]() {
    core::NoGradGuard no_grad;
    return (*net)(x).flatten().select(0, 0).item<double>();
  };
}

Step resnet18_fwd_b1(Device d) {
  return resnet18_forward(d, 1);
}
Step resnet18_fwd_b8(Device d) {
  return resnet18_forward(d, 8);
}

Step resnet18_train_b4_64(Device d) {
  auto net = on<ResNet18>(d);
  auto sgd = std::make_shared<core::SGD>(net->parameters(), core::SGDOptions{.lr = 1e-2, .momentum = 0.9});
  return train_step(net, sgd, randn_on({4, 3, 64, 64}, d), core::randint(0, 1000, {4}).to(d), classify);
}

Step gpt2_tiny(Device d) {
  auto net = on<Gpt2>(d);
  auto adam = std::make_shared<core::AdamW>(net->parameters(), core::AdamWOptions{.lr = 1e-3});
  const auto tokens = [d]() { return core::randint(0, kVocabulary, {4, kContext}).to(d); };
  const auto loss_of = [](const Tensor& logits, const Tensor& target) {
    return core::cross_entropy(logits.view({-1, kVocabulary}), target.view({-1}));
  };
  const Tensor ids = tokens(), target = tokens();
  return train_step(net, adam, ids, target, loss_of);
}

constexpr StepKind kConvSteps[] = {
    {"resnet18_fwd_b1", "ResNet-18, 224 x 224, batch 1, forward", resnet18_fwd_b1},
    {"resnet18_fwd_b8", "ResNet-18, 224 x 224, batch 8, forward", resnet18_fwd_b8},
    {"resnet18_train_b4_64", "ResNet-18, 64 x 64, batch 4, SGD step", resnet18_train_b4_64},
    {"gpt2_tiny", "decoder of 4 layers, 128 wide, batch 4 x 64, AdamW step", gpt2_tiny},
};

}  // namespace

StepTable conv_steps() {
  return kConvSteps;
}

}  // namespace bench
