#pragma once
// Runs the program `ckpt` in a folder and says what came of it.
// Use: Outcome done = run_ckpt(dir.path(), {"ls", "net.pth"}); EXPECT_EQ(done.code, 0);

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace test {

struct Outcome {
  int code = -1;   ///< exit code, -1 when a signal ended the program
  int signal = 0;  ///< the signal that ended it, 0 for none
  std::string out;
  std::string err;
};

struct RunOptions {
  std::string stdout_path = {};         ///< where standard output goes instead of Outcome::out: "/dev/full"
  std::function<void()> in_child = {};  ///< called in the child before the program starts: limits, another user
  std::function<void(int pid)> while_running = {};  ///< called in the parent
};

/// $CKPT_BIN_DIR/NAME.
std::filesystem::path built_program(const std::string& name);
/// The program under test: $CKPT_BIN_DIR/ckpt.
std::filesystem::path ckpt_program();

Outcome run_program(const std::filesystem::path& program, const std::filesystem::path& folder,
                    const std::vector<std::string>& arguments, const RunOptions& options = {});

Outcome run_ckpt(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                 const RunOptions& options = {});

}  // namespace test
