// Options by setters: what designators give.
#include "libcore/options.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <tuple>

#include "libcore/data/dataset.h"
#include "libcore/module/print.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/compare.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"

namespace {

namespace nn = core::nn;
namespace optim = core::optim;
using core::Tensor;

template <class Module>
std::string printed(const Module& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}

TEST(Setters, MakeTheModulesOfPyTorchsTexts) {
  EXPECT_EQ(printed(nn::Conv2d(nn::Conv2dOptions(1, 2, 3).stride(2).bias(false))),
            "Conv2d(1, 2, kernel_size=(3, 3), stride=(2, 2), bias=False)");
  EXPECT_EQ(printed(nn::Conv2d(
                nn::Conv2dOptions(4, 8, {3, 1}).groups(2).padding({1, 0}).dilation(2).padding_mode("reflect"))),
            "Conv2d(4, 8, kernel_size=(3, 1), stride=(1, 1), padding=(1, 0), dilation=(2, 2), groups=2, "
            "padding_mode=reflect)");
  EXPECT_EQ(printed(nn::Conv1d(nn::Conv1dOptions(1, 2, 3).padding(1).stride(2))),
            "Conv1d(1, 2, kernel_size=(3,), stride=(2,), padding=(1,))");
  EXPECT_EQ(printed(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 2, 4).output_padding(1).stride(2).padding(1))),
            "ConvTranspose2d(4, 2, kernel_size=(4, 4), stride=(2, 2), padding=(1, 1), output_padding=(1, 1))");
  EXPECT_EQ(printed(nn::Linear(nn::LinearOptions(8, 3).bias(false))),
            "Linear(in_features=8, out_features=3, bias=False)");
  EXPECT_EQ(printed(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).affine(false).momentum(0.5).eps(0.001))),
            "BatchNorm2d(4, eps=0.001, momentum=0.5, affine=False, bias=False, track_running_stats=True)");
  EXPECT_EQ(printed(nn::MaxPool2d(nn::MaxPool2dOptions(3).padding(1).stride(2))),
            "MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)");
  EXPECT_EQ(printed(nn::LSTM(nn::LSTMOptions(8, 5).dropout(0.1).num_layers(2).batch_first(true))),
            "LSTM(8, 5, num_layers=2, batch_first=True, dropout=0.1)");
  EXPECT_EQ(printed(nn::LayerNorm(nn::LayerNormOptions({3, 4}).elementwise_affine(false))),
            "LayerNorm((3, 4), eps=1e-05, elementwise_affine=False, bias=False)");
  EXPECT_EQ(printed(nn::Dropout(nn::DropoutOptions().p(0.25).inplace(true))), "Dropout(p=0.25, inplace=True)");
  EXPECT_EQ(printed(nn::Embedding(nn::EmbeddingOptions(10, 4).padding_idx(0))), "Embedding(10, 4, padding_idx=0)");
}

TEST(Setters, DrawTheWeightsOfDesignators) {
  core::manual_seed(3);
  const nn::Conv2d by_setters(nn::Conv2dOptions(2, 4, 3).padding("same").bias(true));
  core::manual_seed(3);
  const core::Conv2d by_designators(2, 4, 3, {.padding = "same"});
  EXPECT_TRUE(core::equal(by_setters.weight, by_designators.weight));
  EXPECT_TRUE(core::equal(by_setters.bias, by_designators.bias));
  const Tensor x = core::randn({1, 2, 5, 5});
  EXPECT_TRUE(core::equal(by_setters.forward(x), by_designators.forward(x)));
}

TEST(Setters, MayBeKeptAndChanged) {
  auto options = nn::Conv2dOptions(1, 2, 3).stride(2);
  const nn::Conv2d first(options);
  options.bias(false).stride(3);
  const nn::Conv2d second = options;
  EXPECT_TRUE(first.bias.defined());
  EXPECT_FALSE(second.bias.defined());
  EXPECT_EQ(first.options.stride.h(), 2);
  EXPECT_EQ(second.options.stride.h(), 3);
}

TEST(Setters, MistakesAreThoseOfTheModule) {
  EXPECT_EQ(test::message_of([] { nn::Conv2d conv(nn::Conv2dOptions(3, 4, 3).groups(2)); }),
            test::message_of([] { core::Conv2d conv(3, 4, 3, {.groups = 2}); }));
}

TEST(Setters, MakeOptimizersAndLoaders) {
  const nn::Linear fc(nn::LinearOptions(2, 2));
  const std::vector<Tensor> params = {fc.weight, fc.bias};
  const optim::Adam adam(params, optim::AdamOptions(1e-2).weight_decay(0.1).betas({0.8, 0.9}));
  const auto& options = adam.param_groups()[0].options;
  EXPECT_EQ(options.number("lr"), 1e-2);
  EXPECT_EQ(options.number("weight_decay"), 0.1);
  EXPECT_EQ(options.numbers("betas"), (std::vector<double>{0.8, 0.9}));
  const optim::AdamW by_tuple(params, optim::AdamWOptions(1e-2).betas(std::make_tuple(0.5, 0.75)));
  EXPECT_EQ(by_tuple.param_groups()[0].options.numbers("betas"), (std::vector<double>{0.5, 0.75}));
  const optim::SGD sgd(params, optim::SGDOptions(0.1).nesterov(true).momentum(0.9));
  EXPECT_EQ(sgd.param_groups()[0].options.number("momentum"), 0.9);
  EXPECT_TRUE(sgd.param_groups()[0].options.flag("nesterov"));
  core::DataLoader loader(core::TensorDataset(core::randn({5, 2}), core::randn({5})),
                          core::data::DataLoaderOptions().drop_last(true).batch_size(2));
  std::int64_t batches = 0;
  for (auto& [x, y] : loader) batches += x.size(0) == 2 && y.size(0) == 2 ? 1 : 100;
  EXPECT_EQ(batches, 2);
}

}  // namespace
