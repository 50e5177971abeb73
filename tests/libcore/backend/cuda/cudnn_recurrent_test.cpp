// Recurrent layers by a simulated cuDNN against the CPU's, with all gradients, and what happens where it refuses.
#include "libcore/backend/cuda/cudnn_recurrent.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/cuda_graph.h"
#include "libcore/backend/cuda_math.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/data/dataset.h"
#include "libcore/module/recurrent.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/backend/cuda/cudnn_recurrent_fake.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"
#include "tests/libcore/backend/cuda/emulation.h"
#include "tests/libcore/backend/cuda_fake.h"

namespace core {
namespace {

gpu::CudnnLayers* layers = nullptr;  // what the table below asks

/// The calls of a driver whose memory is the host's; a large GPU of compute capability 9.0.
gpu::CudaApi host_runtime() {
  gpu::CudaApi api{};
  api.copy = [](void* to, const void* from, std::size_t bytes, gpu::StreamHandle) {
    std::memcpy(to, from, bytes);
    return 0;
  };
  api.fill = [](void* to, int byte, std::size_t bytes, gpu::StreamHandle) {
    std::memset(to, byte, bytes);
    return 0;
  };
  api.properties = [](int, gpu::DeviceProperties* out) {
    out->major = 9;
    out->minor = 0;
    out->multiprocessors = 132;
    return 0;
  };
  api.exchange_capture_mode = [](gpu::CaptureMode*) { return 0; };
  api.last_error = [] { return 0; };
  return api;
}

/// cuda:0 of emulated kernels, whose layers go to the simulated cuDNN.
class WholeLayers : public testing::Test {
 protected:
  void start(std::size_t gap = 0) {
    layers_.reset();
    cudnn_.reset();
    cudnn_.emplace(gap);
    layers_.emplace(cudnn_->api(), runtime_, cudnn_->handles());
    layers = &*layers_;
    table_ = *test::emulated_tables().recurrent;
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
      const auto slot = static_cast<std::size_t>(dtype);
      table_.plan_whole_layer[slot] = [](const WholeLayer& layer, WholeLayerPlan& plan) {
        return layers->plan(layer, 0, plan);
      };
      table_.whole_layer[slot] = [](WholeLayerParams& params) { layers->run(params, nullptr); };
      table_.whole_layer_grad[slot] = [](WholeLayerGradParams& params) { layers->run(params, nullptr); };
    }
    tables_ = test::emulated_tables();
    tables_.recurrent = &table_;
    set_opaque_devices(1, tables_);
  }
  void SetUp() override { start(); }
  void TearDown() override {
    set_logical_devices(0);
    layers = nullptr;
  }
  int calls(const std::string& name) const { return cudnn_->calls(name); }

  const gpu::CudaApi runtime_ = host_runtime();
  const test::SharedLimit little_{64};  // no LSTM fits a team
  std::optional<test::FakeCudnnLayers> cudnn_;
  std::optional<gpu::CudnnLayers> layers_;
  RecurrentTable table_;
  OpTables tables_;
};

struct Model {
  RecurrentOptions options = {};
  bool with_states = true;
};

/// The results of a call: output, last h, and last c of an LSTM.
template <class Layer>
std::vector<Tensor> results_of(Layer& layer, const Tensor& x, const Tensor& h0, const Tensor& c0) {
  if constexpr (std::is_same_v<Layer, LSTM>) {
    const auto [y, state] = h0.defined() ? layer(x, std::tuple(h0, c0)) : layer(x);
    return {y, std::get<0>(state), std::get<1>(state)};
  } else {
    const auto [y, h] = h0.defined() ? layer(x, h0) : layer(x);
    return std::vector<Tensor>{y, h};
  }
}

/// Results, and the gradients of the input, the first states and all parameters, on the host.
template <class Layer>
std::vector<Tensor> run(Device device, DType dtype, const Model& model) {
  manual_seed(3);
  Layer layer(3, 4, model.options);
  layer.to(device, dtype);
  const auto leaf = [&](const Shape& sizes) { return randn(sizes).to(device, dtype).detach().requires_grad_(); };
  const std::int64_t count = model.options.num_layers * (model.options.bidirectional ? 2 : 1);
  const Tensor x = leaf({5, 2, 3});
  Tensor h0, c0;
  if (model.with_states) h0 = leaf({count, model.options.batch_first ? 5 : 2, 4});
  if (model.with_states) c0 = leaf({count, model.options.batch_first ? 5 : 2, 4});
  std::vector<Tensor> found = results_of(layer, x, h0, c0);
  Tensor loss = found[0].square().sum() + found[1].sin().sum();
  if (found.size() == 3) loss = loss + found[2].exp().sum();
  loss.backward();
  found.push_back(x.grad());
  if (model.with_states) found.push_back(h0.grad());
  if (model.with_states && c0.grad().defined()) found.push_back(c0.grad());
  for (const auto& [name, parameter] : layer.named_parameters()) found.push_back(parameter.grad());
  for (Tensor& t : found) t = t.detach().to(Device(), DType::f64);
  return found;
}

void expect_near(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(allclose(found[i], wanted[i], {.rtol = tolerance, .atol = tolerance})) << i;
  }
}

