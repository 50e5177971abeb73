// How the program talks: help, version, usage errors, pipes, terminals.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "tests/cli/files.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/output.h"
#include "tools/ckpt/output/progress.h"

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace test;

namespace {

constexpr const char* kCommands[] = {"ls",     "inspect", "info",   "diff",    "verify", "strip-prefix", "add-prefix",
                                     "rename", "remap",   "select", "convert", "tree",   "meta",         "doctor"};

/// What the program prints when standard output is a terminal.
std::string on_terminal(const TempDir& dir, const std::vector<std::string>& arguments, const char* no_color) {
  int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return "no terminal";
  std::string other_end = ::ptsname(terminal);
  RunOptions options;
  options.in_child = [&] {
    ::dup2(::open(other_end.c_str(), O_RDWR | O_NOCTTY), 1);
    ::setenv("TERM", "xterm", 1);
    ::setenv("NO_COLOR", no_color, 1);
  };
  run_ckpt(dir.path(), arguments, options);
  std::string text(4096, '\0');
  ssize_t n = ::read(terminal, text.data(), text.size());
  ::close(terminal);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

}  // namespace

TEST(Usage, AnEmptyFileNameIsOne) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"ls", ""},
                                             {"stat", ""},
                                             {"strip-prefix", ""},
                                             {"publish", "", "-o", "x.pth"},
                                             {"zoo", "run", "lenet5", ""}}) {
    expect_refused(dir, arguments, 2, "FILE is empty: expected a file name", "ckpt " + arguments[0]);
  }
  expect_refused(dir, {"diff", "net.pth", ""}, 2, "B is empty", "ckpt diff --help");
  expect_refused(dir, {"strip-prefix", "net.pth", "-o", ""}, 2, "--output is empty", "ckpt strip-prefix --help");
  expect_refused(dir, {"rename", "net.pth", "--map", ""}, 2, "--map is empty", "ckpt rename --help");
}

TEST(Terminal, GetsBoldHeadingsUnlessNoColorIsSet) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  std::string bold = on_terminal(dir, {"ls", "net.pth"}, "");
  if (bold == "no terminal") GTEST_SKIP() << "no pseudo-terminals here";
  EXPECT_THAT(bold, StartsWith("\x1b[1mNAME"));
  EXPECT_THAT(on_terminal(dir, {"ls", "net.pth"}, "1"), StartsWith("NAME"));
  EXPECT_THAT(run_ckpt(dir.path(), {"ls", "net.pth"}).out, StartsWith("NAME"));
}

namespace {

/// Whether a program is ready for Ctrl-C: what it does with SIGINT is its own.
bool catches_interrupts(int pid) {
  std::string status = read_file("/proc/" + std::to_string(pid) + "/status");
  std::size_t at = status.find("SigCgt:\t");
  if (at == std::string::npos) return false;
  return (std::stoull(status.substr(at + 8), nullptr, 16) >> (SIGINT - 1) & 1) != 0;
}

}  // namespace

/// The terminal showed nothing but ^C, which left open what became of the output.
TEST(Terminal, IsToldThatCtrlCLeavesNoUnfinishedFile) {
  TempDir dir;
  int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  std::string other_end = ::ptsname(terminal);
  int input[2];
  ASSERT_EQ(::pipe(input), 0);
  RunOptions options;
  options.in_child = [&] {
    ::dup2(input[0], 0);
    ::dup2(::open(other_end.c_str(), O_RDWR | O_NOCTTY), 2);
  };
  options.while_running = [&](int pid) {
    for (int i = 0; i < 2000 && !catches_interrupts(pid); ++i) ::usleep(5000);
    ::kill(pid, SIGINT);
  };
  Outcome outcome = run_ckpt(dir.path(), {"ls", "-"}, options);
  EXPECT_EQ(outcome.signal, SIGINT);
  std::string text(4096, '\0');
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(terminal, text.data(), text.size()), 0)));
  EXPECT_THAT(text, HasSubstr("ckpt: interrupted; no unfinished file is left\r\n"));
  for (int end : {terminal, input[0], input[1]}) ::close(end);
}

