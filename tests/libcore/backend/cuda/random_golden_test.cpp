// The random numbers of CUDA devices, call after call from one generator, beside what PyTorch's sources say that they
// are: cuda_random.txt, which make_cuda_random.py computes apart from libcore. On logical devices, whose numbers the
// host makes, and on opaque ones, where the kernels make them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/backend/random_stream.h"
#include "libcore/backend/random_table.h"
#include "libcore/base/bytes.h"
#include "libcore/module/init.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random_fill.h"
#include "libcore/tensor/random_on_device.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"
#include "tests/support/sha256.h"

namespace core {
namespace {

const Device kCuda("cuda:0");

struct Call {
  std::string op, dtype;
  std::int64_t count = 0;
  double a = 0, b = 0;
  std::uint64_t offset = 0;  ///< after it
  std::string kind, digest;
  std::vector<double> near;
};

Call parsed(std::istringstream& words, const std::string& op) {
  Call call;
  call.op = op;
  words >> call.dtype >> call.count >> call.a >> call.b >> call.offset >> call.kind;
  if (call.kind == "sha256") words >> call.digest;
  for (double value; words >> value;) call.near.push_back(value);
  return call;
}

void append(std::vector<std::byte>& bytes, const Tensor& x) {
  const Tensor here = x.cpu().contiguous();
  const auto* data = static_cast<const std::byte*>(here.raw_data());
  bytes.insert(bytes.end(), data, data + here.numel() * bit_width(here.dtype()) / 8);
}

Tensor filled(const Call& call) {
  const Tensor x = empty({call.count}, {.dtype = parse_dtype(call.dtype), .device = kCuda});
  const auto from = static_cast<std::int64_t>(call.a), to = static_cast<std::int64_t>(call.b);
  if (call.op == "uniform") return uniform_(x, call.a, call.b);
  if (call.op == "normal") return normal_(x, call.a, call.b);
  if (call.op == "log_normal") return log_normal_(x, call.a, call.b);
  if (call.op == "bernoulli") return bernoulli_(x, call.a);
  if (call.op == "exponential") return exponential_(x, call.a);
  if (call.op == "least_of_exponential") return exponential_(x, call.a).to(DType::f32).min().expand({16});
  if (call.op == "geometric") return geometric_(x, call.a);
  if (call.op == "cauchy") return cauchy_(x, call.a, call.b);
  if (call.op == "integers") return random_(x, from, to);
  if (call.op == "any_integer") return random_(x);
  if (call.op == "randperm") return randperm(call.count, {.device = kCuda});
  ADD_FAILURE() << "unknown operation " << call.op;
  return x;
}

/// (37 i mod 101) / 100
Tensor probabilities(std::int64_t count, DType dtype) {
  const Tensor hundredths =
      remainder(arange(0, count, {.dtype = DType::i64}).mul(37), full({}, 101, {.dtype = DType::i64}));
  return hundredths.to(dtype == DType::f64 ? DType::f64 : DType::f32).div(100).to(dtype).to(kCuda);
}

/// ((i mod 97) - 48) / 8
Tensor steps(std::int64_t count, DType dtype) {
  return remainder(arange(0, count, {.dtype = DType::i64}), full({}, 97, {.dtype = DType::i64}))
      .sub(48)
      .to(DType::f64)
      .div(8)
      .to(dtype)
      .to(kCuda);
}

std::vector<std::byte> drawn_bytes(const Call& call) {
  std::vector<std::byte> bytes;
  if (call.op == "dropout") {
    const detail::DroppedOut result = detail::cuda_dropped_out(steps(call.count, parse_dtype(call.dtype)), call.a);
    append(bytes, result.out);
    append(bytes, result.kept);
  } else if (call.op == "bernoulli_each") {
    append(bytes, bernoulli(probabilities(call.count, parse_dtype(call.dtype))));
  } else if (call.op == "samples") {
    std::vector<float> drawn(static_cast<std::size_t>(call.count));
    detail::fill_buffer(default_generator(kCuda), {drawn.data(), DType::f32, call.count},
                        {.op = RandomOp::samples, .size = static_cast<std::uint64_t>(call.b)});
    append(bytes, from_values(std::span<const float>(drawn), {call.count}));
  } else {
    append(bytes, filled(call));
  }
  return bytes;
}

/// What logarithms, sines and tangents leave open: a few last places, more of them where a tangent is steep.
void expect_near(const Call& call) {
  const double last = call.dtype == "f64"    ? 0x1p-52
                      : call.dtype == "f16"  ? 0x1p-11
                      : call.dtype == "bf16" ? 0x1p-8
                                             : 0x1p-24;
  const Tensor x = filled(call).cpu().to(DType::f64);
  ASSERT_EQ(call.near.size(), 16U);
  const std::vector<double> values = x.to_vector<double>();
  for (std::size_t k = 0; k < 16; ++k) {
    const double found = values[k * (values.size() - 1) / 15], wanted = call.near[k];
    EXPECT_NEAR(found, wanted, 8 * last * std::abs(wanted) * (1 + std::abs(wanted)) + last) << "value " << k;
  }
}

void set_state(std::uint64_t seed, std::uint64_t offset) {
  ByteVector state(16);
  store_le<std::uint64_t>(state.data(), seed);
  store_le<std::uint64_t>(state.data() + 8, offset);
  Generator generator = default_generator(kCuda);
  generator.set_state(state);
}

/// Returns how many calls were compared.
int compare_all() {
  std::ifstream file(CUDA_RANDOM_DATA);
  int calls = 0;
  for (std::string line; std::getline(file, line);) {
    SCOPED_TRACE(line.substr(0, 60));
    std::istringstream words(line);
    std::string op;
    words >> op;
    if (op == "state") {
      std::uint64_t seed = 0, offset = 0;
      words >> seed >> offset;
      set_state(seed, offset);
      continue;
    }
    const Call call = parsed(words, op);
    if (call.kind == "near") {
      expect_near(call);
    } else {
      EXPECT_EQ(test::sha256(drawn_bytes(call)), call.digest);
    }
    EXPECT_EQ(default_generator(kCuda).stream().offset, call.offset);
    ++calls;
  }
  return calls;
}

class CudaRandomGolden : public testing::Test {
 protected:
  void TearDown() override { set_logical_devices(0); }
};

TEST_F(CudaRandomGolden, LogicalDevicesDrawWhatPyTorchsSourcesSay) {
  set_logical_devices(1);
  EXPECT_GT(compare_all(), 100);
}

TEST_F(CudaRandomGolden, KernelsDrawWhatPyTorchsSourcesSay) {
  set_opaque_devices(1, test::emulated_tables());
  EXPECT_GT(compare_all(), 100);
}

TEST_F(CudaRandomGolden, DropoutScalesItsGradientWhereItKeptElements) {
  for (int opaque = 0; opaque < 2; ++opaque) {
    if (opaque == 0) set_logical_devices(1);
    if (opaque == 1) set_opaque_devices(1, test::emulated_tables());
    const Tensor x = ones({64, 3}, {.device = kCuda, .requires_grad = true});
    const Tensor y = dropout(x, 0.25);
    EXPECT_EQ(y.grad_fn()->name(), "NativeDropoutBackward0");
    y.sum().backward();
    EXPECT_TRUE(x.grad().equal(y.detach()));
    EXPECT_GT(eq(y.detach(), 0).sum().item<std::int64_t>(), 0);
  }
}

// PyTorch's threads walk through memory, whatever the order of the dimensions, where they take neighbours.
TEST_F(CudaRandomGolden, DropoutWalksThroughMemory) {
  set_logical_devices(1);
  const Tensor x = ones({8, 6}, {.device = kCuda});
  manual_seed(3);
  const Tensor straight = dropout(x, 0.5);
  manual_seed(3);
  const Tensor turned = dropout(x.transpose(0, 1), 0.5);
  EXPECT_TRUE(turned.transpose(0, 1).is_contiguous());
  EXPECT_TRUE(turned.transpose(0, 1).equal(straight));
  manual_seed(3);
  EXPECT_EQ(dropout(ones({8, 12}, {.device = kCuda}).slice(1, 0, 12, 2), 0.5).sizes(), x.sizes());
}

}  // namespace
}  // namespace core
