// Ctrl-C, kill and a closed terminal in the middle of long work: the program ends soon, by that signal, so that a shell
// loop stops; the folder is as it was or has the whole new file, and no helper process is left.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "tests/cli/files.h"

using testing::HasSubstr;
using namespace test;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

#ifdef CKPT_EVERY_MOMENT
constexpr int kMoments[] = {0, 3, 10, 25, 50, 90, 150, 250, 400};
#else
constexpr int kMoments[] = {15, 120};
#endif
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
/// Less than any command that hangs takes; on an idle machine they end in a tenth of a second.
constexpr double kSoon = 20;

struct Ended {
  Outcome outcome;
  double seconds = 0;  ///< from the signal to the end
};

/// Two tensors of zero bytes that take no space.
void write_zeros(const std::filesystem::path& path, std::uint64_t size) {
  std::string half = std::to_string(size / 2);
  std::string start = R"({"dtype":"F32","shape":[)" + std::to_string(size / 8) + R"(],"data_offsets":[)";
  std::string header =
      R"({"a":)" + start + "0," + half + R"(]},"b":)" + start + half + "," + std::to_string(size) + "]}}";
  std::uint64_t length = header.size();
  write_file(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
  std::filesystem::resize_file(path, 8 + length + size);
}

/// The names of many small ones.
void write_many(const std::filesystem::path& path, int count, const std::string& prefix) {
  std::string header = "{";
  for (int i = 0; i < count; ++i) {
    header += (i == 0 ? "\"" : ",\"") + prefix + "layers." + std::to_string(i) +
              R"(.weight":{"dtype":"F32","shape":[1],"data_offsets":[)" + std::to_string(4 * i) + "," +
              std::to_string(4 * i + 4) + "]}";
  }
  header += "}";
  std::uint64_t length = header.size();
  write_file(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
                       std::string(4 * static_cast<std::size_t>(count), '\0'));
}

class Ending : public testing::Test {
 protected:
  Ending() {
    constexpr std::uint64_t kSize = 1ULL << 30;
    write_zeros(dir_.path() / "big.safetensors", kSize);
    write_zeros(dir_.path() / "other.safetensors", kSize);
    write_many(dir_.path() / "many.safetensors", 60'000, "");
    write_many(dir_.path() / "most.safetensors", 59'999, "module.");
    before_ = list_folder(dir_.path());
  }

  Ended end(const std::vector<std::string>& arguments, int moment, int signal, RunOptions options = {}) const {
    Clock::time_point sent;
    options.while_running = [&](int pid) {
      std::this_thread::sleep_for(milliseconds(moment));
      sent = Clock::now();
      ::kill(pid, signal);
    };
    Ended ended{run_ckpt(dir_.path(), arguments, options)};
    ended.seconds = std::chrono::duration<double>(Clock::now() - sent).count();
    return ended;
  }

  /// Ends the command at all moments; false when it was always done before.
  bool try_moments(const std::vector<std::string>& arguments, const std::string& output,
                   const RunOptions& options = {}) {
    bool was_ended = false;
    int turn = 0;
    for (int moment : kMoments) {
      int signal = kSignals[turn++ % 3];
      Ended ended = end(arguments, moment, signal, options);
      SCOPED_TRACE(arguments[0] + " after " + std::to_string(moment) + " ms by signal " + std::to_string(signal));
      EXPECT_LT(ended.seconds, kSoon);
      longest_ = std::max(longest_, ended.seconds);
      if (ended.outcome.signal == 0 && !options.in_child) {
        EXPECT_LE(ended.outcome.code, 1) << ended.outcome.err;  // done before
      } else {
        EXPECT_EQ(ended.outcome.signal, signal) << ended.outcome.code << ended.outcome.err;
        EXPECT_EQ(ended.outcome.err, "");
        was_ended = true;
      }
      take_away_whole(output);
      EXPECT_EQ(list_folder(dir_.path()), before_);
    }
    return was_ended;
  }

  /// What a command has written, also one that was ended between its last step and its own end, is the whole of it.
  void take_away_whole(const std::string& output) const {
    if (output.empty() || !std::filesystem::exists(dir_.path() / output)) return;
    const Outcome verified = run_ckpt(dir_.path(), {"verify", "-q", output});
    EXPECT_EQ(verified.code, 0) << verified.err;
    std::filesystem::remove_all(dir_.path() / output);
  }

  TempDir dir_;
  std::vector<std::string> before_;
  double longest_ = 0;
};

/// Gone, or only waiting for its parent to notice.
bool is_gone(pid_t pid) {
  std::error_code error;
  std::filesystem::path status = "/proc/" + std::to_string(pid) + "/stat";
  if (!std::filesystem::exists(status, error)) return true;
  std::string text = read_file(status);
  return text.find(") Z ") != std::string::npos;
}

/// Waits until it is so, for as long as a busy machine may need.
template <class Condition>
bool comes_true(const Condition& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_F(Ending, LongWorkEndsBySignalAndLeavesNothing) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"convert", "--codec", "zstd", "big.safetensors", "made.ckpt"}, "made.ckpt"},
      {{"convert", "big.safetensors", "made.pth"}, "made.pth"},
      {{"hash", "big.safetensors"}, ""},
      {{"diff", "big.safetensors", "other.safetensors"}, ""},
      {{"stat", "big.safetensors"}, ""},
      {{"cast", "--to", "float16", "big.safetensors", "-o", "made.safetensors"}, "made.safetensors"},
      {{"publish", "--to", "bf16", "big.safetensors", "-o", "made.pth"}, "made.pth"},
      {{"split", "--shards", "2", "big.safetensors", "-o", "made"}, "made"},
      {{"split", "--shards", "9", "many.safetensors", "-o", "made"}, "made"},
      {{"why", "many.safetensors", "--for", "most.safetensors"}, ""},
      {{"align", "many.safetensors", "most.safetensors", "-o", "made.toml"}, "made.toml"},
      {{"strip-prefix", "most.safetensors", "-o", "made.safetensors"}, "made.safetensors"},
  };
  int ended = 0;
  for (const auto& [arguments, output] : commands) ended += try_moments(arguments, output) ? 1 : 0;
  EXPECT_GE(ended, 8) << "the commands are too short to be ended";
  std::cout << commands.size() << " commands, " << ended << " of them ended, at most " << longest_ << " s\n";
}

TEST_F(Ending, APublishedFileWithItsHashInItsNameLeavesNoDraft) {
  for (int moment : kMoments) {
    Ended ended = end({"publish", "big.safetensors"}, 4 * moment, SIGTERM);
    EXPECT_LT(ended.seconds, kSoon);
    for (const std::string& name : list_folder(dir_.path())) {
      EXPECT_NE(name.front(), '.') << name;
      if (name.starts_with("big-")) std::filesystem::remove(dir_.path() / name);
    }
    EXPECT_EQ(list_folder(dir_.path()), before_);
  }
}

TEST_F(Ending, AnInPlaceEditOfShardsKeepsTheOldOrTheNewOnes) {
  write_many(dir_.path() / "some.safetensors", 3000, "module.");
  const std::string index = "shards/model.safetensors.index.json";
  constexpr int kTries = 5 * static_cast<int>(std::size(kMoments));
  for (int i = 0; i < kTries; ++i) {
    std::filesystem::remove_all(dir_.path() / "shards");
    ASSERT_EQ(run_ckpt(dir_.path(), {"split", "--shards", "9", "some.safetensors", "-o", "shards"}).code, 0);
    end({"strip-prefix", "--in-place", index}, 5 + 120 * i / kTries, SIGTERM);
    EXPECT_EQ(list_folder(dir_.path() / "shards").size(), 10U) << i;
    EXPECT_EQ(run_ckpt(dir_.path(), {"hash", "-q", index}).code, 0) << i;
  }
}

TEST_F(Ending, ReadingAPipeThatNeverEnds) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "abc", 3), 3);
  RunOptions piped;
  piped.in_child = [&] { ::dup2(ends[0], STDIN_FILENO); };
  EXPECT_TRUE(try_moments({"ls", "-"}, "", piped));
  EXPECT_TRUE(try_moments({"convert", "-", "made.pth"}, "made.pth", piped));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(Ending, AHelperThatHangsIsEndedToo) {
  write_file(dir_.path() / "a.h5", "\x89HDF\r\n\x1a\n" + std::string(4096, '\0'));
  TempDir programs;
  std::filesystem::path helper = programs.path() / "helper";
  std::filesystem::path note = programs.path() / "pid";
  write_file(helper, "#!/bin/sh\necho $$ >" + note.string() + "\nexec sleep 1000\n");
  std::filesystem::permissions(helper, std::filesystem::perms::owner_all);
  before_ = list_folder(dir_.path());
  RunOptions hanging;
  hanging.in_child = [&] { ::setenv("CKPT_HDF5_HELPER", helper.c_str(), 1); };
  for (int signal : kSignals) {
    std::filesystem::remove(note);
    hanging.while_running = [&](int pid) {
      EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(note) && !read_file(note).empty(); }));
      ::kill(pid, signal);
    };
    Outcome outcome = run_ckpt(dir_.path(), {"ls", "a.h5"}, hanging);
    EXPECT_EQ(outcome.signal, signal) << outcome.err;
    pid_t pid = std::stoi(read_file(note));
    EXPECT_TRUE(comes_true([&] { return is_gone(pid); })) << pid;
  }
}

