#include "libckpt/delta/delta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <random>

#include "libckpt/analyze/digest.h"
#include "libckpt/delta/difference_source.h"
#include "libckpt/delta/foretold_source.h"
#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/format/tensor_codec.h"
#include "libckpt/io/packed_differences.h"
#include "libckpt/io/word_planes.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/views.h"
#include "tests/support/temp_dir.h"

using ckpt::Checkpoint;
using ckpt::Value;
using core::ErrorCode;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

core::Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error;
  }
  return {ErrorCode::internal, "no error"};
}

Checkpoint step(float value) {
  return checkpoint(dict({{"step", Value::real(value)}, {"w", tensor({value, 7})}, {"b", tensor({0.5F})}}));
}

ckpt::Hash128 digest_of(const Checkpoint& checkpoint) {
  return ckpt::digest(checkpoint.root).model;
}

/// Through a file, as it is used.
Checkpoint saved(const TempDir& dir, const Checkpoint& delta, const std::string& name) {
  ckpt::save(delta, dir.path() / name, {.durable = false, .codec = ckpt::Codec::zstd});
  return ckpt::open_delta(dir.path() / name);
}

TEST(Delta, MadeAndAppliedIsTheLaterCheckpoint) {
  TempDir dir;
  Checkpoint later = step(2);
  later.metadata = {{"run", "a"}};
  Checkpoint delta = saved(dir, ckpt::make_delta(step(1), later), "d.ckpt");
  EXPECT_NE(values_at(delta.root, "w"), values_at(later.root, "w"));
  EXPECT_THAT(values_at(delta.root, "b"), ElementsAre(0));  // did not change
  Checkpoint back = ckpt::apply_delta(step(1), delta);
  EXPECT_EQ(digest_of(back), digest_of(later));
  EXPECT_EQ(ckpt::value_at(back.root, "step").as_real(), 2);
  EXPECT_EQ(back.metadata, later.metadata);
}

TEST(Delta, UnchangedTensorsTakeNoRoom) {
  TempDir dir;
  std::vector<float> values(1 << 18);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 2654435761U);
  Checkpoint large = checkpoint(dict({{"w", tensor(values)}}));
  saved(dir, ckpt::make_delta(large, large), "d.ckpt");
  EXPECT_LT(std::filesystem::file_size(dir.path() / "d.ckpt"), 32U << 10);
}

TEST(Delta, KeepsWholeWhatTheBaseDoesNotHave) {
  Checkpoint base = checkpoint(dict({{"shape", tensor({1, 2})}, {"gone", tensor({3})}}));
  Checkpoint later = checkpoint(dict({{"shape", tensor({1, 2, 3})}, {"fresh", tensor({4})}}));
  Checkpoint delta = ckpt::make_delta(base, later);
  EXPECT_EQ(ckpt::delta_facts(delta).marks, "ww");
  EXPECT_THAT(values_at(delta.root, "fresh"), ElementsAre(4));
  Checkpoint back = ckpt::apply_delta(base, delta);
  EXPECT_THAT(values_at(back.root, "shape"), ElementsAre(1, 2, 3));
  EXPECT_EQ(ckpt::list_entries(back.root).size(), 2U);
}

TEST(Delta, TiesAndWindowsStay) {
  auto storage = floats_storage(6);
  Checkpoint later = checkpoint(dict({{"whole", view(storage, {6}, {1})},
                                      {"again", view(storage, {2, 3}, {3, 1})},
                                      {"turned", view(storage, {3, 2}, {1, 3})},
                                      {"part", view(storage, {2}, {1}, 4)}}));
  Checkpoint base = checkpoint(dict({{"whole", tensor({9, 9, 9, 9, 9, 9})}, {"part", tensor({9, 9})}}));
  TempDir dir;
  Checkpoint delta = saved(dir, ckpt::make_delta(base, later), "d.ckpt");
  EXPECT_EQ(ckpt::delta_facts(delta).marks, "sttt");
  Checkpoint back = ckpt::apply_delta(base, delta);
  EXPECT_EQ(digest_of(back), digest_of(later));
  std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(back.root);
  for (const ckpt::NamedEntry& named : entries) {
    EXPECT_EQ(ckpt::storage_identity(*named.entry), ckpt::storage_identity(*entries[0].entry)) << named.name;
  }
}