TEST(Color, MarksVerdictsOnATerminalOrWhenAsked) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  const std::string green = "net.pth: \x1b[32mgood\x1b[0m;";
  EXPECT_THAT(run_ckpt(dir.path(), {"verify", "--color", "always", "net.pth"}).out, HasSubstr(green));
  EXPECT_THAT(run_ckpt(dir.path(), {"--color", "always", "verify", "net.pth"}).out, HasSubstr(green));
  EXPECT_THAT(run_ckpt(dir.path(), {"scan", "--color=always", "net.pth"}).out, HasSubstr("\x1b[32mclean"));
  EXPECT_THAT(run_ckpt(dir.path(), {"verify", "net.pth"}).out, HasSubstr("net.pth: good;"));
  EXPECT_THAT(run_ckpt(dir.path(), {"verify", "--color", "always", "--json", "net.pth"}).out, Not(HasSubstr("\x1b")));
  expect_refused(dir, {"verify", "--color", "pink", "net.pth"}, 2, "'pink'", "auto, always or never");
  std::string on = on_terminal(dir, {"verify", "net.pth"}, "");
  if (on == "no terminal") GTEST_SKIP() << "no pseudo-terminals here";
  EXPECT_THAT(on, HasSubstr(green));
  EXPECT_THAT(on_terminal(dir, {"verify", "net.pth"}, "1"), Not(HasSubstr("\x1b")));
  EXPECT_THAT(on_terminal(dir, {"verify", "--color", "never", "net.pth"}, ""), Not(HasSubstr("\x1b")));
}

TEST(Color, OfBadNewsIsRed) {
  TempDir dir;
  write_model(dir, "a.pth", {"a"});
  write_model(dir, "b.pth", {"b"});
  EXPECT_THAT(run_ckpt(dir.path(), {"diff", "--color", "always", "a.pth", "b.pth"}).out, HasSubstr("\x1b[31m"));
  EXPECT_THAT(run_ckpt(dir.path(), {"diff", "--color", "always", "a.pth", "a.pth"}).out, HasSubstr("\x1b[32m"));
  EXPECT_THAT(run_ckpt(dir.path(), {"zoo", "verify", "--color", "always", "lenet5", "a.pth"}).out,
              HasSubstr("\x1b[31mdoes not match lenet5"));
}

TEST(Terminal, ThatIsNarrowGetsShortenedNames) {
  TempDir dir;
  write_model(dir, "net.pth", {"encoder.layers.0.attention.query.weight"});
  ::setenv("COLUMNS", "50", 1);
  std::string narrow = on_terminal(dir, {"ls", "net.pth"}, "1");
  ::unsetenv("COLUMNS");
  if (narrow == "no terminal") GTEST_SKIP() << "no pseudo-terminals here";
  EXPECT_THAT(narrow, HasSubstr("encoder\u2026y.weight  float32"));
  EXPECT_THAT(run_ckpt(dir.path(), {"ls", "net.pth"}).out, HasSubstr("encoder.layers.0.attention.query.weight"));
}

/// All names were "modul…weight", and the lines wrapped all the same.
TEST(Terminal, ThatIsTooNarrowForTheTableGetsWholeNames) {
  TempDir dir;
  write_model(dir, "net.pth", {"encoder.layers.0.attention.query.weight"});
  ::setenv("COLUMNS", "40", 1);
  std::string names = on_terminal(dir, {"ls", "net.pth"}, "1");
  ::setenv("COLUMNS", "70", 1);
  std::string bars = on_terminal(dir, {"tree", "net.pth"}, "1");
  ::unsetenv("COLUMNS");
  if (names == "no terminal") GTEST_SKIP() << "no pseudo-terminals here";
  EXPECT_THAT(names, HasSubstr("encoder.layers.0.attention.query.weight  float32"));
  EXPECT_THAT(bars, HasSubstr("########## 100.0%"));
}

