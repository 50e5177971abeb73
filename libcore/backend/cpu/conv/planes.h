#pragma once
// Convolutions of f32, f16 or bf16 over images in ordinary order, plane by plane: those of is_by_planes()
// (image_order.h). Sums are of f32, rounded once.
// Thread safety: pure functions. For dense_*.cpp: CORE_BY_ISA(planes_conv)(DType::f32, p);

#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/nn_table.h"
#include "libcore/base/dtype.h"

namespace core::cpu {

CORE_EACH_ISA(void planes_conv(DType type, const Conv2dParams& p))
CORE_EACH_ISA(void planes_input_grad(DType type, const Conv2dInputGradParams& p))
CORE_EACH_ISA(void planes_weight_grad(DType type, const Conv2dWeightGradParams& p))

}  // namespace core::cpu
