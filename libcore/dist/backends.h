#pragma once
// Who exchanges the memory of which device, and that all ranks take the same: what each would take by itself depends on
// the GPUs and libraries of its machine. Internal to dist. Thread safety: plain values. Use: Backends all =
// chosen_backends("cpu:gloo,cuda:nccl");

#include <cstdint>
#include <string>

#include "libcore/dist/watch.h"

namespace core::distributed {

struct Backends {
  std::string text = {};  ///< what was asked for; empty: nothing
  std::string cpu = {};   ///< "gloo", "mpi", or nothing
  std::string cuda = {};  ///< "nccl"; "host": by that of the CPU; "any": by NCCL if that can be; or nothing
  std::string why = {};   ///< why NCCL cannot be: of "host" where "any" was asked for, of "nccl" where it was named
};

/// Errors: PyTorch's texts for a name that there is not.
Backends chosen_backends(const std::string& text);
/// "any" becomes "nccl" where this machine has a GPU for each of its processes, else "host". All `ranks` may be on this
/// one where the launcher does not say how many are. Error(runtime), PyTorch's text, for one rank alone that named nccl
/// where it cannot be used; several hear it together, in agreed_backends().
Backends settled(Backends ours, int ranks);

/// What this rank says to the others, through the watch.
std::string packed(const Backends& ours);
/// What all take, when all have said it: where nobody asked for nccl and some rank cannot use it, the host's memory,
/// and rank 0 warns. Error(runtime), on every rank, that says what each takes where they have nothing in common, or
/// which of them cannot use nccl where it was named.
Backends agreed_backends(Backends ours, int rank, int size, const Watch& watch);

}  // namespace core::distributed
