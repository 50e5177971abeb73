#include "libcore/ops/raw/pointwise.h"

#include <array>
#include <string>
#include <string_view>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/bytes.h"
#include "libcore/base/error.h"
#include "libcore/base/half.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/complex_refusals.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/device_assert.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/loop_builder.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core::raw {
namespace {

/// compute_dtype() where the device has no kernel that does this by itself.
template <class Op, class Params>
DType kernel_dtype(const KernelGrid<Op, Params>& kernels, Op op, DType dtype) {
  return kernels.at(op, dtype) != nullptr ? dtype : compute_dtype(dtype);
}

bool computes_directly(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64;
}

void* data_of(const Tensor& t) {
  return const_cast<void*>(t.raw_data());
}

bool always_float(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::abs:
    case UnaryOp::sign:
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
    case UnaryOp::trunc:
    case UnaryOp::square:
    case UnaryOp::relu:
    case UnaryOp::bitwise_not:
    case UnaryOp::clamp:
    case UnaryOp::frac:
    case UnaryOp::threshold:
    case UnaryOp::nan_to_num:
      return false;
    default:
      return true;
  }
}

/// Three stores: a copy of 24 bytes by the library is read again before it has arrived.
void put_args(double* to, const OpArgs& args) {
  for (std::size_t i = 0; i < args.size(); ++i) to[i] = args[i];
}

template <class Kernel>
void run_unary(Kernel kernel, const Tensor& out, const Tensor& x, const OpArgs& args) {
  UnaryParams params;
  params.out = data_of(out);
  params.in = x.raw_data();
  put_args(params.args, args);
  if (out.is_contiguous() && x.is_contiguous()) {
    detail::flat_loop<2>(params.loop, out.numel(), {1, 1});
  } else {
    detail::build_loop<2>(params.loop, out.sizes(), {detail::layout_of(out), detail::layout_of(x)});
  }
  kernel(params);
}

const ElementwiseTable& table_of(Backend& backend, std::string_view operation, DType dtype) {
  const ElementwiseTable* table = backend.ops().elementwise;
  if (table == nullptr) throw_unsupported(operation, backend, dtype);
  return *table;
}

/// One operand of a two-operand operation: memory and layout, be it a tensor or a number.
struct Operand {
  const void* data;
  detail::Layout layout;
  bool contiguous;
  std::int64_t numel;
  bool on_host = false;  // a number
};

const Shape kNoDims;

Operand operand_of(const Tensor& t) {
  return {t.raw_data(), detail::layout_of(t), t.is_contiguous(), t.numel()};
}
/// A number: its element is the last of the arguments, inside the parameters, where kernels of every device can take it
/// from.
Operand number_operand() {
  return {nullptr, {&kNoDims, &kNoDims}, true, 1, true};
}
constexpr std::size_t kNumberAt = 2;  // in the arguments

template <class Kernel>
void run_binary(Kernel kernel, const Tensor& out, const Operand& a, const Operand& b, const OpArgs& args) {
  BinaryParams params;
  params.out = data_of(out);
  params.a = a.on_host ? &params.args[kNumberAt] : a.data;
  params.b = b.on_host ? &params.args[kNumberAt] : b.data;
  params.a_on_host = a.on_host;
  params.b_on_host = b.on_host;
  put_args(params.args, args);
  auto flat = [&](const Operand& o) { return o.contiguous && (o.numel == out.numel() || o.numel == 1); };
  if (out.is_contiguous() && flat(a) && flat(b)) {
    auto step = [&](const Operand& o) -> std::int64_t { return o.numel == 1 ? 0 : 1; };
    bool one = out.numel() == 1;
    detail::flat_loop<3>(params.loop, out.numel(), {1, one ? 1 : step(a), one ? 1 : step(b)});
  } else {
    detail::build_loop<3>(params.loop, out.sizes(), {detail::layout_of(out), a.layout, b.layout});
  }
  kernel(params);
}

Tensor make_result(const Shape& sizes, DType dtype, Backend& backend, const Operand& a, const Operand& b) {
  if (a.contiguous && b.contiguous) return make(sizes, dtype, backend);
  detail::Layout layouts[] = {a.layout, b.layout};
  return make_strided(sizes, detail::strides_like(sizes, layouts), dtype, backend);
}

