#include "libckpt/transform/cast.h"

#include <array>
#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/cast_hashes.h"
#include "tests/libckpt/transform/trees.h"

namespace {

using core::ByteVector;
using core::DType;

constexpr std::array kTypes = {
    DType::boolean,     DType::u8,          DType::i8,         DType::i16,  DType::i32,       DType::i64,
    DType::u16,         DType::u32,         DType::u64,        DType::f16,  DType::bf16,      DType::f32,
    DType::f64,         DType::c32,         DType::c64,        DType::c128, DType::f8_e4m3fn, DType::f8_e5m2,
    DType::f8_e4m3fnuz, DType::f8_e5m2fnuz, DType::f8_e8m0fnu,
};
constexpr std::size_t kCount = 256;

std::size_t width(DType dtype) {
  return static_cast<std::size_t>(core::bit_width(dtype)) / 8;
}

ByteVector cast_all(const ByteVector& in, DType from, DType to) {
  ByteVector out(in.size() / width(from) * width(to));
  ckpt::cast_values(in, from, out, to);
  return out;
}

/// The same bytes on every machine.
ByteVector noise(std::size_t count) {
  ByteVector out(count);
  std::uint64_t state = 1;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
  }
  return out;
}

/// Positive values from 1/8 to 32, which every integer type holds but for their fractions.
ByteVector moderate(DType dtype) {
  ByteVector halves = noise(2 * kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    auto raw = core::load_le<std::uint16_t>(halves.data() + 2 * i);
    auto half = static_cast<std::uint16_t>((raw & 0x3ff) | ((12 + (raw >> 10) % 8) << 10));
    core::store_le(halves.data() + 2 * i, half);
  }
  return cast_all(halves, DType::f16, dtype);
}

ByteVector values_for(DType from, DType to) {
  // What a float outside of an integer's range becomes is left to the processor.
  if ((core::is_floating(from) || core::is_complex(from)) && core::is_integer(to)) return moderate(from);
  ByteVector out = noise(kCount * width(from));
  for (std::byte& byte : out) byte &= from == DType::boolean ? std::byte{1} : std::byte{0xff};
  return out;
}

/// NaNs all hash alike: their payload is left to the processor, too.
std::uint64_t hash_of(ByteVector bytes, DType dtype) {
  DType part = dtype == DType::c32 ? DType::f16 : dtype == DType::c64 ? DType::f32 : dtype;
  if (dtype == DType::c128) part = DType::f64;
  if (core::is_floating(part)) {
    ByteVector wide = cast_all(bytes, part, DType::f64);
    for (std::size_t i = 0; i < wide.size() / 8; ++i) {
      if (std::isnan(core::load_le<double>(wide.data() + 8 * i))) {
        std::memset(bytes.data() + i * width(part), 0xff, width(part));
      }
    }
  }
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ULL;
  return hash;
}

TEST(CastValues, AreThoseOfPyTorch) {
  for (std::size_t from = 0; from < kTypes.size(); ++from) {
    for (std::size_t to = 0; to < kTypes.size(); ++to) {
      ByteVector out = cast_all(values_for(kTypes[from], kTypes[to]), kTypes[from], kTypes[to]);
      EXPECT_EQ(hash_of(out, kTypes[to]), test::kCastHashes[from][to])
          << core::name(kTypes[from]) << " to " << core::name(kTypes[to]);
    }
  }
}

template <class T>
T cast_one(float value, DType to) {
  ByteVector in(4);
  core::store_le(in.data(), value);
  return core::load_le<T>(cast_all(in, DType::f32, to).data());
}

TEST(CastValues, RoundTiesToEven) {
  EXPECT_EQ(cast_one<std::uint16_t>(1.00390625F, DType::bf16), 0x3f80);
  EXPECT_EQ(cast_one<std::uint16_t>(1.01171875F, DType::bf16), 0x3f82);
  EXPECT_EQ(cast_one<std::uint16_t>(2049.0F, DType::f16), 0x6800);
  EXPECT_EQ(cast_one<std::uint16_t>(2051.0F, DType::f16), 0x6802);
}

