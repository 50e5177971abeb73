#pragma once
// Small checkpoints of a run and damage done to them.
// Use: save_step(dir.path() / "epoch_3.safetensors"); damage(dir.path() / "epoch_3.ckpt");

#include <filesystem>
#include <string>
#include <vector>

#include "libckpt/open_save.h"
#include "libckpt/run.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

namespace test {

inline ckpt::Checkpoint small_model(float seed = 1) {
  return checkpoint(dict({{"w", tensor({seed, 2, 3, 4})}}));
}

inline void save_step(const std::filesystem::path& path, const ckpt::Metrics& metrics = {}) {
  ckpt::save(ckpt::with_metrics(small_model(), metrics), path, {.durable = false});
}

/// Changes one bit of the tensor of a small model, which its structure does not show.
inline void damage(const std::filesystem::path& path) {
  std::string bytes = read_file(path);
  const std::string values("\0\0\0\x40\0\0\x40\x40", 8);  // 2 and 3
  std::size_t at = bytes.find(values);
  if (at == std::string::npos) throw std::runtime_error("no values in " + path.string());
  bytes[at] ^= 1;
  write_file(path, bytes);
}

/// Names of the steps, newest first.
inline std::vector<std::string> names_of(const std::vector<ckpt::StepFile>& steps) {
  std::vector<std::string> names;
  for (const ckpt::StepFile& step : steps) names.push_back(step.path.filename().string());
  return names;
}

}  // namespace test