TEST(Help, OfEveryCommandBeginsWithAnExample) {
  TempDir dir;
  for (const char* command : kCommands) {
    Outcome outcome = run_ckpt(dir.path(), {command, "--help"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, StartsWith("Examples:\n  ckpt ")) << command;
    EXPECT_THAT(outcome.out, HasSubstr("--json")) << command;
  }
  Outcome all = run_ckpt(dir.path(), {"--help"});
  for (const char* command : kCommands) EXPECT_THAT(all.out, HasSubstr(command));
}

namespace {

/// Every command, with those below it: {"zoo", "run"}.
std::vector<std::vector<std::string>> all_commands(const TempDir& dir, const std::vector<std::string>& above = {}) {
  std::vector<std::string> asked = above;
  asked.emplace_back("--help");
  std::istringstream lines(run_ckpt(dir.path(), asked).out);
  std::vector<std::vector<std::string>> found;
  bool lists = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(":") && !line.starts_with(" ") && line != "Options:" && line != "Positionals:")
      lists = line != "Examples:";
    if (line == "Options:" || line == "Positionals:") lists = false;
    if (!lists || !line.starts_with("  ") || line.starts_with("   ")) continue;
    std::vector<std::string> command = above;
    command.push_back(line.substr(2, line.find_first_of(", ", 2) - 2));
    found.push_back(command);
    for (auto& below : all_commands(dir, command)) found.push_back(below);
  }
  return found;
}

std::vector<std::string> examples_in(const std::string& help) {
  std::vector<std::string> examples;
  std::istringstream lines(help);
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line) && !line.empty();) examples.push_back(line.substr(2));
  return examples;
}

}  // namespace

/// A mistake in a command line is exit 2; here all files are missing, which is another code.
TEST(Help, OfEveryCommandHasTwoExamplesWhoseCommandLinesParse) {
  TempDir dir;
  std::vector<std::vector<std::string>> commands = all_commands(dir);
  EXPECT_GT(commands.size(), 45U);
  commands.emplace_back();
  RunOptions home;
  home.in_child = [&] { ::setenv("HOME", dir.path().c_str(), 1); };
  for (std::vector<std::string> command : commands) {
    command.emplace_back("--help");
    std::vector<std::string> examples = examples_in(run_ckpt(dir.path(), command).out);
    EXPECT_GE(examples.size(), 2U) << command.front();
    for (const std::string& example : examples) {
      auto has = [&](const char* word) { return example.find(word) != std::string::npos; };
      bool stays = example.starts_with("eval ") || has("ssh ") || has("--measure");  // needs more, or takes long
      std::string line = has("--error -") ? example.substr(example.find("ckpt")) : example;
      if (stays) continue;
      std::string script = "ckpt() { '" + ckpt_program().string() +
                           "' \"$@\"; }\nman() { cat; }\nset -o pipefail\nexec </dev/null\n" + line;
      if (line.find('<') != std::string::npos) write_file(dir.path() / "error.txt", "no");
      Outcome outcome = run_program("/bin/bash", dir.path(), {"-c", script + "\n"}, home);
      EXPECT_THAT(outcome.err, Not(HasSubstr("--help'"))) << line;
      bool is_usage = outcome.code == 2 && outcome.err.find("is not a") != std::string::npos;
      EXPECT_FALSE(is_usage) << line << "\n" << outcome.err;
    }
  }
}

TEST(Help, OfEveryWritingCommandNamesItsOptions) {
  TempDir dir;
  for (const char* command : {"strip-prefix", "add-prefix", "rename", "remap", "select", "convert"}) {
    Outcome outcome = run_ckpt(dir.path(), {command, "--help"});
    for (const char* option : {"--output", "--in-place", "--dry-run", "--force", "--max-memory", "default"}) {
      EXPECT_THAT(outcome.out, HasSubstr(option)) << command;
    }
  }
}