TEST(CastValues, OverflowAsPyTorchDoes) {
  EXPECT_EQ(cast_one<std::uint16_t>(65519.0F, DType::f16), 0x7bff);
  EXPECT_EQ(cast_one<std::uint16_t>(65520.0F, DType::f16), 0x7c00);
  EXPECT_EQ(cast_one<std::uint8_t>(1e9F, DType::f8_e4m3fn), 0x7e);
  EXPECT_EQ(cast_one<std::uint8_t>(-INFINITY, DType::f8_e4m3fn), 0xfe);
  EXPECT_EQ(cast_one<std::uint8_t>(61440.0F, DType::f8_e5m2), 0x7c);
  EXPECT_EQ(cast_one<std::uint8_t>(-1e9F, DType::f8_e4m3fnuz), 0x80);
  EXPECT_EQ(cast_one<std::uint8_t>(300.7F, DType::u8), 44);
}

TEST(CastValues, KeepNanAndSignedZero) {
  EXPECT_EQ(cast_one<std::uint16_t>(NAN, DType::bf16), 0x7fc0);
  EXPECT_EQ(cast_one<std::uint16_t>(NAN, DType::f16), 0x7e00);
  EXPECT_EQ(cast_one<std::uint8_t>(NAN, DType::f8_e4m3fn), 0x7f);
  EXPECT_EQ(cast_one<std::uint16_t>(-0.0F, DType::f16), 0x8000);
  EXPECT_EQ(cast_one<std::uint8_t>(-0.0F, DType::f8_e5m2), 0x80);
  EXPECT_EQ(cast_one<std::uint8_t>(-0.0F, DType::f8_e5m2fnuz), 0);
}

TEST(CastValues, TellWhatIsExact) {
  EXPECT_TRUE(ckpt::is_exact_cast(DType::bf16, DType::f32));
  EXPECT_TRUE(ckpt::is_exact_cast(DType::f8_e5m2, DType::bf16));
  EXPECT_TRUE(ckpt::is_exact_cast(DType::i16, DType::f32));
  EXPECT_TRUE(ckpt::is_exact_cast(DType::c32, DType::c64));
  EXPECT_FALSE(ckpt::is_exact_cast(DType::bf16, DType::f16));
  EXPECT_FALSE(ckpt::is_exact_cast(DType::i32, DType::f32));
  EXPECT_FALSE(ckpt::is_exact_cast(DType::i8, DType::u16));
  EXPECT_FALSE(ckpt::is_exact_cast(DType::c64, DType::f64));
  EXPECT_FALSE(ckpt::is_exact_cast(DType::boolean, DType::f8_e8m0fnu));
}

/// "exact" is checked on all values of the narrow types: there and back gives the same bits.
TEST(CastValues, WhatIsExactComesBack) {
  for (DType from : kTypes) {
    if (width(from) > 2 || from == DType::c32) continue;
    ByteVector all(width(from) == 1 ? 256 : 131072);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t code = i / width(from);
      all[i] = static_cast<std::byte>(i % width(from) == 0 ? code : code >> 8);
      if (from == DType::boolean) all[i] &= std::byte{1};
    }
    for (DType to : kTypes) {
      if (!ckpt::is_exact_cast(from, to)) continue;
      ByteVector back = cast_all(cast_all(all, from, to), to, from);
      EXPECT_EQ(hash_of(back, from), hash_of(all, from)) << core::name(from) << " to " << core::name(to);
    }
  }
}

TEST(CastSource, ReadsAnywhere) {
  ckpt::SourcePtr source = ckpt::cast_source(test::bytes_of({1.0F, -2.0F, 0.5F}), DType::f32, DType::f64);
  ASSERT_EQ(source->size(), 24U);
  ByteVector whole = ckpt::read_all(*source);
  EXPECT_EQ(core::load_le<double>(whole.data() + 8), -2.0);
  for (std::size_t begin = 0; begin <= 24; ++begin) {
    for (std::size_t end = begin; end <= 24; ++end) {
      ByteVector part(end - begin);
      source->read(begin, part);
      EXPECT_EQ(part, ByteVector(whole.begin() + begin, whole.begin() + end)) << begin << " to " << end;
    }
  }
  ByteVector past(2);
  EXPECT_THROW(source->read(23, past), core::Error);
}

TEST(CastSource, RefusesWhatItCannot) {
  ckpt::SourcePtr five = ckpt::memory_source(ByteVector(5));
  EXPECT_THROW(ckpt::cast_source(five, DType::f32, DType::f16), core::Error);
  EXPECT_THROW(ckpt::cast_source(five, DType::f4_e2m1fn_x2, DType::f16), core::Error);
  EXPECT_EQ(ckpt::cast_source(five, DType::u8, DType::u8), five);
}

