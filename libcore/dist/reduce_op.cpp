#include "libcore/dist/reduce_op.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "libcore/backend/element_types.h"
#include "libcore/base/fail.h"

namespace core::distributed {
namespace {

// Half types are computed in f32.
template <class T>
T load(T value) {
  return value;
}
float load(Half value) {
  return f16_to_f32(value.bits);
}
float load(BFloat16 value) {
  return bf16_to_f32(value.bits);
}
template <class T>
void store(T& to, T value) {
  to = value;
}
void store(Half& to, float value) {
  to.bits = f32_to_f16(value);
}
void store(BFloat16& to, float value) {
  to.bits = f32_to_bf16(value);
}

template <class T, class Combine>
void combine_all(void* out, const void* a, const void* b, std::size_t count) {
  T* to = static_cast<T*>(out);
  const T* left = static_cast<const T*>(a);
  const T* right = static_cast<const T*>(b);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) store(to[i], Combine::of(load(left[i]), load(right[i])));
}

struct Sum {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return a || b;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    } else {
      return a + b;
    }
  }
};
struct Product {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return a && b;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(std::uint64_t(a) * std::uint64_t(b));
    } else {
      return a * b;
    }
  }
};
struct Least {
  template <class T>
  static T of(T a, T b) {
    return std::min(a, b);
  }
};
struct Greatest {
  template <class T>
  static T of(T a, T b) {
    return std::max(a, b);
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct ExclusiveOr {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class T>
ReduceFunction function_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return combine_all<T, Sum>;
    case ReduceOp::product:
      return combine_all<T, Product>;
    case ReduceOp::min:
      return combine_all<T, Least>;
    case ReduceOp::max:
      return combine_all<T, Greatest>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::band) return combine_all<T, And>;
    return op == ReduceOp::bor ? combine_all<T, Or> : combine_all<T, ExclusiveOr>;
  } else {
    core::detail::fail("Cannot use ReduceOp." + std::string(name(op)) + " with non-integral dtype");
  }
}

}  // namespace

std::string_view name(ReduceOp op) {
  constexpr std::string_view kNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  return kNames[static_cast<int>(op)];
}

ReduceFunction reduce_function(DType dtype, ReduceOp op) {
  if (op == ReduceOp::premul_sum) core::detail::fail("Cannot use ReduceOp.PREMUL_SUM with Gloo");
  switch (dtype) {
    case DType::f32:
      return function_of<float>(op);
    case DType::f64:
      return function_of<double>(op);
    case DType::f16:
      return function_of<Half>(op);
    case DType::bf16:
      return function_of<BFloat16>(op);
    case DType::i8:
      return function_of<std::int8_t>(op);
    case DType::u8:
      return function_of<std::uint8_t>(op);
    case DType::i32:
      return function_of<std::int32_t>(op);
    case DType::i64:
      return function_of<std::int64_t>(op);
    case DType::boolean:
      return function_of<bool>(op);
    default:
      core::detail::fail("Invalid scalar type");
  }
}

}  // namespace core::distributed
