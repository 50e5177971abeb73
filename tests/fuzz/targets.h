#pragma once
// Fuzz targets: one function a parser, which is given any bytes and must do nothing but return. libFuzzer drives them
// (run.sh builds those programs with clang), and the program fuzz_replay runs them over seeds and earlier findings in
// every test run. Whatever leaves a target as an exception is a finding; a core::Error is an answer, unless it is one
// of our own bugs.
// Use: find_target("npz")->run(bytes);

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/bytes.h"

namespace fuzz {

/// Golden files that make good seeds: all of one folder whose name contains a text.
struct SeedFiles {
  std::string_view folder;    ///< below the golden "checkpoints"
  std::string_view contains;  ///< "" = all
  bool together = false;      ///< one seed of all of them, with kBetweenFiles between
};

/// Between the files of an input that has several.
inline constexpr std::string_view kBetweenFiles = "<next file>";

struct Target {
  std::string_view name;
  void (*run)(core::Bytes bytes);
  std::vector<SeedFiles> seeds;
  /// Makes a seed of a golden file, for targets that take a part of one; null = the file. Empty results are no seeds.
  core::ByteVector (*make_seed)(core::Bytes file) = nullptr;
  std::vector<std::string_view> texts = {};  ///< more seeds
};

/// Targets whose format is in this build.
std::vector<Target> targets();

/// Runs `body`; an Error that is an answer ends it quietly. Throws std::logic_error for one that is a bug.
void answer(const std::function<void()>& body);

}  // namespace fuzz
