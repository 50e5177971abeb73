// Comparisons, logic and predicates: bool results from every computing dtype.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/elementwise/rows.h"

namespace core::cpu {
namespace {

#define CORE_COMPARE(Name, expression) \
  struct Name : NoArgs {               \
    using NoArgs::NoArgs;              \
    template <class T>                 \
    bool operator()(T a, T b) const {  \
      return expression;               \
    }                                  \
  };
CORE_COMPARE(Eq, a == b)
CORE_COMPARE(Ne, a != b)
CORE_COMPARE(Lt, a < b)
CORE_COMPARE(Le, a <= b)
CORE_COMPARE(Gt, a > b)
CORE_COMPARE(Ge, a >= b)
CORE_COMPARE(LogicalAnd, (a != T(0)) && (b != T(0)))
CORE_COMPARE(LogicalOr, (a != T(0)) || (b != T(0)))
CORE_COMPARE(LogicalXor, (a != T(0)) != (b != T(0)))
#undef CORE_COMPARE

struct LogicalNot : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  bool operator()(T x) const {
    return x == T(0);
  }
};
struct IsNan : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
    return false;
  }
};
struct IsInf : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::isinf(x);
    return false;
  }
};
struct IsFinite : NoArgs {
  using NoArgs::NoArgs;
  template <class T>
  bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::isfinite(x);
    return true;
  }
};

template <class Op, class T>
void set_compare(ElementwiseTable& table, CompareOp op) {
  table.compare.set(op, dtype_of<T>, binary_kernel<T, bool, Op>);
}
template <class Op, class T>
void set_predicate(ElementwiseTable& table, PredicateOp op) {
  table.predicate.set(op, dtype_of<T>, unary_kernel<T, bool, Op>);
}

template <class... Ts>
void fill_compare_of(ElementwiseTable& table) {
  (set_compare<Eq, Ts>(table, CompareOp::eq), ...);
  (set_compare<Ne, Ts>(table, CompareOp::ne), ...);
  (set_compare<Lt, Ts>(table, CompareOp::lt), ...);
  (set_compare<Le, Ts>(table, CompareOp::le), ...);
  (set_compare<Gt, Ts>(table, CompareOp::gt), ...);
  (set_compare<Ge, Ts>(table, CompareOp::ge), ...);
  (set_compare<LogicalAnd, Ts>(table, CompareOp::logical_and), ...);
  (set_compare<LogicalOr, Ts>(table, CompareOp::logical_or), ...);
  (set_compare<LogicalXor, Ts>(table, CompareOp::logical_xor), ...);
  (set_predicate<LogicalNot, Ts>(table, PredicateOp::logical_not), ...);
  (set_predicate<IsNan, Ts>(table, PredicateOp::isnan), ...);
  (set_predicate<IsInf, Ts>(table, PredicateOp::isinf), ...);
  (set_predicate<IsFinite, Ts>(table, PredicateOp::isfinite), ...);
}

}  // namespace

void fill_compares(ElementwiseTable& table) {
  fill_compare_of<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double>(table);
}

}  // namespace core::cpu
