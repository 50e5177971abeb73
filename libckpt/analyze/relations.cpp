#include "libckpt/analyze/relations.h"

#include <algorithm>

#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/derived_entry.h"
#include "libckpt/transform/same_values.h"

namespace ckpt::detail {
namespace {

using RelationKind = Relation::Kind;

bool plain(const Entry& e) {
  return !e.conjugate && !e.negative && !e.blocks;
}

core::Shape exchanged(core::Shape shape) {
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

std::optional<Relation> type_relation(const Entry& a, const Entry& b) {
  if (!can_cast(a.dtype) || !can_cast(b.dtype)) return std::nullopt;
  if (same_bytes(*cast_source(a.bytes, a.dtype, b.dtype), *b.bytes)) return Relation{RelationKind::cast, b.dtype};
  if (same_bytes(*cast_source(b.bytes, b.dtype, a.dtype), *a.bytes)) return Relation{RelationKind::widened, a.dtype};
  return std::nullopt;
}

std::optional<Relation> rounding(const Entry& a, const Entry& b) {
  bool wide = a.dtype == core::DType::f32 || a.dtype == core::DType::f64;
  if (!wide) return std::nullopt;
  for (core::DType narrow : {core::DType::f32, core::DType::bf16, core::DType::f16, core::DType::f8_e4m3fn}) {
    if (narrow == a.dtype) continue;
    SourcePtr there_and_back = cast_source(cast_source(a.bytes, a.dtype, narrow), narrow, a.dtype);
    if (same_bytes(*there_and_back, *b.bytes)) return Relation{RelationKind::rounded, narrow};
  }
  return std::nullopt;
}

bool is_transpose(const Entry& a, const Entry& b) {
  if (a.shape.size() < 2 || !(exchanged(a.shape) == b.shape) || core::bit_width(a.dtype) % 8 != 0) return false;
  return same_bytes(*transposed(a, {})->bytes, *b.bytes);
}

/// True when `large` begins with all of `small`, and only the first dimension is larger.
bool begins_with(const Entry& large, const Entry& small) {
  core::Shape a = large.shape;
  core::Shape b = small.shape;
  if (a.size() != b.size() || a.empty() || a[0] <= b[0] || b[0] == 0) return false;
  a[0] = b[0];
  return a == b && same_bytes(*slice(large.bytes, 0, small.bytes->size()), *small.bytes);
}

std::optional<Relation> shape_relation(const Entry& a, const Entry& b) {
  if (is_transpose(a, b)) return Relation{RelationKind::transposed};
  if (!(a.shape == b.shape) && same_bytes(*a.bytes, *b.bytes)) return Relation{RelationKind::reshaped};
  if (begins_with(b, a)) return Relation{RelationKind::grown};
  if (begins_with(a, b)) return Relation{RelationKind::cut};
  return std::nullopt;
}

}  // namespace

std::optional<Relation> find_relation(const Entry& a, const Entry& b) {
  if (!plain(a) || !plain(b)) return std::nullopt;
  if (a.dtype != b.dtype) return a.shape == b.shape ? type_relation(a, b) : std::nullopt;
  std::optional<Relation> shape = shape_relation(a, b);
  if (shape || !(a.shape == b.shape)) return shape;
  return rounding(a, b);
}

}  // namespace ckpt::detail
