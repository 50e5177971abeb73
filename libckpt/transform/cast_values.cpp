#include "libckpt/transform/cast_values.h"

#include <algorithm>
#include <cstring>

#include "libckpt/io/unit_source.h"
#include "libckpt/transform/cast_loops.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using detail::CastLoop;
using detail::Wide;

constexpr std::size_t kCastBlock = 2048;  ///< elements: two wide buffers stay in the first-level cache
constexpr std::uint64_t kPiece = 32768;   ///< elements read at once from the source

/// The type of the two parts of a complex number, else the type itself.
DType part_of(DType dtype) {
  switch (dtype) {
    case DType::c32:
      return DType::f16;
    case DType::c64:
      return DType::f32;
    case DType::c128:
      return DType::f64;
    default:
      return dtype;
  }
}

bool is_exact_kind(DType dtype) {
  return dtype == DType::boolean || core::is_integer(dtype);
}

bool is_narrow_float(DType dtype) {
  return core::is_floating(dtype) && dtype != DType::f64;
}

/// The type in between. Integers stay integers; narrow floats are rounded from f32, also coming from f64, as PyTorch
/// does.
Wide wide_for(DType from, DType to) {
  if (is_exact_kind(from) && is_exact_kind(to)) return Wide::i64;
  if (is_narrow_float(to)) return Wide::f32;
  if (to == DType::f64) return Wide::f64;
  return from == DType::f64 ? Wide::f64 : Wide::f32;
}

std::size_t bytes_of(DType dtype) {
  return static_cast<std::size_t>(core::bit_width(dtype)) / 8;
}

/// A run of real numbers.
void cast_run(const std::byte* in, DType from, std::byte* out, DType to, std::size_t count) {
  Wide wide = wide_for(from, to);
  CastLoop load = detail::loader(from, wide);
  CastLoop store = detail::storer(to, wide);
  alignas(64) std::byte block[kCastBlock * sizeof(double)];
  for (std::size_t done = 0; done < count;) {
    std::size_t part = std::min(kCastBlock, count - done);
    load(in + done * bytes_of(from), block, part);
    store(block, out + done * bytes_of(to), part);
    done += part;
  }
}

/// Moves every second of `parts` (from `parts` to `pairs` or back); the others become zero.
void spread(const std::byte* parts, std::byte* pairs, std::size_t width, std::size_t count) {
  std::memset(pairs, 0, 2 * width * count);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(pairs + 2 * width * i, parts + width * i, width);
}

void gather_real(const std::byte* pairs, std::byte* parts, std::size_t width, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(parts + width * i, pairs + 2 * width * i, width);
}

/// True where either part is not zero.
void cast_complex_to_bool(const std::byte* in, DType part, std::byte* out, std::size_t count) {
  std::byte both[2 * kCastBlock];
  for (std::size_t done = 0; done < count;) {
    std::size_t now = std::min(kCastBlock, count - done);
    cast_run(in + 2 * done * bytes_of(part), part, both, DType::boolean, 2 * now);
    for (std::size_t i = 0; i < now; ++i) out[done + i] = both[2 * i] | both[2 * i + 1];
    done += now;
  }
}

void cast_complex_to_real(const std::byte* in, DType part, std::byte* out, DType to, std::size_t count) {
  alignas(64) std::byte real[kCastBlock * sizeof(double)];
  for (std::size_t done = 0; done < count;) {
    std::size_t now = std::min(kCastBlock, count - done);
    gather_real(in + 2 * done * bytes_of(part), real, bytes_of(part), now);
    cast_run(real, part, out + done * bytes_of(to), to, now);
    done += now;
  }
}

void cast_real_to_complex(const std::byte* in, DType from, std::byte* out, DType part, std::size_t count) {
  alignas(64) std::byte real[kCastBlock * sizeof(double)];
  for (std::size_t done = 0; done < count;) {
    std::size_t now = std::min(kCastBlock, count - done);
    cast_run(in + done * bytes_of(from), from, real, part, now);
    spread(real, out + 2 * done * bytes_of(part), bytes_of(part), now);
    done += now;
  }
}

class CastSource final : public detail::UnitSource {
 public:
  CastSource(SourcePtr source, DType from, DType to)
      : UnitSource(source->size() / bytes_of(from), bytes_of(to), kPiece),
        source_(std::move(source)),
        from_(from),
        to_(to) {}

