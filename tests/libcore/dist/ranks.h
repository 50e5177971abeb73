#pragma once
// Starts this program again as the ranks of a distributed training, as a launcher would, and collects what they say.
// Use: if (test::rank_role(argc, argv) == "loop") return run_rank(); ... test::Ranks ranks({.role = "loop", .size =
// 3});

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace test {

/// CKPT_TEST_BACKEND: "" for Gloo, "mpi", "nccl" (rank_gpus.h). The ranks have it too.
std::string default_backend();
/// Whether ranks can be started with this backend here; `why` says what is missing.
bool has_backend(const std::string& backend, std::string* why = nullptr);

/// How a rank ended.
struct Ending {
  int status = 0;          ///< exit status; negative: the signal; by mpirun: that of all
  bool timed_out = false;  ///< it was killed because it did not end
  std::string report;      ///< what it wrote with say()
  std::string errors;      ///< what it wrote to standard error; by mpirun: what all did
};

struct RanksOptions {
  std::string role;                         ///< argument after --rank
  std::vector<std::string> arguments = {};  ///< after the role
  int size = 1;
  std::map<std::string, std::string> environment =
      {};  ///< beside RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; "" unsets
  std::chrono::seconds limit{120};
  std::string backend = default_backend();  ///< for "mpi" mpirun starts them
};

/// Runs `size` processes of this program, or mpirun with so many, until all have ended, or kills them at the limit.
std::vector<Ending> run_ranks(const RanksOptions& options);
/// The role of this process: "" for the one that the user started.
std::string rank_role(int argc, char** argv);
/// The i-th argument after the role.
std::string rank_argument(int argc, char** argv, int i);
/// In a rank: a line of the report.
void say(const std::string& line);

}  // namespace test
