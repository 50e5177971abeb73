#pragma once
// Beginning and ending a training in several processes. As torch.distributed's functions; defaults, errors and their
// texts are PyTorch's. Every process calls them alike. Thread safety: init and destroy from one thread. Use:
// core::distributed::init_process_group(); int r = core::distributed::get_rank();

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libcore/dist/launch.h"
#include "libcore/dist/process_group.h"

namespace core::distributed {

struct InitOptions {
  std::string backend = {};                         ///< "gloo", "nccl", "mpi", "cpu:gloo,cuda:nccl"; what there is
  std::string init_method = "env://";               ///< or "tcp://host:port", "file:///path", "mpi://"
  Milliseconds timeout = std::chrono::minutes(30);  ///< of finding each other, and of every collective
  std::optional<std::int64_t> world_size = {};      ///< what the launcher says
  std::optional<std::int64_t> rank = {};
  std::shared_ptr<Store> store = {};  ///< in the place of init_method; needs rank and world_size
};

/// Joins the other processes. Without a backend, tensors on the CPU go by gloo, those on a GPU by nccl where every
/// machine has NCCL and a GPU for each of its processes, else, with a warning where the machines differ, through host
/// memory by gloo; to know it GPUs are looked for. Each process uses a GPU of its own with nccl: cuda:LOCAL_RANK. The
/// backend mpi, and `mpi://`, take rank and number of processes from MPI. `env://` reads what torchrun, mpirun or srun
/// say (launch.h). Errors: PyTorch's texts for what is missing, for a port in use, a rank 0 that does not answer,
/// processes that do not come, a second call; on every rank, where they name backends that differ, or nccl where one of
/// them cannot use it, or where one ends before all are connected. The next group may meet at the same place at once.
void init_process_group(const InitOptions& options = {});
/// Leaves; other ranks that wait for this one are told so. Error(assertion) without a group.
void destroy_process_group();
bool is_initialized();
/// Whether this build has an engine: "gloo".
bool is_gloo_available();
/// Whether the backend "nccl" can be used here: with a GPU and libnccl.so.2. Looks for the GPUs.
bool is_nccl_available();
/// Whether the plug-in for the backend "mpi" is here, and the MPI that it was built with.
bool is_mpi_available();

/// Of the default group. Error(value) "Default process group has not been initialized, ...".
Group default_group();
/// -1 for a process that is not in the group.
int get_rank(const Group& group = {});
int get_world_size(const Group& group = {});
std::string get_backend(const Group& group = {});
/// A group of some ranks (all when none are given). All processes call it, in the same order. Errors (value): "Rank 5
/// is out of range. Valid ranks are 0 to 1 (world_size=2)", "ranks list must not contain duplicate entries, got [0,
/// 0]".
Group new_group(const std::vector<int>& ranks = {}, std::optional<Milliseconds> timeout = {});
/// The rank in the default group of rank `rank` of `group`.
int get_global_rank(const Group& group, int rank);

/// Says to the other ranks, and to torchrun's error file, that this process ends because of this error.
void report_failure(const std::string& text);
/// Runs a program's main part: an exception becomes one sentence on standard error, news for the other ranks and for
/// torchrun, and exit status 1. Leaves the default group at the end.
int run_main(const std::function<int()>& body);

}  // namespace core::distributed
