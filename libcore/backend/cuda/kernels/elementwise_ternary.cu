// where, addcmul, addcdiv, lerp.
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "libcore/backend/cuda/kernels/elementwise.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

/// Of any element of as many bytes as Word.
template <class Word>
struct Where {
  template <int V>
  CORE_BODY void operator()(const std::uint8_t (&mask)[V], const Word (&a)[V], const Word (&b)[V],
                            Word (&out)[V]) const {
    for (int k = 0; k < V; ++k) out[k] = mask[k] != 0 ? a[k] : b[k];
  }
};

template <class C>
struct FloatTernary {
  TernaryOp op;
  C scale;

  template <int V>
  CORE_BODY void operator()(const C (&a)[V], const C (&b)[V], const C (&c)[V], C (&out)[V]) const {
    for (int k = 0; k < V; ++k) out[k] = value(a[k], b[k], c[k]);
  }
  CORE_BODY C value(C a, C b, C c) const {
    switch (op) {
      case TernaryOp::addcmul:
        return a + scale * b * c;
      case TernaryOp::addcdiv:
        return a + scale * b / c;
      default:  // lerp, from the nearer end, so that weights 0 and 1 give the ends exactly
        return std::abs(c) < C(0.5) ? a + c * (b - a) : b - (b - a) * (C(1) - c);
    }
  }
};

/// addcmul, wrapping. W is the unsigned type of the same size.
template <class W>
struct IntegerAddcmul {
  W scale;
  template <int V>
  CORE_BODY void operator()(const W (&a)[V], const W (&b)[V], const W (&c)[V], W (&out)[V]) const {
    for (int k = 0; k < V; ++k) out[k] = a[k] + scale * b[k] * c[k];
  }
};

template <class Word>
void where_kernel(const TernaryParams& p) {
  run_ternary<Word, std::uint8_t>(p, Where<Word>{});
}
template <class T, TernaryOp kOp>
void float_kernel(const TernaryParams& p) {
  run_ternary<T, T>(p, FloatTernary<Computed<T>>{kOp, static_cast<Computed<T>>(p.args[0])});
}
template <class T, class W>
void integer_kernel(const TernaryParams& p) {
  run_ternary<W, W>(p, IntegerAddcmul<W>{static_cast<W>(static_cast<T>(p.args[0]))});
}

template <class Word>
void set_where(ElementwiseTable& table, std::initializer_list<DType> dtypes) {
  for (DType dtype : dtypes) table.ternary.set(TernaryOp::where, dtype, where_kernel<Word>);
}
template <class T>
void set_float(ElementwiseTable& table) {
  table.ternary.set(TernaryOp::addcmul, dtype_of<T>, float_kernel<T, TernaryOp::addcmul>);
  table.ternary.set(TernaryOp::addcdiv, dtype_of<T>, float_kernel<T, TernaryOp::addcdiv>);
  table.ternary.set(TernaryOp::lerp, dtype_of<T>, float_kernel<T, TernaryOp::lerp>);
}

}  // namespace

void fill_ternary(ElementwiseTable& table) {
  set_where<std::uint8_t>(table, {DType::boolean, DType::u8, DType::i8});
  set_where<std::uint16_t>(table, {DType::i16, DType::f16, DType::bf16});
  set_where<std::uint32_t>(table, {DType::i32, DType::f32});
  set_where<std::uint64_t>(table, {DType::i64, DType::f64});
  set_float<Half>(table);
  set_float<BFloat16>(table);
  set_float<float>(table);
  set_float<double>(table);
  table.ternary.set(TernaryOp::addcmul, DType::i32, integer_kernel<std::int32_t, std::uint32_t>);
  table.ternary.set(TernaryOp::addcmul, DType::i64, integer_kernel<std::int64_t, std::uint64_t>);
}

}  // namespace core::CORE_KERNELS
