#pragma once
// Tests of code that must not read device memory from the host: logical devices whose memory faults when it does, as
// CORE_LOGICAL_DEVICES=opaque:N makes them. Thread safety: no device may be in use meanwhile.
// Use: core::set_opaque_devices(2); core::ones({3}, {.device = "cuda:0"}).data<float>()[0];  // ends the program

#include "libcore/backend/logical_devices.h"
#include "libcore/backend/op_tables.h"

namespace core {

/// Replaces what the environment said. REQUIRES: no tensor lives on a logical device. Error(device) when the system has
/// not as many addresses.
void set_opaque_devices(int count);
/// The same with kernels of other tables than the CPU's.
void set_opaque_devices(int count, const OpTables& kernels);

}  // namespace core