template <class Layer>
void compare(const Model& model) {
  const std::vector<Tensor> wanted = run<Layer>(Device(), DType::f64, model);
  expect_near(run<Layer>(Device("cuda:0"), DType::f64, model), wanted, 1e-12);
  expect_near(run<Layer>(Device("cuda:0"), DType::f32, model), wanted, 2e-5);
  expect_near(run<Layer>(Device("cuda:0"), DType::f16, model), wanted, 3e-2);
}

const std::vector<Model> kModels{{},
                                 {.options = {.bias = false, .bidirectional = true}},
                                 {.options = {.num_layers = 2, .batch_first = true, .bidirectional = true}},
                                 {.options = {.num_layers = 2}, .with_states = false}};

TEST_F(WholeLayers, Lstm) {
  for (const Model& model : kModels) compare<LSTM>(model);
  EXPECT_GT(calls("weight_grad"), 0);
  EXPECT_EQ(opaque_calls()["lstm.float32"], 0U);
}

TEST_F(WholeLayers, Gru) {
  for (const Model& model : kModels) compare<GRU>(model);
  EXPECT_GT(calls("weight_grad"), 0);
}

TEST_F(WholeLayers, Rnn) {
  for (Model model : kModels) {
    for (const char* nonlinearity : {"tanh", "relu"}) {
      model.options.nonlinearity = nonlinearity;
      compare<RNN>(model);
    }
  }
  EXPECT_GT(calls("weight_grad"), 0);
}

/// The number of calls in which the cells of a device, or its own LSTM, took part.
std::uint64_t own_steps() {
  auto all = opaque_calls();
  std::uint64_t sum = 0;
  for (const char* slot : {"gru_cell.float32", "rnn_cell.float32", "lstm.float32"}) sum += all[slot];
  return sum;
}

TEST_F(WholeLayers, TakeOneCallEachWay) {
  const std::uint64_t before = own_steps();
  run<GRU>(Device("cuda:0"), DType::f32, {});
  run<RNN>(Device("cuda:0"), DType::f32, {});
  EXPECT_EQ(own_steps(), before);
  EXPECT_EQ(calls("forward"), 2);
  EXPECT_EQ(calls("data_grad"), 2);
  EXPECT_EQ(calls("weight_grad"), 2);
}

TEST_F(WholeLayers, LeaveAnLstmThatIsOneLaunchToTheDevice) {
  const test::SharedLimit enough(100 << 10);
  const std::uint64_t before = own_steps();
  run<LSTM>(Device("cuda:0"), DType::f32, {});
  EXPECT_EQ(own_steps(), before + 1);
  EXPECT_EQ(calls("set_layer"), 0);
}

TEST_F(WholeLayers, PutEveryGateWhereCudnnWantsIt) {
  start(24);  // bytes between two gates
  compare<LSTM>({});
  compare<GRU>({.options = {.bias = false}});
}

TEST_F(WholeLayers, AreAskedForOnceAndLeftAloneWhenRefused) {
  const std::vector<Tensor> wanted = run<GRU>(Device(), DType::f64, {});
  for (const char* call : {"create", "set_tensor", "get_tensor", "set_dropout", "set_layer", "set_steps",
                           "weight_bytes", "weight_place", "work_bytes", "set_stream", "forward"}) {
    start();
    cudnn_->fail(call, 3000);
    const std::uint64_t before = own_steps();
    expect_near(run<GRU>(Device("cuda:0"), DType::f32, {}), wanted, 2e-5);
    EXPECT_EQ(own_steps(), before + 5) << call;
    const int asked = calls(call);
    EXPECT_GE(asked, 1) << call;
    run<GRU>(Device("cuda:0"), DType::f32, {});
    EXPECT_EQ(calls(call), asked) << call;
  }
}

TEST_F(WholeLayers, HaveTheirGradientsByStepsWhenCudnnRefusesThose) {
  const std::vector<Tensor> wanted = run<LSTM>(Device(), DType::f64, {});
  for (const char* call : {"data_grad", "weight_grad"}) {
    start();
    cudnn_->fail(call, 3000);
    expect_near(run<LSTM>(Device("cuda:0"), DType::f64, {}), wanted, 1e-12);
    EXPECT_EQ(calls(call), 1);
    expect_near(run<LSTM>(Device("cuda:0"), DType::f64, {}), wanted, 1e-12);
    EXPECT_EQ(calls("forward"), 1) << "a plan that failed is not asked again";
  }
}

