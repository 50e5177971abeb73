#pragma once
// Every table of kernels that a CUDA device has, run on the host (emulation.h): for logical devices whose memory the
// host cannot touch. Products, which a library computes on a GPU, are the CPU's. Thread safety: constant.
// Use: core::set_opaque_devices(1, test::emulated_tables());

#include "libcore/backend/op_tables.h"

namespace test {

const core::OpTables& emulated_tables();

}  // namespace test
