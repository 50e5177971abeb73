#pragma once
// MPI in this process: the plug-in, opened once, and what it says of the launch. Ended when the program ends, if the
// training ended in order. Internal to dist. Thread safety: all functions.
// Use: const MpiFacts& facts = start_mpi(timeout);

#include <functional>
#include <string>

#include "libcore/dist/engine.h"
#include "libcore/dist/mpi_plugin.h"

namespace core::distributed {

/// Error(runtime), with PyTorch's text and why: the plug-in is missing, or the MPI that it was built with.
const MpiPlugin& mpi_plugin();
/// Begins MPI. Errors: as mpi_plugin(); not all processes began it in time; one was not started by mpirun.
const MpiFacts& start_mpi(Milliseconds timeout);
/// Every process gets rank 0's text, of at most 256 bytes.
std::string share_by_mpi(const std::string& text, Milliseconds timeout);
/// Runs what MPI cannot be asked to give up, in a thread of its own, for so long at most.
void within(Milliseconds timeout, const std::string& what, std::function<void()> run);
/// Something failed: other processes may never come to the end of MPI, so this one does not wait for them there.
void give_up_mpi();
bool mpi_was_given_up();
/// What is done first when the program ends.
void before_mpi_ends(std::function<void()> run);

}  // namespace core::distributed