std::vector<std::string> types(const ckpt::Checkpoint& checkpoint) {
  std::vector<std::string> out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    out.push_back(named.name + " " + std::string(core::short_name(named.entry->dtype)));
  }
  return out;
}

ckpt::Value counter() {
  ckpt::Entry entry;
  entry.dtype = DType::i64;
  entry.bytes = ckpt::memory_source(ByteVector(8));
  return ckpt::Value::tensor(std::make_shared<ckpt::Entry>(entry));
}

TEST(Cast, TakesFloatsAndLeavesCounters) {
  ckpt::Checkpoint in =
      test::checkpoint(test::dict({{"fc.weight", test::tensor({1, 2})}, {"bn.num_batches_tracked", counter()}}));
  ckpt::CastReport report;
  ckpt::Checkpoint out = ckpt::cast(in, {.to = DType::bf16}, &report);
  EXPECT_THAT(types(out), testing::ElementsAre("fc.weight bf16", "bn.num_batches_tracked i64"));
  EXPECT_EQ(report.tensors, 2U);
  EXPECT_EQ(report.changed, 1U);
  EXPECT_EQ(report.bytes_before, 16U);
  EXPECT_EQ(report.bytes_after, 12U);
}

TEST(Cast, KeepsWhatIsNamed) {
  ckpt::Checkpoint in = test::checkpoint(test::dict({{"fc.weight", test::tensor({1})},
                                                     {"ln_1.weight", test::tensor({1})},
                                                     {"plain.weight", test::tensor({1})},
                                                     {"plain.running_mean", test::tensor({1})}}));
  EXPECT_THAT(types(ckpt::cast(in, {.to = DType::f16, .keep = {.include = {"fc.*"}}})),
              testing::ElementsAre("fc.weight f32", "ln_1.weight f16", "plain.weight f16", "plain.running_mean f16"));
  ckpt::CastReport report;
  EXPECT_THAT(types(ckpt::cast(in, {.to = DType::f16, .keep_norms = true}, &report)),
              testing::ElementsAre("fc.weight f16", "ln_1.weight f32", "plain.weight f32", "plain.running_mean f32"));
  EXPECT_EQ(report.kept, 3U);
}

TEST(Cast, CountersOfOptimizersStayWide) {
  ckpt::Value state = test::dict({{"0", test::dict({{"step", test::tensor({300})}, {"exp_avg", test::tensor({1})}})}});
  ckpt::Checkpoint in = test::checkpoint(test::dict({{"optimizer", test::dict({{"state", state}})}}));
  EXPECT_THAT(types(ckpt::cast(in, {.to = DType::bf16})),
              testing::ElementsAre("optimizer.state.0.step f32", "optimizer.state.0.exp_avg bf16"));
  EXPECT_THAT(types(ckpt::cast(in, {.to = DType::f64})),
              testing::ElementsAre("optimizer.state.0.step f64", "optimizer.state.0.exp_avg f64"));
}

TEST(Cast, ActsOnlyWhereItIsTold) {
  ckpt::Checkpoint in = test::checkpoint(
      test::dict({{"model", test::dict({{"w", test::tensor({1})}})}, {"ema", test::dict({{"w", test::tensor({1})}})}}));
  EXPECT_THAT(types(ckpt::cast(in, {.to = DType::f16, .at = "ema"})), testing::ElementsAre("model.w f32", "ema.w f16"));
  EXPECT_THROW(ckpt::cast(in, {.to = DType::f16, .at = "teacher"}), core::Error);
}

TEST(Cast, OneTypeCanBeNamed) {
  ckpt::Checkpoint in = test::checkpoint(test::dict({{"w", test::tensor({1})}, {"n", counter()}}));
  EXPECT_THAT(types(ckpt::cast(in, {.to = DType::f32, .from = {DType::i64}})), testing::ElementsAre("w f32", "n f32"));
  EXPECT_THAT(types(ckpt::cast(in, {.to = DType::i32})), testing::ElementsAre("w f32", "n i32"));
  EXPECT_THROW(ckpt::cast(in, {.to = DType::f4_e2m1fn_x2}), core::Error);
}

