#include "libckpt/analyze/align_layouts.h"

#include "libckpt/analyze/align_ordinals.h"
#include "libckpt/analyze/content_hash.h"
#include "libckpt/transform/cast_values.h"

namespace ckpt::detail {
namespace {

bool is_matrix(const Entry& entry) {
  return entry.shape.size() == 2 && entry.shape[0] > 1 && entry.shape[1] > 1;
}

bool are_turned(const Entry& a, const Entry& b) {
  return is_matrix(a) && is_matrix(b) && a.shape[0] == b.shape[1] && a.shape[1] == b.shape[0];
}

}  // namespace

std::optional<Match> Layouts::proved(std::size_t i, std::size_t k) const {
  const Side& a = pairing_.a;
  const Side& b = pairing_.b;
  if (a.is_constant(i) || b.is_constant(k)) return std::nullopt;
  Match match{{i}, {k}};
  match.by = pairing_.prove(i, k) ? AlignedTensors::By::content : AlignedTensors::By::name;
  bool same = type_name(a.entry(i)) == type_name(b.entry(k)) && a.hash(i) == b.hash(k);
  if (same && value_shape(a.entry(i)) == value_shape(b.entry(k))) return match;
  for (const Variant& variant : variants(a.entry_ptr(i), b.entry(k).dtype)) {
    bool plain = !variant.transpose && !variant.cast;
    if (b.entry(k).blocks || variant.entry->numel() != b.entry(k).numel()) return std::nullopt;
    if (variant.transpose && squeezed(variant.entry->shape) != squeezed(b.entry(k).shape)) continue;
    if ((plain ? a.hash(i) : content_hash(*variant.entry)) != b.hash(k)) continue;
    match.transpose = variant.transpose;
    match.cast = variant.cast;
    match.reshape = !(variant.entry->shape == b.entry(k).shape);
    return match;
  }
  return std::nullopt;
}

void Layouts::learn(const std::vector<std::pair<std::size_t, std::size_t>>& named) {
  for (; learnt_ < pairing_.matches().size(); ++learnt_) {
    const Match& match = pairing_.matches()[learnt_];
    if (match.by != AlignedTensors::By::content || match.reshape) continue;
    for (std::size_t i : match.from) {
      if (!is_matrix(pairing_.a.entry(i))) continue;
      Seen& seen = kinds_[without_numbers(pairing_.a.name(i))];
      (match.transpose ? seen.transposed : seen.plain) = true;
      some_transposed_ = some_transposed_ || match.transpose;
    }
  }
  for (const auto& [i, k] : named) {
    const Entry& entry = pairing_.a.entry(i);
    bool turned = are_turned(entry, pairing_.b.entry(k)) && entry.shape[0] != entry.shape[1];
    some_transposed_ = some_transposed_ || turned;
  }
}

/// Nothing when it may be either.
std::optional<bool> Layouts::matrix_is_transposed(std::size_t i, std::size_t k) const {
  const Entry& entry = pairing_.a.entry(i);
  auto kind = kinds_.find(without_numbers(pairing_.a.name(i)));
  bool known = kind != kinds_.end() && kind->second.plain != kind->second.transposed;
  if (known) return kind->second.transposed;
  bool square = entry.shape[0] == entry.shape[1];
  bool may_be = are_turned(entry, pairing_.b.entry(k)) && (!square || some_transposed_);
  return may_be ? std::nullopt : std::optional(false);
}

std::optional<Match> Layouts::assumed(std::size_t i, std::size_t k, AlignedTensors::By by) const {
  const Entry& from = pairing_.a.entry(i);
  const Entry& to = pairing_.b.entry(k);
  bool same = pairing_.a.content(i) == pairing_.b.content(k) && from.numel() == to.numel();
  if (!same && !options_.by_shape) return std::nullopt;
  Match match{{i}, {k}};
  match.by = by;
  match.same_values = same;
  bool blocks = from.blocks || to.blocks;
  if (blocks && (type_name(from) != type_name(to) || !(value_shape(from) == value_shape(to)))) return std::nullopt;
  if (blocks) return match;
  if (from.dtype != to.dtype) {
    bool numbers = same ? can_cast(from.dtype) && can_cast(to.dtype)
                        : core::is_floating(from.dtype) && core::is_floating(to.dtype) && can_cast(from.dtype) &&
                              can_cast(to.dtype);
    if (!numbers) return std::nullopt;
    match.cast = to.dtype;
  }
  if (is_matrix(from) && is_matrix(to)) {
    std::optional<bool> turned = matrix_is_transposed(i, k);
    if (!turned) return std::nullopt;
    match.transpose = *turned;
    bool fits = *turned ? are_turned(from, to) : from.shape == to.shape;
    return fits ? std::optional(match) : std::nullopt;
  }
  if (squeezed(from.shape) != squeezed(to.shape)) return std::nullopt;
  match.reshape = !(from.shape == to.shape);
  return match;
}

}  // namespace ckpt::detail