TEST(Delta, AWindowAloneIsKeptWhole) {
  auto storage = floats_storage(6);
  Checkpoint later =
      checkpoint(dict({{"part", view(storage, {2}, {1}, 4)}, {"turned", view(floats_storage(6), {3, 2}, {1, 3})}}));
  Checkpoint base = checkpoint(dict({{"part", tensor({9, 9})}, {"turned", tensor({9, 9, 9, 9, 9, 9})}}));
  Checkpoint delta = ckpt::make_delta(base, later);
  EXPECT_EQ(ckpt::delta_facts(delta).marks, "ww");
  EXPECT_EQ(digest_of(ckpt::apply_delta(base, delta)), digest_of(later));
}

TEST(Delta, AChainGivesItsLastCheckpoint) {
  TempDir dir;
  std::vector<Checkpoint> deltas;
  for (int i = 1; i <= 8; ++i) {
    auto value = static_cast<float>(i);
    Checkpoint delta = ckpt::make_delta(step(value - 1), step(value));
    deltas.push_back(saved(dir, delta, std::to_string(i) + ".ckpt"));
  }
  EXPECT_EQ(digest_of(ckpt::apply_deltas(step(0), deltas)), digest_of(step(8)));
  deltas.erase(deltas.begin() + 3);
  core::Error error = error_of([&] { ckpt::apply_deltas(step(0), deltas); });
  EXPECT_EQ(error.code(), ErrorCode::refused);
  EXPECT_THAT(error.message(), HasSubstr("5.ckpt' was made for a checkpoint with the digest"));
}

// Tensors of several chunks, read in parts that fit neither chunks nor pieces.
TEST(Delta, AnyPartOfWhatEightDeltasGiveCanBeRead) {
  TempDir dir;
  auto large = [](int step) {
    std::vector<float> values(1'500'000);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i + i % 7 * static_cast<std::size_t>(step));
    return checkpoint(dict({{"w", tensor(std::move(values))}}));
  };
  Checkpoint base = large(0);
  std::vector<Checkpoint> deltas;
  for (int step = 1; step <= 8; ++step) {
    deltas.push_back(saved(dir, ckpt::make_delta(large(step - 1), large(step)), std::to_string(step) + ".ckpt"));
  }
  ckpt::EntryPtr last = ckpt::list_entries(large(8).root)[0].entry;
  core::ByteVector wanted = ckpt::read_all(*last->bytes);
  Checkpoint back = ckpt::apply_deltas(base, deltas);
  ckpt::EntryPtr found = ckpt::list_entries(back.root)[0].entry;
  for (std::uint64_t at = 0; at < wanted.size(); at += 1'300'001) {
    core::ByteVector part(std::min<std::uint64_t>(2'500'003, wanted.size() - at));
    found->bytes->read(at, part);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), wanted.begin() + static_cast<std::ptrdiff_t>(at))) << at;
  }
  EXPECT_EQ(digest_of(back), digest_of(large(8)));
}

