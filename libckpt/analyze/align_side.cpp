#include "libckpt/analyze/align_side.h"

#include <algorithm>
#include <cstring>

#include "libckpt/io/parallel_io.h"
#include "libckpt/transform/cast_values.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kHead = 1 << 14;         // bytes that tell most tensors from constants
constexpr std::size_t kHashedPiece = 1 << 20;  // a multiple of every element size

/// True when all elements of `width` bytes are the same.
bool repeats(const Entry& entry, std::size_t width) {
  core::ByteVector piece(std::min<std::uint64_t>(entry.byte_size(), kHead));
  core::ByteVector first;
  for (std::uint64_t at = 0; at < entry.byte_size(); at += piece.size()) {
    if (at > 0) piece.resize(std::min<std::uint64_t>(entry.byte_size() - at, kHashedPiece));
    entry.bytes->read(at, piece);
    if (first.empty()) first.assign(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(width));
    bool same = std::memcmp(piece.data(), first.data(), width) == 0 &&
                std::memcmp(piece.data(), piece.data() + width, piece.size() - width) == 0;
    if (!same) return false;
  }
  return true;
}

/// The value of a constant as bits of a double where it is a number; else its own bits.
Content constant(const Entry& entry, std::size_t width) {
  core::ByteVector first(width);
  entry.bytes->read(0, first);
  Content out{Content::Kind::constant, entry.dtype, 0, 0};
  if (can_cast(entry.dtype) && width <= sizeof(double)) {
    core::ByteVector number(sizeof(double));
    cast_values(first, entry.dtype, number, core::DType::f64);
    std::memcpy(&out.low, number.data(), sizeof(double));
    out.dtype = core::DType::f64;
    return out;
  }
  std::memcpy(&out.low, first.data(), std::min<std::size_t>(width, 8));
  if (width > 8) std::memcpy(&out.high, first.data() + 8, std::min<std::size_t>(width - 8, 8));
  return out;
}

Content content_of(const Entry& entry, const Hash128& hash) {
  if (entry.bytes == nullptr || entry.byte_size() == 0) return {};
  std::size_t width = std::max<std::size_t>(1, static_cast<std::size_t>(core::bit_width(entry.dtype)) / 8);
  bool plain = !entry.blocks && !entry.conjugate && !entry.negative && entry.byte_size() % width == 0;
  if (plain && repeats(entry, width)) return constant(entry, width);
  return {Content::Kind::values, entry.dtype, hash.high, hash.low};
}

/// By the alphabet, within each dtype: safetensors files list wider types first.
bool are_sorted(const std::vector<NamedEntry>& entries) {
  std::map<core::DType, const std::string*> last;
  for (const NamedEntry& named : entries) {
    const std::string*& before = last[named.entry->dtype];
    if (before != nullptr && named.name < *before) return false;
    before = &named.name;
  }
  return true;
}

}  // namespace

Side::Side(const std::vector<NamedEntry>& entries, std::vector<Hash128> hashes, unsigned threads)
    : entries_(entries),
      hashes_(std::move(hashes)),
      contents_(entries.size()),
      proves_(entries.size()),
      used_(entries.size()),
      sorted_(are_sorted(entries)) {
  parallel_for(entries.size(), threads, [&](std::size_t i) {
    contents_[i] =
        core::with_context(core::quote(entries_[i].name), [&] { return content_of(*entries_[i].entry, hashes_[i]); });
  });
  std::map<Content, std::size_t> times;
  for (const Content& content : contents_) ++times[content];
  for (std::size_t i = 0; i < size(); ++i) {
    proves_[i] = !is_constant(i) && times[contents_[i]] == 1;
    ++open_types_[entry(i).dtype];
  }
}

void Side::use(std::size_t i) {
  if (used_[i]) return;
  used_[i] = true;
  auto type = open_types_.find(entry(i).dtype);
  if (--type->second == 0) open_types_.erase(type);
}

void Side::release(std::size_t i) {
  if (!used_[i]) return;
  used_[i] = false;
  ++open_types_[entry(i).dtype];
}

std::vector<std::size_t> Side::open() const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!used_[i]) out.push_back(i);
  }
  return out;
}

std::vector<std::int64_t> squeezed(const core::Shape& shape) {
  std::vector<std::int64_t> out;
  for (std::int64_t size : shape.span()) {
    if (size != 1) out.push_back(size);
  }
  return out;
}

}  // namespace ckpt::detail
