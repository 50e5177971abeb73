// What a save of a difference reads of both checkpoints.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>

#include "libckpt/analyze/digest.h"
#include "libckpt/delta/delta.h"
#include "libckpt/delta/passing_hash.h"
#include "libckpt/open_save.h"
#include "tests/libckpt/transform/views.h"
#include "tests/support/temp_dir.h"

using ckpt::Checkpoint;
using namespace test;

namespace {

/// Bytes that know how many of them were read.
class CountedSource final : public ckpt::ByteSource {
 public:
  explicit CountedSource(core::ByteVector bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, core::MutableBytes out) const override {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    read_ += out.size();
  }
  void require_unchanged() const override {}
  const core::ByteVector& bytes() const { return bytes_; }
  std::uint64_t times_read() const { return (read_ + size() / 2) / size(); }

 private:
  core::ByteVector bytes_;
  mutable std::atomic<std::uint64_t> read_ = 0;
};

constexpr std::int64_t kRows = 2048, kColumns = 1024;

/// Weights, and what a step makes of them that moves all a little.
std::shared_ptr<const CountedSource> weights(float by) {
  core::ByteVector bytes;
  std::uint64_t state = 1;
  const auto next = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
  };
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    const float value = 0.03F * next(), move = by * next();
    core::append_le(bytes, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value + move) >> 16));
  }
  return std::make_shared<const CountedSource>(std::move(bytes));
}

Checkpoint of(const std::shared_ptr<const CountedSource>& bytes) {
  auto entry = std::make_shared<ckpt::Entry>();
  entry->dtype = core::DType::bf16;
  entry->shape = {kRows, kColumns};
  entry->bytes = bytes;
  return checkpoint(dict({{"w", ckpt::Value::tensor(entry)}}));
}

/// Several threads, which read and pack parts in any order, find what one finds.
TEST(DeltaSave, ReadsBothOnceForDigestsAndDifferences) {
  TempDir dir;
  const auto digest_of = [](const auto& bytes) { return ckpt::digest(of(bytes).root).model; };
  const ckpt::Hash128 base = digest_of(weights(0)), target = digest_of(weights(1e-3F));
  for (const unsigned threads : {1U, 2U, 7U}) {
    const auto before = weights(0), after = weights(1e-3F);
    const ckpt::DeltaOptions when_saved{.threads = threads, .digests_when_saved = true};
    const Checkpoint delta = ckpt::make_delta(of(before), of(after), when_saved);
    EXPECT_EQ(ckpt::delta_counts(delta).marks, "p");
    EXPECT_EQ(before->times_read(), 0U);
    ckpt::save(delta, dir.path() / "d.ckpt", {.durable = false, .codec = ckpt::Codec::zstd, .threads = threads});
    EXPECT_EQ(before->times_read(), 1U);
    EXPECT_EQ(after->times_read(), 1U);
    const ckpt::DeltaFacts facts = ckpt::delta_facts(ckpt::open_delta(dir.path() / "d.ckpt"));
    EXPECT_EQ(facts.base, base);
    EXPECT_EQ(facts.target, target);
    EXPECT_EQ(ckpt::delta_facts(delta).target, target);
    EXPECT_EQ(after->times_read(), 1U);
  }
}

TEST(DeltaSave, ReadsBothOnceMoreWhereDigestsAreWantedBefore) {
  TempDir dir;
  const auto before = weights(0), after = weights(1e-3F);
  const Checkpoint delta = ckpt::make_delta(of(before), of(after), {.threads = 1});
  EXPECT_EQ(before->times_read(), 1U);
  ckpt::save(delta, dir.path() / "d.ckpt", {.durable = false, .codec = ckpt::Codec::zstd, .threads = 1});
  EXPECT_EQ(before->times_read(), 2U);
  EXPECT_EQ(after->times_read(), 2U);
}

TEST(PassingHash, TakesPartsInAnyOrderAndSaysNothingWhereOneIsMissing) {
  const auto bytes = std::make_shared<core::ByteVector>(weights(0)->bytes());
  const core::Bytes all = core::Bytes(*bytes).first(1000);
  const auto note = [&](ckpt::detail::PassingHash& hash, std::size_t begin, std::size_t size) {
    const core::ByteVector gone(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                all.begin() + static_cast<std::ptrdiff_t>(begin + size));
    begin == 300 ? hash.note(begin, gone) : hash.note(begin, all.subspan(begin, size), bytes);
  };
  ckpt::detail::PassingHash hash(1000);
  note(hash, 300, 300);
  note(hash, 600, 400);
  note(hash, 300, 200);
  note(hash, 0, 1);
  EXPECT_EQ(hash.found(), std::nullopt);
  note(hash, 0, 300);
  EXPECT_EQ(hash.found(), ckpt::hash128(all));
  note(hash, 0, 300);  // of another save
  EXPECT_EQ(hash.found(), ckpt::hash128(all));
  EXPECT_EQ(ckpt::detail::PassingHash(0).found(), ckpt::hash128(core::Bytes()));
}

Checkpoint with_a_small_one(const std::shared_ptr<const CountedSource>& bytes, float value) {
  return checkpoint(dict({{"w", of(bytes).root.as_dict().items[0].second}, {"b", tensor({value, 1})}}));
}

