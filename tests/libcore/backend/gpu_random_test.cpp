// Random numbers of a GPU beside those of torch.cuda on the same GPU, where there are both (torch_random.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/device_registry.h"
#include "libcore/module/init.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/iterate.h"

namespace {

using core::Tensor;

const core::Device kGpu("cuda:0");

/// What the program prints, and how it ends.
std::string output_of(const std::string& command, int& status) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  status = pclose(pipe);
  return text;
}

Tensor drawn(const std::string& op, core::DType dtype, std::int64_t count) {
  if (op == "randint100") return core::randint(0, 100, {count}, {.device = kGpu});
  if (op == "randint2^40") return core::randint(0, std::int64_t{1} << 40, {count}, {.device = kGpu});
  if (op == "randperm") return core::randperm(count, {.device = kGpu});
  const Tensor x = core::empty({count}, {.dtype = dtype, .device = kGpu});
  if (op == "uniform") return core::uniform_(x, 0, 1);
  if (op == "normal") return core::normal_(x, 0, 1);
  if (op == "log_normal") return core::log_normal_(x, 0, 1);
  if (op == "bernoulli") return core::bernoulli_(x, 0.3);
  if (op == "exponential") return core::exponential_(x, 2);
  if (op == "geometric") return core::geometric_(x, 0.2);
  if (op == "cauchy") return core::cauchy_(x, 0, 1);
  return core::dropout(core::ones_like(x), 0.3, true);
}

/// Those whose logarithms, sines and tangents a GPU takes from approximations of its own, and its compiler with them.
bool is_approximate(const std::string& op) {
  const char* const all[] = {"normal", "log_normal", "exponential", "cauchy"};
  return std::find(std::begin(all), std::end(all), op) != std::end(all);
}

void compare(const std::string& line) {
  std::istringstream words(line);
  std::string op, dtype;
  std::int64_t count = 0;
  words >> op >> dtype >> count;
  const core::DType type = core::parse_dtype(dtype);
  core::manual_seed(1234);
  drawn(op, type, count);  // the second one shows how far the first has moved the generator
  const Tensor x = drawn(op, type, count).cpu().to(core::DType::f64);
  const auto* values = static_cast<const double*>(x.raw_data());
  const std::int64_t step = std::max<std::int64_t>(count / 64, 1);
  std::int64_t at = 0;
  for (double wanted; words >> wanted; at += step) {
    const double far = is_approximate(op) ? 1e-5 * std::max(std::abs(wanted), 1.0) : 0;
    ASSERT_NEAR(values[at], wanted, far) << op << ' ' << dtype << ' ' << count << ", element " << at;
  }
  ASSERT_GT(at, 0) << line;
}

TEST(GpuRandom, IsTorchsOnTheSameGpu) {
  if (core::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  if (dynamic_cast<core::CudaBackend*>(&core::backend_for(kGpu)) == nullptr) {
    GTEST_SKIP() << "no GPU: cuda:0 is " << core::cuda::device_name(0);
  }
  const char* python = std::getenv("CKPT_PYTHON");
  int status = 0;
  const std::string text = output_of(std::string(python != nullptr ? python : "python3") + " " + TORCH_RANDOM, status);
  if (text.empty()) GTEST_SKIP() << "no torch with this GPU; CKPT_PYTHON names a Python that has it";
  EXPECT_EQ(status, 0);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) compare(line);
}

}  // namespace
