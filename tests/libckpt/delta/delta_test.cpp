#include "libckpt/delta/delta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "libckpt/analyze/digest.h"
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
  EXPECT_EQ(ckpt::delta_facts(delta).marks, "dttt");
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
  EXPECT_EQ(with(2, "d"), ErrorCode::corrupt);   // of two tensors
  EXPECT_EQ(with(2, "dt"), ErrorCode::corrupt);  // tied to nothing
  EXPECT_EQ(with(2, "d?"), ErrorCode::corrupt);
}

}  // namespace
