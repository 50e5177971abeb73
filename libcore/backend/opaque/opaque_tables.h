#pragma once
// The tables of opaque devices: every slot that the inner tables fill is a trampoline, which checks that every address
// in the parameters belongs to the device that was last asked for its tables, puts the addresses that kernels can touch
// in their places, and calls the inner kernel. Counts which slots are used. Thread safety: constant after
// set_inner_tables(); counting from any thread. Use: OpaqueBackend(info, opaque_tables()); set_launching_device(0);

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "libcore/backend/op_tables.h"

namespace core {

const OpTables& opaque_tables();
/// Whose kernels the trampolines call. Slots that these tables leave out are left out too, as is NnTable::image.
/// The environment variable CORE_OPAQUE_SLOTS names a file that lists, line by line, the only slots to keep
/// ("binary.add.float32"); "#" begins a comment. Error(usage) when it cannot be read or names an unknown slot.
void set_inner_tables(const OpTables& inner);

/// The device whose kernels this thread is about to run, by index.
void set_launching_device(int index);

/// Names of the slots that are filled.
std::set<std::string> opaque_slots();
/// Calls of every slot that was called. Those of the whole process are appended to the file that the environment
/// variable CORE_OPAQUE_COUNT names, when it ends: a name and a number in every line.
std::map<std::string, std::uint64_t> opaque_calls();

}  // namespace core
