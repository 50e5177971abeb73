#include "tests/faults/verdict.h"

#include <algorithm>

#include "libckpt/analyze/digest.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"

namespace test::faults {
namespace {

namespace fs = std::filesystem;

/// True when every file of `wanted` lies in `state` as it is there.
bool holds(const Folder& state, const Folder& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& file) {
    auto found = state.find(file.first);
    return found != state.end() && (found->second == file.second || *found->second == *file.second);
  });
}

/// What a checkpoint says: names, types, values and metadata, read with all checks. "" when it cannot be read.
std::string meaning_of(const fs::path& path) {
  try {
    ckpt::Checkpoint checkpoint = ckpt::open(path, {.check_hashes = true, .threads = 1});
    std::string text = checkpoint.format + " " + to_hex(ckpt::digest(checkpoint.root, {.threads = 1}).model);
    for (const auto& [key, value] : checkpoint.metadata) text += " " + key + "=" + value;
    return text;
  } catch (const core::Error&) {
    return "";
  }
}

/// Whether the head names the file.
bool mentions(const Folder& folder, const std::string& head, const std::string& name) {
  auto found = folder.find(head);
  return found != folder.end() && found->second->find("\"" + name + "\"") != std::string::npos;
}

/// A hidden file of ours, what is in a hidden folder, and the lock of a part that could not be removed.
bool is_ours(const std::string& name) {
  const bool is_lock = ckpt::detail::is_lock_name(fs::path(name).filename().string());
  return (name[0] == '.' && name.find(".ckpt-") != std::string::npos) || is_lock;
}

/// What takes an edit in place back stays beside the file until the next save; it is no part of the result.
Folder without_undo(Folder folder) {
  std::erase_if(folder, [](const auto& file) { return is_ours(file.first) && file.first.ends_with(".ckpt-undo"); });
  return folder;
}

std::string list(const Folder& folder) {
  std::string text;
  for (const auto& [name, content] : folder) text += " " + name + " (" + std::to_string(content->size()) + " bytes)";
  return text;
}

}  // namespace

Folder after_reboot(const Folder& state) {
  constexpr std::string_view kOwner = ".ckpt-tmp-";
  constexpr std::size_t kBootDigits = 8;
  Folder renamed;
  for (const auto& [name, content] : state) {
    std::string other = name;
    for (std::size_t at = 0; (at = other.find(kOwner, at)) != std::string::npos;) {
      at += kOwner.size();
      if (at + kBootDigits <= other.size()) other.replace(at, kBootDigits, "00b007ed");
    }
    renamed[other] = content;
  }
  return renamed;
}

Judge::Judge(const Operation& operation, fs::path scratch) : operation_(operation), scratch_(std::move(scratch)) {
  write_folder(scratch_, start_of(operation_));
  operation_.run(scratch_);
  after_ = without_undo(read_folder(scratch_));
  meaning_ = meaning_of(scratch_ / operation_.head);
  operation_.next(scratch_);
  next_meaning_ = meaning_of(scratch_ / operation_.head);
  next_ = read_folder(scratch_);
  std::string untidy = find_untidy(without_stranded(next_));
  if (meaning_.empty() || next_meaning_.empty()) throw BadUndisturbed(operation_.name + ": cannot be read back");
  if (!untidy.empty()) throw BadUndisturbed(operation_.name + ": undisturbed, but " + untidy);
}

Folder Judge::settled(const Folder& state, std::string& wrong) const {
  bool pending = std::ranges::any_of(state, [](const auto& file) { return ckpt::detail::is_journal_name(file.first); });
  if (!pending || operation_.for_others) return state;
  write_folder(scratch_, state);
  std::string before = meaning_of(scratch_ / operation_.head);
  try {
    ckpt::EditJournal::settle(scratch_ / operation_.head);
  } catch (const core::Error& error) {
    wrong = "an interrupted edit cannot be taken back: " + std::string(error.what());
  }
  if (before != meaning_of(scratch_ / operation_.head)) wrong = "it reads otherwise before and after recovery";
  return read_folder(scratch_);
}

bool Judge::is_of_head(const std::string& name) const {
  return name == operation_.head || name.starts_with(operation_.head + "/");
}

bool Judge::head_is_within(const Folder& state, const Folder& wanted) const {
  return std::ranges::all_of(state, [&](const auto& file) {
    return !is_of_head(file.first) || wanted.count(file.first) > 0 || is_ours(file.first);
  });
}

bool Judge::is_old(const Folder& state) const {
  auto of_head = [&](const auto& file) { return is_of_head(file.first); };
  bool head_as_before =
      operation_.removes || std::ranges::any_of(operation_.before, of_head) || std::ranges::none_of(state, of_head);
  bool within = operation_.removes || head_is_within(state, operation_.before);
  return head_as_before && within && holds(state, operation_.before);
}