/// PyTorch's CPU rounds the factor and the number of an addition to the type of the result; GPUs do not.
double addend_of(BinaryOp op, DType dtype, const Backend& backend, double value) {
  if (op != BinaryOp::add && op != BinaryOp::sub) return value;
  if ((dtype != DType::f16 && dtype != DType::bf16) || !backend.device().is_cpu()) return value;
  const auto number = static_cast<float>(value);
  return dtype == DType::f16 ? f16_to_f32(f32_to_f16(number)) : bf16_to_f32(f32_to_bf16(number));
}

bool divides_integers(BinaryOp op) {
  return op == BinaryOp::div_floor || op == BinaryOp::div_trunc || op == BinaryOp::remainder || op == BinaryOp::fmod;
}

DType binary_dtype(BinaryOp op, DType promoted) {
  bool to_float = op == BinaryOp::div || op == BinaryOp::atan2;
  return to_float && !is_inexact(promoted) ? default_dtype() : promoted;
}

void check_bool_sub(BinaryOp op, DType a, DType b) {
  if (op != BinaryOp::sub) return;
  if (a == DType::boolean && b == DType::boolean) {
    throw Error(ErrorCode::not_implemented,
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
                "operator instead.");
  }
  if (a == DType::boolean || b == DType::boolean) {
    throw Error(
        ErrorCode::not_implemented,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
        "use the `~` or `logical_not()` operator instead.");
  }
}

void check_no_zero_divisor(BinaryOp op, const Tensor& b, DType dtype) {
  if (!divides_integers(op) || is_inexact(dtype)) return;
  if (detail::asserts_later(b)) return detail::assert_none(compare(CompareOp::eq, b, Scalar(0)));
  if (reduce(ReduceOp::all, b, {}).item().to_bool()) return;
  throw Error(ErrorCode::runtime, "ZeroDivisionError");
}

/// Runs a binary slot into `out` (of the compute dtype); operands are of the compute dtype already.
void run_binary_op(BinaryOp op, const Tensor& out, const Operand& a, const Operand& b, const OpArgs& args) {
  auto kernel = table_of(backend_of(out), name(op), out.dtype()).binary.at(op, out.dtype());
  if (kernel == nullptr && (op == BinaryOp::bitwise_and || op == BinaryOp::bitwise_or || op == BinaryOp::bitwise_xor)) {
    throw Error(ErrorCode::not_implemented,
                "\"" + std::string(name(op)) + "_cpu\" not implemented for '" + scalar_type_name(out.dtype()) + "'");
  }
  if (kernel == nullptr) throw_missing(op, backend_of(out), out.dtype());
  run_binary(kernel, out, a, b, args);
}

void check_castable(DType from, DType to) {
  auto rank = [](DType d) { return d == DType::boolean ? 0 : is_complex(d) ? 3 : is_floating(d) ? 2 : 1; };
  if (rank(from) <= rank(to)) return;
  throw Error(ErrorCode::runtime, std::string("result type ") + scalar_type_name(from) +
                                      " can't be cast to the desired output type " + scalar_type_name(to));
}

void check_same_shape_out(const Shape& out, const Shape& result) {
  if (out == result) return;
  throw Error(ErrorCode::runtime,
              "output with shape " + to_list(out) + " doesn't match the broadcast shape " + to_list(result));
}

/// The operations that know blocked images; undefined where this is none.
Tensor blocked_binary(BinaryOp op, const Tensor& a, const Tensor& b, const OpArgs& args) {
  if (op == BinaryOp::add && args[0] == 1) return blocked::try_add(a, b);
  if (op == BinaryOp::relu_backward) return blocked::try_relu_grad(a, b);
  if (op == BinaryOp::mul && a.storage()->blocked_image() != nullptr) return blocked::try_scale(a, b);
  if (op == BinaryOp::mul && b.storage()->blocked_image() != nullptr) return blocked::try_scale(b, a);
  return {};
}

