#include "libckpt/io/float_planes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <string>

#include "libckpt/io/float_groups.h"
#include "libckpt/io/scratch.h"
#include "libcore/base/error.h"
#include "libcore/base/stream_copy.h"

namespace ckpt {
namespace {

using core::Bytes;
using core::ByteVector;
using core::MutableBytes;
using detail::Bf16;
using detail::F16;
using detail::F32;
using detail::FloatGroups;
using detail::kGroup;

enum class ChunkForm : std::uint8_t { stored = 0, planes = 1 };

constexpr std::size_t kHead = 8;
constexpr std::size_t kEscape = 2;      ///< bytes: distance to the one before, exponent
constexpr std::size_t kFarthest = 255;  ///< that a distance states
constexpr unsigned kWindow = 8;         ///< exponents that have a code
constexpr std::size_t kBlock = 4096;    ///< floats that stay in the nearest cache until their escapes are in
constexpr std::size_t kRuns = 16;       ///< in which exponents are counted where there are many floats
constexpr std::size_t kRun = 1024;      ///< floats

[[noreturn]] void damaged_planes(const std::string& what) {
  throw core::Error(core::ErrorCode::corrupt, "packed floats are damaged: " + what);
}

/// Where the parts of `count` floats begin.
template <class Layout>
struct Parts {
  explicit Parts(std::size_t count)
      : words(kHead),
        low(words + (count + kGroup - 1) / kGroup * Layout::kGroupBytes),
        middle(low + count * Layout::kLow),
        escapes(middle + count * Layout::kMiddle) {}
  std::size_t words;
  std::size_t low;
  std::size_t middle;
  std::size_t escapes;
};

/// The first of the eight exponents that have a code.
template <class Layout>
std::uint8_t best_window(Bytes in, std::size_t count) {
  constexpr unsigned kExponents = 1U << Layout::kExponentBits;
  std::array<std::uint32_t, kExponents> found = {};
  std::size_t step = count < kRuns * kRun ? kRun : count / kRuns;
  for (std::size_t i = 0; i < count; i += step) {
    for (std::size_t j = i; j < std::min(i + kRun, count); ++j) ++found[Layout::exponent(in.data(), j)];
  }
  std::uint32_t sum = 0;
  std::uint32_t most = 0;
  unsigned best = 0;
  for (unsigned last = 0; last < kExponents; ++last) {
    sum += found[last] - (last >= kWindow ? found[last - kWindow] : 0);
    if (last + 1 >= kWindow && sum > most) {
      most = sum;
      best = last + 1 - kWindow;
    }
  }
  return static_cast<std::uint8_t>(best);
}

/// Floats whose exponent has no code, in order. Where two are farther apart than a distance states, one between them
/// is listed with the exponent that it has.
template <class Layout>
class EscapeWriter {
 public:
  EscapeWriter(Bytes in, MutableBytes room) : in_(in), room_(room) {}

  /// Those of a block; bit i of masks[g] is that of float first + 32 g + i. False when there is no room for them.
  bool add(std::size_t first, std::span<const std::uint32_t> masks) {
    // Most groups have two or fewer: writing two always costs less than guessing how many there are.
    std::uint16_t places[kBlock + 2];
    std::size_t count = 0;
    for (std::size_t g = 0; g < masks.size(); ++g) {
      std::uint32_t mask = masks[g];
      std::size_t end = count + static_cast<std::size_t>(std::popcount(mask));
      for (std::size_t i = count; i < std::max(count + 2, end); ++i, mask &= mask - 1) {
        places[i] = static_cast<std::uint16_t>(g * kGroup + static_cast<std::size_t>(std::countr_zero(mask)));
      }
      count = end;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!put(first + places[i])) return false;
    }
    return true;
  }
  std::size_t bytes() const { return used_; }

 private:
  bool put(std::size_t at) {
    for (; at - last_ > kFarthest; last_ += kFarthest) {
      if (!put(kFarthest, last_ + kFarthest)) return false;
    }
    if (!put(at - last_, at)) return false;
    last_ = at;
    return true;
  }
  bool put(std::size_t distance, std::size_t at) {
    if (room_.size() - used_ < kEscape) return false;
    std::uint8_t exponent = Layout::exponent(in_.data(), at);
    core::store_le(room_.data() + used_, static_cast<std::uint16_t>(distance | std::size_t{exponent} << 8));
    used_ += kEscape;
    return true;
  }