TEST(Version, IsOneLine) {
  TempDir dir;
  Outcome outcome = run_ckpt(dir.path(), {"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::MatchesRegex("ckpt [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Usage, MistakesAreOneLineAndExitTwo) {
  TempDir dir;
  expect_refused(dir, {}, 2, "ckpt", "see 'ckpt --help'");
  expect_refused(dir, {"no-such-command"}, 2, "'no-such-command'", "see 'ckpt --help'");
  expect_refused(dir, {"strip-prefix"}, 2, "FILE", "see 'ckpt strip-prefix --help'");
  expect_refused(dir, {"ls", "--no-such-option", "x"}, 2, "--no-such-option", "see 'ckpt ls --help'");
  expect_refused(dir, {"remap", "--to", "cpu", "--map", "a=b", "x"}, 2, "--map", "");
  expect_refused(dir, {"strip-prefix", "x.pth", "-o", "y.pth", "--in-place"}, 2, "--in-place", "contradict");
  expect_refused(dir, {"convert", "x.pth"}, 2, "OUT", "missing");
  expect_refused(dir, {"convert", "x.pth", "y.pth", "--codec", "lzma"}, 2, "'lzma'", "none, zstd, fast or gzip");
  expect_refused(dir, {"convert", "x.pth", "y.pth", "--max-memory", "lots"}, 2, "'lots'", "not a size");
  expect_refused(dir, {"strip-prefix", "a.pth", "b.pth", "-o", "c.pth"}, 2, "c.pth", "folder");
  expect_refused(dir, {"strip-prefix", "a.pth", "./sub/a.pth", "-o", "out/"}, 2, "out/a.pth", "two inputs");
}

TEST(Usage, SaysWhatAValueNeedsToBe) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  auto error = [&](std::vector<std::string> words) {
    Outcome done = run_ckpt(dir.path(), words);
    EXPECT_EQ(done.code, 2);
    return done.err;
  };
  EXPECT_THAT(error({"ls", "--top", "x", "net.pth"}), HasSubstr("--top: needs a whole number from 0 on, and got 'x'"));
  EXPECT_THAT(error({"ls", "--top", "-1", "net.pth"}),
              HasSubstr("--top: needs a whole number from 0 on, and got '-1'"));
  EXPECT_THAT(error({"diff", "--rtol", "-1", "a", "b"}), HasSubstr("--rtol: needs a number from 0 on, and got '-1'"));
  EXPECT_THAT(error({"split", "--shards", "0", "a"}),
              HasSubstr("--shards: needs a number from 1 to 99999, and got '0'"));
  EXPECT_THAT(error({"stat", "--fail-on", "nan,x", "a"}),
              HasSubstr("--fail-on: needs one of nan, inf, zero, any, and got 'x'"));
  EXPECT_THAT(error({"convert", "--codec", "x", "a", "b"}),
              HasSubstr("--codec: 'x' is not a codec; use none, zstd, fast or gzip"));
}

/// Options that say how a file is read or replaced are there where they do so.
TEST(Help, OffersNoOptionThatDoesNothing) {
  TempDir dir;
  auto offers = [&](std::vector<std::string> command, const std::string& option) {
    command.push_back("--help");
    return run_ckpt(dir.path(), command).out.find("  " + option) != std::string::npos;
  };
  for (const char* command : {"avg", "join", "publish"}) EXPECT_FALSE(offers({command}, "--in-place")) << command;
  for (const char* command : {"scan", "verify", "why", "fix"}) EXPECT_FALSE(offers({command}, "--foreign-objects"));
  for (const char* command : {"ls", "keys", "rules"}) EXPECT_FALSE(offers({"zoo", command}, "--lenient")) << command;
  EXPECT_TRUE(offers({"strip-prefix"}, "--in-place"));
  EXPECT_TRUE(offers({"strip-prefix"}, "--foreign-objects"));
}

TEST(Help, FitsEightyColumns) {
  TempDir dir;
  std::vector<std::vector<std::string>> commands = all_commands(dir);
  commands.emplace_back();
  for (std::vector<std::string> command : commands) {
    command.emplace_back("--help");
    std::istringstream lines(run_ckpt(dir.path(), command).out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), line.starts_with("  ckpt ") ? 90U : 80U) << line;
    }
  }
}

