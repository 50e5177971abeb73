#include "libcore/tensor/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "libcore/backend/logical_devices.h"
#include "libcore/backend/mt19937.h"
#include "libcore/backend/philox.h"
#include "libcore/backend/random_table.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random_fill.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::ByteVector;
using core::DType;
using core::Generator;
using core::RandomOp;
using core::Tensor;
using core::detail::fill_buffer;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr core::detail::RandomFill kUniform{RandomOp::uniform, 0, 1}, kNormal{RandomOp::normal, 0, 1};

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Mt19937, GivesTheKnownFirstNumbers) {
  core::Mt19937 engine(0);
  EXPECT_EQ(engine.next(), 2357136044U);
  EXPECT_EQ(engine.next(), 2546248239U);
  EXPECT_EQ(engine.next64(), 3071714933ULL << 32 | 3626093760ULL);
}

TEST(Philox, GivesTheKnownBlockForZeroes) {
  EXPECT_THAT(core::philox({.key = 0, .offset = 0, .thread = 0}).at,
              ElementsAre(0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
}

TEST(Generator, CopiesShareTheStreamAndClonesDoNot) {
  Generator a;
  a.manual_seed(3);
  Generator copy = a;
  Generator clone = a.clone();
  std::int64_t first = core::detail::draw_seed(a);
  EXPECT_EQ(core::detail::draw_seed(clone), first);
  EXPECT_NE(core::detail::draw_seed(copy), first);
  EXPECT_TRUE(a == copy);
  EXPECT_FALSE(a == clone);
}

TEST(Generator, StateRestoresTheCachedNormalValue) {
  Generator g;
  g.manual_seed(7);
  double values[3];
  fill_buffer(g, {values, DType::f64, 3}, kNormal);  // an odd count leaves a value behind
  ByteVector state = g.state();
  double next[2];
  double again[2];
  fill_buffer(g, {next, DType::f64, 2}, kNormal);
  g.set_state(state);
  fill_buffer(g, {again, DType::f64, 2}, kNormal);
  EXPECT_EQ(next[0], again[0]);
  EXPECT_EQ(next[1], again[1]);
  EXPECT_EQ(state.size(), Generator::kCpuStateSize);
}

TEST(Generator, RefusesAForeignStateAndStaysAsItIs) {
  Generator g;
  g.manual_seed(1);
  ByteVector before = g.state();
  EXPECT_EQ(message_of([&] { g.set_state(ByteVector(16)); }),
            "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be 16");
  EXPECT_EQ(message_of([&] { g.set_state(ByteVector(5056)); }), "Invalid mt19937 state");
  ByteVector beyond = before;
  core::store_le<std::int32_t>(beyond.data() + 8, 600);    // 600 numbers left ...
  core::store_le<std::uint64_t>(beyond.data() + 16, 600);  // ... behind number 600 of 624
  EXPECT_EQ(message_of([&] { g.set_state(beyond); }), "Invalid mt19937 state");
  EXPECT_EQ(g.state(), before);
}

TEST(Generator, DefaultOfAThreadCanBeReplacedForAScope) {
  core::manual_seed(0);
  ByteVector before = core::default_generator().state();
  std::thread([] {
    Generator own;
    core::DefaultGeneratorScope scope(own.manual_seed(5));
    core::rand({4});
  }).join();
  EXPECT_EQ(core::default_generator().state(), before);
}

TEST(Generator, SeedsDevicesTogetherAndKeepsTheirStreamsApart) {
  core::manual_seed(42);
  Generator a = core::default_generator("cuda:0");
  Generator b = core::default_generator("cuda:1");
  float x[2];
  fill_buffer(a, {x, DType::f32, 2}, kUniform);
  float y[2];
  fill_buffer(b, {y, DType::f32, 2}, kUniform);
  EXPECT_EQ(x[0], y[0]);  // both seeded with 42
  EXPECT_EQ(a.state().size(), Generator::kCudaStateSize);
}

// Values that users of GPUs published: seed 42, two calls of rand(3).
TEST(Generator, DrawsWhatACudaDeviceDraws) {
  Generator g("cuda:0");
  g.manual_seed(42);
  float first[3];
  float second[3];
  fill_buffer(g, {first, DType::f32, 3}, kUniform);
  fill_buffer(g, {second, DType::f32, 3}, kUniform);
  EXPECT_NEAR(first[0], 0.6130, 5e-5);
  EXPECT_NEAR(first[1], 0.0101, 5e-5);
  EXPECT_NEAR(first[2], 0.3984, 5e-5);
  EXPECT_NEAR(second[0], 0.9877, 5e-5);
  EXPECT_NEAR(second[2], 0.5621, 5e-5);
  float normal[3];
  g.manual_seed(0);
  fill_buffer(g, {normal, DType::f32, 3}, kNormal);
  EXPECT_NEAR(normal[0], -0.9247, 5e-5);
  EXPECT_NEAR(normal[2], -2.6438, 5e-5);
}

TEST(Random, UsesTheGivenGeneratorAlone) {
  core::manual_seed(0);
  ByteVector before = core::default_generator().state();
  Generator g;
  g.manual_seed(1);
  Tensor x = core::rand({5}, {.generator = g});
  EXPECT_EQ(core::default_generator().state(), before);
  core::manual_seed(1);
  EXPECT_TRUE(x.equal(core::rand({5})));
}

TEST(Random, RefusesAGeneratorOfAnotherDevice) {
  EXPECT_EQ(message_of([] { core::rand({2}, {.generator = Generator("cuda:0")}); }),
            "Expected a 'cpu' device type for generator but found 'cuda'");
}

TEST(Random, ChecksParametersWithTheReferenceTexts) {
  Tensor x = core::empty({3});
  Tensor bytes = core::empty({3}, {.dtype = DType::u8});
  EXPECT_EQ(message_of([&] { core::normal_(x, 0, -1); }), "normal expects std >= 0.0, but found std -1");
  EXPECT_EQ(message_of([&] { core::uniform_(x, 3, 1); }),
            "uniform_ expects to return a [from, to) range, but found from=3 > to=1");
  EXPECT_EQ(message_of([&] { core::bernoulli_(x, 1.5); }), "bernoulli_ expects p to be in [0, 1], but got p=1.5");
  EXPECT_EQ(message_of([&] { core::exponential_(x, 0); }), "exponential_ expects lambda > 0.0, but found lambda=0");
  EXPECT_EQ(message_of([] { core::randint(5, 5, {2}); }),
            "random_ expects 'from' to be less than 'to', but got from=5 >= to=5");
  EXPECT_EQ(message_of([&] { core::random_(bytes, 0, 300); }), "to - 1 is out of bounds for unsigned char");
  EXPECT_EQ(message_of([&] { core::random_(bytes, -1, 30); }), "from is out of bounds for unsigned char");
  EXPECT_THAT(message_of([&] { core::normal_(bytes); }), HasSubstr("\"normal_kernel_cpu\" not implemented for 'Byte'"));
  EXPECT_EQ(message_of([] { core::multinomial(core::ones({2}), {.num_samples = 3}); }),
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  EXPECT_EQ(message_of([] { core::multinomial(core::zeros({2}), {.num_samples = 2, .replacement = true}); }),
            "invalid multinomial distribution (sum of probabilities <= 0)");
}

// One of 4,021 elements of f16 was 1, one of 508 of bf16: 1 was turned into 0 before a number was rounded.
TEST(Random, NeverGivesTheUpperLimitOfHalfTypes) {
  for (const char* device : {"cpu", "cuda:0"}) {
    Generator g{core::Device(device)};
    g.manual_seed(0);
    std::vector<core::Half> f16(100000);
    fill_buffer(g, {f16.data(), DType::f16, 100000}, kUniform);
    for (core::Half value : f16) ASSERT_NE(value.bits, 0x3c00) << device;
    std::vector<core::BFloat16> bf16(100000);
    fill_buffer(g, {bf16.data(), DType::bf16, 100000}, {RandomOp::uniform, -3, 2});
    for (core::BFloat16 value : bf16) ASSERT_NE(value.bits, 0x4000) << device;
  }
}

/// The state of a generator for which number `element` of `count` uniform ones on a CUDA device is 1.
struct OneAt {
  std::uint64_t seed, offset;
  std::int64_t element, count;
};
constexpr OneAt kOne{7, 32064, 2312, 4096};

Generator cuda_generator_before(const OneAt& one) {
  Generator g("cuda:0");
  ByteVector state(16);
  core::store_le<std::uint64_t>(state.data(), one.seed);
  core::store_le<std::uint64_t>(state.data() + 8, one.offset);
  g.set_state(state);
  return g;
}

// It was 0, and 0 / 0 was the largest quotient: a category of weight 0 was picked.
TEST(Random, ExponentialIsNeverZeroOnCudaDevices) {
  std::vector<float> x(static_cast<std::size_t>(kOne.count));
  fill_buffer(cuda_generator_before(kOne), {x.data(), DType::f32, kOne.count}, {RandomOp::exponential, 1});
  EXPECT_EQ(x[static_cast<std::size_t>(kOne.element)], 0x1p-24F);
}

TEST(Random, MultinomialPicksNoCategoryOfWeightZero) {
  core::set_logical_devices(1);
  Tensor weights = core::zeros({kOne.count}, {.device = "cuda:0"});
  weights.select(0, 0).fill_(1);
  const Generator g = cuda_generator_before(kOne);
  EXPECT_EQ(core::multinomial(weights, {.num_samples = 1, .generator = g}).item<std::int64_t>(), 0);
  weights = Tensor();
  core::set_logical_devices(0);
}

TEST(Random, FillsTensorsWithGapsWithoutTouchingTheRest) {
  Tensor x = core::zeros({4, 6});
  core::uniform_(x.slice(1, 0, 6, 2), 1, 2);
  for (std::int64_t column : {1, 3, 5}) EXPECT_EQ(x.select(1, column).sum().item<float>(), 0.0F);
  EXPECT_GE(x.select(1, 2).min().item<float>(), 1.0F);
}

TEST(Random, RefusesToChangeALeafThatLearns) {
  Tensor x = core::ones({2}, {.requires_grad = true});
  EXPECT_EQ(message_of([&] { core::normal_(x); }),
            "a leaf Variable that requires grad is being used in an in-place operation.");
}

TEST(Random, GivesEmptyAndMetaTensorsWithoutDrawing) {
  core::manual_seed(0);
  ByteVector before = core::default_generator().state();
  EXPECT_EQ(core::rand({0, 3}).numel(), 0);
  EXPECT_TRUE(core::rand({3}, {.device = "meta"}).is_meta());
  EXPECT_EQ(core::randperm(0).numel(), 0);
  EXPECT_EQ(core::default_generator().state(), before);
}

/// PyTorch's draws behind manual_seed(7).
std::vector<double> whole_numbers(DType dtype, std::int64_t from, std::int64_t to) {
  core::manual_seed(7);
  return core::randint(from, to, {5}, {.dtype = dtype}).to_vector<double>();
}

TEST(RandomIntegers, BeyondTheDigitsOfATypeHaveNearerBounds) {
  EXPECT_THAT(whole_numbers(DType::bf16, 0, 512), ElementsAre(316, 22, 332, 26, 133));
  EXPECT_THAT(whole_numbers(DType::f16, -4097, 4097), ElementsAre(2100, -3632, -1964, -59, 762));
  EXPECT_THAT(whole_numbers(DType::f32, 0, 1 << 25), ElementsAre(25751744, 3335422, 27837152, 27798086, 3905203));
  const std::int64_t wide = std::int64_t{1} << 54;
  EXPECT_THAT(
      whole_numbers(DType::f64, -wide, wide),
      ElementsAre(-15497963309439726, -6541985441108716, -1242156175142253, -3092275712149173, 8309405831000225));
}

TEST(RandomIntegers, RefuseBoundsBeyondTheType) {
  EXPECT_EQ(
      message_of([] { whole_numbers(DType::bf16, 2049, 2051); }),
      "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from=2064 >= to=2051");
  EXPECT_EQ(message_of([] { whole_numbers(DType::f16, 0, 1 << 24); }), "to - 1 is out of bounds for c10::Half");
  EXPECT_EQ(message_of([] { whole_numbers(DType::f16, -70000, 0); }), "from is out of bounds for c10::Half");
  EXPECT_EQ(message_of([] { whole_numbers(DType::i16, 0, 1 << 24); }), "to - 1 is out of bounds for short int");
  EXPECT_EQ(message_of([] { core::randperm(2050, {.dtype = DType::f16}); }),
            "n cannot be greater than 2049 for Half type.");
  EXPECT_EQ(message_of([] { core::randperm(0, {.dtype = DType::boolean}); }),
            "\"randperm\" not implemented for 'Bool'");
}

TEST(RandomUniform, RefusesBoundsBeyondTheType) {
  EXPECT_EQ(message_of([] { core::uniform_(core::empty({1}), 0, 1e39); }), "to is out of bounds for float");
  EXPECT_EQ(message_of([] { core::uniform_(core::empty({1}, {.dtype = DType::f16}), -1e39, 0); }),
            "from is out of bounds for c10::Half");
}

}  // namespace
