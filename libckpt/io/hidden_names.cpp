#include "libckpt/io/hidden_names.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <vector>

#include "libckpt/io/file_ops.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxName = 255;
constexpr std::size_t kBootDigits = 8;
constexpr std::size_t kSpaceDigits = 8;
constexpr std::size_t kRandomDigits = 16;  ///< with those of the namespace
constexpr std::string_view kLockSuffix = ".ckpt-lock";
constexpr std::string_view kJournalSuffix = ".ckpt-journal";
constexpr std::string_view kUndoSuffix = ".ckpt-undo";
constexpr std::string_view kTemporary = ".ckpt-tmp-";

std::string hex(std::uint64_t value, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(count, '0');
  for (auto at = text.rbegin(); at != text.rend(); ++at, value >>= 4) *at = kDigits[value & 15];
  return text;
}

bool is_hex(std::string_view text, std::size_t count) {
  return text.size() == count && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Process numbers mean something only in here.
std::string space_digits() {
  struct stat status {};
  return hex(::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0, kSpaceDigits);
}

/// What stands before the owner in the name of a temporary file.
std::string temporary_start(const std::string& name, std::size_t rest) {
  return "." + name.substr(0, kMaxName - 1 - rest) + std::string(kTemporary);
}

/// ".net.pth" and the suffix.
std::string name_beside(const std::string& name, std::string_view suffix) {
  if (name.size() + 1 + suffix.size() <= kMaxName) return "." + name + std::string(suffix);
  std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a
  for (unsigned char c : name) hash = (hash ^ c) * 1099511628211ULL;
  std::string end = "-" + hex(hash, kRandomDigits) + std::string(suffix);
  return "." + name.substr(0, kMaxName - 1 - end.size()) + end;
}

bool is_name_beside(std::string_view entry, std::string_view suffix) {
  return entry.size() > suffix.size() + 1 && entry.front() == '.' && entry.ends_with(suffix);
}

}  // namespace

std::string boot_digits() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id(kBootDigits, '0');
  in.read(id.data(), static_cast<std::streamsize>(id.size()));
  return id;
}

std::string temporary_name(const std::string& name) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) throw_errno(errno, "cannot draw a random name");
  std::string owner = boot_digits() + "-" + std::to_string(::getpid()) + "-" + space_digits() +
                      hex(random, kRandomDigits - kSpaceDigits);
  return temporary_start(name, kTemporary.size() + owner.size()) + owner;
}

std::string lock_name(const std::string& name) {
  return name_beside(name, kLockSuffix);
}

std::string journal_name(const std::string& name) {
  return name_beside(name, kJournalSuffix);
}

std::string undo_name(const std::string& name) {
  return name_beside(name, kUndoSuffix);
}

std::optional<TemporaryOwner> temporary_owner(std::string_view entry) {
  std::size_t at = entry.rfind(kTemporary);
  if (at == std::string_view::npos || at == 0 || entry.front() != '.') return std::nullopt;
  std::vector<std::string_view> parts = core::split(entry.substr(at + kTemporary.size()), '-');
  if (parts.size() != 3 || !is_hex(parts[0], kBootDigits) || !is_hex(parts[2], kRandomDigits)) return std::nullopt;
  pid_t pid = 0;
  auto [end, error] = std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), pid);
  if (error != std::errc() || end != parts[1].data() + parts[1].size() || pid <= 0) return std::nullopt;
  TemporaryOwner owner;
  owner.target = entry.substr(1, at - 1);
  if (parts[0] == boot_digits() && parts[2].starts_with(space_digits())) {
    bool alive = ::kill(pid, 0) == 0 || errno != ESRCH;
    owner.process = alive ? TemporaryOwner::Process::alive : TemporaryOwner::Process::dead;
  }
  return owner;
}

bool is_temporary_for(const TemporaryOwner& owner, const std::string& name) {
  constexpr std::size_t kShortestCut = 128;  // far below what any owner leaves
  return owner.target == name || (owner.target.size() >= kShortestCut && name.starts_with(owner.target));
}

bool is_lock_name(std::string_view entry) {
  return is_name_beside(entry, kLockSuffix);
}

bool is_journal_name(std::string_view entry) {
  return is_name_beside(entry, kJournalSuffix);
}

std::string journaled_name(std::string_view journal) {
  return is_journal_name(journal) ? std::string(journal.substr(1, journal.size() - 1 - kJournalSuffix.size())) : "";
}

bool is_record_name(std::string_view entry) {
  return is_journal_name(entry) || is_name_beside(entry, kUndoSuffix);
}

}  // namespace ckpt::detail
