#include "tools/support/step_progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace cli {
namespace {
constexpr std::size_t kBarWidth = 30, kLeastBarWidth = 5;
constexpr auto kRedraw = std::chrono::milliseconds(100);

bool shows_bars() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

int terminal_columns() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}
}  // namespace

Progress::Progress(std::string title, std::int64_t total, bool enabled)
    : title_(std::move(title)), total_(std::max<std::int64_t>(total, 1)), visible_(enabled && shows_bars()) {}

Progress::~Progress() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(const std::string& note) {
  ++done_;
  if (!visible_) return;
  auto now = Clock::now();
  if (now - drawn_ < kRedraw && done_ < total_) return;
  drawn_ = now;
  draw(note);
}

void Progress::draw(const std::string& note) {
  double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
  double left = elapsed / static_cast<double>(done_) * static_cast<double>(total_ - done_);
  const std::string line = progress_line(title_, {done_, total_, left}, note, terminal_columns());
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
}

std::string progress_line(const std::string& title, const ProgressState& state, const std::string& note, int columns) {
  char left[32];
  std::snprintf(left, sizeof left, "%.0f s left, ", state.seconds_left);
  const std::string behind = std::to_string(state.done) + "/" + std::to_string(state.total) + ", " + left + note;
  const auto room = static_cast<std::size_t>(std::max(columns - 1, 0));
  const std::size_t taken = title.size() + behind.size() + 4;  // blanks and brackets
  const std::size_t width = std::min(kBarWidth, room > taken ? room - taken : 0);
  if (width < kLeastBarWidth) return (title + " " + behind).substr(0, room);
  const std::size_t filled = width * static_cast<std::size_t>(state.done) / static_cast<std::size_t>(state.total);
  return title + " [" + std::string(filled, '#') + std::string(width - filled, '.') + "] " + behind;
}

}  // namespace cli
