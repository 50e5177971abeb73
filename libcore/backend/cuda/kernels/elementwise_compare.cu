// Comparisons, logic and predicates: bool results, stored as bytes, from every computing dtype.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "libcore/backend/cuda/kernels/elementwise.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

template <class C>
struct Compare {
  CompareOp op;

  template <int V>
  CORE_BODY void operator()(const C (&a)[V], const C (&b)[V], std::uint8_t (&out)[V]) const {
#define CORE_CASE(name, expression)                                                                       \
  case CompareOp::name:                                                                                   \
    for (int k = 0; k < V; ++k) out[k] = [](C x, C y) -> bool { return expression; }(a[k], b[k]) ? 1 : 0; \
    break;
    switch (op) {
      CORE_CASE(eq, x == y)
      CORE_CASE(ne, x != y)
      CORE_CASE(lt, x < y)
      CORE_CASE(le, x <= y)
      CORE_CASE(gt, x > y)
      CORE_CASE(ge, x >= y)
      CORE_CASE(logical_and, x != C(0) && y != C(0))
      CORE_CASE(logical_or, x != C(0) || y != C(0))
      CORE_CASE(logical_xor, (x != C(0)) != (y != C(0)))
      default:
        break;
    }
#undef CORE_CASE
  }
};

template <class C>
struct Predicate {
  PredicateOp op;

  template <int V>
  CORE_BODY void operator()(const C (&in)[V], std::uint8_t (&out)[V]) const {
    for (int k = 0; k < V; ++k) out[k] = value(in[k]) ? 1 : 0;
  }
  CORE_BODY bool value(C x) const {
    if (op == PredicateOp::logical_not) return x == C(0);
    if constexpr (std::is_floating_point_v<C>) {
      if (op == PredicateOp::isnan) return x != x;
      return op == PredicateOp::isinf ? std::isinf(x) : std::isfinite(x);
    }
    return op == PredicateOp::isfinite;
  }
};

template <class T, CompareOp kOp>
void compare_kernel(const BinaryParams& p) {
  run_binary<std::uint8_t, T>(p, Compare<Computed<T>>{kOp});
}
template <class T, PredicateOp kOp>
void predicate_kernel(const UnaryParams& p) {
  run_unary<std::uint8_t, T>(p, Predicate<Computed<T>>{kOp});
}

template <class T, CompareOp... kOps>
void set_compare(ElementwiseTable& table, DType dtype) {
  (table.compare.set(kOps, dtype, compare_kernel<T, kOps>), ...);
}
template <class T, PredicateOp... kOps>
void set_predicate(ElementwiseTable& table, DType dtype) {
  (table.predicate.set(kOps, dtype, predicate_kernel<T, kOps>), ...);
}

template <class T>
void fill(ElementwiseTable& table, DType dtype = dtype_of<T>) {
  using C = CompareOp;
  using P = PredicateOp;
  set_compare<T, C::eq, C::ne, C::lt, C::le, C::gt, C::ge, C::logical_and, C::logical_or, C::logical_xor>(table, dtype);
  set_predicate<T, P::logical_not, P::isnan, P::isinf, P::isfinite>(table, dtype);
}

}  // namespace

void fill_compare(ElementwiseTable& table) {
  fill<std::uint8_t>(table, DType::boolean);
  fill<std::uint8_t>(table);
  fill<std::int8_t>(table);
  fill<std::int16_t>(table);
  fill<std::int32_t>(table);
  fill<std::int64_t>(table);
  fill<Half>(table);
  fill<BFloat16>(table);
  fill<float>(table);
  fill<double>(table);
  table.unary.set(UnaryOp::bitwise_not, DType::boolean, predicate_kernel<std::uint8_t, PredicateOp::logical_not>);
}

}  // namespace core::CORE_KERNELS
