#include "libckpt/analyze/align_pairing.h"

#include "libckpt/analyze/content_hash.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/derived_entry.h"

namespace ckpt::detail {
namespace {

/// Of both files in one go, so that what they share is read once.
std::vector<Hash128> hashes_of(const std::vector<NamedEntry>& a, const std::vector<NamedEntry>& b,
                               const AlignOptions& options) {
  std::vector<NamedEntry> both = a;
  both.insert(both.end(), b.begin(), b.end());
  return content_hashes(both, {options.threads, options.progress});
}

}  // namespace

Pairing::Pairing(const std::vector<NamedEntry>& in_a, const std::vector<NamedEntry>& in_b, const AlignOptions& options)
    : Pairing(in_a, in_b, hashes_of(in_a, in_b, options), options.threads) {}

Pairing::Pairing(const std::vector<NamedEntry>& in_a, const std::vector<NamedEntry>& in_b,
                 const std::vector<Hash128>& hashes, unsigned threads)
    : a(in_a, {hashes.begin(), hashes.begin() + static_cast<std::ptrdiff_t>(in_a.size())}, threads),
      b(in_b, {hashes.begin() + static_cast<std::ptrdiff_t>(in_a.size()), hashes.end()}, threads),
      match_of_a_(in_a.size(), kNoMatch),
      match_of_b_(in_b.size(), kNoMatch) {}

void Pairing::take(Match match) {
  for (std::size_t i : match.from) {
    a.use(i);
    if (match_of_a_[i] == kNoMatch) match_of_a_[i] = matches_.size();
  }
  for (std::size_t k : match.to) {
    b.use(k);
    if (match_of_b_[k] == kNoMatch) match_of_b_[k] = matches_.size();
  }
  matches_.push_back(std::move(match));
}

std::vector<Variant> variants(const EntryPtr& entry, core::DType type) {
  if (entry->bytes == nullptr || entry->blocks || entry->conjugate || entry->negative) return {};
  bool same = entry->dtype == type;
  if (!same && !(can_cast(type) && can_cast(entry->dtype))) return {};
  EntryPtr cast = same ? entry : with_dtype(*entry, type);
  std::optional<core::DType> to = same ? std::nullopt : std::optional(type);
  std::vector<Variant> out = {{cast, false, to}};
  bool matrix = entry->shape.size() == 2 && core::bit_width(type) % 8 == 0 && core::bit_width(entry->dtype) % 8 == 0;
  if (matrix) out.push_back({transposed(*cast, {}), true, to});
  return out;
}

}  // namespace ckpt::detail
