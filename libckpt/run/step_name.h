#pragma once
// What the name of a checkpoint says of how far training had got: "step-000001200.ckpt", "epoch_12.pth",
// "checkpoint-500", "epoch=3-step=2814.ckpt". Internal to libckpt/run. Thread safety: pure. Errors: none. Use:
// std::optional<StepName> name = read_step_name("epoch_12.pth");  // counters {12}, family "epoch_*"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ckpt::detail {

struct StepName {
  /// The numbers behind words such as "epoch" and "step", in their order, by which checkpoints are ordered; where no
  /// number has such a word, the last whole number alone.
  std::vector<std::int64_t> counters;
  bool has_word = false;  ///< the first of the two
  std::string family;     ///< the name without extension, '*' in place of counters and of numbers with a point
};

/// nullopt where the name has no whole number that could count, or one beyond 63 bits. Digits with a letter behind them
/// ("7b") and numbers with a point ("val_loss=0.25") count nothing.
std::optional<StepName> read_step_name(std::string_view name);

/// The name without the extension of a format; the same where it has none.
std::string_view without_extension(std::string_view name);

}  // namespace ckpt::detail
