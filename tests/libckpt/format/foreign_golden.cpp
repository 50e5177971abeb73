#include <algorithm>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/support/golden.h"
#include "tests/support/manifest.h"

// Files that are no checkpoint at all are refused as unsupported input, each with a sentence of its own that names it.

namespace {

/// Words of the sentence that a person needs, by what the manifest says the file is.
std::string expected_word(const std::string& reason) {
  const std::vector<std::pair<std::string, std::string>> words = {
      {"7z", "7-Zip"},        {"ELF", "program"},      {"gzip", "gzip"}, {"HTML", "HTML"},
      {"JSON", "JSON"},       {"LFS", "git lfs pull"}, {"zip", "zip"},   {"preview", "preview"},
      {"plain text", "text"}, {"zero bytes", "zeros"},
  };
  for (const auto& [part, word] : words) {
    if (reason.find(part) != std::string::npos) return word;
  }
  return "";
}

/// Packed files are read, and named in a warning.
bool is_reported(const test::Manifest& manifest, const ckpt::Report& report) {
  return manifest.action == "refuse-or-report" &&
         std::any_of(report.warnings.begin(), report.warnings.end(), [&](const std::string& warning) {
           return warning.find(expected_word(manifest.reason)) != std::string::npos;
         });
}

std::string check(const test::Manifest& manifest) {
  try {
    ckpt::Report report;
    ckpt::open(manifest.file, {.report = &report});
    if (is_reported(manifest, report)) return "";
  } catch (const core::Error& error) {
    if (manifest.action == "load-or-report") return "";
    if (error.code() != core::ErrorCode::unsupported) return std::string("wrong kind of error: ") + error.what();
    bool named = error.message().find(expected_word(manifest.reason)) != std::string::npos;
    return named ? "" : std::string("does not say what it is: ") + error.what();
  }
  return manifest.action.starts_with("refuse") ? "was read, although it is: " + manifest.reason : "";
}

}  // namespace

int main() {
  test::GoldenRun run("checkpoints_foreign");
  bool any = false;
  for (const test::Manifest& manifest : test::load_manifests("broken")) {
    if (manifest.format != "foreign") continue;
    any = true;
    std::string difference = check(manifest);
    run.check(manifest.id, difference.empty(), difference);
  }
  if (!any) return 77;
  return run.finish();
}
