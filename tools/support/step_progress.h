#pragma once
// A progress bar with an estimate of the time left, on standard error, and only on a terminal.
// Thread safety: one thread. Use: Progress bar("epoch 1", steps); bar.advance("loss 0.31");

#include <chrono>
#include <cstdint>
#include <string>

namespace cli {

class Progress {
 public:
  /// Shows nothing when standard error is no terminal (or one that knows no cursor: TERM=dumb) or `enabled` is false.
  Progress(std::string title, std::int64_t total, bool enabled = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// One step done; `note` stands behind the bar. Redraws at most ten times a second.
  void advance(const std::string& note);
  /// Steps that were done before.
  void skip(std::int64_t steps) { done_ += steps; }

 private:
  void draw(const std::string& note);

  using Clock = std::chrono::steady_clock;
  std::string title_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool visible_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_;
};

/// The line of a bar, shorter than `columns`: the bar itself gives way first.
struct ProgressState {
  std::int64_t done, total;
  double seconds_left;
};
std::string progress_line(const std::string& title, const ProgressState& state, const std::string& note, int columns);

}  // namespace cli
