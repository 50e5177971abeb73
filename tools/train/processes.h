#pragma once
// The processes of a run: one, or as many as torchrun, mpirun or srun started. Each learns from its share of the rows;
// the first of them (rank 0) speaks and writes. Thread safety: none. Use: train::join_processes(); if
// (train::is_first_process()) begin_run(...); train::leave_processes();

#include <cstdint>

namespace train {

/// Finds the others, where a launcher started this process as one of several. Errors: those of init_process_group().
void join_processes();
void leave_processes();

bool has_several_processes();
bool is_first_process();
std::int64_t process_count();
std::int64_t process_rank();
/// Which of this machine's processes.
std::int64_t local_rank();

/// Of one step.
struct StepSums {
  double loss = 0;
  double right = 0;
  double rows = 0;
  double stops = 0;  ///< how many were asked to stop
};
/// Over all processes; `loss` is the mean.
StepSums over_processes(StepSums own);
/// A number that all processes are to share: the first one's.
std::int64_t shared_number(std::int64_t own);
void wait_for_processes();
/// Says to the others why this process ends.
void report_to_processes(const char* error);

}  // namespace train
