// Convolution by cuDNN against a simulated cuDNN that writes down what it is asked for.
#include "libcore/backend/cuda/cudnn_convolution.h"

#include <gtest/gtest.h>

#include <string>

#include "libcore/backend/cuda_math.h"

namespace core::gpu {
namespace {

struct Simulated {
  std::vector<CudnnChoice> choices;
  int run_status = 0, created = 0, chosen = 0, math = -1, pads[2] = {}, last_algorithm = -1;
  std::string formats;  // of tensors and filters
  std::string run;      // which call it was, with its arrays
  const void* arrays[3] = {};
  double scale = 0;
  bool wide = false;
};
Simulated simulated;

int make(void** out) {
  static char some[64];
  *out = some + simulated.created++ % 64;
  return 0;
}
template <int kPass>
int choose(void*, void*, void*, void*, void*, int wanted, int* found, CudnnChoice* out) {
  ++simulated.chosen;
  *found = std::min(wanted, static_cast<int>(simulated.choices.size()));
  std::copy_n(simulated.choices.begin(), *found, out);
  return 0;
}
template <int kPass>
int run(void*, const void* alpha, void*, const void* first, void*, const void* second, void*, int algorithm, void*,
        std::size_t, const void*, void*, void* output) {
  simulated.run = std::string(1, static_cast<char>('0' + kPass));
  simulated.arrays[0] = first, simulated.arrays[1] = second, simulated.arrays[2] = output;
  simulated.last_algorithm = algorithm;
  simulated.scale = simulated.wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  return simulated.run_status;
}

CudnnApi simulated_api() {
  simulated = {};
  simulated.choices = {{7, 0, 1.0F, 100, 1, 3, {}}};
  CudnnApi api{};
  api.create = make;
  api.set_stream = [](void*, void*) { return 0; };
  api.create_tensor = api.create_filter = api.create_convolution = make;
  api.set_tensor = [](void*, int format, int, int, int, int, int) {
    simulated.formats += "t" + std::to_string(format);
    return 0;
  };
  api.set_filter = [](void*, int, int format, int, int, int, int) {
    simulated.formats += "f" + std::to_string(format);
    return 0;
  };
  api.set_convolution = [](void*, int pad_h, int pad_w, int, int, int, int, int, int) {
    simulated.pads[0] = pad_h, simulated.pads[1] = pad_w;
    return 0;
  };
  api.set_groups = [](void*, int) { return 0; };
  api.set_math = [](void*, int math) {
    simulated.math = math;
    return 0;
  };
  api.choose = {choose<0>, choose<1>, choose<2>};
  api.run = {run<0>, run<1>, run<2>};
  return api;
}

/// 3 x 3 windows over 8 x 8 pixels, one pixel of padding.
CudnnTask usual_task(ConvPass pass = ConvPass::forward, DType dtype = DType::f32) {
  return {pass, {2, 3, 8, 8, 4, 8, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, dtype, 0};
}

const int kImage = 1, kWeight = 2, kOutput = 3;
CudnnArrays usual_arrays() {
  return {&kImage, &kWeight, &kOutput, nullptr, nullptr};
}

TEST(Cudnn, TakesTheFirstDeterministicChoice) {
  Cudnn cudnn(simulated_api());
  simulated.choices = {{1, 4, 0, 0, 1, 0, {}},
                       {2, 0, 0, 0, 0, 0, {}},
                       {3, 0, 0, std::size_t{2} << 30, 1, 0, {}},
                       {4, 0, 0, 50, 1, 0, {}},
                       {5, 0, 0, 0, 1, 0, {}}};
  const CudnnPlan* plan = cudnn.plan(usual_task());
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->algorithm, 4);
  EXPECT_EQ(plan->workspace_bytes, 50U);
}

TEST(Cudnn, HasNoPlanWithoutADeterministicChoice) {
  Cudnn cudnn(simulated_api());
  simulated.choices = {{2, 0, 0, 0, 0, 0, {}}};
  EXPECT_EQ(cudnn.plan(usual_task()), nullptr);
}

TEST(Cudnn, AsksOnceATask) {
  Cudnn cudnn(simulated_api());
  const CudnnPlan* first = cudnn.plan(usual_task());
  EXPECT_EQ(cudnn.plan(usual_task()), first);
  EXPECT_EQ(simulated.chosen, 1);
  EXPECT_NE(cudnn.plan(usual_task(ConvPass::forward, DType::f64)), first);
  EXPECT_EQ(simulated.chosen, 2);
}

TEST(Cudnn, RefusesPaddingThatDiffersAndMatters) {
  Cudnn cudnn(simulated_api());
  CudnnTask task = usual_task();
  task.sizes.pad_bottom = 2;
  task.sizes.out_h = 9;
  EXPECT_EQ(cudnn.plan(task), nullptr);
}

TEST(Cudnn, TakesPaddingThatDiffersBehindTheLastWindow) {
  Cudnn cudnn(simulated_api());
  CudnnTask task = usual_task();
  task.sizes.stride_h = 2;
  task.sizes.pad_bottom = 0;
  task.sizes.out_h = 4;
  EXPECT_NE(cudnn.plan(task), nullptr);
  EXPECT_EQ(simulated.pads[0], 1);
}

TEST(Cudnn, RefusesArraysBeyondInt) {
  Cudnn cudnn(simulated_api());
  CudnnTask task = usual_task();
  task.sizes.batch = std::int64_t{1} << 30;
  EXPECT_EQ(cudnn.plan(task), nullptr);
}

TEST(Cudnn, GivesTheArraysOfEachPassInItsOrder) {
  Cudnn cudnn(simulated_api());
  const void* const orders[3][3] = {
      {&kImage, &kWeight, &kOutput}, {&kWeight, &kOutput, &kImage}, {&kImage, &kOutput, &kWeight}};
  for (int pass = 0; pass < 3; ++pass) {
    const CudnnPlan* plan = cudnn.plan(usual_task(static_cast<ConvPass>(pass)));
    ASSERT_NE(plan, nullptr);
    EXPECT_TRUE(cudnn.run(*plan, usual_arrays()));
    EXPECT_EQ(simulated.run, std::to_string(pass));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(simulated.arrays[i], orders[pass][i]) << pass << ' ' << i;
  }
}

TEST(Cudnn, ScalesInTheTypeOfTheSums) {
  Cudnn cudnn(simulated_api());
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    simulated.wide = dtype == DType::f64;
    EXPECT_TRUE(cudnn.run(*cudnn.plan(usual_task(ConvPass::forward, dtype)), usual_arrays()));
    EXPECT_EQ(simulated.scale, 1);
  }
}

int run_with_bias(void*, const void*, void*, const void*, void*, const void*, void*, int algorithm, void*, std::size_t,
                  const void* addend_factor, void*, const void* addend, void*, const void* bias, void*, void*,
                  void* output) {
  simulated.run = "bias";
  simulated.last_algorithm = algorithm;
  simulated.scale = *static_cast<const float*>(addend_factor);
  simulated.arrays[0] = addend, simulated.arrays[1] = bias, simulated.arrays[2] = output;
  return simulated.run_status;
}
CudnnApi api_with_bias() {
  CudnnApi api = simulated_api();
  api.create_activation = make;
  api.set_activation = [](void*, int, int, double) { return 0; };
  api.run_with_bias = run_with_bias;
  return api;
}

TEST(Cudnn, AddsTheBiasOnTheWayByTheOneAlgorithmThatCan) {
  Cudnn cudnn(api_with_bias());
  simulated.choices[0].algorithm = 1;
  const CudnnPlan* plan = cudnn.plan(usual_task());
  ASSERT_NE(plan->bias, nullptr);
  CudnnArrays arrays = usual_arrays();
  const int bias = 4;
  arrays.bias = &bias;
  EXPECT_TRUE(cudnn.run(*plan, arrays));
  EXPECT_EQ(simulated.run, "bias");
  EXPECT_EQ(simulated.scale, 0);  // of the addend
  EXPECT_EQ(simulated.arrays[1], &bias);
  EXPECT_EQ(simulated.arrays[2], &kOutput);
}

TEST(Cudnn, LeavesTheBiasToOthersOtherwise) {
  Cudnn cudnn(api_with_bias());
  EXPECT_EQ(cudnn.plan(usual_task())->bias, nullptr);
  simulated.choices[0].algorithm = 1;
  EXPECT_EQ(cudnn.plan(usual_task(ConvPass::input_grad))->bias, nullptr);
}

TEST(Cudnn, SaysWhenCudnnRefuses) {
  Cudnn cudnn(simulated_api());
  const CudnnPlan* plan = cudnn.plan(usual_task());
  simulated.run_status = 3000;
  EXPECT_FALSE(cudnn.run(*plan, usual_arrays()));
}

TEST(Cudnn, DoesNotTryAgainWhatIsNotSupported) {
  Cudnn cudnn(simulated_api());
  const CudnnPlan* plan = cudnn.plan(usual_task());
  simulated.run_status = 4004;  // no memory: later there may be some
  EXPECT_FALSE(cudnn.run(*plan, usual_arrays()));
  EXPECT_EQ(cudnn.plan(usual_task()), plan);
  simulated.run_status = 3004;
  EXPECT_FALSE(cudnn.run(*plan, usual_arrays()));
  simulated.run_status = 0;
  EXPECT_EQ(cudnn.plan(usual_task()), nullptr);
}

// A bias that cannot be added on the way says nothing of the rest.
TEST(Cudnn, RemembersARefusedBiasAlone) {
  Cudnn cudnn(api_with_bias());
  simulated.choices[0].algorithm = 1;
  const CudnnPlan* plan = cudnn.plan(usual_task());
  CudnnArrays arrays = usual_arrays();
  arrays.bias = &kOutput;
  simulated.run_status = 3000;
  EXPECT_FALSE(cudnn.run(*plan, arrays));
  simulated.run_status = 0;
  EXPECT_FALSE(cudnn.run(*plan, arrays));
  EXPECT_EQ(cudnn.plan(usual_task()), plan);
  EXPECT_TRUE(cudnn.run(*plan, usual_arrays()));
}

TEST(Cudnn, DescriptorsSayWhereChannelsLie) {
  Cudnn cudnn(api_with_bias());
  simulated.choices[0].algorithm = 1;
  CudnnTask task = usual_task();
  const CudnnPlan* first = cudnn.plan(task);
  EXPECT_EQ(simulated.formats, "t0t0f0t0");  // image, output, weight, bias
  simulated.formats.clear();
  task.sizes.order = ImageOrder::channels_last;
  EXPECT_NE(cudnn.plan(task), first);
  EXPECT_EQ(simulated.formats, "t1t1f1t1");
}

// Tensor cores, unless f32 has to stay exact.
TEST(Cudnn, ComputesF16OnTensorCores) {
  constexpr int kTensorOps = 1;
  Cudnn cudnn(simulated_api());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    simulated.choices[0].math = kTensorOps;
    EXPECT_NE(cudnn.plan(usual_task(ConvPass::forward, dtype)), nullptr);
    EXPECT_EQ(simulated.math, kTensorOps);
  }
}

// As in PyTorch: f32 convolutions may be rounded unless one says no, whatever is said of products.
TEST(Cudnn, RoundsToTf32UnlessForbidden) {
  constexpr int kDefault = 0, kExact = 3;
  Cudnn cudnn(simulated_api());
  simulated.choices[0].math = kDefault;
  cudnn.plan(usual_task());
  EXPECT_EQ(simulated.math, kDefault);
  core::cudnn::set_allow_tf32(false);
  cudnn.plan(usual_task());
  core::cudnn::set_allow_tf32(true);
  EXPECT_EQ(simulated.math, kExact);
}

}  // namespace
}  // namespace core::gpu
