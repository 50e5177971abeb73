#include "tools/ckpt/output/progress.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "libcore/base/text.h"
#include "tools/ckpt/output/output.h"

namespace cli {
namespace {

constexpr auto kSilence = std::chrono::milliseconds(500);  // shorter work shows no bar
constexpr auto kStep = std::chrono::milliseconds(100);
constexpr std::size_t kBarWidth = 24;

std::string duration_text(double seconds) {
  auto whole = static_cast<std::uint64_t>(std::min(seconds, 359'999.0) + 0.5);
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

std::atomic<bool> is_drawn;  // one terminal, one bar at a time

void write_raw(std::string_view text) {
  // The bar is decoration: a terminal that went away must not stop a save.
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds) {
  double part = total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  auto filled = static_cast<std::size_t>(part * static_cast<double>(kBarWidth));
  std::string line = label + "  [" + std::string(filled, '#') + std::string(kBarWidth - filled, '-') + "]  ";
  line += std::to_string(static_cast<int>(part * 100)) + "%  " + core::format_size(std::min(done, total)) + " of " +
          core::format_size(total);
  if (seconds <= 0 || done == 0) return line;
  double rate = static_cast<double>(done) / seconds;
  line += "  " + core::format_size(static_cast<std::uint64_t>(rate)) + "/s";
  if (done < total) line += "  " + duration_text(static_cast<double>(total - done) / rate) + " left";
  return line;
}

ProgressBar::ProgressBar(std::string label, bool shown)
    : label_(std::move(label)), shown_(shown && ::isatty(STDERR_FILENO) == 1), next_(start_ + kSilence) {}

ProgressBar::~ProgressBar() {
  wipe_progress_bar();
}

void wipe_progress_bar() {
  if (is_drawn.exchange(false)) write_raw("\r\033[K");
}

ckpt::Progress ProgressBar::hook() {
  return [this](std::uint64_t done, std::uint64_t total) { update(done, total); };
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!shown_) return;
  Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + kStep;
  draw(done, total, now);
}

void ProgressBar::draw(std::uint64_t done, std::uint64_t total, Clock::time_point now) {
  double seconds = std::chrono::duration<double>(now - start_).count();
  is_drawn = true;
  write_raw("\r" + progress_line(label_, done, total, seconds) + "\033[K");
}

}  // namespace cli
