#pragma once
// Where golden data lies, and how a golden test counts its cases.
// Use: test::GoldenRun run("printing"); for (case) run.check(id, text == expected, text); run.finish();

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace test {

/// $CKPT_GOLDEN_DIR, else the folder that tests/run.sh unpacks into the build tree.
std::filesystem::path golden_dir();
/// golden_dir() / relative when it is there; a golden test without its data is skipped.
std::optional<std::filesystem::path> golden_file(const std::string& relative);

/// Counts the cases of one data set. Failures are printed with their id (the first twenty), skipped ones are listed by
/// name. Where $CKPT_GOLDEN_LIST names a file, "passed" or "failed", a tab and the id of every case are added to it.
class GoldenRun {
 public:
  explicit GoldenRun(std::string name) : name_(std::move(name)) {}
  void pass(const std::string& id);
  void fail(const std::string& id, const std::string& why);
  void skip(const std::string& id, const std::string& why);
  /// pass() or fail(id, why).
  void check(const std::string& id, bool ok, const std::string& why);
  int passed() const { return passed_; }
  /// Prints "golden NAME: N passed, N failed, N skipped" and the skipped ids; returns the exit status of the program:
  /// 0, or 1 where a case failed or none passed.
  int finish();

 private:
  std::string name_;
  int passed_ = 0;
  int failed_ = 0;
  std::vector<std::pair<std::string, std::string>> skipped_;
};

/// Runs `body` for one case; whatever it throws becomes a failure of `id`.
void guarded(GoldenRun& run, const std::string& id, const std::function<void()>& body);

/// The main() of data in which every file or folder is a case: calls `check` for each entry of the golden folder
/// `folder` whose name ends in `ending`, in the order of names; what it throws is a failure of that entry. Exit status:
/// 0 all passed, 1 something failed or nothing passed, 77 the folder is not there.
int golden_entries(const std::string& name, const std::string& folder, std::string_view ending,
                   const std::function<void(GoldenRun& run, const std::filesystem::path& entry)>& check);

}  // namespace test
