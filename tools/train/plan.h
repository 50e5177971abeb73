#pragma once
// What a run will do, before it does it: choices that the user left open, checks, and the plan that --dry-run prints.
// Thread safety: pure functions. Use: fill_in(options, data); std::cout << describe(options, task, data_line);

#include <string>

#include "tools/train/task.h"

namespace train {

/// Sets what the user left open. Errors: Error(usage) for numbers out of range and for options that do not go together.
void fill_in(RunOptions& o, const DataSet& data);
void fill_in_text(RunOptions& o);
/// For a folder's model that learns to continue a text.
void fill_in_language(RunOptions& o);

/// "fashion_mnist: 60,000 rows to learn from, 10,000 to test on, [1, 28, 28] each, 10 classes".
std::string data_line(const DataSet& data);
std::string data_line(const TextData& text);
/// "lenet5, 61,706 parameters; adam, lr 0.001; 5 epochs of 938 steps, batches of 64; on the CPU".
std::string run_line(const RunOptions& o, Task& task);

/// What one step takes, on devices that count.
struct Memory {
  std::uint64_t parameters = 0;  ///< bytes of them
  std::uint64_t step = 0;        ///< the most that tensors of all devices take in a step, parameters included
};
/// Takes one step of `task`. REQUIRES: it lives on logical devices or GPUs.
Memory measure_step(Task& task, const RunOptions& o);

/// The plan: model, learning rate over the epochs, files. REQUIRES: a task that takes no part in the run.
std::string describe(Task& task, const RunOptions& o, const Memory& memory);

}  // namespace train