  Bytes in_;
  MutableBytes room_;
  std::size_t used_ = 0;
  std::size_t last_ = 0;
};

/// The floats behind the last whole group, as a group of its own.
template <class Layout>
struct Tail {
  std::byte floats[kGroup * Layout::kWidth] = {};
  std::byte words[Layout::kGroupBytes] = {};
  std::byte low[kGroup * Layout::kLow] = {};
  std::byte middle[kGroup * Layout::kMiddle + 1] = {};  // of those without one as well
};

template <class Layout>
std::uint32_t pack_tail(const FloatGroups& groups, Bytes in, std::uint8_t base, std::byte* words, std::byte* low,
                        std::byte* middle) {
  Tail<Layout> tail;
  std::size_t count = in.size() / Layout::kWidth;
  std::uint32_t mask = 0;
  std::copy(in.begin(), in.end(), tail.floats);
  groups.pack({tail.floats, tail.words, tail.low, tail.middle}, 1, base, &mask);
  std::uint32_t there = (1U << count) - 1;
  for (std::size_t i = 0; i < Layout::kGroupBytes; i += sizeof there) {
    core::store_le(words + i, core::load_le<std::uint32_t>(tail.words + i) & there);
  }
  std::copy_n(tail.low, count * Layout::kLow, low);
  std::copy_n(tail.middle, count * Layout::kMiddle, middle);
  return mask & there;
}

template <class Layout>
void unpack_tail(const FloatGroups& groups, const detail::ConstGroupParts& from, std::uint8_t base, MutableBytes out) {
  Tail<Layout> tail;
  std::size_t count = out.size() / Layout::kWidth;
  std::copy_n(from.low, count * Layout::kLow, tail.low);
  std::copy_n(from.middle, count * Layout::kMiddle, tail.middle);
  groups.unpack({from.words, tail.low, tail.middle}, 1, base, tail.floats);
  std::copy_n(tail.floats, out.size(), out.begin());
}

ByteVector stored(Bytes in) {
  ByteVector out;
  out.reserve(kHead + in.size());
  out.resize(kHead);
  core::append(out, in);
  return out;
}

template <class Layout>
bool pack_blocks(Bytes in, std::uint8_t base, const Parts<Layout>& parts, MutableBytes out,
                 EscapeWriter<Layout>& escapes) {
  const FloatGroups& groups = detail::float_groups<Layout>();
  std::size_t count = in.size() / Layout::kWidth;
  std::array<std::uint32_t, kBlock / kGroup> masks = {};
  for (std::size_t at = 0; at < count; at += kBlock) {
    std::size_t whole = std::min(kBlock, count - at) / kGroup;
    std::byte* words = out.data() + parts.words + at / kGroup * Layout::kGroupBytes;
    std::byte* low = out.data() + parts.low + at * Layout::kLow;
    std::byte* middle = out.data() + parts.middle + at * Layout::kMiddle;
    groups.pack({in.data() + at * Layout::kWidth, words, low, middle}, whole, base, masks.data());
    std::size_t done = whole * kGroup;
    if (count - at < kBlock && at + done < count) {
      masks[whole++] = pack_tail<Layout>(groups, in.subspan((at + done) * Layout::kWidth), base,
                                         words + done / kGroup * Layout::kGroupBytes, low + done * Layout::kLow,
                                         middle + done * Layout::kMiddle);
    }
    if (!escapes.add(at, std::span(masks).first(whole))) return false;
  }
  return true;
}

template <class Layout>
ByteVector pack(Bytes in) {
  std::size_t count = in.size() / Layout::kWidth;
  const Parts<Layout> parts(count);
  const detail::Scratch scratch(kHead + in.size());
  const MutableBytes out = scratch.bytes();
  if (parts.escapes >= out.size()) return stored(in);
  std::uint8_t base = best_window<Layout>(in, count);
  EscapeWriter<Layout> escapes(in, out.subspan(parts.escapes));
  if (!pack_blocks<Layout>(in, base, parts, out, escapes)) return stored(in);
  const std::size_t used = parts.escapes + escapes.bytes();
  if (used >= kHead + in.size()) return stored(in);
  const std::byte head[4] = {static_cast<std::byte>(ChunkForm::planes), static_cast<std::byte>(base)};
  std::ranges::copy(head, out.begin());
  core::store_le(out.data() + 4, static_cast<std::uint32_t>(escapes.bytes() / kEscape));
  return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(used)};
}

/// Puts exponents in place, block by block.
template <class Layout>
class EscapeReader {
 public:
  explicit EscapeReader(Bytes list) : list_(list) {
    if (!list_.empty()) next_ = distance();
  }