Value tensor_of(core::DType dtype, core::Shape shape, core::ByteVector bytes) {
  ckpt::Entry entry;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  entry.bytes = ckpt::memory_source(std::move(bytes));
  return Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

/// Values of a run, of every kind of number that differences are made of, in several chunks each and with a rest.
Checkpoint run_at(unsigned step) {
  std::mt19937_64 random(step);
  const auto of = [&](core::DType dtype, core::Shape shape) {
    core::ByteVector bytes(*core::byte_size(dtype, static_cast<std::uint64_t>(shape.numel())));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761U >> 24);
    for (unsigned change = 0; change < step * 1000; ++change) bytes[random() % bytes.size()] ^= std::byte{3};
    return tensor_of(dtype, std::move(shape), std::move(bytes));
  };
  return checkpoint(dict({{"bf16", of(core::DType::bf16, {1031, 700})},
                          {"f32", of(core::DType::f32, {700'001})},
                          {"f64", of(core::DType::f64, {3, 50'000})},
                          {"c64", of(core::DType::c64, {70'000})},
                          {"c128", of(core::DType::c128, {40'000})},
                          {"u8", of(core::DType::u8, {999'999})},
                          {"small", of(core::DType::i64, {7})}}));
}

TEST(Delta, EveryKindOfNumberComesBackThroughAChain) {
  TempDir dir;
  std::vector<Checkpoint> deltas;
  for (unsigned step = 1; step <= 3; ++step) {
    deltas.push_back(saved(dir, ckpt::make_delta(run_at(step - 1), run_at(step)), std::to_string(step) + ".ckpt"));
    EXPECT_TRUE(ckpt::verify(dir.path() / (std::to_string(step) + ".ckpt")).damage.empty());
  }
  std::string codecs;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(deltas[0].root)) {
    codecs += std::string(ckpt::codec_of(*named.entry)) + " ";
  }
  EXPECT_EQ(codecs, "delta delta delta delta delta delta none ");
  const Checkpoint back = ckpt::apply_deltas(run_at(0), deltas);
  EXPECT_EQ(digest_of(back), digest_of(run_at(3)));
  for (const ckpt::NamedEntry& named : ckpt::list_entries(back.root)) {
    const core::ByteVector all = ckpt::read_all(*named.entry->bytes);
    for (std::uint64_t at = 0; at < all.size(); at += 333'333) {
      core::ByteVector part(std::min<std::uint64_t>(1'111'111, all.size() - at));
      named.entry->bytes->read(at, part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(at))) << named.name;
    }
  }
}

/// Weights of a run of which every step moves every one a little, two tensors of several parts and of one, one of a
/// single dimension, and one that stays.
Checkpoint weights_at(unsigned steps) {
  const auto of = [&](core::Shape shape, std::uint64_t seed, float by) {
    const auto count = static_cast<std::size_t>(shape.numel());
    const auto columns = static_cast<std::size_t>(shape[shape.size() - 1]);
    std::uint64_t state = seed;
    const auto next = [&] {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
    };
    std::vector<float> values(count);
    for (float& value : values) value = 0.03F * next();
    for (unsigned step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < count; ++i) {
        values[i] += by * (next() + static_cast<float>(i / columns % 7) * static_cast<float>(i % columns % 5) / 8);
      }
    }
    core::ByteVector bytes;
    for (float value : values) {
      core::append_le(bytes, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    }
    return tensor_of(core::DType::bf16, std::move(shape), std::move(bytes));
  };
  return checkpoint(dict({{"large", of({3001, 1500}, 1, 1e-3F)},
                          {"cube", of({130, 9, 131}, 2, 1e-3F)},
                          {"row", of({70'001}, 3, 1e-3F)},
                          {"still", of({500, 500}, 4, 0)},
                          {"small", of({10, 10}, 5, 1e-3F)}}));
}

TEST(Delta, WordsThatAreForetoldComeBackThroughAChain) {
  TempDir dir;
  std::vector<Checkpoint> deltas;
  for (unsigned step = 1; step <= 3; ++step) {
    const Checkpoint delta = ckpt::make_delta(weights_at(step - 1), weights_at(step));
    EXPECT_EQ(ckpt::delta_facts(delta).marks, "pppss");
    deltas.push_back(saved(dir, delta, std::to_string(step) + ".ckpt"));
    EXPECT_TRUE(ckpt::verify(dir.path() / (std::to_string(step) + ".ckpt")).damage.empty());
  }
  EXPECT_EQ(ckpt::codec_of(*ckpt::list_entries(deltas[0].root)[0].entry), "trimmed");
  const Checkpoint back = ckpt::apply_deltas(weights_at(0), deltas);
  EXPECT_EQ(digest_of(back), digest_of(weights_at(3)));
  for (const ckpt::NamedEntry& named : ckpt::list_entries(back.root)) {
    const core::ByteVector all = ckpt::read_all(*named.entry->bytes);
    for (std::uint64_t at = 0; at < all.size(); at += 333'333) {
      core::ByteVector part(std::min<std::uint64_t>(1'111'111, all.size() - at));
      named.entry->bytes->read(at, part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(at))) << named.name;
    }
  }
}

/// However the bytes of such a delta are kept, and in a chain with differences of other kinds.
TEST(Delta, WordsThatAreForetoldInAnyCodecAndBetweenOtherDifferences) {
  TempDir dir;
  const Checkpoint made = ckpt::make_delta(weights_at(0), weights_at(1));
  for (ckpt::Codec codec : {ckpt::Codec::gzip, ckpt::Codec::none, ckpt::Codec::automatic}) {
    ckpt::save(made, dir.path() / "d.ckpt", {.durable = false, .codec = codec});
    const Checkpoint delta = ckpt::open_delta(dir.path() / "d.ckpt");
    EXPECT_EQ(digest_of(ckpt::apply_delta(weights_at(0), delta)), digest_of(weights_at(1)));
    ckpt::save(delta, dir.path() / "again.ckpt", {.durable = false, .codec = ckpt::Codec::zstd});
    const Checkpoint again = ckpt::open_delta(dir.path() / "again.ckpt");
    EXPECT_EQ(digest_of(ckpt::apply_delta(weights_at(0), again)), digest_of(weights_at(1)));
  }
  // Nothing moves from 1 to 1, so that the second one has plain differences.
  const std::vector<Checkpoint> deltas = {saved(dir, made, "1.ckpt"),
                                          saved(dir, ckpt::make_delta(weights_at(1), weights_at(1)), "2.ckpt"),
                                          saved(dir, ckpt::make_delta(weights_at(1), weights_at(2)), "3.ckpt")};
  EXPECT_EQ(ckpt::delta_facts(deltas[1]).marks, "sssss");
  EXPECT_EQ(ckpt::delta_facts(deltas[2]).marks, "pppss");
  EXPECT_EQ(digest_of(ckpt::apply_deltas(weights_at(0), deltas)), digest_of(weights_at(2)));
}

/// A part that would not become smaller holds differences of words.
TEST(Delta, PartsThatCannotBeForetoldArePlain) {
  std::mt19937 random(1);
  const ckpt::Value weights = weights_at(0).root;
  const core::ByteVector before = ckpt::read_all(*ckpt::list_entries(weights)[1].entry->bytes);
  core::ByteVector after = before;
  constexpr std::uint64_t kPart = 100'000;
  for (std::size_t i = kPart; i < 2 * kPart; ++i) after[i] = static_cast<std::byte>(random());
  const ckpt::SourcePtr from = ckpt::memory_source(before);
  const ckpt::SourcePtr change = ckpt::detail::foretold_source(from, ckpt::memory_source(after), {kPart, 500}, "");
  const core::ByteVector bytes = ckpt::read_all(*change);
  EXPECT_EQ(bytes[kPart - 1], std::byte{0});
  EXPECT_EQ(bytes[3 * kPart - 1], std::byte{0});
  core::ByteVector differences(after.begin() + kPart, after.begin() + 2 * kPart);
  ckpt::subtract_words(core::Bytes(before).subspan(kPart, kPart), 2, differences);
  EXPECT_TRUE(std::ranges::equal(differences, core::Bytes(bytes).subspan(kPart, kPart)));
  core::ByteVector piece(70'000);
  change->read(kPart / 2, piece);
  EXPECT_TRUE(std::ranges::equal(piece, core::Bytes(bytes).subspan(kPart / 2, piece.size())));
  const ckpt::SourcePtr sum = ckpt::detail::sum_source(from, ckpt::memory_source(bytes), {2, false, kPart}, "");
  EXPECT_EQ(ckpt::read_all(*sum), after);
}

TEST(Delta, EveryFlippedBitOfWhatIsForetoldIsFound) {
  TempDir dir;
  const auto at = [&](unsigned step) {
    return checkpoint(dict({{"w", ckpt::value_at(weights_at(step).root, "row")}}));
  };
  const Checkpoint before = at(0);
  const std::filesystem::path file = dir.path() / "d.ckpt";
  const ckpt::EntryPtr entry = ckpt::list_entries(saved(dir, ckpt::make_delta(before, at(1)), "d.ckpt").root)[0].entry;
  ASSERT_EQ(ckpt::codec_of(*entry), "trimmed");
  const ckpt::FileRange range = *ckpt::detail::stored_payload(*entry->bytes)->stored()->file_range();
  const std::string whole = read_file(file);
  for (std::uint64_t bit = 0; bit < range.length * 8; bit += bit < 800 ? 7 : 4999) {
    std::string changed = whole;
    changed[range.offset + bit / 8] = static_cast<char>(changed[range.offset + bit / 8] ^ (1 << bit % 8));
    write_file(file, changed);
    const Checkpoint back = ckpt::apply_delta(before, ckpt::open_delta(file));
    const core::Error error = error_of([&] { ckpt::read_all(*ckpt::list_entries(back.root)[0].entry->bytes); });
    ASSERT_EQ(error.code(), ErrorCode::corrupt) << bit;
    ASSERT_EQ(ckpt::verify(file).damage.size(), 1U) << bit;
  }
}

/// Also where it is unpacked without the check of the whole, which knows the name.
TEST(Delta, DamageInADifferenceNamesItsTensor) {
  TempDir dir;
  const auto at = [](unsigned step) {
    core::ByteVector floats(12'000, static_cast<std::byte>(60 + step));
    return checkpoint(dict({{"row", ckpt::value_at(weights_at(step).root, "row")},
                            {"f", tensor_of(core::DType::f32, {3000}, std::move(floats))}}));
  };
  const std::filesystem::path file = dir.path() / "d.ckpt";
  const auto entries = ckpt::list_entries(saved(dir, ckpt::make_delta(at(0), at(1)), "d.ckpt").root);
  const std::string whole = read_file(file);
  for (const ckpt::NamedEntry& named : entries) {
    const ckpt::FileRange range = *ckpt::detail::stored_payload(*named.entry->bytes)->stored()->file_range();
    std::string changed = whole;
    char& last = changed[range.offset + range.length - 1];
    last = static_cast<char>(last ^ 1);
    write_file(file, changed);
    const Checkpoint back = ckpt::apply_delta(at(0), ckpt::open_delta(file));
    const core::Error error = error_of([&] { ckpt::save(back, dir.path() / "back.ckpt", {.durable = false}); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_THAT(error.what(), HasSubstr("d.ckpt: '" + named.name + "': packed words are damaged: the"));
  }
}

/// Counts what is read of others.
class CountedBytes final : public ckpt::ByteSource {
 public:
  explicit CountedBytes(ckpt::SourcePtr bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_->size(); }
  void read(std::uint64_t offset, core::MutableBytes out) const override {
    read_ += out.size();
    bytes_->read(offset, out);
  }
  void require_unchanged() const override {}
  std::uint64_t count() const { return read_; }

 private:
  ckpt::SourcePtr bytes_;
  mutable std::uint64_t read_ = 0;
};

/// Parts of few rows cannot use directions, and rows for them may be as long as parts: all of them would be in memory.
TEST(Delta, RowsForDirectionsAreReadWhereTheyHelp) {
  const auto read_for_a_part = [](std::uint64_t rows, std::uint64_t columns, std::uint64_t part_rows) {
    const auto before = std::make_shared<CountedBytes>(ckpt::memory_source(core::ByteVector(2 * rows * columns)));
    const auto after = std::make_shared<CountedBytes>(ckpt::memory_source(core::ByteVector(2 * rows * columns)));
    const std::uint64_t part = 2 * part_rows * columns;
    core::ByteVector out(part);
    ckpt::detail::foretold_source(before, after, {part, columns}, "")->read(0, out);
    EXPECT_EQ(before->count(), after->count());
    return before->count();
  };
  EXPECT_EQ(read_for_a_part(300, 10'000, 100), 2 * 100 * 10'000U);
  EXPECT_EQ(read_for_a_part(300, 1000, 150), 2 * (150 + 256) * 1000U);
}

TEST(Delta, AsksForAnotherCodecAreHeard) {
  TempDir dir;
  for (ckpt::Codec codec : {ckpt::Codec::gzip, ckpt::Codec::none}) {
    ckpt::save(ckpt::make_delta(run_at(0), run_at(1)), dir.path() / "d.ckpt", {.durable = false, .codec = codec});
    const Checkpoint delta = ckpt::open_delta(dir.path() / "d.ckpt");
    EXPECT_EQ(ckpt::codec_of(*ckpt::list_entries(delta.root)[0].entry), codec == ckpt::Codec::gzip ? "gzip" : "none");
    EXPECT_EQ(digest_of(ckpt::apply_delta(run_at(0), delta)), digest_of(run_at(1)));
  }
}

/// As versions before 1.6 of the native format wrote them: the exclusive or, marked d, packed by zstd.
TEST(Delta, ExclusiveOrsOfOlderVersionsAreReadAndChained) {
  TempDir dir;
  core::ByteVector bits = ckpt::read_all(*ckpt::list_entries(run_at(1).root)[1].entry->bytes);
  const core::ByteVector before = ckpt::read_all(*ckpt::list_entries(run_at(0).root)[1].entry->bytes);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] ^= before[i];
  const auto only_f32 = [](unsigned step) {
    return checkpoint(dict({{"w", Value::tensor(ckpt::list_entries(run_at(step).root)[1].entry)}}));
  };
  Checkpoint old = checkpoint(dict({{"w", tensor_of(core::DType::f32, {700'001}, std::move(bits))}}));
  old.metadata = {{"ckpt.delta.base", ckpt::to_hex(digest_of(only_f32(0)))},
                  {"ckpt.delta.target", ckpt::to_hex(digest_of(only_f32(1)))},
                  {"ckpt.delta.tensors", "d"}};
  const Checkpoint first = saved(dir, old, "1.ckpt");
  EXPECT_EQ(ckpt::codec_of(*ckpt::list_entries(first.root)[0].entry), "zstd");
  EXPECT_EQ(digest_of(ckpt::apply_delta(only_f32(0), first)), digest_of(only_f32(1)));
  const Checkpoint second = saved(dir, ckpt::make_delta(only_f32(1), only_f32(2)), "2.ckpt");
  EXPECT_EQ(digest_of(ckpt::apply_deltas(only_f32(0), {first, second})), digest_of(only_f32(2)));
}

/// Differences in chunks of `chunk` bytes, which are added at once only where one of them holds all.
class InChunks final : public ckpt::ByteSource, public ckpt::detail::PackedDifferences {
 public:
  InChunks(core::ByteVector bytes, std::uint64_t chunk) : bytes_(std::move(bytes)), chunk_(chunk) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void require_unchanged() const override {}
  void read(std::uint64_t offset, core::MutableBytes out) const override {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  bool add_to(std::uint64_t offset, std::uint32_t width, core::MutableBytes words) const override {
    if (offset + words.size() > chunk_end(offset)) return false;
    ckpt::add_words(core::Bytes(bytes_).subspan(offset, words.size()), width, words);
    return true;
  }
  std::uint64_t chunk_end(std::uint64_t offset) const override { return (offset / chunk_ + 1) * chunk_; }

 private:
  core::ByteVector bytes_;
  std::uint64_t chunk_;
};

core::ByteVector counted(std::size_t count, std::size_t factor) {
  core::ByteVector bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * factor);
  return bytes;
}

// A file may say so, whoever wrote it.
TEST(Delta, ChunksThatEndWithinAWordAreAddedWordByWord) {
  const core::ByteVector base = counted(48, 77), difference = counted(48, 151);
  core::ByteVector wanted = base;
  ckpt::add_words(difference, 4, wanted);
  for (std::uint64_t chunk : {1, 3, 6, 7, 8, 10, 100}) {
    const ckpt::SourcePtr sum = ckpt::detail::sum_source(
        ckpt::memory_source(base), std::make_shared<InChunks>(difference, chunk), {.width = 4}, "");
    EXPECT_EQ(ckpt::read_all(*sum), wanted) << chunk;
  }
}

TEST(Delta, AnExclusiveOrIsNeverAddedAsNumbers) {
  const core::ByteVector base = counted(48, 77), difference = counted(48, 151);
  core::ByteVector wanted = base;
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] ^= difference[i];
  const ckpt::SourcePtr sum = ckpt::detail::sum_source(
      ckpt::memory_source(base), std::make_shared<InChunks>(difference, 16), {.width = 4, .bits = true}, "");
  EXPECT_EQ(ckpt::read_all(*sum), wanted);
}

TEST(Delta, EveryFlippedBitOfADifferenceIsFound) {
  TempDir dir;
  const auto at = [](std::size_t step) {
    std::vector<float> values(3000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 50 == 0 ? i + step : i);
    return checkpoint(dict({{"w", tensor(std::move(values))}}));
  };
  const std::filesystem::path file = dir.path() / "d.ckpt";
  const ckpt::EntryPtr saved_entry =
      ckpt::list_entries(saved(dir, ckpt::make_delta(at(0), at(1)), "d.ckpt").root)[0].entry;
  const ckpt::FileRange range = *ckpt::detail::stored_payload(*saved_entry->bytes)->stored()->file_range();
  const std::string whole = read_file(file);
  for (std::uint64_t bit = 0; bit < range.length * 8; bit += bit < 800 ? 1 : 13) {
    std::string changed = whole;
    changed[range.offset + bit / 8] = static_cast<char>(changed[range.offset + bit / 8] ^ (1 << bit % 8));
    write_file(file, changed);
    const Checkpoint back = ckpt::apply_delta(at(0), ckpt::open_delta(file));
    const core::Error error = error_of([&] { ckpt::read_all(*ckpt::list_entries(back.root)[0].entry->bytes); });
    ASSERT_EQ(error.code(), ErrorCode::corrupt) << bit;
    ASSERT_EQ(ckpt::verify(file).damage.size(), 1U) << bit;
  }
}

TEST(Delta, ABaseInAnotherFormatIsTheSame) {
  TempDir dir;
  auto model = [](float value) { return checkpoint(dict({{"w", tensor({value, 7})}, {"b", tensor({value})}})); };
  for (const char* name : {"base.safetensors", "base.pth", "base.npz", "base.ckpt"}) {
    ckpt::save(model(1), dir.path() / name, {.durable = false});
    Checkpoint back = ckpt::apply_delta(ckpt::open(dir.path() / name), ckpt::make_delta(model(1), model(2)));
    EXPECT_EQ(digest_of(back), digest_of(model(2))) << name;
  }
}

TEST(Delta, AnotherBaseIsRefusedNamingBothDigests) {
  Checkpoint delta = ckpt::make_delta(step(1), step(2));
  core::Error error = error_of([&] { ckpt::apply_delta(step(3), delta); });
  EXPECT_EQ(error.code(), ErrorCode::refused);
  EXPECT_THAT(error.message(), HasSubstr(ckpt::to_hex(digest_of(step(1)))));
  EXPECT_THAT(error.message(), HasSubstr(ckpt::to_hex(digest_of(step(3)))));
}

TEST(Delta, IsNoCheckpointToLoad) {
  TempDir dir;
  Checkpoint delta = saved(dir, ckpt::make_delta(step(1), step(2)), "d.ckpt");
  core::Error error = error_of([&] { ckpt::open(dir.path() / "d.ckpt"); });
  EXPECT_EQ(error.code(), ErrorCode::refused);
  EXPECT_THAT(error.message(), HasSubstr("ckpt delta apply"));
  EXPECT_EQ(error_of([&] { ckpt::make_delta(delta, step(2)); }).code(), ErrorCode::refused);
  EXPECT_EQ(error_of([&] { ckpt::make_delta(step(2), delta); }).code(), ErrorCode::refused);
  ckpt::save(step(1), dir.path() / "a.ckpt", {.durable = false});
  EXPECT_EQ(error_of([&] { ckpt::open_delta(dir.path() / "a.ckpt"); }).code(), ErrorCode::usage);
}

TEST(Delta, DamageIsSaidOfTheFileItIsIn) {
  TempDir dir;
  auto damage = [](const std::filesystem::path& file) {
    std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(ckpt::open_delta(file).root);
    std::optional<ckpt::FileRange> range = entries[0].entry->bytes->file_range();
    ASSERT_TRUE(range.has_value());
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(range->offset));
    bytes.put('\x55');
  };
  std::vector<std::filesystem::path> files;
  for (int i = 1; i <= 3; ++i) {
    files.push_back(dir.path() / (std::to_string(i) + ".ckpt"));
    auto value = static_cast<float>(i);
    ckpt::save(ckpt::make_delta(step(value - 1), step(value)), files.back(), {.durable = false});
  }
  damage(files[1]);
  std::vector<Checkpoint> deltas;
  for (const auto& file : files) deltas.push_back(ckpt::open_delta(file));
  core::Error error = error_of([&] { ckpt::save(ckpt::apply_deltas(step(0), deltas), dir.path() / "x.pth"); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_THAT(error.what(), HasSubstr("2.ckpt: "));
  EXPECT_THAT(error.what(), HasSubstr("'w'"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "x.pth"));
}

TEST(Delta, ADamagedRecordIsCorrupt) {
  const Checkpoint delta = ckpt::make_delta(step(1), step(2));
  auto with = [&](std::size_t which, const std::string& text) {
    Checkpoint damaged = delta;
    damaged.metadata[which].second = text;
    return error_of([&] { ckpt::apply_delta(step(1), damaged); }).code();
  };
  EXPECT_EQ(with(0, "12"), ErrorCode::corrupt);
  EXPECT_EQ(with(1, std::string(32, 'g')), ErrorCode::corrupt);
  EXPECT_EQ(with(2, "s"), ErrorCode::corrupt);   // of two tensors
  EXPECT_EQ(with(2, "st"), ErrorCode::corrupt);  // tied to nothing
  EXPECT_EQ(with(2, "s?"), ErrorCode::corrupt);
}

}  // namespace
