#include "tools/ckpt/commands/why_whole_part.h"

#include <algorithm>
#include <filesystem>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/rescue.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/line/address.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

bool is_damaged(const ckpt::Diagnosis& d) {
  return std::any_of(d.causes.begin(), d.causes.end(), [](const ckpt::Cause& cause) {
    return cause.kind == ckpt::CauseKind::corrupt || cause.kind == ckpt::CauseKind::truncated;
  });
}

/// "cut.rescued.pth", or with a number where that is there.
fs::path free_name(const std::string& file) {
  fs::path name = derived_name(file, "rescued");
  std::error_code ignored;
  constexpr int kMaxNumbers = 1000;
  for (int i = 2; i < kMaxNumbers && fs::exists(fs::symlink_status(name, ignored)); ++i) {
    name = derived_name(file, "rescued" + std::to_string(i));
  }
  return name;
}

}  // namespace

std::string WholePart::heading() const {
  if (restored) return "to restore it by its parity data";
  if (tensors == 0) return "to keep the tensors that are whole, if any";
  return "to keep the " + (tensors == 1 ? "tensor that is" : core::format_count(tensors) + " tensors that are") +
         " whole";
}

std::optional<WholePart> whole_part(const ckpt::Diagnosis& d, const ckpt::Limits& limits) {
  std::error_code error;
  if (!is_damaged(d) || !fs::is_regular_file(d.path, error)) return std::nullopt;
  const std::uint64_t size = fs::file_size(d.path, error);
  if (error || size == 0) return std::nullopt;
  const fs::path output = free_name(d.path);
  ckpt::ShellCommand line = ckpt::ShellCommand("ckpt").word("rescue").file(d.path);
  WholePart part{line.file_option("-o", output.string()).text()};
  if (size > limits.max_checked) return part;
  try {
    const ckpt::RescueReport report = ckpt::rescue(d.path, output, {.dry_run = true, .limits = limits});
    part.tensors = report.tensors;
    part.restored = report.whole && report.damaged;
  } catch (const core::Error&) {
    return std::nullopt;  // what is wrong with the file is said already
  }
  return part.tensors == 0 ? std::nullopt : std::optional(part);
}

}  // namespace cli
