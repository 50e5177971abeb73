#pragma once
// Small checkpoint files for tests of the program, and what a refusal must look like.
// Use: write_model(dir, "net.pth", {"module.fc.weight"}); expect_refused(dir, {"strip-prefix", "net.pth"}, 3,
// "become");

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libckpt/io/json.h"
#include "libckpt/open_save.h"
#include "tests/cli/program.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

namespace test {

inline void write_checkpoint(const std::filesystem::path& path, const ckpt::Value& root) {
  ckpt::save(checkpoint(root), path, {.durable = false});
}

inline void write_model(const TempDir& dir, const std::string& name, const std::vector<std::string>& keys,
                        const std::vector<std::string>& modules = {}) {
  write_checkpoint(dir.path() / name, state_dict(keys, modules));
}

/// Names of the tensors of a file, in order.
inline std::vector<std::string> names_in(const std::filesystem::path& path) {
  return names(ckpt::open(path));
}

/// "fc.weight float32", ... of the tensors of a file, in order.
inline std::vector<std::string> types_in(const std::filesystem::path& path) {
  std::vector<std::string> out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(ckpt::open(path).root)) {
    out.push_back(named.name + " " + ckpt::type_name(*named.entry));
  }
  return out;
}

/// What a command that takes several files says of the first: {"schema":2,"version":"...","files":[THIS]}.
inline ckpt::JsonView first_file(const ckpt::JsonDocument& document) {
  return document.root().at("files").items().at(0);
}

/// The program refuses: this exit code, one line on standard error that names `subject` and says `text`, nothing on
/// standard output, and the folder as it was, byte for byte.
inline void expect_refused(const TempDir& dir, const std::vector<std::string>& arguments, int code,
                           const std::string& subject, const std::string& text, const RunOptions& options = {}) {
  auto content = [&] {
    std::vector<std::string> all;
    for (const std::string& name : list_folder(dir.path())) {
      std::filesystem::path path = dir.path() / name;
      all.push_back(name + (std::filesystem::is_regular_file(path) ? ":" + read_file(path) : ""));
    }
    return all;
  };
  std::vector<std::string> before = content();
  Outcome outcome = run_ckpt(dir.path(), arguments, options);
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_EQ(outcome.err.rfind("ckpt: ", 0), 0U) << outcome.err;
  EXPECT_NE(outcome.err.find(subject), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  EXPECT_EQ(content(), before);
}

}  // namespace test