  /// Those of the floats from `begin` to `end`, which `block` holds.
  void apply(std::byte* block, std::size_t begin, std::size_t end) {
    while (next_ < end) {
      Layout::set_exponent(block, next_ - begin, static_cast<std::uint8_t>(list_[1]));
      list_ = list_.subspan(kEscape);
      next_ = list_.empty() ? SIZE_MAX : next_ + distance();
    }
  }
  bool at_end() const { return list_.empty(); }

 private:
  std::size_t distance() const { return static_cast<std::size_t>(list_[0]); }

  Bytes list_;
  std::size_t next_ = SIZE_MAX;
};

template <class Layout>
void unpack_planes(Bytes packed, MutableBytes out) {
  const FloatGroups& groups = detail::float_groups<Layout>();
  std::size_t count = out.size() / Layout::kWidth;
  const Parts<Layout> parts(count);
  auto base = static_cast<std::uint8_t>(packed[1]);
  auto listed = std::uint64_t{core::load_le<std::uint32_t>(packed.data() + 4)};
  if (packed.size() != parts.escapes + listed * kEscape) {
    damaged_planes(std::to_string(packed.size()) + " bytes are not " + std::to_string(count) + " floats, " +
                   std::to_string(listed) + " of them with an exponent of their own");
  }
  EscapeReader<Layout> escapes(packed.subspan(parts.escapes));
  alignas(64) std::byte block[kBlock * Layout::kWidth];  // near the processor until the last exponent is in
  for (std::size_t at = 0; at < count; at += kBlock) {
    std::size_t size = std::min(kBlock, count - at);
    const MutableBytes floats = MutableBytes(block).first(size * Layout::kWidth);
    std::size_t done = size / kGroup * kGroup;
    const detail::ConstGroupParts from = {packed.data() + parts.words + at / kGroup * Layout::kGroupBytes,
                                          packed.data() + parts.low + at * Layout::kLow,
                                          packed.data() + parts.middle + at * Layout::kMiddle};
    groups.unpack(from, done / kGroup, base, block);
    if (done < size) {
      unpack_tail<Layout>(groups,
                          {from.words + done / kGroup * Layout::kGroupBytes, from.low + done * Layout::kLow,
                           from.middle + done * Layout::kMiddle},
                          base, floats.subspan(done * Layout::kWidth));
    }
    escapes.apply(block, at, at + size);
    core::stream_copy(out.data() + at * Layout::kWidth, floats.data(), floats.size());
  }
  core::end_stream_copies();
  if (!escapes.at_end())
    damaged_planes("an exponent is for a float behind the last one, number " + std::to_string(count));
}

template <class Layout>
void unpack(Bytes packed, MutableBytes out) {
  if (packed.size() < kHead) damaged_planes("they end within their head");
  if (out.size() % Layout::kWidth != 0) damaged_planes(std::to_string(out.size()) + " bytes are no whole floats");
  auto form = static_cast<ChunkForm>(packed[0]);
  bool rest_is_zero = packed[2] == std::byte{0} && packed[3] == std::byte{0};
  if (form == ChunkForm::planes && rest_is_zero) return unpack_planes<Layout>(packed, out);
  if (form != ChunkForm::stored || core::load_le<std::uint64_t>(packed.data()) != 0) {
    damaged_planes("their head is none that this version knows");
  }
  if (packed.size() - kHead != out.size()) {
    damaged_planes("they hold " + std::to_string(packed.size() - kHead) + " bytes where " + std::to_string(out.size()) +
                   " are recorded");
  }
  std::copy(packed.begin() + kHead, packed.end(), out.begin());
}

}  // namespace

std::uint32_t float_width(FloatKind kind) {
  return kind == FloatKind::f32 ? 4 : 2;
}

ByteVector pack_floats(Bytes floats, FloatKind kind) {
  if (kind == FloatKind::f16) return pack<F16>(floats);
  return kind == FloatKind::bf16 ? pack<Bf16>(floats) : pack<F32>(floats);
}

std::uint64_t packed_floats_bound(std::uint64_t size) {
  return size + kHead;
}

void unpack_floats(Bytes packed, FloatKind kind, MutableBytes out) {
  if (kind == FloatKind::f16) return unpack<F16>(packed, out);
  kind == FloatKind::bf16 ? unpack<Bf16>(packed, out) : unpack<F32>(packed, out);
}

}  // namespace ckpt
