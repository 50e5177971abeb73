#pragma once
// What moves whole checkpoints between files and memory, for ckpt_bench: opening, reading in the ways of
// ckpt::Residency, loading into the parameters of a model, saving, and saving while training goes on.
// Thread safety: none. Errors: as the functions that are timed. Use: bench::Timed timed = bench::load_into(file, 2);

#include <cstdint>
#include <filesystem>
#include <string>

#include "libcore/module/state_dict.h"

namespace bench {

struct Sum {
  std::uint64_t bytes = 0;
  std::uint64_t sum64 = 0;  ///< of all bytes as little-endian 64-bit words, the last one of a tensor filled with zeros
};
Sum sum_of(const core::StateDict& state);

struct Timed {
  double seconds = 0;
  Sum sum = {};
  std::string more = {};  ///< further members of the JSON object, each after a comma
};

/// ckpt::open(), and the names of all tensors: nothing is read.
Timed lazy_load(const std::filesystem::path& file);
/// The same, mapped, and every byte read once where it lies.
Timed lazy_read_all(const std::filesystem::path& file, unsigned threads);
/// Into the parameters of a model that has those names and shapes; they were touched before.
Timed load_into(const std::filesystem::path& file, unsigned threads);

struct SaveHow {
  bool durable = false;
  bool atomic = true;  ///< false: the folder is not made durable, no lock is taken
  unsigned threads = 0;
};
Timed save(const std::filesystem::path& file, const std::filesystem::path& target, const SaveHow& how);

/// The same again and again, as a training saves: the least time of a save, "processor_seconds" that of it in seconds
/// of all processors, those of the helper program too.
Timed save_again(const std::filesystem::path& file, const std::filesystem::path& target, unsigned threads);

/// Steps of Adam with one thread, every `every`-th with an asynchronous save: "slowdown" is the mean time of the steps
/// during which a save was under way over the median of those without.
Timed save_overlap(const std::filesystem::path& file, const std::filesystem::path& target, unsigned every);

/// Between two saves of a training lies time enough for what a first one leaves to do in the background.
void let_copies_settle();

/// By how much longer a step of Adam over the weights of a training state (keys that begin with "model.") takes when it
/// copies weights and moments for a save: the difference of two medians, "step_seconds" the smaller one.
Timed save_in_step(const std::filesystem::path& file, const std::filesystem::path& target);

}  // namespace bench
