#include "libckpt/open_save.h"

#include <algorithm>

#include "libckpt/format/content_kind.h"
#include "libckpt/format/format.h"
#include "libckpt/format/scan_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxListed = 8;

const Format& target_format(const Checkpoint& checkpoint, const std::filesystem::path& path,
                            const SaveOptions& options) {
  const Format* format = options.format.empty() ? find_format_for(path) : find_format(options.format);
  if (format == nullptr && options.format.empty()) format = find_format(checkpoint.format);
  if (format != nullptr && format->write != nullptr) return *format;
  if (format != nullptr) throw Error(ErrorCode::unsupported, std::string(format->title) + " cannot be written");
  if (!options.format.empty()) throw Error(ErrorCode::usage, "no format is named " + core::quote(options.format));
  throw Error(ErrorCode::usage,
              "cannot tell the format from the name; use an extension such as .ckpt, .pth or .safetensors");
}

/// All obstacles in one sentence, the first few by name.
[[noreturn]] void throw_obstacles(const Format& format, const std::vector<Obstacle>& obstacles) {
  std::string list;
  for (std::size_t i = 0; i < std::min(obstacles.size(), kMaxListed); ++i) {
    list += (i == 0 ? "" : "; ") + core::quote(obstacles[i].subject) + " (" + obstacles[i].reason + ")";
  }
  if (obstacles.size() > kMaxListed) list += "; and " + core::format_count(obstacles.size() - kMaxListed) + " more";
  throw Error(ErrorCode::unsupported, std::string(format.title) + " cannot hold " +
                                          core::format_count(obstacles.size()) +
                                          (obstacles.size() == 1 ? " item: " : " items: ") + list +
                                          "; drop them (--drop) or choose another format");
}

}  // namespace

Checkpoint open(const std::filesystem::path& path, const OpenOptions& options) {
  return core::with_context(path.string(), [&] {
    Input input = open_input(path);
    const Format& format = detect_format(input);
    Checkpoint checkpoint = format.read(input, options);
    checkpoint.format = format.name;
    checkpoint.path = path;
    return checkpoint;
  });
}

void save(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  core::with_context(path.string(), [&] {
    const Format& format = target_format(checkpoint, path, options);
    std::vector<Obstacle> obstacles = format.obstacles(checkpoint, options);
    if (!obstacles.empty() && !options.drop_inexpressible) throw_obstacles(format, obstacles);
    if (options.report != nullptr) {
      for (const Obstacle& o : obstacles)
        options.report->dropped.push_back(core::quote(o.subject) + " (" + o.reason + ")");
    }
    format.write(checkpoint, path, options);
  });
}

VerifyResult verify(const std::filesystem::path& path, const OpenOptions& options, const Progress& progress) {
  return core::with_context(path.string(), [&] {
    Input input = open_input(path);
    const Format& format = detect_format(input);
    VerifyResult result = format.verify(input, options, progress);
    ScanResult scanned;
    detail::scan_contents(input, options, scanned);
    result.complete = scanned.complete();
    for (Finding& finding : scanned.unread) result.damage.push_back(std::move(finding));
    for (Finding& finding : scanned.findings) result.damage.push_back(std::move(finding));
    std::string_view promised = detail::promised_instead(input.path, format.name);
    if (!promised.empty()) {
      result.notes.push_back(
          {"name", "the name promises " + std::string(promised) + ", but this is a " + std::string(format.title)});
    }
    return result;
  });
}

}  // namespace ckpt
