// `ckpt doctor PATH`: what killed programs left in a folder, and what removes it.

#include <algorithm>
#include <string_view>

#include "libckpt/io/leftovers.h"
#include "libckpt/io/mentions.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/doctor_checks.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using ckpt::Leftover;
using State = DoctorLine::State;

constexpr std::string_view kShardSuffix = ".safetensors";
constexpr std::string_view kOf = "-of-";
constexpr std::string_view kOldNote = ".ckpt-set";
constexpr std::string_view kOldDraft = ".ckpt-publish-";

std::string age_text(std::int64_t seconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  auto count = [](std::int64_t number, const char* unit) {
    return std::to_string(number) + " " + unit + (number == 1 ? "" : "s") + " old";
  };
  if (seconds >= kDay) return count(seconds / kDay, "day");
  if (seconds >= kHour) return count(seconds / kHour, "hour");
  return count(std::max<std::int64_t>(seconds, 0) / kMinute, "minute");
}

std::string what(const Leftover& left) {
  if (left.kind == Leftover::Kind::folder) return "folder of a save that did not end, " + age_text(left.age);
  std::string kind = left.kind == Leftover::Kind::lock ? "lock file" : "temporary file";
  return kind + ", " + core::format_size(left.size) + ", " + age_text(left.age);
}

std::string advice(const Leftover& left) {
  if (left.writer == Leftover::Writer::alive) return "a program is writing; it removes it";
  if (left.writer == Leftover::Writer::unknown) {
    return "its writer cannot be seen from here; remove it when no program writes to this folder";
  }
  if (!left.is_mine) return "its writer is gone; it belongs to another user, who can remove it";
  return "its writer is gone; 'ckpt doctor --sweep' or the next save to this folder removes it";
}

bool is_all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// "model-00001-of-00002.safetensors"
bool is_shard_name(std::string_view name) {
  if (!name.ends_with(kShardSuffix)) return false;
  name.remove_suffix(kShardSuffix.size());
  std::size_t of = name.rfind(kOf);
  if (of == std::string_view::npos) return false;
  std::size_t dash = name.substr(0, of).rfind('-');
  return dash != std::string_view::npos && is_all_digits(name.substr(dash + 1, of - dash - 1)) &&
         is_all_digits(name.substr(of + kOf.size()));
}

/// Files whose names say nothing certain, so that only their owner can judge them.
DoctorLine unsure(const fs::directory_entry& file, const std::string& kind, const std::string& advice) {
  std::error_code error;
  std::uintmax_t size = file.file_size(error);
  return {"leftovers", core::printable(file.path().filename().string()),
          kind + ", " + core::format_size(error ? 0 : static_cast<std::uint64_t>(size)), State::note, advice};
}

std::vector<DoctorLine> examine_names(const fs::path& folder) {
  std::vector<DoctorLine> lines;
  ckpt::detail::IndexMentions mentions(folder);
  std::error_code error;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!at->is_regular_file(ignored)) continue;
    bool hidden = name.front() == '.';
    if (hidden && (name.ends_with(kOldNote) || name.find(kOldDraft) != std::string::npos)) {
      if (name.find(".ckpt-tmp-") != std::string::npos || name.ends_with(".ckpt-lock")) continue;
      lines.push_back(unsure(*at, "left by an earlier version", "nothing reads it; remove it"));
    } else if (!hidden && is_shard_name(name) && !mentions.holds(name)) {
      lines.push_back(
          unsure(*at, "shard that no index names", "look at it with 'ckpt ls'; remove it if it is not needed"));
    }
  }
  std::sort(lines.begin(), lines.end(), [](const DoctorLine& a, const DoctorLine& b) { return a.name < b.name; });
  return lines;
}

}  // namespace

std::vector<DoctorLine> examine_leftovers(const fs::path& path) {
  fs::path folder = folder_of(path);
  std::vector<DoctorLine> lines;
  try {
    std::vector<Leftover> found = ckpt::find_leftovers(folder);
    for (Leftover& left : ckpt::find_hidden_folders(folder)) found.push_back(std::move(left));
    for (const Leftover& left : found) {
      bool busy = left.writer == Leftover::Writer::alive;
      lines.push_back(
          {"leftovers", core::printable(left.name), what(left), busy ? State::good : State::note, advice(left)});
    }
  } catch (const core::Error& error) {
    return {{"leftovers", "killed programs", error.message(), State::note, ""}};
  }
  for (DoctorLine& line : examine_names(folder)) lines.push_back(std::move(line));
  if (lines.empty()) lines.push_back({"leftovers", "killed programs", "left nothing here"});
  return lines;
}

std::vector<DoctorLine> sweep_folder(const fs::path& path) {
  std::vector<DoctorLine> lines;
  std::vector<Leftover> removed = ckpt::sweep_leftovers(folder_of(path));
  for (Leftover& left : ckpt::sweep_hidden_folders(folder_of(path))) {
    if (left.kind == Leftover::Kind::temporary) left.kind = Leftover::Kind::folder;
    removed.push_back(std::move(left));
  }
  for (const Leftover& left : removed) {
    lines.push_back({"removed", core::printable(left.name), what(left)});
  }
  return lines;
}

}  // namespace cli