  void require_unchanged() const override { source_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { source_->visit_checked(see); }

 private:
  void compute(std::uint64_t first, MutableBytes elements) const override {
    core::ByteVector raw(elements.size() / unit() * bytes_of(from_));
    source_->read(first * bytes_of(from_), raw);
    cast_values(raw, from_, elements, to_);
  }

  SourcePtr source_;
  DType from_;
  DType to_;
};

/// Bits of precision of a real type, and the range of its exponents: what decides whether values survive.
struct Reach {
  int digits;
  int min_exponent;  ///< of the smallest positive value
  int max_exponent;  ///< of the largest
  bool sign;
  bool infinity;
};

Reach reach_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {53, -1074, 1023, true, true};
    case DType::f32:
      return {24, -149, 127, true, true};
    case DType::bf16:
      return {8, -133, 127, true, true};
    case DType::f16:
      return {11, -24, 15, true, true};
    case DType::f8_e4m3fn:
      return {4, -9, 8, true, false};
    case DType::f8_e5m2:
      return {3, -16, 15, true, true};
    case DType::f8_e4m3fnuz:
      return {4, -10, 7, true, false};
    case DType::f8_e5m2fnuz:
      return {3, -17, 15, true, false};
    case DType::f8_e8m0fnu:
      return {1, -127, 127, false, false};
    case DType::boolean:
      return {1, 0, 0, false, false};
    default: {
      bool sign = dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
      int digits = core::bit_width(dtype) - (sign ? 1 : 0);
      return {digits, 0, digits - 1, sign, false};
    }
  }
}

/// The smallest value of a signed integer is a power of two one past the others.
bool holds_all(DType to, DType from) {
  Reach a = reach_of(to);
  Reach b = reach_of(from);
  bool to_float = core::is_floating(to);
  if (core::is_floating(from) && !to_float) return false;
  if (to == DType::f8_e8m0fnu) return from == to;  // it has no zero
  if (is_exact_kind(from) && to == DType::boolean) return from == DType::boolean;
  int top = b.max_exponent + (is_exact_kind(from) && b.sign && to_float ? 1 : 0);
  return a.digits >= b.digits && a.min_exponent <= b.min_exponent && a.max_exponent >= top && (a.sign || !b.sign) &&
         (a.infinity || !b.infinity);
}

}  // namespace

bool can_cast(DType dtype) {
  switch (dtype) {
    case DType::f6_e2m3:
    case DType::f6_e3m2:
    case DType::f4_e2m1fn_x2:
      return false;
    default:
      return dtype == DType::boolean || core::is_integer(dtype) || core::is_floating(dtype) || core::is_complex(dtype);
  }
}

bool is_exact_cast(DType from, DType to) {
  if (!can_cast(from) || !can_cast(to)) return false;
  if (from == to) return true;
  if (core::is_complex(from) && !core::is_complex(to)) return false;
  return holds_all(part_of(to), part_of(from));
}

void cast_values(Bytes in, DType from, MutableBytes out, DType to) {
  std::size_t count = in.size() / bytes_of(from);
  bool from_pairs = core::is_complex(from);
  bool to_pairs = core::is_complex(to);
  if (from == to) {
    if (count > 0) std::memcpy(out.data(), in.data(), in.size());
  } else if (from_pairs && to == DType::boolean) {
    cast_complex_to_bool(in.data(), part_of(from), out.data(), count);
  } else if (from_pairs && !to_pairs) {
    cast_complex_to_real(in.data(), part_of(from), out.data(), to, count);
  } else if (to_pairs && !from_pairs) {
    cast_real_to_complex(in.data(), from, out.data(), part_of(to), count);
  } else {
    cast_run(in.data(), part_of(from), out.data(), part_of(to), from_pairs ? 2 * count : count);
  }
}

SourcePtr cast_source(SourcePtr source, DType from, DType to) {
  if (from == to) return source;
  for (DType dtype : {from, to}) {
    if (!can_cast(dtype)) {
      throw Error(ErrorCode::unsupported, "values of type " + std::string(core::name(dtype)) + " cannot be cast");
    }
  }
  if (source->size() % bytes_of(from) != 0) {
    throw Error(ErrorCode::corrupt, "the data of a tensor of type " + std::string(core::name(from)) + " are " +
                                        std::to_string(source->size()) + " bytes long, not a whole number of elements");
  }
  return std::make_shared<CastSource>(std::move(source), from, to);
}

}  // namespace ckpt