TEST_F(Ending, ASignalThatTheParentIgnoresStaysIgnored) {
  write_zeros(dir_.path() / "big.safetensors", 100 << 20);
  RunOptions ignoring;
  ignoring.in_child = [] { std::signal(SIGHUP, SIG_IGN); };
  Ended ended = end({"hash", "big.safetensors"}, 20, SIGHUP, ignoring);
  EXPECT_EQ(ended.outcome.code, 0) << ended.outcome.signal;
}

// What the parent closed would be the number of the next file that is opened.
TEST_F(Ending, ClosedStreamsAreNoPlaceForAnOutputFile) {
  write_model(dir_, "net.pth", {"module.w"});
  ASSERT_EQ(run_ckpt(dir_.path(), {"strip-prefix", "net.pth", "-o", "whole.pth"}).code, 0);
  for (int streams = 1; streams < 8; ++streams) {
    RunOptions closed;
    closed.in_child = [streams] {
      for (int fd : {0, 1, 2}) {
        if ((streams >> fd & 1) != 0) ::close(fd);
      }
    };
    SCOPED_TRACE(streams);
    bool has_output = (streams & 2) == 0;
    Outcome done = run_ckpt(dir_.path(), {"strip-prefix", "net.pth", "-f", "-o", "made.pth"}, closed);
    EXPECT_EQ(done.code, has_output ? 0 : 4);
    if (!has_output && (streams & 4) == 0) {
      EXPECT_THAT(done.err, HasSubstr("standard output: cannot write"));
    }
    EXPECT_EQ(read_file(dir_.path() / "made.pth"), read_file(dir_.path() / "whole.pth"));
    EXPECT_EQ(run_ckpt(dir_.path(), {"strip-prefix", "-q", "net.pth", "-f", "-o", "made.pth"}, closed).code, 0);
    if ((streams & 1) != 0) {
      EXPECT_EQ(run_ckpt(dir_.path(), {"ls", "-"}, closed).code, 4);
    }
  }
}

