#pragma once
// What a launcher says to the processes it starts: torchrun (RANK, WORLD_SIZE, ...), mpirun of Open MPI
// (OMPI_COMM_WORLD_RANK, ...) and srun of Slurm (SLURM_PROCID, ...), in this order.
// Thread safety: reads the environment. Use: core::distributed::LaunchFacts facts = core::distributed::launch_facts();

#include <cstdint>
#include <optional>
#include <string>

namespace core::distributed {

struct LaunchFacts {
  enum class By { nobody, torchrun, open_mpi, slurm };
  By by = By::nobody;
  std::optional<std::int64_t> rank = {};
  std::optional<std::int64_t> world_size = {};
  std::optional<std::int64_t> local_rank = {};        ///< among the processes of this machine
  std::optional<std::int64_t> local_world_size = {};  ///< how many these are
  std::optional<std::string> master_addr = {};        ///< of MASTER_ADDR, else the first machine that Slurm gave
  std::optional<std::uint16_t> master_port = {};      ///< of MASTER_PORT, else derived from the job's number
  bool agent_store = false;                           ///< torchrun itself serves the store: rank 0 must not
  std::int64_t attempt = 0;                           ///< how often torchrun has started all ranks again
};

/// Error(value) that names a variable which is no number: "RANK=one is no number"; a list of Slurm that is none:
/// "SLURM_TASKS_PER_NODE=two does not say how many processes each machine has, as 4 and 2(x3),1 do".
LaunchFacts launch_facts();
/// Whether a launcher started this process as one of several.
bool is_launched();

/// The first machine of a list as Slurm writes it: "gpu[03-07,9],login" is "gpu03".
std::string first_host(const std::string& node_list);

}  // namespace core::distributed
