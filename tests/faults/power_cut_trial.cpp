// Power cuts during an operation, and during the next save after one.

#include <set>

#include "tests/faults/power_cut_states.h"
#include "tests/faults/trials.h"
#include "tests/faults/verdict.h"

namespace test::faults {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFirst = "power cut";
constexpr const char* kSecond = "power cut in the next save";

/// Names without the digits that differ from run to run: one of a kind is cut a second time.
std::string kind_of(const std::vector<std::string>& leftovers) {
  std::string kind;
  for (const std::string& name : leftovers) kind += "|" + name.substr(0, name.find(".ckpt-tmp-"));
  return kind;
}

struct Trial {
  const Setup& setup;
  Tally& tally;
  std::string group;
  std::string faults;
  std::size_t second_cuts = 0;  ///< how many kinds of leftovers get a second cut

  void run(const Operation& operation, unsigned random_choices) {
    fs::path folder = setup.scratch / "disk";
    Judge judge(operation, setup.scratch / "judged");
    write_folder(folder, start_of(operation));
    SimulatedDisk disk(folder);
    operation.run(folder);
    disk.stop();
    if (!disk.accounts_for(read_folder(folder))) {
      tally.add_violation(group, faults, operation.name + ": changes files past FileOps, which no power cut sees");
    }
    std::set<std::string> seen;
    for_each_state(disk, {random_choices, setup.seed}, [&](const PowerCut& cut, const Folder& left) {
      if (setup.stop_at_violation && tally.violations() > 0) return;
      tally.add_point(group, faults);
      Folder state = after_reboot(left);
      std::string wrong = judge.verdict(state, cut.returned ? Claim::success : Claim::none);
      if (!wrong.empty()) {
        tally.add_violation(group, faults,
                            operation.name + ", " +
                                (cut.returned ? "after it" : "operation " + std::to_string(cut.cut)) + ", disk " +
                                cut.disk + ", kept " + cut.how + ": " + wrong);
        return;
      }
      std::vector<std::string> leftovers = judge.leftovers(state);
      bool wanted = seen.size() < second_cuts && !leftovers.empty();
      if (wanted && seen.insert(kind_of(leftovers)).second) cut_again(operation, state, judge.needed(state));
    });
    tally.add_stranded(judge.stranded());
  }

  /// The next save starts from what the first cut left.
  void cut_again(const Operation& operation, const Folder& state, const Folder& needed) {
    Operation again = operation;
    again.name += ", cut, next save";
    again.before = needed;
    for (const auto& [name, content] : state) {
      auto found = needed.find(name);
      if (found == needed.end() || *found->second != *content) again.left_over[name] = content;
    }
    again.run = operation.next;
    Trial{setup, tally, group, kSecond}.run(again, setup.quick ? 4 : 64);
  }
};

}  // namespace

void try_power_cuts(const Setup& setup, const Operation& operation, Tally& tally) {
  if (operation.is_folder) return tally.note("power cuts in folders: not run here; test_dist_save plays them");
  Trial trial{setup, tally, operation.group, kFirst, setup.quick ? 2U : 24U};
  trial.run(operation, setup.quick ? 64 : 256);
}

}  // namespace test::faults
