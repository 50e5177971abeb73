// Allocations that fail: whichever it is, the program ends with one line and exit code 4, or does its work all the
// same; the folder is as it was or has the whole new file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <iostream>

#include "tests/cli/files.h"
#include "tests/cli/scarce_system.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"

using testing::HasSubstr;
using namespace test;

namespace {

constexpr const char* kLine = "ckpt: out of memory; try a lower --max-memory or fewer threads (-j)\n";

struct Case {
  std::vector<std::string> arguments;
  std::string output;  ///< the file it makes, "" for none
};

std::string name_of(const std::vector<std::string>& arguments) {
  std::string name;
  for (const std::string& argument : arguments) name += (name.empty() ? "" : " ") + argument;
  return name;
}

#ifdef CKPT_EVERY_ALLOCATION
constexpr long kEarliest = 500;
constexpr long kOfStart = 300;
constexpr long kOfCommand = LONG_MAX;
#else
constexpr long kEarliest = 16;
constexpr long kOfStart = 40;
constexpr long kOfCommand = 25;
#endif

class OutOfMemory : public testing::Test {
 protected:
  OutOfMemory() {
    std::vector<float> values(40'000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97);
    write_checkpoint(dir_.path() / "net.pth", dict({{"module.w", tensor(values)}, {"module.b", tensor({1, 2})}}));
    write_checkpoint(dir_.path() / "net.safetensors", dict({{"w", tensor(values)}, {"b", tensor({1, 2})}}));
    write_checkpoint(dir_.path() / "net.ckpt", dict({{"w", tensor(values)}, {"b", tensor({1, 3})}}));
    before_ = list_folder(dir_.path());
  }

  long count_allocations(const std::vector<std::string>& arguments) {
    std::filesystem::path counter = counts_.path() / "count";
    Outcome done = run_ckpt(dir_.path(), arguments, where({{"CKPT_COUNT_ALLOCATIONS", counter.string()}}));
    good_ = done;
    return std::stol(read_file(counter));
  }

  std::string look(const Case& c) const {
    std::filesystem::path path = dir_.path() / c.output;
    return c.output.empty() || !std::filesystem::exists(path) ? "" : read_file(path);
  }

  /// "" when all is well.
  std::string fault(const Case& c, const Outcome& done, const std::string& whole) const {
    if (done.signal != 0) return "ended by signal " + std::to_string(done.signal) + ": " + done.err;
    std::vector<std::string> now = list_folder(dir_.path());
    std::erase(now, c.output);
    if (now != before_) return "left " + testing::PrintToString(now);
    std::string made = look(c);
    if (!made.empty() && made != whole) return "left a file that is not whole";
    if (done.code == good_.code) {
      if (made != whole || done.out != good_.out) return "said it was done, but what it made is not the same";
      return "";
    }
    return done.code == 4 && done.err == kLine ? "" : "exit " + std::to_string(done.code) + ": " + done.err;
  }

  /// Fails `tries` places of the command from `first` to `last`, each alone and with all that follow.
  void try_all(const Case& c, long first, long tries, long last = LONG_MAX) {
    long count = std::min(count_allocations(c.arguments), last);
    std::string whole = look(c);
    ASSERT_TRUE(c.output.empty() || !whole.empty()) << good_.err;
    long points = 0;
    long violations = 0;
    for (const char* kind : {"", "+"}) {
      for (long k = first; k <= count; k += std::max(1L, (count - first) / tries)) {
        if (!c.output.empty()) std::filesystem::remove(dir_.path() / c.output);
        Outcome done = run_ckpt(dir_.path(), c.arguments, where({{"CKPT_FAIL_ALLOCATION", std::to_string(k) + kind}}));
        ++points;
        std::string found = fault(c, done, whole);
        if (found.empty()) continue;
        EXPECT_EQ(found, "") << name_of(c.arguments) << ", allocation " << k << kind;
        if (++violations == 20) break;
      }
    }
    if (!c.output.empty()) std::filesystem::remove(dir_.path() / c.output);
    std::cout << name_of(c.arguments) << ": " << count << " allocations, " << points << " points tried, " << violations
              << " violations\n";
  }

  TempDir dir_;
  TempDir counts_;
  std::vector<std::string> before_;
  Outcome good_;
};

const std::vector<Case> kCases = {
    {{"ls", "net.pth"}, ""},
    {{"convert", "net.pth", "made.safetensors"}, "made.safetensors"},
    {{"convert", "--codec", "zstd", "-j", "2", "net.safetensors", "made.ckpt"}, "made.ckpt"},
    {{"strip-prefix", "net.pth", "-o", "made.pth"}, "made.pth"},
    {{"verify", "net.ckpt"}, ""},
    {{"diff", "net.safetensors", "net.ckpt"}, ""},
    {{"hash", "net.safetensors"}, ""},
    {{"why", "net.pth", "--for", "net.safetensors"}, ""},
};

}  // namespace

TEST_F(OutOfMemory, AnyAllocationThatFailsEndsInOneLineAndExitCode4) {
  // What comes before the command is the same for all.
  long start = count_allocations({"--version"});
  try_all({{"--version"}, ""}, 1, kOfStart);
  try_all({{"help"}, ""}, start, kOfCommand);
  for (const Case& c : kCases) try_all(c, start, kOfCommand);
}

/// What runs before main() allocates too: the runtime of the language, the libraries, tables.
TEST_F(OutOfMemory, TheFirstAllocationsOfAllCalledTerminate) {
  for (const Case& c : {Case{{"--version"}, ""}, Case{{"help"}, ""}, Case{{"ls", "net.pth"}, ""},
                        Case{{"convert", "net.pth", "made.safetensors"}, "made.safetensors"}}) {
    try_all(c, 1, kEarliest, kEarliest);
  }
}

TEST_F(OutOfMemory, InJsonAsWell) {
  long count = count_allocations({"ls", "--json", "net.pth"});
  Outcome done =
      run_ckpt(dir_.path(), {"ls", "--json", "net.pth"}, where({{"CKPT_FAIL_ALLOCATION", std::to_string(count - 5)}}));
  EXPECT_EQ(done.code, 4);
  EXPECT_THAT(done.err, HasSubstr(R"("error":{"code":"io","exit":4,"message":"out of memory; try a lower)"));
  EXPECT_TRUE(done.err.ends_with("\"subject\":[]}}\n")) << done.err;
  EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1);
}

#ifndef CKPT_EVERY_ALLOCATION
TEST_F(OutOfMemory, TheHelperSaysItInsteadOfCallingTheFileDamaged) {
  Hdf5Maker maker(dir_.path() / "a.h5");
  maker.floats("fc/weight", {2, 3});
  maker.floats("fc/bias", {2}, 10);
  maker.close();
  std::filesystem::path helper = counts_.path() / "helper";
  auto run = [&](const std::string& variable) {
    write_file(helper, "#!/bin/sh\nexec /usr/bin/env LD_PRELOAD=" + scarce_system() + " " + variable + " " +
                           built_program("ckpt-hdf5").string() + " \"$@\"\n");
    std::filesystem::permissions(helper, std::filesystem::perms::owner_all);
    RunOptions options;
    options.in_child = [&] { ::setenv("CKPT_HDF5_HELPER", helper.c_str(), 1); };
    return run_ckpt(dir_.path(), {"ls", "a.h5"}, options);
  };
  Outcome good = run("NOTHING=1");
  ASSERT_EQ(good.code, 0) << good.err;
  long points = 0;
  long absorbed = 0;
  for (const char* kind : {"", "+"}) {
    for (long k = 1, last = 0; last < 3; k += k < 20 ? 1 : 37, ++points) {
      Outcome done = run("CKPT_FAIL_ALLOCATION=" + std::to_string(k) + kind);
      bool same = done.code == 0 && done.out == good.out;
      EXPECT_TRUE(same || (done.code == 4 && done.err == kLine)) << k << kind << ": " << done.code << " " << done.err;
      last = same && k > 100 ? last + 1 : 0;  // behind the last allocation
      if (same) ++absorbed;
      if (k > 20'000) break;
    }
  }
  std::cout << "helper: " << points << " points tried, " << absorbed << " without effect\n";
}
#endif
