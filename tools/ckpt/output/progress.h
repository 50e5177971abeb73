#pragma once
// ProgressBar: how far long work is and how long it will still take, on standard error when that is a terminal.
// Thread safety: one owner. Use: ProgressBar bar("net.pth", Quiet::no); ckpt::save(c, path, {.progress = bar.hook()});

#include <chrono>
#include <cstdint>
#include <string>

#include "libckpt/report.h"

namespace cli {

class ProgressBar {
 public:
  using Clock = std::chrono::steady_clock;

  /// `shown` false: draws nothing.
  ProgressBar(std::string label, bool shown);
  /// Wipes the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// To be handed to long work; valid as long as the bar.
  ckpt::Progress hook();

 private:
  void update(std::uint64_t done, std::uint64_t total);
  void draw(std::uint64_t done, std::uint64_t total, Clock::time_point now);

  std::string label_;
  bool shown_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

/// Wipes the bar that stands on the terminal, if any. May be called in a signal handler.
void wipe_progress_bar();

/// The line without its control characters: "net.pth  [#####-----]  50%  1 GiB of 2 GiB  500 MiB/s  2 s left".
std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace cli