/// What is said where a delta is applied and the result is saved; "" where it is there then.
std::string said_of(const TempDir& dir, const Checkpoint& base, const Checkpoint& delta, const std::string& name,
                    unsigned threads) {
  ckpt::save(delta, dir.path() / "d.ckpt", {.durable = false, .codec = ckpt::Codec::zstd});
  std::string said;
  try {
    const Checkpoint out =
        ckpt::apply_delta(base, ckpt::open_delta(dir.path() / "d.ckpt"), {.threads = threads, .check_target = true});
    ckpt::save(out, dir.path() / name, {.durable = false, .threads = threads});
  } catch (const core::Error& error) {
    said = error.what();
  }
  EXPECT_EQ(std::filesystem::exists(dir.path() / name), said.empty()) << name;
  std::filesystem::remove_all(dir.path() / name);
  return said;
}

constexpr const char* kNames[] = {"o.ckpt", "o.pth", "o.safetensors", "o.gguf", "o.h5", "o.dcp", "o.parts"};

/// In every format, whatever the threads: the digest is that of what is written.
TEST(DeltaSave, RefusesAResultWithAnotherDigestThanTheDeltaNames) {
  TempDir dir;
  const Checkpoint base = with_a_small_one(weights(0), 1);
  const Checkpoint delta = ckpt::make_delta(base, with_a_small_one(weights(1e-3F), 2));
  Checkpoint other = delta;
  const std::string good = delta.metadata[1].second, bad(32, '5'), file = (dir.path() / "d.ckpt").string();
  other.metadata[1].second = bad;
  for (const char* name : kNames) {
    for (const unsigned threads : {1U, 7U}) {
      EXPECT_EQ(said_of(dir, base, delta, name, threads), "") << name;
      EXPECT_THAT(said_of(dir, base, other, name, threads),
                  testing::EndsWith("what comes out of the base by '" + file + "' has the digest " + good +
                                    ", where the difference was made of one with " + bad))
          << name;
    }
  }
}

/// The digest of what is written is that of the target only where the base is the right one, so that its own need not
/// be known.
TEST(DeltaSave, ReadsTheBaseOnceWhereTheResultIsCompared) {
  TempDir dir;
  const Checkpoint delta = ckpt::make_delta(of(weights(0)), of(weights(1e-3F)));
  for (const unsigned threads : {1U, 7U}) {
    const auto base = weights(0);
    EXPECT_EQ(said_of(dir, of(base), delta, "o.pth", threads), "");
    EXPECT_EQ(base->times_read(), 1U);
  }
}

TEST(DeltaSave, RefusesAnotherBaseWhateverComesOfIt) {
  TempDir dir;
  const Checkpoint base = with_a_small_one(weights(0), 1), target = with_a_small_one(weights(1e-3F), 2);
  const Checkpoint delta = ckpt::make_delta(base, target);
  const Checkpoint all_whole = ckpt::make_delta(checkpoint(dict({{"x", tensor({1})}})), target);
  const auto refusal = [&](const Checkpoint& made, const Checkpoint& given) {
    return testing::EndsWith("'" + (dir.path() / "d.ckpt").string() + "' was made for a checkpoint with the digest " +
                             made.metadata[0].second + ", and the base has " +
                             ckpt::to_hex(ckpt::digest(given.root).model));
  };
  const Checkpoint others[] = {with_a_small_one(weights(0.5F), 1), with_a_small_one(weights(0), 3), of(weights(0)),
                               checkpoint(dict({{"w", tensor({1})}, {"b", tensor({1, 1})}}))};
  for (const char* name : kNames) {
    for (const Checkpoint& other : others) {
      EXPECT_THAT(said_of(dir, other, delta, name, 2), refusal(delta, other)) << name;
      EXPECT_THAT(said_of(dir, other, all_whole, name, 2), refusal(all_whole, other)) << name;
    }
  }
}

/// Whoever showed it may be gone when the result is saved.
TEST(DeltaSave, ShowsNoProgressOfABaseThatIsLookedAtLate) {
  TempDir dir;
  ckpt::save(ckpt::make_delta(of(weights(0)), of(weights(1e-3F))), dir.path() / "d.ckpt", {.durable = false});
  int shown = 0;
  const auto show = [&](std::uint64_t, std::uint64_t) { ++shown; };
  const Checkpoint out = ckpt::apply_delta(of(weights(0.5F)), ckpt::open_delta(dir.path() / "d.ckpt"),
                                           {.threads = 1, .progress = show, .check_target = true});
  EXPECT_THROW(ckpt::save(out, dir.path() / "o.pth", {.durable = false, .threads = 1}), ckpt::DigestError);
  EXPECT_EQ(shown, 0);
}

/// Other formats have the texts in front of the tensors.
TEST(DeltaSave, OtherFormatsHaveTheDigestsToo) {
  TempDir dir;
  const auto before = weights(0), after = weights(1e-3F);
  const Checkpoint delta = ckpt::make_delta(of(before), of(after), {.digests_when_saved = true});
  ckpt::save(delta, dir.path() / "d.safetensors", {.durable = false});
  const Checkpoint back = ckpt::apply_delta(of(before), ckpt::open_delta(dir.path() / "d.safetensors"));
  EXPECT_EQ(ckpt::digest(back.root).model, ckpt::digest(of(after).root).model);
}

}  // namespace
