#pragma once
// The folder of a user whose checkpoint does not load, and the shell in it: one case of the corpus that
// tests/promises/make_cases.py writes. Thread safety: none.
// Use: test::UserFolder user(corpus, record); test::Outcome told = user.ask(""); user.run_line("ckpt fix ...");

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "tests/cli/program.h"
#include "tests/support/golden_json.h"
#include "tests/support/temp_dir.h"

namespace test {

class UserFolder {
 public:
  /// `corpus` is where cases.json lies; `record` a case, `situation` its situation.
  UserFolder(const std::filesystem::path& corpus, Json record, Json situation);
  const std::filesystem::path& path() const { return dir_.path(); }
  /// The file that the case is about; of a message alone the one that is called FILE.
  std::filesystem::path file() const;
  /// Types the command of the case, with `option` behind it, and pipes or redirects the message as the case says.
  Outcome ask(const std::string& option) const;
  /// Pastes a line into a shell that has the program in its path.
  Outcome run_line(const std::string& line) const;
  /// Remembers what lies in the folder, for made().
  void look();
  /// What is new or changed since look(): the only file, the index of several, or else the largest.
  std::optional<std::filesystem::path> made() const;

 private:
  struct Facts {
    std::uintmax_t size;
    std::filesystem::file_time_type time;
    friend bool operator==(const Facts&, const Facts&) = default;
  };
  std::map<std::filesystem::path, Facts> list() const;
  void write_message(const std::filesystem::path& name, bool with_traceback) const;
  bool about_message_alone() const;

  Json record_, situation_;
  TempDir dir_;
  std::map<std::filesystem::path, Facts> before_;
};

}  // namespace test
