#pragma once
// Element by element without history: checks of shapes, dtypes and devices, then the backend's slot. The functions of
// ops/ call these and record a node; formulas of gradients that need no second derivative may call them too. Thread
// safety: pure functions; *_into write their first argument. Errors: PyTorch's texts. Use: core::Tensor y =
// core::raw::binary(core::BinaryOp::mul, a, b);

#include <array>

#include "libcore/backend/op_kinds.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

using OpArgs = std::array<double, 3>;
Tensor unary(UnaryOp op, const Tensor& x, const OpArgs& args = {});
void unary_into(UnaryOp op, const Tensor& out, const Tensor& x, const OpArgs& args = {});
Tensor predicate(PredicateOp op, const Tensor& x);
Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b, const OpArgs& args = {1, 0, 0});
Tensor binary(BinaryOp op, const Tensor& a, Scalar b, const OpArgs& args = {1, 0, 0});
Tensor binary(BinaryOp op, Scalar a, const Tensor& b, const OpArgs& args = {1, 0, 0});

/// out = op(out, b)
void binary_in_place(BinaryOp op, const Tensor& out, const Tensor& b, const OpArgs& args = {1, 0, 0});
void binary_in_place(BinaryOp op, const Tensor& out, Scalar b, const OpArgs& args = {1, 0, 0});
Tensor compare(CompareOp op, const Tensor& a, const Tensor& b);
Tensor compare(CompareOp op, const Tensor& a, Scalar b);
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
Tensor ternary(TernaryOp op, const Tensor& a, const Tensor& b, const Tensor& c, double value);

}  // namespace core::raw