TEST_F(WholeLayers, LeaveAProjectionToTheSteps) {
  LSTM layer(3, 4, {.proj_size = 2});
  layer.to(Device("cuda:0"));
  layer(randn({5, 2, 3}).to(Device("cuda:0")));
  EXPECT_EQ(calls("set_layer"), 0);
}

struct Leaf {
  GRU layer{3, 4};
  Tensor x;
  explicit Leaf(bool wants_x) {
    manual_seed(3);
    layer.to(Device("cuda:0"), DType::f64);
    x = randn({5, 2, 3}).to(Device("cuda:0"), DType::f64).detach().requires_grad_(wants_x);
  }
  Tensor loss() { return std::get<0>(layer(x)).square().sum(); }
};

TEST_F(WholeLayers, HaveTheSameGradientTwiceFromAGraphThatIsKept) {
  Leaf leaf(true);
  const Tensor loss = leaf.loss();
  loss.backward({}, true);
  const Tensor first = leaf.x.grad().clone();
  leaf.x.set_grad({});
  loss.backward();
  EXPECT_TRUE(equal(first, leaf.x.grad()));
  EXPECT_EQ(calls("data_grad"), 2);
}

TEST_F(WholeLayers, HaveGradientsOfGradients) {
  const auto second = [](Device device) {
    manual_seed(3);
    LSTM layer(3, 4);
    layer.to(device, DType::f64);
    const Tensor x = randn({5, 2, 3}).to(device, DType::f64).detach().requires_grad_();
    const Tensor y = std::get<0>(layer(x)).square().sum();
    const Tensor slope = grad({y}, {x}, {.create_graph = true})[0];
    return grad({slope.square().sum()}, {x})[0].to(Device());
  };
  EXPECT_TRUE(allclose(second(Device("cuda:0")), second(Device()), {.rtol = 1e-12, .atol = 1e-12}));
}

TEST_F(WholeLayers, DoNotComputeGradientsOfFrozenWeights) {
  Leaf leaf(true);
  leaf.layer.requires_grad_(false);
  leaf.loss().backward();
  EXPECT_TRUE(leaf.x.grad().defined());
  EXPECT_EQ(calls("data_grad"), 1);
  EXPECT_EQ(calls("weight_grad"), 0);
}

TEST_F(WholeLayers, KeepNothingWithoutGradients) {
  Leaf leaf(false);
  {
    const NoGradGuard none;
    EXPECT_FALSE(leaf.loss().requires_grad());
  }
  EXPECT_EQ(calls("forward"), 1);
  leaf.loss().backward();
  EXPECT_EQ(calls("weight_grad"), 1);
}

TEST_F(WholeLayers, AreCalledAsInPyTorch) {
  Leaf leaf(true);
  EXPECT_EQ(std::get<0>(leaf.layer(leaf.x)).grad_fn()->name(), "CudnnRnnBackward0");
}

// --- What cuDNN is told

WholeLayer layer_of(DType dtype) {
  return {RecurrentKind::lstm, dtype, 5, 8, 128, 256, true, true};
}

TEST_F(WholeLayers, AreComputedInTheTypesOfConvolutions) {
  constexpr int kDefault = 0, kTensorOp = 1, kExact = 3, kFloat = 0, kDouble = 1;
  WholeLayerPlan plan;
  const auto described = [&](DType dtype) {
    EXPECT_TRUE(layers->plan(layer_of(dtype), 0, plan));
    return cudnn_->described();
  };
  EXPECT_EQ(described(DType::f32).math, kDefault);  // TF32, as in PyTorch
  cudnn::set_allow_tf32(false);
  EXPECT_EQ(described(DType::f32).math, kExact);
  cudnn::set_allow_tf32(true);
  EXPECT_EQ(described(DType::f64).math, kExact);
  EXPECT_EQ(cudnn_->described().sum_type, kDouble);
  for (const DType half : {DType::f16, DType::bf16}) {
    EXPECT_EQ(described(half).math, kTensorOp);
    EXPECT_EQ(cudnn_->described().sum_type, kFloat);
  }
}

