#pragma once
// The hidden names that writers use, and nobody else: ".net.pth.ckpt-tmp-1a2b3c4d-4711-f0000001deadbeef" for a file
// that is being written, ".net.pth.ckpt-lock" for the lock of "net.pth", ".net.pth.ckpt-journal" and
// ".net.pth.ckpt-undo" for what takes an edit in place back. The first says whose it is: digits of the boot id, the
// process, and (the first half of the last part) the process namespace, without which a process number says nothing.
// Internal to libckpt/io. Thread safety: pure. Use: std::string name = temporary_name("net.pth");

#include <optional>
#include <string>
#include <string_view>

namespace ckpt::detail {

/// A fresh name for a file that will become `name`. Errors: Error(io) when the system gives no random bytes.
std::string temporary_name(const std::string& name);
/// The lock file of `name`; a name that would be too long is cut, and a hash keeps two of them apart.
std::string lock_name(const std::string& name);
/// The record of an edit of `name` that is going on or was interrupted, and that of the last edit; cut as lock_name().
std::string journal_name(const std::string& name);
std::string undo_name(const std::string& name);

/// What the name of a temporary file says.
struct TemporaryOwner {
  enum class Process { dead, alive, elsewhere };  ///< elsewhere: another boot, machine or container
  std::string target;                             ///< name that it is for, cut where it was too long
  Process process = Process::elsewhere;
};
/// nullopt for every name that temporary_name() does not make.
std::optional<TemporaryOwner> temporary_owner(std::string_view entry);
/// True when temporary_name(name) may have made it.
bool is_temporary_for(const TemporaryOwner& owner, const std::string& name);
/// True for every name that lock_name() makes.
bool is_lock_name(std::string_view entry);
/// True for every name that journal_name() or undo_name() makes.
bool is_record_name(std::string_view entry);
bool is_journal_name(std::string_view entry);
/// The file whose journal_name() this is, where that was not cut.
std::string journaled_name(std::string_view journal);

/// First digits of what Linux calls this run of the machine.
std::string boot_digits();

}  // namespace ckpt::detail