void refuse_bool(UnaryOp op) {
  if (op == UnaryOp::relu) throw Error(ErrorCode::runtime, "Boolean inputs not supported for relu");
  if (op != UnaryOp::neg) return;
  throw Error(
      ErrorCode::not_implemented,
      "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
      "`~` or `logical_not()` operator instead.");
}

/// Arithmetic on a few floats, where finding a kernel would cost more than running it.
bool compute_here(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b, const OpArgs& args) {
  constexpr std::int64_t kFew = 16;
  const std::int64_t count = out.numel();
  if (count > kFew || out.dtype() != DType::f32 || !backend_of(out).device().is_cpu() || args[0] != 1) return false;
  const auto data = [](const Tensor& t) { return static_cast<float*>(t.storage().data()) + t.storage_offset(); };
  float* const to = data(out);
  const float *const first = data(a), *const second = data(b);
  const auto each = [&](auto operation) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = operation(first[i], second[i]);
    return true;
  };
  switch (op) {
    case BinaryOp::add:
      return each([](float x, float y) { return x + y; });
    case BinaryOp::sub:
      return each([](float x, float y) { return x - y; });
    case BinaryOp::mul:
      return each([](float x, float y) { return x * y; });
    case BinaryOp::div:
      return each([](float x, float y) { return x / y; });
    default:
      return false;
  }
}

/// The operation of a tensor and a number, in either order.
Tensor binary_with_number(BinaryOp op, const Tensor& a, Scalar number, bool number_first, const OpArgs& args) {
  if (is_complex(a.dtype())) {  // of 16 bytes, which the parameters have no room for
    const Tensor value = wrapped(number, backend_of(a));
    return number_first ? binary(op, value, a, args) : binary(op, a, value, args);
  }
  check_bool_sub(op, a.dtype(), number.kind());
  DType dtype = binary_dtype(op, result_type(a, number));
  DType compute = compute_dtype(dtype);
  Tensor x = cast(a, compute);
  if (divides_integers(op) && !is_floating(compute)) {
    return number_first ? binary(op, wrapped(number, backend_of(a)), a, args)
                        : binary(op, a, wrapped(number, backend_of(a)), args);
  }
  OpArgs with_number = args;
  with_number[0] = addend_of(op, dtype, backend_of(a), args[0]);
  store_scalar(&with_number[kNumberAt],
               compute == dtype ? number : Scalar(addend_of(op, dtype, backend_of(a), number.to_double())), compute);
  Tensor out = make_like(x, compute);
  Operand tensor = operand_of(x);
  Operand value = number_operand();
  run_binary_op(op, out, number_first ? value : tensor, number_first ? tensor : value, with_number);
  return cast(out, dtype);
}

Tensor run_ternary(TernaryOp op, const Tensor& a, const Tensor& b, const Tensor& c, const OpArgs& args) {
  Backend& backend = backend_of(b);
  auto kernel = table_of(backend, name(op), b.dtype()).ternary.at(op, b.dtype());
  if (kernel == nullptr) throw_missing(op, backend, b.dtype());
  Shape sizes = broadcast_shapes(broadcast_shapes(a.sizes(), b.sizes()), c.sizes());
  std::array<detail::Layout, 3> layouts = {detail::layout_of(a), detail::layout_of(b), detail::layout_of(c)};
  Tensor out = make_strided(sizes, detail::strides_like(sizes, layouts), b.dtype(), backend);
  TernaryParams params{data_of(out), a.raw_data(), b.raw_data(), c.raw_data(), {args[0], args[1], args[2]}, {}};
  detail::build_loop<4>(params.loop, sizes, {detail::layout_of(out), layouts[0], layouts[1], layouts[2]});
  kernel(params);
  return out;
}

/// As in Python, and no two the same; messages have names of their own.
std::string_view trace_name(UnaryOp op) {
  if (op == UnaryOp::abs) return "abs";
  if (op == UnaryOp::floor) return "floor";
  return op == UnaryOp::gelu_tanh ? "gelu_tanh" : name(op);
}
std::string_view trace_name(BinaryOp op) {
  if (op == BinaryOp::div_floor) return "div_floor";
  return op == BinaryOp::div_trunc ? "div_trunc" : name(op);
}
template <class Op>
std::string_view trace_name(Op op) {
  return name(op);
}

}  // namespace

