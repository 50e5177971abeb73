#pragma once
// What is done to a folder while something goes wrong: every way of saving and editing, as a call of the library and,
// where there is one, as a command of the tool. Files are small (ten tensors, 14 KB), so that thousands of states can
// be tried. Thread safety: pure once made. Use: for (const Operation& operation : make_operations(scratch)) ...

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"
#include "tests/faults/simulated_disk.h"

namespace test::faults {

using Act = std::function<void(const std::filesystem::path& folder)>;

struct Operation {
  std::string group;  ///< line of the table: "save over", "convert", ...
  std::string name;   ///< "save over .ckpt"
  Folder before = {};
  Folder left_over = {};   ///< lies there as well, or in place of a file of `before`, from a save or an edit that was
                           ///< ended; to go with this one
  std::string head;        ///< the file through which the result is read, or the folder that is replaced as a whole
  bool several = false;    ///< the head names further files
  bool is_folder = false;  ///< the head is one
  bool removes = false;  ///< files of `before` go one by one: while it runs each of them may be there still, and a head
                         ///< that is not whole, beside all of them
  bool for_others = false;  ///< programs that know no journals read the head: it is old or new before any recovery
  Act run;
  Act next;                               ///< the next save of the same name
  std::vector<std::string> command = {};  ///< words of the tool that do the same in the folder; empty: none does
  bool next_by_tool = false;              ///< what the command leaves behind goes with the next such command
  bool quick = false;                     ///< part of the quick run
};

/// What lies in the folder before: the files and the leftovers.
Folder start_of(const Operation& operation);

/// Ten tensors that depend on `seed` under keys that begin with "module.".
ckpt::Checkpoint sample_model(unsigned seed);

/// What the last save of an operation reported.
const ckpt::Report& last_report();

/// `scratch` is a folder that may be emptied.
std::vector<Operation> make_operations(const std::filesystem::path& scratch);

}  // namespace test::faults
