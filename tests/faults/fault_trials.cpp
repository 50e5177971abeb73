// fault_trials: takes every way of saving through faults and says how many points were tried and how many ended badly.
// usage: fault_trials [--long] [--seed N] [--tool CKPT] [--only TEXT] [--stop] TRIAL...
// Exit code 0: no violation; 1: some; 2: usage, or a trial that could not be made. Use: fault_trials power-cuts errors

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "tests/faults/trials.h"
#include "tests/faults/verdict.h"

namespace {

namespace fs = std::filesystem;
using namespace test::faults;

struct Trial {
  const char* name;
  std::function<void(const Setup&, const Operation&, Tally&)> each;  ///< for every operation, or:
  std::function<void(const Setup&, Tally&)> whole = {};
  bool sampled = false;  ///< takes long: also the long run takes the operations of the quick one
};

const std::vector<Trial>& trials() {
  static const std::vector<Trial> list = {
      {"power-cuts", try_power_cuts, {}},
      {"errors", try_errors, {}},
      {"kills", try_kills, {}},
      {"second-writer", try_second_writer, {}},
      {"system-calls", try_system_calls, {}},
      {"small-disks", try_small_disks, {}},
      {"image-cuts", try_image_cuts, {}, true},
      {"training-loop", {}, try_training_loop},
      {"crowd", {}, try_crowd},
  };
  return list;
}

struct Arguments {
  Setup setup;
  std::string only;
  std::vector<const Trial*> chosen;
};

int usage() {
  std::fprintf(stderr,
               "usage: fault_trials [--long] [--seed N] [--tool CKPT] [--only TEXT] [--stop] TRIAL...\ntrials:");
  for (const Trial& trial : trials()) std::fprintf(stderr, " %s", trial.name);
  std::fprintf(stderr, "\n");
  return 2;
}

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    bool has_value = i + 1 < argc;
    if (word == "--long") {
      arguments.setup.quick = false;
    } else if (word == "--stop") {
      arguments.setup.stop_at_violation = true;
    } else if (word == "--seed" && has_value) {
      arguments.setup.seed = std::strtoul(argv[++i], nullptr, 10);
    } else if (word == "--tool" && has_value) {
      arguments.setup.tool = fs::absolute(argv[++i]);
    } else if (word == "--only" && has_value) {
      arguments.only = argv[++i];
    } else {
      for (const Trial& trial : trials()) {
        if (word == trial.name) arguments.chosen.push_back(&trial);
      }
      if (arguments.chosen.empty() || word != arguments.chosen.back()->name) return false;
    }
  }
  return !arguments.chosen.empty();
}

/// A folder in memory where there is one: fsync costs nothing there.
fs::path make_scratch() {
  std::string pattern =
      (fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) / "ckpt-faults-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + pattern);
  return pattern;
}

void run(const Arguments& arguments, Tally& tally) {
  std::vector<Operation> operations = make_operations(arguments.setup.scratch / "made");
  for (const Trial* trial : arguments.chosen) {
    if (trial->whole) trial->whole(arguments.setup, tally);
    if (!trial->each) continue;
    for (const Operation& operation : operations) {
      bool wanted = arguments.only.empty() ? operation.quick || !(arguments.setup.quick || trial->sampled)
                                           : operation.name.find(arguments.only) != std::string::npos;
      bool stopped = arguments.setup.stop_at_violation && tally.violations() > 0;
      if (!wanted || stopped) continue;
      try {
        trial->each(arguments.setup, operation, tally);
      } catch (const BadUndisturbed& error) {
        tally.add_violation(operation.group, "nothing", error.what());
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) return usage();
  Tally tally(3);
  bool complete = false;
  try {
    arguments.setup.scratch = make_scratch();
    ::setenv("XDG_STATE_HOME", (arguments.setup.scratch / "state").c_str(), 1);  // on the same disk, and goes with it
    run(arguments, tally);
    complete = tally.points() > 0;
    if (!complete) std::fprintf(stderr, "fault_trials: no fault was tried\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fault_trials: %s\n", error.what());
  }
  tally.print();
  std::error_code ignored;
  if (!arguments.setup.scratch.empty()) fs::remove_all(arguments.setup.scratch, ignored);
  return tally.violations() > 0 ? 1 : complete ? 0 : 2;
}