Tensor unary(UnaryOp op, const Tensor& x, const OpArgs& args) {
  if (core::detail::traced_now())
    return core::detail::traced(trace_name(op), {x}, {{"a", args[0]}, {"b", args[1]}, {"c", args[2]}},
                                [&] { return unary(op, x, args); });
  const core::detail::OpScope scope(op, x);
  if (op == UnaryOp::relu && x.storage()->blocked_image() != nullptr) {
    if (Tensor out = blocked::try_activate(x, ImageActivation::relu); out.defined()) return out;
  }
  if (x.dtype() == DType::boolean) refuse_bool(op);
  DType dtype = !is_inexact(x.dtype()) && always_float(op) ? default_dtype() : x.dtype();
  const auto& kernels = table_of(backend_of(x), name(op), dtype).unary;
  DType compute = kernel_dtype(kernels, op, dtype);
  auto kernel = kernels.at(op, compute);
  if (kernel == nullptr) throw_missing(op, backend_of(x), dtype);
  if (x.dtype() == compute) {
    Tensor out = make_like(x, op == UnaryOp::abs ? parts_type(compute) : compute);
    run_unary(kernel, out, x, args);
    return out;
  }
  Tensor in = cast(x, compute);
  Tensor out = make_like(in, compute);
  run_unary(kernel, out, in, args);
  return cast(out, dtype);
}

void unary_into(UnaryOp op, const Tensor& out, const Tensor& x, const OpArgs& args) {
  if (core::detail::traced_now())
    return core::detail::traced_in_place(trace_name(op), out, {x}, {{"a", args[0]}, {"b", args[1]}, {"c", args[2]}},
                                         [&] { unary_into(op, out, x, args); });
  const core::detail::OpScope scope(core::detail::InPlace{op}, out, x);
  if (op == UnaryOp::relu && out.is_same(x) && blocked::try_activate_in_place(x, ImageActivation::relu)) return;
  bool float_result = !is_inexact(x.dtype()) && always_float(op);
  check_castable(float_result ? default_dtype() : x.dtype(), out.dtype());
  auto kernel = table_of(backend_of(x), name(op), x.dtype()).unary.at(op, x.dtype());
  const bool changes_type = x.dtype() != out.dtype() || (op == UnaryOp::abs && is_complex(x.dtype()));
  if (kernel == nullptr || changes_type) return copy_into(out, unary(op, x, args));
  run_unary(kernel, out, x, args);
}

Tensor predicate(PredicateOp op, const Tensor& x) {
  if (core::detail::traced_now())
    return core::detail::traced(trace_name(op), {x}, {}, [&] { return predicate(op, x); });
  const core::detail::OpScope scope(op, x);
  const auto& kernels = table_of(backend_of(x), name(op), x.dtype()).predicate;
  Tensor in = cast(x, kernel_dtype(kernels, op, x.dtype()));
  auto kernel = kernels.at(op, in.dtype());
  if (kernel == nullptr) throw_missing(op, backend_of(x), x.dtype());
  Tensor out = make_like(in, DType::boolean);
  run_unary(kernel, out, in, {});
  return out;
}

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b, const OpArgs& args) {
  if (core::detail::traced_now())
    return core::detail::traced(trace_name(op), {a, b}, {{"alpha", args[0]}}, [&] { return binary(op, a, b, args); });
  const core::detail::OpScope scope(op, a, b);
  if (b.storage()->blocked_image() != nullptr) {
    if (Tensor out = blocked_binary(op, a, b, args); out.defined()) return out;
  }
  Backend* backend = &backend_of(a);
  DType dtype = a.dtype();
  if (dtype == b.dtype() && backend == &backend_of(b) && a.is_contiguous() && b.is_contiguous() &&
      computes_directly(dtype) && a.sizes() == b.sizes()) {  // the usual case, kept short
    Tensor out = make(a.sizes(), dtype, *backend);
    if (!compute_here(op, out, a, b, args)) run_binary_op(op, out, operand_of(a), operand_of(b), args);
    return out;
  }
  if (core::detail::any_sparse(a, b)) return core::detail::sparse_binary(op, a, b, args[0]);
  check_bool_sub(op, a.dtype(), b.dtype());
  const Tensor* both[] = {&a, &b};
  backend = &common_backend(both);
  Shape sizes = broadcast_shapes(a.sizes(), b.sizes());
  dtype = binary_dtype(op, result_type(a, b));
  DType compute = compute_dtype(dtype);
  if (a.dtype() == dtype && b.dtype() == dtype) {
    compute = kernel_dtype(table_of(*backend, name(op), dtype).binary, op, dtype);
  }
  const bool rounds_first = compute != dtype && (op == BinaryOp::add || op == BinaryOp::sub);
  const auto operand = [&](const Tensor& t) {
    return move(cast(rounds_first ? cast(t, dtype) : t, compute), *backend);
  };
  const Tensor x = operand(a), y = operand(b);
  if (sizes.numel() > 0) check_no_zero_divisor(op, y, compute);
  Tensor out = make_result(sizes, compute, *backend, operand_of(x), operand_of(y));
  OpArgs rounded = args;
  rounded[0] = addend_of(op, dtype, *backend, args[0]);
  run_binary_op(op, out, operand_of(x), operand_of(y), rounded);
  return cast(out, dtype);
}

