#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <thread>

#include "libckpt/delta/delta.h"
#include "libckpt/format/hdf5_write/payload_packing.h"
#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/format/tensor_codec.h"
#include "libckpt/reindex.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;

class NativePacking : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return dir_.path() / "a.ckpt"; }
  std::uint64_t saved_size(const Checkpoint& made, Codec codec) const {
    save(made, path(), {.codec = codec});
    return std::filesystem::file_size(path());
  }
  test::TempDir dir_;
};

/// Floats between 1 and 2 in few steps: the high bytes repeat, the low ones are noise.
core::ByteVector weights(std::size_t count) {
  core::ByteVector bytes = test::noise(count * 4);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[4 * i + 3] = std::byte{0x3f};
    bytes[4 * i + 2] = static_cast<std::byte>(i % 3);
    bytes[4 * i + 1] = std::byte{0};
  }
  return bytes;
}

TEST_F(NativePacking, CompressedTensorsComeBack) {
  for (const core::Shape& shape : {core::Shape{200'000}, core::Shape{3, 70'000}, core::Shape{2, 5, 20'000, 1},
                                   core::Shape{400'001, 1}, core::Shape{1, 1, 300'007}}) {
    auto count = static_cast<std::size_t>(shape.numel());
    Checkpoint made = test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, shape, weights(count)))}});
    EXPECT_LT(saved_size(made, Codec::zstd), count * 3);
    EXPECT_EQ(test::difference(open(path()).root, made.root), "");
    EXPECT_TRUE(verify(path()).damage.empty());
  }
}

TEST_F(NativePacking, GzipComesBackVerifiesAndIsKept) {
  Checkpoint made =
      test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {3, 70'000}, weights(210'000)))},
                        {"z", Value::tensor(test::entry(DType::i64, {10'000}, core::ByteVector(80'000)))}});
  EXPECT_LT(saved_size(made, Codec::gzip), 210'000U * 3);
  EXPECT_EQ(test::difference(open(path()).root, made.root), "");
  EXPECT_TRUE(verify(path()).damage.empty());
  std::string once = test::read_file(path());
  save(open(path()), dir_.path() / "again.ckpt");  // Codec::automatic leaves packed tensors as they are
  EXPECT_EQ(test::read_file(dir_.path() / "again.ckpt"), once);
}

/// Between 0.5 and 8 with noise below, as the upper bytes of f32: 2 of them are bf16.
core::ByteVector floats(std::size_t count, std::size_t width) {
  core::ByteVector bytes = test::noise(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[(i + 1) * width - 1] = i % 3 == 0 ? std::byte{0x3f} : std::byte{0x40};
  }
  return bytes;
}

