#include "samples/support/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace samples {
namespace {
constexpr std::int64_t kWidth = 30;
constexpr auto kRedraw = std::chrono::milliseconds(100);
}  // namespace

Progress::Progress(std::string title, std::int64_t total, bool enabled)
    : title_(std::move(title)),
      total_(std::max<std::int64_t>(total, 1)),
      visible_(enabled && isatty(STDERR_FILENO) == 1) {}

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
  auto filled = static_cast<int>(kWidth * done_ / total_);
  std::string bar =
      std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(kWidth - filled), '.');
  std::fprintf(stderr, "\r%s [%s] %lld/%lld, %.0f s left, %s\033[K", title_.c_str(), bar.c_str(),
               static_cast<long long>(done_), static_cast<long long>(total_), left, note.c_str());
}

}  // namespace samples