Tensor binary(BinaryOp op, const Tensor& a, Scalar b, const OpArgs& args) {
  if (core::detail::traced_now())
    return core::detail::traced(trace_name(op), {a}, {{"alpha", args[0]}, {"second", b}},
                                [&] { return binary(op, a, b, args); });
  const core::detail::OpScope scope(op, a);
  return binary_with_number(op, a, b, false, args);
}
Tensor binary(BinaryOp op, Scalar a, const Tensor& b, const OpArgs& args) {
  if (core::detail::traced_now())
    return core::detail::traced(trace_name(op), {b}, {{"alpha", args[0]}, {"first", a}},
                                [&] { return binary(op, a, b, args); });
  const core::detail::OpScope scope(op, b);
  return binary_with_number(op, b, a, true, args);
}

void binary_in_place(BinaryOp op, const Tensor& out, const Tensor& b, const OpArgs& args) {
  if (core::detail::traced_now())
    return core::detail::traced_in_place(trace_name(op), out, {out, b}, {{"alpha", args[0]}},
                                         [&] { binary_in_place(op, out, b, args); });
  const core::detail::OpScope scope(core::detail::InPlace{op}, out, b);
  if (op == BinaryOp::add && args[0] == 1 && blocked::try_add_in_place(out, b)) return;
  const auto has_kernel = [&] {
    const ElementwiseTable* table = backend_of(out).ops().elementwise;
    return is_floating(out.dtype()) && table != nullptr && table->binary.at(op, out.dtype()) != nullptr;
  };
  if (out.dtype() == b.dtype() && &backend_of(out) == &backend_of(b) && out.sizes() == b.sizes() &&
      (computes_directly(out.dtype()) || has_kernel())) {
    OpArgs rounded = args;
    rounded[0] = addend_of(op, out.dtype(), backend_of(out), args[0]);
    return run_binary_op(op, out, operand_of(out), operand_of(b), rounded);
  }
  check_same_shape_out(out.sizes(), broadcast_shapes(out.sizes(), b.sizes()));
  check_castable(binary_dtype(op, result_type(out, b)), out.dtype());
  copy_into(out, binary(op, out, b, args));
}

void binary_in_place(BinaryOp op, const Tensor& out, Scalar b, const OpArgs& args) {
  if (core::detail::traced_now())
    return core::detail::traced_in_place(trace_name(op), out, {out}, {{"alpha", args[0]}, {"second", b}},
                                         [&] { binary_in_place(op, out, b, args); });
  const core::detail::OpScope scope(core::detail::InPlace{op}, out);
  DType dtype = binary_dtype(op, result_type(out, b));
  check_castable(dtype, out.dtype());
  if (dtype != out.dtype() || compute_dtype(dtype) != dtype || divides_integers(op) || is_complex(dtype)) {
    return copy_into(out, binary(op, out, b, args));
  }
  OpArgs with_number = args;
  store_scalar(&with_number[kNumberAt], b, dtype);
  run_binary_op(op, out, operand_of(out), number_operand(), with_number);
}