bool Judge::is_new(const Folder& state) const {
  return holds(state, after_) && head_is_within(state, after_);
}

bool Judge::means_new(const Folder& state) const {
  Folder bystanders;
  for (const auto& [name, content] : after_) {
    auto old = operation_.before.find(name);
    if (old != operation_.before.end() && *old->second == *content) bystanders[name] = content;
  }
  if (!holds(state, bystanders)) return false;
  write_folder(scratch_, state);
  return meaning_of(scratch_ / operation_.head) == meaning_;
}

Folder Judge::needed(const Folder& state) const {
  std::string ignored;
  Folder visible = settled(state, ignored);
  if (is_new(visible)) return after_;
  if (is_old(visible)) return operation_.before;
  std::erase_if(visible, [](const auto& file) { return is_ours(file.first); });
  return visible;
}

std::vector<std::string> Judge::leftovers(const Folder& state) const {
  Folder wanted = needed(state);
  std::vector<std::string> names;
  for (const auto& [name, content] : without_undo(state)) {
    if (wanted.count(name) == 0 && !may_remain(name, state)) names.push_back(name);
  }
  return names;
}

bool Judge::may_remain(const std::string& name, const Folder& state) const {
  if (!operation_.removes || is_ours(name)) return false;
  Folder start = start_of(operation_);
  auto before = start.find(name);
  return name == operation_.head || (before != start.end() && *before->second == *state.at(name));
}

std::string Judge::verdict(const Folder& state, Claim claim) {
  std::string wrong;
  Folder then = settled(state, wrong);
  if (!wrong.empty()) return wrong + "; files:" + list(state);
  bool old = is_old(then);
  bool fresh = is_new(then);
  bool moved = !old && !fresh && operation_.several && means_new(state);  // the new one under other names
  if (!old && !fresh && !moved) return "neither the old nor the new files are there:" + list(state);
  if (claim == Claim::success && !fresh && !moved)
    return "success was reported, but the old files are there:" + list(state);
  if (claim == Claim::failure && !old && !operation_.removes)
    return "failure was reported, but the new files are there:" + list(state);
  for (const auto& [name, content] : state) {
    bool is_left = operation_.removes && !is_ours(name) && after_.count(name) == 0;
    if (claim == Claim::success && is_left) return "success was reported, but it is there still: " + name;
  }
  for (const std::string& name : leftovers(state)) {
    if (!is_ours(name) && !operation_.several) return "a file is left over that everyone sees: " + name;
  }
  return leftovers(state).empty() ? "" : check_next_save(state);
}

std::string Judge::check_next_save(const Folder& state) {
  write_folder(scratch_, state);
  try {
    operation_.next(scratch_);
  } catch (const core::Error& error) {
    return "the next save fails: " + std::string(error.what()) + "; files:" + list(state);
  }
  Folder now = read_folder(scratch_);
  Folder tidy = without_stranded(now);
  if (tidy.size() < now.size()) ++stranded_;
  std::string untidy = find_untidy(tidy);
  return untidy.empty() ? "" : untidy + "; files:" + list(state);
}

bool Judge::is_stranded(const std::string& name, const Folder& now) const {
  if (!operation_.several || is_ours(name) || name == operation_.head) return false;
  if (mentions(now, operation_.head, name)) return false;
  for (const Folder* set : {&operation_.before, &operation_.left_over, &after_, &next_}) {
    bool member = mentions(*set, operation_.head, name) || set == &operation_.left_over;
    auto found = set->find(name);
    if (member && found != set->end() && *found->second == *now.at(name)) return true;
  }
  return false;
}

Folder Judge::without_stranded(const Folder& now) const {
  Folder rest = now;
  std::erase_if(rest, [&](const auto& file) { return is_stranded(file.first, now); });
  return rest;
}

std::string Judge::find_untidy(const Folder& now) const {
  for (const auto& [name, content] : now) {
    bool member = operation_.several && mentions(now, operation_.head, name);
    bool bystander = operation_.before.count(name) > 0 && !mentions(operation_.before, operation_.head, name);
    bool of_head = is_of_head(name);
    if (of_head ? next_.count(name) == 0 : !member && !bystander) return "the next save leaves " + name;
  }
  for (const auto& [name, content] : operation_.before) {
    bool replaced = is_of_head(name) || (operation_.removes && after_.count(name) == 0) ||
                    mentions(operation_.before, operation_.head, name);
    auto found = now.find(name);
    if (!replaced && (found == now.end() || *found->second != *content)) return "the next save changes " + name;
  }
  if (!next_meaning_.empty() && meaning_of(scratch_ / operation_.head) != next_meaning_) {
    return "what the next save wrote reads otherwise";
  }
  return "";
}

}  // namespace test::faults
