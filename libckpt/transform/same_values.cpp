#include "libckpt/transform/same_values.h"

#include <algorithm>
#include <cstring>

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kComparedPiece = 1ULL << 20;

}  // namespace

bool same_bytes(const ByteSource& a, const ByteSource& b) {
  if (&a == &b) return true;
  if (a.size() != b.size()) return false;
  core::ByteVector left(std::min(a.size(), kComparedPiece));
  core::ByteVector right(left.size());
  for (std::uint64_t at = 0; at < a.size(); at += left.size()) {
    std::size_t length = std::min<std::uint64_t>(left.size(), a.size() - at);
    a.read(at, MutableBytes(left.data(), length));
    b.read(at, MutableBytes(right.data(), length));
    if (std::memcmp(left.data(), right.data(), length) != 0) return false;
  }
  a.require_unchanged();
  b.require_unchanged();
  return true;
}

bool same_values(const Entry& a, const Entry& b) {
  bool same = a.dtype == b.dtype && a.shape == b.shape && a.conjugate == b.conjugate && a.negative == b.negative &&
              (a.bytes == nullptr) == (b.bytes == nullptr);
  return same && (a.bytes == nullptr || same_bytes(*a.bytes, *b.bytes));
}

}  // namespace ckpt::detail