TEST(StandardOutput, ThatFailsIsAnError) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ls", "net.pth"}, {"ls", "--json", "net.pth"}, {"--help"}, {"info", "net.pth"}}) {
    Outcome outcome = run_ckpt(dir.path(), arguments, {.stdout_path = "/dev/full"});
    EXPECT_EQ(outcome.code, 4);
    EXPECT_THAT(outcome.err, HasSubstr("standard output: cannot write: No space left on device"));
  }
}

/// A native file whose list is written in several pieces.
void write_long_list(const TempDir& dir) {
  std::vector<std::string> names;
  for (int i = 0; i < 4000; ++i) names.push_back(std::to_string(i));
  write_model(dir, "long.ckpt", names);
}

TEST(StandardOutput, HasTheLinesOfALongListInTheirOrder) {
  TempDir dir;
  write_long_list(dir);
  const std::string all = run_ckpt(dir.path(), {"ls", "--json", "long.ckpt"}).out;
  EXPECT_GT(all.size(), 300'000U);
  EXPECT_EQ(all, run_ckpt(dir.path(), {"ls", "--json", "--top", "4000", "long.ckpt"}).out);
  const std::string lines = run_ckpt(dir.path(), {"ls", "--jsonl", "long.ckpt"}).out;
  EXPECT_EQ(lines, run_ckpt(dir.path(), {"ls", "--jsonl", "--top", "4000", "long.ckpt"}).out);
  EXPECT_EQ(std::ranges::count(lines, '\n'), 4001);
}

TEST(StandardOutput, ThatFailsUnderALongListIsAnError) {
  TempDir dir;
  write_long_list(dir);
  Outcome outcome = run_ckpt(dir.path(), {"ls", "--json", "long.ckpt"}, {.stdout_path = "/dev/full"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("standard output: cannot write: No space left on device"));
}

// As ssh and event loops leave the pipes that they share with the program.
TEST(StandardOutput, ThatDoesNotWaitGetsAll) {
  TempDir dir;
  write_long_list(dir);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ls", "--json", "long.ckpt"}, {"ls", "long.ckpt"}}) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    std::string got;
    RunOptions options;
    options.in_child = [&] { ::dup2(ends[1], 1); };
    options.while_running = [&](int /*pid*/) {
      ::close(ends[1]);
      std::string piece(1000, '\0');
      for (ssize_t n = 0; (n = ::read(ends[0], piece.data(), piece.size())) > 0;) {
        got.append(piece, 0, static_cast<std::size_t>(n));
      }
    };
    Outcome outcome = run_ckpt(dir.path(), arguments, options);
    ::close(ends[0]);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(got, run_ckpt(dir.path(), arguments).out);
  }
}

TEST(StandardOutput, ThatIsClosedEndsTheProgramQuietly) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  RunOptions closed;
  closed.in_child = [] {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(99);
    ::close(ends[0]);
    ::dup2(ends[1], 1);
    ::signal(SIGPIPE, SIG_IGN);  // as some parents leave it
  };
  Outcome outcome = run_ckpt(dir.path(), {"ls", "net.pth"}, closed);
  EXPECT_EQ(outcome.signal, SIGPIPE);
  EXPECT_EQ(outcome.err, "");
}