/// Two windows into one storage of four floats.
std::vector<ckpt::Value> two_windows() {
  auto storage = std::make_shared<ckpt::Storage>();
  storage->dtype = DType::f32;
  storage->bytes = test::bytes_of({1, 2, 3, 4});
  std::vector<ckpt::Value> out;
  for (std::int64_t offset : {0, 2}) {
    ckpt::Entry entry;
    entry.shape = core::Shape{2};
    entry.view = ckpt::View{storage, offset, core::Shape{1}};
    entry.bytes = ckpt::gather(*entry.view, entry.dtype, entry.shape);
    out.push_back(ckpt::Value::tensor(std::make_shared<ckpt::Entry>(entry)));
  }
  return out;
}

TEST(Cast, SharedMemoryStaysShared) {
  std::vector<ckpt::Value> windows = two_windows();
  ckpt::Checkpoint out =
      ckpt::cast(test::checkpoint(test::dict({{"a", windows[0]}, {"b", windows[1]}})), {.to = DType::f64});
  auto entries = ckpt::list_entries(out.root);
  EXPECT_EQ(ckpt::storage_identity(*entries[0].entry), ckpt::storage_identity(*entries[1].entry));
  EXPECT_EQ(entries[1].entry->view->storage->dtype, DType::f64);
  EXPECT_EQ(core::load_le<double>(ckpt::read_all(*entries[1].entry->bytes).data()), 3.0);
}

TEST(Cast, SaysWhatNoLongerSharesMemory) {
  std::vector<ckpt::Value> windows = two_windows();
  ckpt::CastReport report;
  ckpt::Checkpoint out = ckpt::cast(test::checkpoint(test::dict({{"a", windows[0]}, {"b", windows[1]}})),
                                    {.to = DType::f64, .keep = {.include = {"a"}}}, &report);
  auto entries = ckpt::list_entries(out.root);
  EXPECT_EQ(report.untied, 1U);
  EXPECT_NE(ckpt::storage_identity(*entries[0].entry), ckpt::storage_identity(*entries[1].entry));
  EXPECT_EQ(core::load_le<double>(ckpt::read_all(*entries[1].entry->bytes).data() + 8), 4.0);
}

TEST(Cast, WhatIsKeptUnderOneNameIsKeptUnderAll) {
  auto storage = std::make_shared<ckpt::Storage>();
  storage->bytes = test::bytes_of({1, 2, 3});
  auto look = [&] {
    ckpt::Entry entry = test::float_entry({1, 2, 3});
    entry.bytes = storage->bytes;
    entry.view = ckpt::View{storage, 0, core::Shape{1}};
    return ckpt::Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry)));
  };
  ckpt::Value root = test::dict({{"emb.weight", look()}, {"head.weight", look()}, {"b", test::tensor({1})}});
  ckpt::CastReport report;
  ckpt::Value cast =
      ckpt::cast(test::checkpoint(root), {.to = DType::bf16, .keep = {.include = {"head.*"}}}, &report).root;
  for (const char* key : {"emb.weight", "head.weight"}) EXPECT_EQ(cast.find(key)->as_entry().dtype, DType::f32) << key;
  EXPECT_EQ(cast.find("b")->as_entry().dtype, DType::bf16);
  EXPECT_EQ(report.kept, 2U);
  EXPECT_EQ(report.untied, 0U);
}

TEST(Cast, TiedTensorsStayTied) {
  ckpt::Value shared = test::tensor({1, 2});
  ckpt::Checkpoint out =
      ckpt::cast(test::checkpoint(test::dict({{"wte", shared}, {"lm_head", shared}})), {.to = DType::f16});
  auto entries = ckpt::list_entries(out.root);
  EXPECT_TRUE(ckpt::same_view(*entries[0].entry, *entries[1].entry));
}

TEST(Retype, RefusesChains) {
  ckpt::Checkpoint in = test::checkpoint(test::dict({{"w", test::tensor({1})}, {"n", counter()}}));
  EXPECT_THAT(types(ckpt::retype(in, {{DType::f32, DType::f64}, {DType::i64, DType::i32}})),
              testing::ElementsAre("w f64", "n i32"));
  EXPECT_THROW(ckpt::retype(in, {{DType::f32, DType::f64}, {DType::f64, DType::f16}}), core::Error);
}

}  // namespace