TEST_F(NativePacking, FastPacksFloatsAndLeavesTheRest) {
  Checkpoint made = test::checkpoint({
      {"bf16", Value::tensor(test::entry(DType::bf16, {3, 700'001}, floats(2'100'003, 2)))},
      {"f16", Value::tensor(test::entry(DType::f16, {70'000}, core::ByteVector(140'000)))},
      {"f32", Value::tensor(test::entry(DType::f32, {1000, 7, 11}, floats(77'000, 4)))},
      {"none", Value::tensor(test::entry(DType::f32, {100'000}, test::noise(400'000)))},
      {"f64", Value::tensor(test::entry(DType::f64, {10'000}, core::ByteVector(80'000)))},
      {"i64", Value::tensor(test::entry(DType::i64, {10'000}, core::ByteVector(80'000)))},
      {"small", Value::tensor(test::entry(DType::bf16, {100}, floats(100, 2)))},
      {"scalar", Value::tensor(test::entry(DType::f32, {}, floats(1, 4)))},
      {"empty", Value::tensor(test::entry(DType::f32, {0, 3}, {}))},
  });
  save(made, path(), {.codec = Codec::fast, .threads = 1});
  Checkpoint back = open(path());
  EXPECT_EQ(test::difference(back.root, made.root), "");
  EXPECT_TRUE(verify(path()).damage.empty());
  std::string codecs;
  for (const NamedEntry& named : list_entries(back.root)) {
    codecs += named.name + " " + std::string(codec_of(*named.entry)) + ", ";
  }
  EXPECT_EQ(codecs,
            "bf16 fast, f16 fast, f32 fast, none none, f64 none, i64 none, small none, scalar none, empty none, ");
  std::string once = test::read_file(path());
  save(back, dir_.path() / "again.ckpt");  // Codec::automatic leaves packed tensors as they are
  EXPECT_EQ(test::read_file(dir_.path() / "again.ckpt"), once);
  save(made, dir_.path() / "threads.ckpt", {.codec = Codec::fast, .threads = 4});
  EXPECT_EQ(test::read_file(dir_.path() / "threads.ckpt"), once);
  save(back, dir_.path() / "plain.ckpt", {.codec = Codec::none});
  EXPECT_EQ(test::difference(open(dir_.path() / "plain.ckpt").root, made.root), "");
}

TEST_F(NativePacking, AnyPartOfFastFloatsCanBeRead) {
  core::ByteVector bytes = floats(1'500'000, 2);
  save(test::checkpoint({{"w", Value::tensor(test::entry(DType::bf16, {3, 500'000}, bytes))}}), path(),
       {.codec = Codec::fast});
  Checkpoint back = open(path());
  const ByteSource& source = *back.root.find("w")->as_entry().bytes;
  for (std::uint64_t begin = 0; begin < bytes.size(); begin += 150'001) {
    core::ByteVector part(std::min<std::uint64_t>(1'200'003, bytes.size() - begin));
    source.read(begin, part);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin))) << begin;
  }
}

TEST_F(NativePacking, EveryFlippedBitOfFastFloatsIsFound) {
  Checkpoint made = test::checkpoint({{"w", Value::tensor(test::entry(DType::bf16, {3000}, floats(3000, 2)))}});
  save(made, path(), {.codec = Codec::fast});
  const Entry entry = open(path()).root.find("w")->as_entry();
  SourcePtr packed = detail::stored_payload(*entry.bytes)->stored();
  std::uint64_t begin = packed->file_range()->offset;
  std::string whole = test::read_file(path());
  for (std::size_t i = 0; i < packed->size(); i += i < 64 ? 1 : 41) {
    std::string changed = whole;
    changed[begin + i] = static_cast<char>(changed[begin + i] ^ (1 << i % 8));
    test::write_file(path(), changed);
    VerifyResult result = verify(path());
    ASSERT_EQ(result.damage.size(), 1U) << i;
    EXPECT_EQ(result.damage[0].subject, "w");
    EXPECT_NE(test::error_of([&] { read_all(*open(path(), {.check_hashes = true}).root.find("w")->as_entry().bytes); }),
              "")
        << i;
  }
}

TEST_F(NativePacking, FastFloatsOfAnotherTypeOrHalfAFloatAreCorrupt) {
  Checkpoint made = test::checkpoint({{"w", Value::tensor(test::entry(DType::bf16, {3000}, floats(3000, 2)))}});
  constexpr std::size_t kKind = 16 + 2 * 32 + 16 + 41;  // behind two ranges, with the heads of both sections
  constexpr std::size_t kChunk = kKind + 7 + 16 + 8;    // behind one payload and the length of its run
  save(made, path(), {.codec = Codec::fast});
  test::edit_index(path(), [&](core::ByteVector& index) {
    ASSERT_EQ(index[kKind], std::byte{10});
    index[kKind] = std::byte{12};
  });
  EXPECT_THAT(test::error_of([&] { open(path()); }), testing::HasSubstr("packed as floats of dtype number 12"));
  save(made, path(), {.codec = Codec::fast});
  test::edit_index(path(), [&](core::ByteVector& index) {
    ASSERT_EQ(core::load_le<std::uint32_t>(&index[kChunk]), 6000U);
    core::store_le<std::uint32_t>(&index[kChunk], 6001);
  });
  EXPECT_THAT(test::error_of([&] { open(path()); }), testing::HasSubstr("chunks of 6001 bytes hold no whole floats"));
}

TEST_F(NativePacking, DifferencesInPartsOfWordsAreCorrupt) {
  const auto at = [](unsigned step) { return test::checkpoint({{"w", test::tensor(DType::f32, {3000}, step)}}); };
  constexpr std::size_t kWidth = 16 + 2 * 32 + 16 + 41;  // behind two ranges, with the heads of both sections
  constexpr std::size_t kRun = kWidth + 7 + 16, kChunk = kRun + 8;  // behind one payload
  const auto error_with = [&](const auto& change) {
    save(make_delta(at(1), at(2)), path(), {.codec = Codec::zstd});
    test::edit_index(path(), [&](core::ByteVector& index) {
      ASSERT_EQ(index[kWidth], std::byte{4});
      ASSERT_EQ(core::load_le<std::uint64_t>(&index[kRun]), 12'000U);
      change(index);
    });
    return test::error_of([&] { open_delta(path()); });
  };
  EXPECT_EQ(error_with([](core::ByteVector&) {}), "");
  EXPECT_THAT(error_with([](core::ByteVector& index) { index[kWidth] = std::byte{3}; }),
              testing::HasSubstr("chunks of 12000 bytes in runs of 12000 hold no whole words of 3"));
  EXPECT_THAT(error_with([](core::ByteVector& index) { core::store_le<std::uint32_t>(&index[kChunk], 12'001); }),
              testing::HasSubstr("chunks of 12001 bytes in runs of 12000 hold no whole words of 4"));
  EXPECT_THAT(error_with([](core::ByteVector& index) { core::store_le<std::uint64_t>(&index[kRun], 6); }),
              testing::HasSubstr("chunks of 12000 bytes in runs of 6 hold no whole words of 4"));
}

TEST_F(NativePacking, TrimmedChunksOfNoBytesAreCorrupt) {
  const auto at = [](float by) {
    core::ByteVector bytes;
    std::uint64_t state = 1;
    const auto next = [&state] {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
    };
    for (int i = 0; i < 40'000; ++i) {
      const float value = 0.03F * next(), move = by * next();
      core::append_le(bytes, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value + move) >> 16));
    }
    return test::checkpoint({{"w", Value::tensor(test::entry(DType::bf16, {200, 200}, bytes))}});
  };
  save(make_delta(at(0), at(1e-3F)), path(), {.codec = Codec::zstd});
  ASSERT_EQ(codec_of(*list_entries(open_delta(path()).root)[0].entry), "trimmed");
  constexpr std::size_t kStored = 16 + 2 * 32 + 16 + 16, kSize = kStored + 32 + 16 + 16;
  test::edit_index(path(), [&](core::ByteVector& index) {
    ASSERT_EQ(core::load_le<std::uint32_t>(&index[kStored]), core::load_le<std::uint32_t>(&index[kSize]));
    core::store_le(&index[kStored], std::uint64_t{0});
    core::store_le(&index[kSize], std::uint32_t{0});
  });
  EXPECT_THAT(test::error_of([&] { open_delta(path()); }), testing::HasSubstr("a chunk of 80000 bytes takes 0"));
}

TEST_F(NativePacking, ReindexReadsFastFloats) {
  Checkpoint made = test::checkpoint({{"w", Value::tensor(test::entry(DType::bf16, {3000}, floats(3000, 2)))}});
  save(made, path(), {.codec = Codec::fast});
  ReindexResult result = reindex(path(), {.output = dir_.path() / "b.ckpt"});
  EXPECT_FALSE(result.needed);
  EXPECT_EQ(test::difference(open(dir_.path() / "b.ckpt").root, made.root), "");
}

TEST_F(NativePacking, ThreadsDoNotChangeTheBytes) {
  Checkpoint made = test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {900'000}, weights(900'000)))}});
  for (Codec codec : {Codec::zstd, Codec::gzip}) {
    save(made, path(), {.codec = codec, .threads = 1});
    std::string once = test::read_file(path());
    save(made, path(), {.codec = codec, .threads = 4});
    EXPECT_EQ(test::read_file(path()), once);
  }
}

TEST_F(NativePacking, AnUnknownCodecAsksForANewerVersion) {
  saved_size(test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {100'000}, weights(100'000)))}}),
             Codec::gzip);
  constexpr std::size_t kCodec = 16 + 2 * 32 + 16 + 40;  // behind two ranges, with the heads of both sections
  test::edit_index(path(), [&](core::ByteVector& index) {
    ASSERT_EQ(index[kCodec], std::byte{2});
    index[kCodec] = std::byte{77};
  });
  EXPECT_THAT(test::error_of([&] { open(path()); }), testing::HasSubstr("codec number 77; use a newer version"));
}

TEST_F(NativePacking, AnyPartOfACompressedTensorCanBeRead) {
  core::ByteVector bytes = weights(700'000);
  save(test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {7, 100'000}, bytes))}}), path(),
       {.codec = Codec::zstd});
  Checkpoint back = open(path());
  const ByteSource& source = *back.root.find("w")->as_entry().bytes;
  for (std::uint64_t begin = 0; begin < bytes.size(); begin += 150'001) {
    core::ByteVector part(std::min<std::uint64_t>(1'200'003, bytes.size() - begin));
    source.read(begin, part);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin))) << begin;
  }
  core::ByteVector past(2);
  EXPECT_NE(test::error_of([&] { source.read(bytes.size() - 1, past); }), "");
}

TEST_F(NativePacking, ManyThreadsReadOneCompressedTensor) {
  core::ByteVector bytes = weights(600'000);
  save(test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {600'000}, bytes))}}), path(),
       {.codec = Codec::zstd});
  Checkpoint back = open(path());
  const ByteSource& source = *back.root.find("w")->as_entry().bytes;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t begin = static_cast<std::uint64_t>(t) * 1000; begin + 5000 < bytes.size(); begin += 99'991) {
        core::ByteVector part(5000);
        source.read(begin, part);
        if (!std::equal(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(NativePacking, AutomaticCompressesWhereItPays) {
  Checkpoint zeros =
      test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {100'000}, core::ByteVector(400'000)))}});
  EXPECT_LT(saved_size(zeros, Codec::automatic), 40'000U);
  Checkpoint noise = test::checkpoint({{"w", test::tensor(DType::f32, {100'000})}});
  EXPECT_GT(saved_size(noise, Codec::automatic), 400'000U);
  EXPECT_EQ(saved_size(noise, Codec::automatic), saved_size(noise, Codec::none));
}

TEST_F(NativePacking, NoneStoresCompressedInputPlain) {
  Checkpoint zeros =
      test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {100'000}, core::ByteVector(400'000)))}});
  saved_size(zeros, Codec::zstd);
  Checkpoint packed = open(path());
  save(packed, dir_.path() / "plain.ckpt", {.codec = Codec::none});
  EXPECT_GT(std::filesystem::file_size(dir_.path() / "plain.ckpt"), 400'000U);
  EXPECT_EQ(test::difference(open(dir_.path() / "plain.ckpt").root, zeros.root), "");
}

TEST_F(NativePacking, DamagedFrameIsFoundAndNamed) {
  saved_size(test::checkpoint({{"w", Value::tensor(test::entry(DType::f32, {100'000}, weights(100'000)))}}),
             Codec::zstd);
  test::overwrite(path(), std::filesystem::file_size(path()) / 3, "damage");
  VerifyResult result = verify(path());
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_EQ(result.damage[0].subject, "w");
  Checkpoint back = open(path());
  EXPECT_NE(test::error_of([&] { read_all(*open(path(), {.check_hashes = true}).root.find("w")->as_entry().bytes); }),
            "");
}

TEST(NativeChunks, TileTheTensorInRuns) {
  using Dims = std::vector<std::uint64_t>;
  EXPECT_EQ(detail::chunk_dims({1000}, 4, 1 << 20), (Dims{1000}));
  EXPECT_EQ(detail::chunk_dims({1'000'000}, 4, 1 << 20), (Dims{250'000}));
  EXPECT_EQ(detail::chunk_dims({4096, 1024}, 4, 1 << 20), (Dims{256, 1024}));
  EXPECT_EQ(detail::chunk_dims({3, 600'000}, 4, 1 << 20), (Dims{1, 200'000}));
  EXPECT_EQ(detail::chunk_dims({8, 3, 2, 2}, 4, 1 << 20), (Dims{8, 3, 2, 2}));
}

// The size of a chunk is all that the index keeps, so it must lead back to the same dimensions.
TEST(NativeChunks, ChunkSizeGivesTheDimensionsBack) {
  for (std::uint64_t rows : {1ULL, 7ULL, 997ULL, 100'003ULL, 5'000'011ULL}) {
    for (std::uint64_t columns : {1ULL, 3ULL, 1021ULL, 70'001ULL}) {
      std::vector<std::uint64_t> dims = {rows, columns};
      std::vector<std::uint64_t> chunk = detail::chunk_dims(dims, 4, 1 << 20);
      EXPECT_EQ(detail::chunk_dims(dims, 4, chunk[0] * chunk[1] * 4), chunk) << rows << " x " << columns;
    }
  }
}

}  // namespace
}  // namespace ckpt