TEST(Names, WithControlCharactersStayOnTheirLine) {
  TempDir dir;
  write_model(dir, "net.pth", {"a\n\x1b[31mb"});
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "-q", "net.pth"}).out, "a\\n\\x1b[31mb\n");
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "no\nsuch"}).err, "ckpt: no\\nsuch: cannot open: no such file or folder\n");
}

TEST(ExitCode, FollowsTheKindOfError) {
  EXPECT_EQ(cli::exit_code(core::ErrorCode::usage), 2);
  EXPECT_EQ(cli::exit_code(core::ErrorCode::key), 2);
  EXPECT_EQ(cli::exit_code(core::ErrorCode::corrupt), 3);
  EXPECT_EQ(cli::exit_code(core::ErrorCode::refused), 3);
  EXPECT_EQ(cli::exit_code(core::ErrorCode::unsupported), 3);
  EXPECT_EQ(cli::exit_code(core::ErrorCode::collision), 3);
  EXPECT_EQ(cli::exit_code(core::ErrorCode::io), 4);
  EXPECT_EQ(cli::exit_code(core::ErrorCode::device), 5);
  EXPECT_EQ(cli::exit_code(core::ErrorCode::internal), 70);
  core::Error bug(core::ErrorCode::internal, "impossible");
  EXPECT_EQ(cli::error_line(bug.add_context("net.pth")),
            "ckpt: net.pth: this is a bug of ckpt, please report it: impossible");
}

TEST(Address, SplitsAtTheLastDoubleColon) {
  EXPECT_EQ(cli::parse_address("best.pth::ema.model").path, "best.pth");
  EXPECT_EQ(cli::parse_address("best.pth::ema.model").at, "ema.model");
  EXPECT_EQ(cli::parse_address("best.pth").at, "");
  TempDir dir;
  write_file(dir.path() / "odd::name", "");
  EXPECT_EQ(cli::parse_address((dir.path() / "odd::name").string()).at, "");
  EXPECT_THROW(cli::parse_address("::model"), core::Error);
}

TEST(Address, DerivesTheNameOfTheOutput) {
  EXPECT_EQ(cli::derived_name("runs/net.pth", "plain"), "runs/net.plain.pth");
  EXPECT_EQ(cli::derived_name("v1.5.ckpt", "plain"), "v1.5.plain.ckpt");
  EXPECT_EQ(cli::derived_name("model.safetensors.index.json", "plain"), "model.plain.safetensors");
  // A folder of parts stands for itself, and nothing is put among them.
  TempDir run;
  const std::filesystem::path step = run.path() / "step";
  std::filesystem::create_directory(step);
  write_file(step / "zero_pp_rank_0_mp_rank_00_optim_states.pt", "");
  EXPECT_EQ(cli::derived_name(step, "plain"), run.path() / "step.plain.pth");
  EXPECT_EQ(cli::derived_name(step / "", "plain"), run.path() / "step.plain.pth");
  EXPECT_EQ(cli::derived_name("weights", "plain"), "weights.plain");
}

TEST(Progress, ShowsPartRateAndRest) {
  EXPECT_EQ(cli::progress_line("net.pth", 1ULL << 30, 2ULL << 30, 2),
            "net.pth  [############------------]  50%  1.0 GiB of 2.0 GiB  512 MiB/s  2 s left");
  EXPECT_EQ(cli::progress_line("n", 0, 100, 0), "n  [------------------------]  0%  0 B of 100 B");
  EXPECT_THAT(cli::progress_line("n", 1, 10'000, 1), HasSubstr("2 h 46 min left"));
}

TEST(Counts, AreGroupedAndInflected) {
  EXPECT_EQ(cli::count_of(1, "tensor"), "1 tensor");
  EXPECT_EQ(cli::count_of(25'557'032, "element"), "25,557,032 elements");
  EXPECT_EQ(cli::display_width("\xc3\xa9x"), 2U);
}
