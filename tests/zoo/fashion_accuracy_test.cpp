// Accuracy of LeNet-5 with the settings of the reference run fashion_lenet5_sgd.
//
// After 314 steps at this learning rate one run says little: PyTorch 2.15 itself ends between 74.4 % and 78.2 % on the
// test images when the initial weights are disturbed by 1e-7 of their size (40 runs: training accuracy 75.29 % with a
// standard deviation of 0.41, test accuracy 76.50 % with 0.93), and the recorded run (75.59 %, 78.39 %) is one such
// draw. So means over such runs are compared.

#include <gtest/gtest.h>

#include <random>

#include "libcore/core.h"
#include "samples/support/fashion.h"
#include "zoo/lenet.h"

namespace {

struct Accuracy {
  double train = 0;  ///< percent, over the second epoch
  double test = 0;   ///< percent, behind it
};

/// What another order of summation would do to the first steps.
void disturb(const core::Module& model, std::uint64_t seed) {
  core::NoGradGuard off;
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> noise;
  for (const core::Tensor& parameter : model.parameters()) {
    float* values = parameter.mutable_data<float>();
    for (std::int64_t i = 0; i < parameter.numel(); ++i) values[i] *= 1 + 1e-7F * noise(generator);
  }
}

/// One epoch; how many predictions were right before each update.
std::int64_t train_epoch(zoo::LeNet5& model, core::SGD& optimizer, const samples::FashionMnist& data) {
  std::int64_t right = 0;
  for (auto& [images, labels] : core::DataLoader(data, {.batch_size = 64, .shuffle = true})) {
    core::Tensor logits = model(images);  // (n, 10)
    optimizer.zero_grad();
    core::cross_entropy(logits, labels).backward();
    optimizer.step();
    right += logits.detach().argmax(1).eq(labels).sum().item<std::int64_t>();
  }
  return right;
}

Accuracy run(std::uint64_t disturbance, const samples::FashionMnist& train, const samples::FashionMnist& test) {
  core::manual_seed(0);
  zoo::LeNet5 model;
  disturb(model, disturbance);
  core::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
  train_epoch(model, optimizer, train);
  std::int64_t right = train_epoch(model, optimizer, train);
  std::int64_t test_right = samples::count_right(test, [&](const core::Tensor& x) { return model(x); });
  return {100.0 * static_cast<double>(right) / static_cast<double>(train.size()),
          100.0 * static_cast<double>(test_right) / static_cast<double>(test.size())};
}

TEST(FashionAccuracy, MeanIsThatOfTheReference) {
  samples::FashionMnist train(zoo::fashion_mnist("train"), 10000);
  samples::FashionMnist test(zoo::fashion_mnist("t10k"));
  constexpr int kRuns = 16;
  Accuracy mean;
  for (int i = 0; i < kRuns; ++i) {
    Accuracy one = run(static_cast<std::uint64_t>(i), train, test);
    mean.train += one.train / kRuns;
    mean.test += one.test / kRuns;
  }
  RecordProperty("train", std::to_string(mean.train));
  RecordProperty("test", std::to_string(mean.test));
  EXPECT_NEAR(mean.train, 75.59, 0.5) << "the recorded run";
  EXPECT_NEAR(mean.train, 75.29, 0.4) << "mean of 40 disturbed runs of the reference";
  EXPECT_NEAR(mean.test, 76.50, 0.8) << "mean of 40 disturbed runs of the reference; standard error of ours 0.23";
}

}  // namespace
