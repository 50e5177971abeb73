#include "tools/train/processes.h"

#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"
#include "libcore/tensor/factory.h"

namespace train {
namespace dist = core::distributed;

void join_processes() {
  if (dist::is_launched() && dist::launch_facts().world_size.value_or(1) > 1) dist::init_process_group();
}

void leave_processes() {
  if (dist::is_initialized()) dist::destroy_process_group();
}

bool has_several_processes() {
  return dist::is_initialized();
}
bool is_first_process() {
  return process_rank() == 0;
}
std::int64_t process_count() {
  return dist::is_initialized() ? dist::get_world_size() : 1;
}
std::int64_t process_rank() {
  return dist::is_initialized() ? dist::get_rank() : 0;
}
std::int64_t local_rank() {
  return dist::launch_facts().local_rank.value_or(process_rank());
}

StepSums over_processes(StepSums own) {
  if (!has_several_processes()) return own;
  const core::Tensor sums = core::zeros({4}, {.dtype = core::DType::f64});
  auto* values = sums.mutable_data<double>();
  values[0] = own.loss;
  values[1] = own.right;
  values[2] = own.rows;
  values[3] = own.stops;
  dist::all_reduce(sums, {.label = "loss of a step"});
  const auto* all = sums.data<double>();
  return {all[0] / static_cast<double>(process_count()), all[1], all[2], all[3]};
}

std::int64_t shared_number(std::int64_t own) {
  if (!has_several_processes()) return own;
  const core::Tensor number = core::full({1}, own, {.dtype = core::DType::i64});
  dist::broadcast(number, 0, {.label = "seed of an epoch"});
  return number.item<std::int64_t>();
}

void wait_for_processes() {
  if (has_several_processes()) dist::barrier();
}

void report_to_processes(const char* error) {
  dist::report_failure(error);
}

}  // namespace train
