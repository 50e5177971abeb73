#pragma once
// The trials: each takes operations through one class of faults and counts the points tried and the violations of the
// verdict rule (verdict.h). Thread safety: one thread. Use: try_power_cuts(setup, operation, tally);

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/faults/operations.h"

namespace test::faults {

/// Counts by line (operation) and column (class of faults); prints violations as they come.
class Tally {
 public:
  /// Violations beyond `shown` of one cell are counted and not printed.
  explicit Tally(unsigned shown) : shown_(shown) {}
  void add_point(const std::string& group, const std::string& faults) { ++cells_[{faults, group}].points; }
  void add_violation(const std::string& group, const std::string& faults, const std::string& text);
  /// States from which the next save left whole shards that no index mentions.
  void add_stranded(unsigned long states) { stranded_ += states; }
  /// What was not tried and why; each said once.
  void note(const std::string& text) { notes_.insert(text); }
  /// One line of columns a cell: class of faults, operation, points, violations, with '|' between; then the totals.
  void print() const;
  unsigned long points() const;
  unsigned long violations() const;

 private:
  struct Cell {
    unsigned long points = 0;
    unsigned long violations = 0;
  };
  unsigned shown_;
  unsigned long stranded_ = 0;
  std::map<std::pair<std::string, std::string>, Cell> cells_;
  std::set<std::string> notes_;
};

struct Setup {
  std::filesystem::path scratch;  ///< a folder of our own, in memory where the machine has that
  std::filesystem::path tool;     ///< the program ckpt, for trials of system calls
  bool quick = true;
  unsigned long seed = 1;
  bool stop_at_violation = false;
};

/// Power cuts at each operation of the disk, in an ordered and an unordered model; also in the next save after one.
void try_power_cuts(const Setup& setup, const Operation& operation, Tally& tally);
/// Every error that a call may report, at every call, once and from then on; short writes; fsync that fails once.
void try_errors(const Setup& setup, const Operation& operation, Tally& tally);
/// SIGKILL in place of every call, and in the next save after it.
void try_kills(const Setup& setup, const Operation& operation, Tally& tally);
/// A second writer of the same name at every call.
void try_second_writer(const Setup& setup, const Operation& operation, Tally& tally);
/// The tool under strace: SIGKILL and errors at every system call that changes a file.
void try_system_calls(const Setup& setup, const Operation& operation, Tally& tally);
/// Disks in memory of every size from too small to large enough, and of every number of files. Needs root.
void try_small_disks(const Setup& setup, const Operation& operation, Tally& tally);
/// Real file systems (ext4, xfs, btrfs) in an image that is copied before every call and mounted. Needs root.
void try_image_cuts(const Setup& setup, const Operation& operation, Tally& tally);
/// A loop that saves every few milliseconds and says so, killed at random moments.
void try_training_loop(const Setup& setup, Tally& tally);
/// 8 processes that save the same name and 16 that read it meanwhile.
void try_crowd(const Setup& setup, Tally& tally);

}  // namespace test::faults
