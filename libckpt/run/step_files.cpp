#include "libckpt/run/step_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "libckpt/format/folder.h"
#include "libckpt/format/format.h"
#include "libckpt/run/step_name.h"
#include "libckpt/transform/glob.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

struct Candidate {
  StepFile file;
  std::string name;
  detail::StepName read;
};

/// "model-00001-of-00002.safetensors": a part of a checkpoint that its index names.
bool is_shard(std::string_view name) {
  std::size_t of = name.rfind("-of-");
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return of != std::string_view::npos && of > 0 && of + 4 < name.size() && is_digit(name[of - 1]) &&
         is_digit(name[of + 4]);
}

bool is_checkpoint_folder(const fs::path& path) {
  try {
    return resolve_folder(path) != path;
  } catch (const Error& error) {
    return error.code() == ErrorCode::corrupt || error.code() == ErrorCode::usage;
  }
}

bool has_checkpoint_inside(const fs::path& path) {
  try {
    detect_format(open_input(path));
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) entries.push_back(*at);
  if (error) throw Error(ErrorCode::io, "the folder cannot be read: " + error.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

class Search {
 public:
  Search(const fs::path& folder, const std::string& pattern) : pattern_(pattern) { found_.folder = folder; }

  StepFiles run() {
    for (const fs::directory_entry& entry : entries_of(found_.folder)) look_at(entry);
    std::string family = choose_family();
    for (Candidate& candidate : candidates_) {
      if (candidate.read.family == family) {
        chosen_.push_back(std::move(candidate));
      } else {
        found_.ignored.push_back({candidate.name, "its name is not of the form " + core::quote(family)});
      }
    }
    order();
    for (Candidate& candidate : chosen_) found_.steps.push_back(std::move(candidate.file));
    return std::move(found_);
  }

 private:
  void look_at(const fs::directory_entry& entry) {
    std::string name = entry.path().filename().string();
    if (name.starts_with('.')) return;
    std::optional<detail::StepName> read = detail::read_step_name(name);
    bool wanted = pattern_.empty() || glob_match(pattern_, name) || (read && read->family == pattern_);
    if (entry.is_symlink()) return look_at_link(entry, name, wanted);
    std::error_code gone;
    bool is_folder = entry.is_directory(gone);
    if (!wanted || (!is_folder && !entry.is_regular_file(gone))) return;
    bool named = !is_folder && detail::without_extension(name).size() < name.size();
    if (!read) {
      bool is_one = named || (is_folder && is_checkpoint_folder(entry.path()));
      if (is_one) found_.ignored.push_back({name, "no number in its name says which step it is"});
    } else if (!is_folder && is_shard(name)) {
      return;  // it goes with its index
    } else if (named || is_unnamed_checkpoint(entry.path(), is_folder, *read)) {
      candidates_.push_back({{entry.path(), read->counters.back(), state_of(entry.path())}, name, std::move(*read)});
    }
  }

  /// A folder "checkpoint-500" counts also when its save never finished, so that this can be said.
  static bool is_unnamed_checkpoint(const fs::path& path, bool is_folder, const detail::StepName& read) {
    if (is_folder) return read.has_word || is_checkpoint_folder(path);
    return !path.has_extension() && has_checkpoint_inside(path);
  }

  void look_at_link(const fs::directory_entry& entry, const std::string& name, bool wanted) {
    std::error_code error;
    fs::path target = fs::weakly_canonical(entry.path(), error);
    fs::path folder = fs::weakly_canonical(found_.folder, error);
    fs::path inside = target.lexically_relative(folder);
    bool is_inside = !error && !inside.empty() && *inside.begin() != "..";
    if (is_inside) found_.links.emplace_back(name, inside.begin()->string());
    if (wanted) found_.ignored.push_back({name, "it is a symbolic link"});
  }

  /// "" where there are no candidates. Names with a word for what they count come before all others.
  std::string choose_family() const {
    auto is_asked_for = [&](const Candidate& candidate) { return candidate.read.family == pattern_; };
    if (std::any_of(candidates_.begin(), candidates_.end(), is_asked_for)) return pattern_;
    std::map<std::string, std::string> families;  // and a name of each
    for (bool with_word : {true, false}) {
      for (const Candidate& candidate : candidates_) {
        if (candidate.read.has_word == with_word) families.emplace(candidate.read.family, candidate.name);
      }
      if (!families.empty()) break;
    }
    if (families.empty()) return "";
    if (families.size() == 1) return families.begin()->first;
    std::vector<std::string> examples;
    for (const auto& [family, name] : families) {
      if (examples.size() < kMaxNamed) examples.push_back(core::quote(family) + " (" + core::quote(name) + ")");
    }
    throw Error(ErrorCode::usage, "checkpoints of " + std::to_string(families.size()) +
                                      " families of names are there, so their order is not clear: " +
                                      core::join(examples, ", ") + "; choose one by a pattern");
  }

  void order() {
    std::sort(chosen_.begin(), chosen_.end(),
              [](const Candidate& a, const Candidate& b) { return a.read.counters > b.read.counters; });
    for (std::size_t i = 1; i < chosen_.size(); ++i) {
      if (chosen_[i].read.counters != chosen_[i - 1].read.counters) continue;
      throw Error(ErrorCode::usage, core::quote(chosen_[i - 1].name) + " and " + core::quote(chosen_[i].name) +
                                        " have the same number, so their order is not clear; choose one by a pattern");
    }
  }

  static constexpr std::size_t kMaxNamed = 4;
  std::string pattern_;
  StepFiles found_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> chosen_;
};

}  // namespace

FileState state_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {status.st_dev, status.st_ino, status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec};
}

StepFiles find_steps(const fs::path& folder, const std::string& pattern) {
  return core::with_context(folder.string(), [&] { return Search(folder, pattern).run(); });
}

}  // namespace ckpt
