#include "libcore/backend/op_tables.h"

namespace core {
namespace {

constexpr std::string_view kUnaryNames[] = {
    "neg",        "abs_cpu",    "sign",     "floor_vml_cpu", "ceil",      "round",     "trunc",       "frac",
    "square",     "reciprocal", "sqrt",     "rsqrt",         "exp",       "exp2",      "expm1",       "log",
    "log2",       "log10",      "log1p",    "sin",           "cos",       "tan",       "asin",        "acos",
    "atan",       "sinh",       "cosh",     "tanh",          "sigmoid",   "relu",      "erf",         "erfinv",
    "lgamma",     "digamma",    "trigamma", "gelu",          "gelu",      "silu",      "log_sigmoid", "bitwise_not",
    "leaky_relu", "elu",        "softplus", "clamp",         "threshold", "nan_to_num"};
constexpr std::string_view kPredicateNames[] = {"logical_not", "isnan", "isinf", "isfinite"};
constexpr std::string_view kBinaryNames[] = {"add",
                                             "sub",
                                             "mul",
                                             "div",
                                             "div_floor_cpu",
                                             "div",
                                             "pow",
                                             "maximum",
                                             "minimum",
                                             "atan2",
                                             "remainder",
                                             "fmod",
                                             "bitwise_and",
                                             "bitwise_or",
                                             "bitwise_xor",
                                             "relu_backward",
                                             "sigmoid_backward",
                                             "tanh_backward",
                                             "leaky_relu_backward",
                                             "clamp_backward"};
constexpr std::string_view kCompareNames[] = {"eq", "ne",          "lt",         "le",         "gt",
                                              "ge", "logical_and", "logical_or", "logical_xor"};
constexpr std::string_view kTernaryNames[] = {"where", "addcmul", "addcdiv", "lerp"};
constexpr std::string_view kReduceNames[] = {"sum",    "mean", "prod", "max", "min", "argmax",
                                             "argmin", "var",  "norm", "all", "any"};
constexpr std::string_view kScanNames[] = {"cumsum", "cumprod"};
constexpr std::string_view kIndexNames[] = {"index_select", "scatter", "index_add"};

template <class Op, std::size_t N>
std::string_view name_in(const std::string_view (&names)[N], Op op) {
  static_assert(N == static_cast<std::size_t>(Op::count_));
  return names[static_cast<std::size_t>(op)];
}

}  // namespace

std::string_view name(UnaryOp op) {
  return name_in(kUnaryNames, op);
}
std::string_view name(PredicateOp op) {
  return name_in(kPredicateNames, op);
}
std::string_view name(BinaryOp op) {
  return name_in(kBinaryNames, op);
}
std::string_view name(CompareOp op) {
  return name_in(kCompareNames, op);
}
std::string_view name(TernaryOp op) {
  return name_in(kTernaryNames, op);
}
std::string_view name(ReduceOp op) {
  return name_in(kReduceNames, op);
}
std::string_view name(ScanOp op) {
  return name_in(kScanNames, op);
}
std::string_view name(IndexOp op) {
  return name_in(kIndexNames, op);
}

}  // namespace core
