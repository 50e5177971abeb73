// The program of the data-parallelism tutorial with manual_seed(0) in front. Expected values: PyTorch 2.15.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "libcore/backend/collectives.h"
#include "libcore/backend/device_registry.h"
#include "libcore/data/loader.h"
#include "libcore/module/linear.h"
#include "libcore/ops/index.h"
#include "libcore/ops/reduce.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/random.h"

namespace {

struct RandomDataset {
  core::Tensor data;
  RandomDataset(std::int64_t size, std::int64_t length) : data(core::randn({length, size})) {}
  std::int64_t size() const { return data.size(0); }
  core::Tensor get(std::int64_t index) const { return data[index]; }
};

struct Model : core::ModuleOf<Model> {
  core::Linear fc;
  Model(std::int64_t in, std::int64_t out) : fc(in, out) {}
  void members(core::Members& m) override { m.child("fc", fc); }
  core::Tensor forward(const core::Tensor& x) { return fc(x); }
};

void run_tutorial() {
  core::manual_seed(0);
  RandomDataset data(5, 100);
  core::Device device = core::cuda::is_available() ? core::Device("cuda:0") : core::Device("cpu");
  core::DataParallel model(Model(5, 2));
  model.to(device);
  std::ostringstream out;
  std::vector<float> first_outputs;
  for (const core::Tensor& batch : core::DataLoader(data, {.batch_size = 30, .shuffle = true})) {
    core::Tensor output = model(batch.to(device));
    out << "Outside: input size " << batch.sizes() << " output_size " << output.sizes() << '\n';
    for (float value : output[0].to_vector<float>()) first_outputs.push_back(value);
  }
  EXPECT_EQ(out.str(),
            "Outside: input size torch.Size([30, 5]) output_size torch.Size([30, 2])\n"
            "Outside: input size torch.Size([30, 5]) output_size torch.Size([30, 2])\n"
            "Outside: input size torch.Size([30, 5]) output_size torch.Size([30, 2])\n"
            "Outside: input size torch.Size([10, 5]) output_size torch.Size([10, 2])\n");
  const std::vector<float> wanted = {0.0645F, 0.7646F, 0.3157F, -0.3082F, 0.6418F, 0.6271F, 0.8709F, 0.7067F};
  EXPECT_THAT(first_outputs, testing::Pointwise(testing::FloatNear(5e-5F), wanted));
}

void run_on(int devices) {
  core::set_logical_devices(devices);
  run_tutorial();
  core::set_logical_devices(0);
}

TEST(DataParallelTutorial, GivesItsNumbersWithoutDevices) {
  run_on(0);
}
TEST(DataParallelTutorial, GivesItsNumbersOnOneDevice) {
  run_on(1);
}
TEST(DataParallelTutorial, GivesItsNumbersOnThreeDevices) {
  run_on(3);
}

}  // namespace