TEST_F(WholeLayers, ArePersistentWherePyTorchMakesThem) {
  WholeLayerPlan plan;
  const auto algorithm = [&](const WholeLayer& layer) {
    EXPECT_TRUE(layers->plan(layer, 0, plan));
    return cudnn_->described().algorithm;
  };
  EXPECT_EQ(algorithm(layer_of(DType::f16)), 1);
  EXPECT_EQ(algorithm(layer_of(DType::f32)), 0);
  EXPECT_EQ(algorithm(layer_of(DType::bf16)), 0);
  WholeLayer odd = layer_of(DType::f16);
  odd.batch = 9;
  EXPECT_EQ(algorithm(odd), 0);
  start();
  cudnn_->fail("set_persistent", 3000);
  EXPECT_EQ(algorithm(layer_of(DType::f16)), 0);
}

TEST_F(WholeLayers, AreNotAskedForBeyondInt) {
  WholeLayerPlan plan;
  WholeLayer layer = layer_of(DType::f32);
  layer.batch = std::int64_t{1} << 30;
  EXPECT_FALSE(layers->plan(layer, 0, plan));
  EXPECT_EQ(calls("set_layer"), 0);
}

TEST(WholeLayerTable, HasTheFloatingTypes) {
  RecurrentTable table;
  gpu::fill_whole_layers(table);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i32}) {
    const auto slot = static_cast<std::size_t>(dtype);
    const bool has = dtype != DType::i32;
    EXPECT_EQ(table.plan_whole_layer[slot] != nullptr, has);
    EXPECT_EQ(table.whole_layer[slot] != nullptr, has);
    EXPECT_EQ(table.whole_layer_grad[slot] != nullptr, has);
  }
}

// --- Threads and captures

TEST_F(WholeLayers, RunOnSeveralThreadsAtOnce) {
  const std::vector<Tensor> wanted = run<GRU>(Device(), DType::f64, {});
  std::vector<Tensor> ys(4);
  GRU layer(3, 4);
  layer.to(Device("cuda:0"), DType::f64);
  const Tensor x = randn({5, 2, 3}).to(Device("cuda:0"), DType::f64).detach();
  std::vector<std::thread> threads;
  for (Tensor& y : ys) threads.emplace_back([&] { y = std::get<0>(layer(x)).detach(); });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& y : ys) EXPECT_TRUE(equal(y, ys[0]));
}

/// A layer of one unit and two steps in the memory of the host.
struct Tiny {
  double w_ih = 0.5, w_hh = 0.25, b_ih = 0, b_hh = 0, x[2] = {1, 2}, h0 = 0, y[2] = {}, h = 0, weights[4], work[64];
  WholeLayerParams params(const WholeLayerPlan& plan) {
    return {.plan = plan,
            .w_ih = &w_ih,
            .w_hh = &w_hh,
            .b_ih = &b_ih,
            .b_hh = &b_hh,
            .x = x,
            .h0 = &h0,
            .c0 = nullptr,
            .y = y,
            .h = &h,
            .c = nullptr,
            .weights = weights,
            .work = work,
            .reserve = nullptr};
  }
};

struct WholeLayersInGraphs : testing::Test {
  WholeLayersInGraphs() : library(cudnn.api(), driver.api(), cudnn.handles(&driver.api())) {
    set_cuda_backends(gpu::discover(driver.api(), logical_op_tables(), {}));
    cudnn.set_launch([&](void* stream, std::function<void()> work) {
      void* side = nullptr;  // cuDNN has streams of its own, made when they are first needed
      EXPECT_EQ(driver.api().stream_create(&side, 0), gpu::kSuccess);
      driver.launch(stream, std::move(work));
    });
  }
  ~WholeLayersInGraphs() override { set_cuda_backends({}); }
  test::FakeDriver driver;
  test::FakeCudnnLayers cudnn;
  gpu::CudnnLayers library;
};

TEST_F(WholeLayersInGraphs, AreMadeWhileOneIsCaptured) {
  auto& backend = dynamic_cast<CudaBackend&>(backend_for("cuda:0"));
  backend.synchronize();
  Tiny tiny;
  cuda::Graph graph;
  graph.capture([&] {
    const CudaBackend::Current here(backend);
    WholeLayerPlan plan{};
    ASSERT_TRUE(library.plan({RecurrentKind::relu, DType::f64, 2, 1, 1, 1, true, false}, 0, plan));
    ASSERT_LE(plan.weights, sizeof(tiny.weights));
    ASSERT_LE(plan.work, sizeof(tiny.work));
    WholeLayerParams params = tiny.params(plan);
    library.run(params, backend.current_stream());
    EXPECT_TRUE(params.is_done);
  });
  EXPECT_EQ(tiny.h, 0);
  for (const double w : {0.5, 1.0}) {
    tiny.w_ih = w;  // a replay takes the weights as they are
    graph.replay();
    backend.synchronize();
    EXPECT_EQ(tiny.y[0], w);
    EXPECT_EQ(tiny.h, 2 * w + 0.25 * w);
  }
}

}  // namespace
}  // namespace core
