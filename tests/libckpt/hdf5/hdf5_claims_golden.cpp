// HDF5 files that say what is not so, made by claims/make_claims.py: every kind of message, of old and of new headers,
// with a size, a place or a count that contradicts another. None is read as if it were good, and the good ones beside
// them are.

#include <fstream>
#include <sstream>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/support/golden.h"

namespace {

/// "" or the message of what is thrown.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
    return "";
  } catch (const core::Error& error) {
    bool bad_input = error.code() == core::ErrorCode::corrupt || error.code() == core::ErrorCode::refused ||
                     error.code() == core::ErrorCode::unsupported;
    return (bad_input ? "" : "(of another kind) ") + std::string(error.what());
  }
}

void read_values(const std::filesystem::path& path) {
  for (const ckpt::NamedEntry& named : ckpt::list_entries(ckpt::open(path).root)) {
    ckpt::hash128(*named.entry->bytes);
  }
}

struct Verdict {
  std::string opening;
  std::string reading;
  std::string verifying;
  std::string found;  ///< the findings, one behind the other
};

Verdict judge(const std::filesystem::path& path) {
  Verdict verdict;
  verdict.opening = error_of([&] { ckpt::open(path); });
  if (verdict.opening.empty()) verdict.reading = error_of([&] { read_values(path); });
  verdict.verifying = error_of([&] {
    for (const ckpt::Finding& finding : ckpt::verify(path).damage) {
      verdict.found += finding.subject + ": " + finding.text + "; ";
    }
  });
  return verdict;
}

bool says(const std::string& text, const std::string& wanted) {
  return !text.empty() && text.find("(of another kind)") == text.npos && text.find(wanted) != text.npos;
}

bool is_right(const std::string& wanted, const std::string& text, const Verdict& verdict) {
  const auto& [opening, reading, verifying, found] = verdict;
  if (wanted == "refused") return says(opening, text) && says(verifying, text);
  bool opened = opening.empty();
  bool doubted = !found.empty() || !verifying.empty();
  if (wanted == "unread") return opened && doubted && says(reading, text);
  if (wanted == "found") return opened && reading.empty() && says(found, text);
  return opened && reading.empty() && !doubted;
}

}  // namespace

int main() {
  test::GoldenRun run("hdf5_claims");
  std::optional<std::filesystem::path> cases = test::golden_file("hdf5_claims/cases.txt");
  if (!cases) return 77;
  std::ifstream in(*cases);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string wanted;
    std::string name;
    std::string text;
    std::getline(fields, wanted, '\t');
    std::getline(fields, name, '\t');
    std::getline(fields, text, '\t');
    Verdict verdict = judge(cases->parent_path() / (name + ".h5"));
    run.check(name, is_right(wanted, text, verdict),
              "should be " + wanted + " (" + text + "); opening: " + core::quote(verdict.opening) + ", reading: " +
                  core::quote(verdict.reading) + ", verify: " + core::quote(verdict.verifying + verdict.found));
  }
  return run.finish();
}