Tensor compare(CompareOp op, const Tensor& a, const Tensor& b) {
  if (core::detail::traced_now())
    return core::detail::traced(trace_name(op), {a, b}, {}, [&] { return compare(op, a, b); });
  const core::detail::OpScope scope(op, a, b);
  const Tensor* both[] = {&a, &b};
  Backend& backend = common_backend(both);
  DType dtype = result_type(a, b);
  const auto& kernels = table_of(backend, name(op), dtype).compare;
  const bool is_common = a.dtype() == dtype && b.dtype() == dtype;
  dtype = is_common ? kernel_dtype(kernels, op, dtype) : compute_dtype(dtype);
  Tensor x = move(cast(a, dtype), backend);
  Tensor y = move(cast(b, dtype), backend);
  auto kernel = kernels.at(op, dtype);
  if (kernel == nullptr) throw_missing(op, backend, dtype);
  Tensor out =
      make_result(broadcast_shapes(a.sizes(), b.sizes()), DType::boolean, backend, operand_of(x), operand_of(y));
  run_binary(kernel, out, operand_of(x), operand_of(y), {});
  return out;
}

Tensor compare(CompareOp op, const Tensor& a, Scalar b) {
  if (core::detail::traced_now())
    return core::detail::traced(trace_name(op), {a}, {{"second", b}}, [&] { return compare(op, a, b); });
  const core::detail::OpScope scope(op, a);
  if (is_complex(a.dtype())) return compare(op, a, wrapped(b, backend_of(a)));
  const DType dtype = compute_dtype(result_type(a, b));
  const Tensor x = cast(a, dtype);
  auto kernel = table_of(backend_of(a), name(op), dtype).compare.at(op, dtype);
  if (kernel == nullptr) throw_unsupported(name(op), backend_of(a), dtype);
  OpArgs with_number{};
  if (dtype == DType::f32 && !b.is_float()) {  // rounded once
    core::store_le(reinterpret_cast<std::byte*>(&with_number[kNumberAt]), static_cast<float>(b.to_int()));
  } else {
    store_scalar(&with_number[kNumberAt], b, dtype);
  }
  Tensor out = make_result(a.sizes(), DType::boolean, backend_of(a), operand_of(x), number_operand());
  run_binary(kernel, out, operand_of(x), number_operand(), with_number);
  return out;
}

Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b) {
  if (core::detail::traced_now())
    return core::detail::traced("where", {mask, a, b}, {}, [&] { return where(mask, a, b); });
  const core::detail::OpScope scope("where", mask, a, b);
  if (mask.dtype() != DType::boolean && mask.dtype() != DType::u8) {
    throw Error(ErrorCode::runtime,
                std::string("where expected condition to be a boolean tensor, but got a tensor with dtype ") +
                    scalar_type_name(mask.dtype()));
  }
  const Tensor* all[] = {&mask, &a, &b};
  Backend& backend = common_backend(all);
  DType dtype = result_type(a, b);
  return run_ternary(TernaryOp::where, move(cast(mask, DType::boolean), backend), move(cast(a, dtype), backend),
                     move(cast(b, dtype), backend), {});
}

Tensor ternary(TernaryOp op, const Tensor& a, const Tensor& b, const Tensor& c, double value) {
  if (core::detail::traced_now())
    return core::detail::traced(trace_name(op), {a, b, c}, {{"value", value}},
                                [&] { return ternary(op, a, b, c, value); });
  const core::detail::OpScope scope(op, a, b, c);
  const Tensor* all[] = {&a, &b, &c};
  Backend& backend = common_backend(all);
  DType dtype = promote_types(result_type(a, b), result_type(a, c));
  DType compute = compute_dtype(dtype);
  if (a.dtype() == dtype && b.dtype() == dtype && c.dtype() == dtype) {
    compute = kernel_dtype(table_of(backend, name(op), dtype).ternary, op, dtype);
  }
  auto prepare = [&](const Tensor& t) { return move(cast(t, compute), backend); };
  return cast(run_ternary(op, prepare(a), prepare(b), prepare(c), {value, 0, 0}), dtype);
}

}  // namespace core::raw
