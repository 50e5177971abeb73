#include "libcore/backend/op_kinds.h"

#include <cstddef>

namespace core {
namespace {

/// One operation: what messages call it. How many inputs it has is its enumeration (unary, binary, ternary).
template <class Op>
struct OpRow {
  Op op;
  std::string_view name;
};

constexpr OpRow<UnaryOp> kUnaryRows[] = {
    {UnaryOp::neg, "neg"},
    {UnaryOp::abs, "abs_cpu"},
    {UnaryOp::sign, "sign"},
    {UnaryOp::floor, "floor_vml_cpu"},
    {UnaryOp::ceil, "ceil"},
    {UnaryOp::round, "round"},
    {UnaryOp::trunc, "trunc"},
    {UnaryOp::frac, "frac"},
    {UnaryOp::square, "square"},
    {UnaryOp::reciprocal, "reciprocal"},
    {UnaryOp::sqrt, "sqrt"},
    {UnaryOp::rsqrt, "rsqrt"},
    {UnaryOp::exp, "exp"},
    {UnaryOp::exp2, "exp2"},
    {UnaryOp::expm1, "expm1"},
    {UnaryOp::log, "log"},
    {UnaryOp::log2, "log2"},
    {UnaryOp::log10, "log10"},
    {UnaryOp::log1p, "log1p"},
    {UnaryOp::sin, "sin"},
    {UnaryOp::cos, "cos"},
    {UnaryOp::tan, "tan"},
    {UnaryOp::asin, "asin"},
    {UnaryOp::acos, "acos"},
    {UnaryOp::atan, "atan"},
    {UnaryOp::sinh, "sinh"},
    {UnaryOp::cosh, "cosh"},
    {UnaryOp::tanh, "tanh"},
    {UnaryOp::sigmoid, "sigmoid"},
    {UnaryOp::relu, "relu"},
    {UnaryOp::erf, "erf"},
    {UnaryOp::erfinv, "erfinv"},
    {UnaryOp::lgamma, "lgamma"},
    {UnaryOp::digamma, "digamma"},
    {UnaryOp::trigamma, "trigamma"},
    {UnaryOp::gelu, "gelu"},
    {UnaryOp::gelu_tanh, "gelu"},
    {UnaryOp::silu, "silu"},
    {UnaryOp::log_sigmoid, "log_sigmoid"},
    {UnaryOp::bitwise_not, "bitwise_not"},
    {UnaryOp::leaky_relu, "leaky_relu"},
    {UnaryOp::elu, "elu"},
    {UnaryOp::softplus, "softplus"},
    {UnaryOp::clamp, "clamp"},
    {UnaryOp::threshold, "threshold"},
    {UnaryOp::nan_to_num, "nan_to_num"},
};
constexpr OpRow<PredicateOp> kPredicateRows[] = {
    {PredicateOp::logical_not, "logical_not"},
    {PredicateOp::isnan, "isnan"},
    {PredicateOp::isinf, "isinf"},
    {PredicateOp::isfinite, "isfinite"},
};
constexpr OpRow<BinaryOp> kBinaryRows[] = {
    {BinaryOp::add, "add"},
    {BinaryOp::sub, "sub"},
    {BinaryOp::mul, "mul"},
    {BinaryOp::div, "div"},
    {BinaryOp::div_floor, "div_floor_cpu"},
    {BinaryOp::div_trunc, "div"},
    {BinaryOp::pow, "pow"},
    {BinaryOp::maximum, "maximum"},
    {BinaryOp::minimum, "minimum"},
    {BinaryOp::atan2, "atan2"},
    {BinaryOp::remainder, "remainder"},
    {BinaryOp::fmod, "fmod"},
    {BinaryOp::bitwise_and, "bitwise_and"},
    {BinaryOp::bitwise_or, "bitwise_or"},
    {BinaryOp::bitwise_xor, "bitwise_xor"},
    {BinaryOp::relu_backward, "relu_backward"},
    {BinaryOp::sigmoid_backward, "sigmoid_backward"},
    {BinaryOp::tanh_backward, "tanh_backward"},
    {BinaryOp::leaky_relu_backward, "leaky_relu_backward"},
    {BinaryOp::clamp_backward, "clamp_backward"},
};
constexpr OpRow<CompareOp> kCompareRows[] = {
    {CompareOp::eq, "eq"},
    {CompareOp::ne, "ne"},
    {CompareOp::lt, "lt"},
    {CompareOp::le, "le"},
    {CompareOp::gt, "gt"},
    {CompareOp::ge, "ge"},
    {CompareOp::logical_and, "logical_and"},
    {CompareOp::logical_or, "logical_or"},
    {CompareOp::logical_xor, "logical_xor"},
};
constexpr OpRow<TernaryOp> kTernaryRows[] = {
    {TernaryOp::where, "where"},
    {TernaryOp::addcmul, "addcmul"},
    {TernaryOp::addcdiv, "addcdiv"},
    {TernaryOp::lerp, "lerp"},
};
constexpr OpRow<ReduceOp> kReduceRows[] = {
    {ReduceOp::sum, "sum"},   {ReduceOp::mean, "mean"},     {ReduceOp::prod, "prod"},     {ReduceOp::max, "max"},
    {ReduceOp::min, "min"},   {ReduceOp::argmax, "argmax"}, {ReduceOp::argmin, "argmin"}, {ReduceOp::var, "var"},
    {ReduceOp::norm, "norm"}, {ReduceOp::all, "all"},       {ReduceOp::any, "any"},
};
constexpr OpRow<ScanOp> kScanRows[] = {
    {ScanOp::cumsum, "cumsum"},
    {ScanOp::cumprod, "cumprod"},
};
constexpr OpRow<IndexOp> kIndexRows[] = {
    {IndexOp::take, "index_select"},
    {IndexOp::put, "scatter"},
    {IndexOp::accumulate, "index_add"},
};

/// Whether row i is that of operation i, for all of them: a row that is missing or out of its place does not compile.
template <class Op, std::size_t N>
constexpr bool is_whole(const OpRow<Op> (&rows)[N]) {
  for (std::size_t i = 0; i < N; ++i) {
    if (static_cast<std::size_t>(rows[i].op) != i) return false;
  }
  return N == static_cast<std::size_t>(Op::count_);
}
static_assert(is_whole(kUnaryRows));
static_assert(is_whole(kPredicateRows));
static_assert(is_whole(kBinaryRows));
static_assert(is_whole(kCompareRows));
static_assert(is_whole(kTernaryRows));
static_assert(is_whole(kReduceRows));
static_assert(is_whole(kScanRows));
static_assert(is_whole(kIndexRows));

}  // namespace

std::string_view name(UnaryOp op) {
  return kUnaryRows[static_cast<std::size_t>(op)].name;
}
std::string_view name(PredicateOp op) {
  return kPredicateRows[static_cast<std::size_t>(op)].name;
}
std::string_view name(BinaryOp op) {
  return kBinaryRows[static_cast<std::size_t>(op)].name;
}
std::string_view name(CompareOp op) {
  return kCompareRows[static_cast<std::size_t>(op)].name;
}
std::string_view name(TernaryOp op) {
  return kTernaryRows[static_cast<std::size_t>(op)].name;
}
std::string_view name(ReduceOp op) {
  return kReduceRows[static_cast<std::size_t>(op)].name;
}
std::string_view name(ScanOp op) {
  return kScanRows[static_cast<std::size_t>(op)].name;
}
std::string_view name(IndexOp op) {
  return kIndexRows[static_cast<std::size_t>(op)].name;
}

}  // namespace core
