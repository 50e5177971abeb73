#pragma once
// The verdict rule: after a fault the folder holds the old files or the new ones, byte for byte (the new ones may also
// be told by what they mean); a call that reported success has left the new ones, one that reported failure the old
// ones (an edit in place that was interrupted may first be taken back, and reads as before all the while); what is left
// over is ours and goes with the next save of the same name, which works. Of an operation that removes files, those may
// be there until it has reported success, and after a failure some of them: what stays is whole at any time.
// Thread safety: one thread (a judge has a scratch folder). Use: std::string wrong = judge.verdict(state, Claim::none);

#include <filesystem>
#include <stdexcept>
#include <string>

#include "tests/faults/operations.h"

namespace test::faults {

/// What the call said before the fault ended it.
enum class Claim : std::uint8_t { none, success, failure };

/// The state as another run of the machine finds it: hidden names say in which one they were made.
Folder after_reboot(const Folder& state);

/// An operation ends badly although nothing disturbs it.
struct BadUndisturbed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Judge {
 public:
  /// Carries the operation and the next save out once, undisturbed. Throws BadUndisturbed when they fail.
  Judge(const Operation& operation, std::filesystem::path scratch);

  /// "" when the state obeys the rule, else what is wrong with it. Tries the next save where something is left over.
  std::string verdict(const Folder& state, Claim claim);
  /// How often the next save left whole shards under their own names that no index mentions: nobody may remove what
  /// could be somebody's, so they are for `ckpt doctor` to list.
  unsigned long stranded() const { return stranded_; }
  /// Whether the file is one of those.
  bool is_stranded(const std::string& name, const Folder& now) const;
  /// Files beyond the old or the new ones.
  std::vector<std::string> leftovers(const Folder& state) const;

  /// The old or the new files, whichever the state holds.
  Folder needed(const Folder& state) const;

  const Folder& after() const { return after_; }
  const Operation& operation() const { return operation_; }

 private:
  /// The state once an edit in place that was interrupted has been settled; `wrong` says where it then reads otherwise.
  Folder settled(const Folder& state, std::string& wrong) const;
  /// The head itself, or a file of it where it is a folder.
  bool is_of_head(const std::string& name) const;
  /// A folder that is replaced as a whole has no files but these.
  bool head_is_within(const Folder& state, const Folder& wanted) const;
  bool is_old(const Folder& state) const;
  bool is_new(const Folder& state) const;
  bool means_new(const Folder& state) const;
  /// Of an operation that removes files: one that is still there, or the head.
  bool may_remain(const std::string& name, const Folder& state) const;
  std::string check_next_save(const Folder& state);
  std::string find_untidy(const Folder& now) const;
  Folder without_stranded(const Folder& now) const;

  Operation operation_;
  std::filesystem::path scratch_;
  Folder after_;
  std::string meaning_;       ///< of the new files
  Folder next_;               ///< what the next save leaves
  std::string next_meaning_;  ///< what that says
  unsigned long stranded_ = 0;
};

}  // namespace test::faults