TEST_F(Ending, SmallLimitsAreASentenceAndExitCode4) {
  write_model(dir_, "net.pth", {"module.w"});
  struct Limit {
    int what;
    std::vector<rlim_t> values;
  };
  for (const Limit& limit : {Limit{RLIMIT_NOFILE, {3, 4, 5, 6, 8}}, Limit{RLIMIT_FSIZE, {0, 10, 500}},
                             Limit{RLIMIT_AS, {24ULL << 20, 32ULL << 20, 48ULL << 20, 64ULL << 20}}}) {
    for (rlim_t value : limit.values) {
      RunOptions limited;
      std::string out = (dir_.path() / "made.pth").string();
      limited.in_child = [&] {
        rlimit both{value, value};
        ::setrlimit(static_cast<__rlimit_resource>(limit.what), &both);
      };
      Outcome done = run_ckpt(dir_.path(), {"strip-prefix", "net.pth", "-o", "made.pth"}, limited);
      SCOPED_TRACE(std::to_string(limit.what) + " " + std::to_string(value));
      // 127: the dynamic loader found no room, before any of our code.
      EXPECT_TRUE(done.code == 0 || done.code == 4 || done.code == 127) << done.code << " " << done.signal << done.err;
      if (done.code == 4) {
        EXPECT_LE(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;  // it is a file, too
      }
      EXPECT_EQ(std::filesystem::exists(out), done.code == 0);
      std::filesystem::remove(out);
      EXPECT_EQ(list_folder(dir_.path()).size(), before_.size() + 1);
    }
  }
}
