// What a save of a difference reads of both checkpoints.

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
    hash.note(begin, all.subspan(begin, size), bytes);
  };
  ckpt::detail::PassingHash hash;
  note(hash, 300, 300);
  note(hash, 600, 400);
  note(hash, 300, 300);
  EXPECT_EQ(hash.of(1000), std::nullopt);
  note(hash, 0, 300);
  EXPECT_EQ(hash.of(1000), ckpt::hash128(all));
  note(hash, 0, 300);  // of another save
  EXPECT_EQ(hash.of(1000), ckpt::hash128(all));
  EXPECT_EQ(hash.of(999), std::nullopt);
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
