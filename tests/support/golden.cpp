#include "tests/support/golden.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>

namespace test {
namespace {
constexpr int kMaxPrinted = 20;

void list(const char* outcome, const std::string& id) {
  static const char* const named = std::getenv("CKPT_GOLDEN_LIST");
  if (named == nullptr || *named == '\0') return;
  static std::ofstream file(named, std::ios::app);
  file << outcome << '\t' << id << '\n';
}

}  // namespace

std::filesystem::path golden_dir() {
  const char* named = std::getenv("CKPT_GOLDEN_DIR");
  return named != nullptr && *named != '\0' ? named : CKPT_GOLDEN_DEFAULT;
}

std::optional<std::filesystem::path> golden_file(const std::string& relative) {
  auto path = golden_dir() / relative;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

void GoldenRun::pass(const std::string& id) {
  ++passed_;
  list("passed", id);
}

void GoldenRun::fail(const std::string& id, const std::string& why) {
  list("failed", id);
  if (++failed_ <= kMaxPrinted) std::cout << "FAIL " << name_ << "/" << id << ": " << why << '\n';
}

void GoldenRun::skip(const std::string& id, const std::string& why) {
  skipped_.emplace_back(id, why);
}

void GoldenRun::check(const std::string& id, bool ok, const std::string& why) {
  if (ok) {
    pass(id);
  } else {
    fail(id, why);
  }
}

int GoldenRun::finish() {
  std::map<std::string, std::string> by_reason;
  for (const auto& [id, why] : skipped_) by_reason[why] += " " + id;
  for (const auto& [why, ids] : by_reason) std::cout << "skipped (" << why << "):" << ids << '\n';
  std::cout << "golden " << name_ << ": " << passed_ << " passed, " << failed_ << " failed, " << skipped_.size()
            << " skipped\n";
  return failed_ == 0 && passed_ > 0 ? 0 : 1;
}

void guarded(GoldenRun& run, const std::string& id, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    run.fail(id, std::string("threw: ") + error.what());
  }
}

int golden_entries(const std::string& name, const std::string& folder, std::string_view ending,
                   const std::function<void(GoldenRun& run, const std::filesystem::path& entry)>& check) {
  const auto root = golden_file(folder);
  if (!root) {
    std::cout << "golden " << name << ": no " << folder << " here, skipped\n";
    return 77;
  }
  std::vector<std::filesystem::path> entries;
  for (const auto& entry : std::filesystem::directory_iterator(*root)) {
    if (entry.path().filename().string().ends_with(ending)) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  GoldenRun run(name);
  for (const std::filesystem::path& entry : entries) {
    guarded(run, entry.filename().string(), [&] { check(run, entry); });
  }
  return run.finish();
}

}  // namespace test
