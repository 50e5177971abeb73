#include "tests/fuzz/difference_targets.h"

#include <algorithm>
#include <bit>
#include <string>

#include "libckpt/io/checksum.h"
#include "libckpt/io/packed_differences.h"
#include "libckpt/io/predicted_words.h"
#include "tests/fuzz/targets.h"

namespace fuzz {
namespace {

using core::ByteVector;

constexpr std::size_t kFixedHead = 24;
constexpr std::size_t kBlockEntry = 12;
constexpr std::uint64_t kMostWords = 1 << 19;

std::uint32_t number_at(const ByteVector& part, std::size_t at) {
  return core::load_le<std::uint32_t>(part.data() + at);
}

/// The checksums that the part must have, so that its bytes get past them.
void put_checksums(ByteVector& part) {
  const std::size_t head = number_at(part, 8), words = number_at(part, 12);
  const std::size_t blocks = (2 * words + ckpt::kPredictedBlock - 1) / ckpt::kPredictedBlock;
  if (head > part.size() || head < kFixedHead + blocks * kBlockEntry) return;
  std::size_t at = head;
  for (std::size_t entry = head - blocks * kBlockEntry; entry < head; entry += kBlockEntry) {
    const std::size_t size = number_at(part, entry);
    if (size > part.size() - at) break;
    core::store_le(part.data() + entry + 4, ckpt::hash128(core::Bytes(part).subspan(at, size)).low);
    at += size;
  }
  core::store_le(part.data(), ckpt::hash128(core::Bytes(part).first(head).subspan(8)).low);
}

/// What a step that moves rows along one direction, and all by a little, makes of words; as they are where `by` is 0.
std::string packed_part(std::uint64_t rows, std::uint64_t columns, float by) {
  ByteVector before, after;
  std::uint64_t state = 1;
  const auto next = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
  };
  const auto put = [](ByteVector& out, float value) {
    core::append_le(out, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  };
  for (std::uint64_t i = 0; i < rows * columns; ++i) {
    const float value = 0.03F * next(), moves = static_cast<float>(i / columns % 7 * (i % columns % 5));
    put(before, value);
    put(after, value + by * (moves + next() / 8));
  }
  const auto directions = ckpt::common_directions(before, after, columns);
  return std::string(core::as_text(ckpt::pack_predicted(before, after, columns, directions.get())));
}

class Trimmed final : public ckpt::detail::TrimmedBytes {
 public:
  std::uint64_t size() const override { return 2 * part(); }
  std::uint64_t part() const override { return 64 << 10; }
  ByteVector trimmed_part(std::uint64_t begin) const override { return ByteVector(begin == 0 ? 300 : 1, std::byte{7}); }
  void read(std::uint64_t offset, core::MutableBytes out) const override {
    for (std::byte& byte : out) {
      byte = std::byte{static_cast<unsigned char>(offset < 300 || offset == part() ? 7 : 0)};
      ++offset;
    }
  }
  void require_unchanged() const override {}
};

}  // namespace

void run_predicted_part(core::Bytes bytes) {
  if (bytes.size() < kFixedHead) return;
  ByteVector part(bytes.begin(), bytes.end());
  const std::uint64_t words = number_at(part, 12);
  if (words > kMostWords) return;
  put_checksums(part);
  part.resize(std::max<std::size_t>(part.size(), 2 * words));
  answer([&] {
    const ckpt::SourcePtr source = ckpt::memory_source(part);
    const auto found = ckpt::PredictedWords::find(*source, 0, 2 * words);
    ByteVector room(2 * words, bytes.back());
    if (found) found->add(0, room);
  });
}

std::vector<std::string_view> predicted_parts() {
  static const std::string few = packed_part(64, 64, 1e-3F), factors = packed_part(130, 129, 1e-3F),
                           blocks = packed_part(300, 450, 0);
  return {few, factors, blocks};
}

ckpt::SourcePtr trimmed_bytes() {
  return std::make_shared<Trimmed>();
}

}  // namespace fuzz
