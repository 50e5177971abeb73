#pragma once
// scan: what a file could make a program do that loads it. Every symbol of every pickle in it is listed, in archives
// and archives inside of those too, with everything else that carries code. Nothing is executed, and nothing is
// called clean that was not read to its end. Thread safety: any number of calls at once. Use:
// ckpt::ScanResult r = ckpt::scan("best.pth"); if (!r.clean()) ...

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/options.h"

namespace ckpt {

enum class SymbolVerdict : std::uint8_t {
  allowed,    ///< becomes data: containers, tensors, numbers
  inert,      ///< a known class of plain settings
  foreign,    ///< a name that nobody knows: mostly a class of the project that wrote the file
  dangerous,  ///< runs code, starts programs, reaches the network or files, or fetches what does
};
/// "allowed", "inert", "foreign", "dangerous".
std::string_view verdict_text(SymbolVerdict verdict);

struct ScannedSymbol {
  std::string name;  ///< "posix.system", Python 2 names normalised
  SymbolVerdict verdict = SymbolVerdict::foreign;
  std::uint64_t calls = 0;  ///< times the pickle calls it, also where the result is dropped
  /// The first calls of a dangerous one with their arguments, escaped and shortened: "posix.system('id')".
  std::vector<std::string> call_texts = {};
};

struct ScannedPickle {
  std::string where;  ///< "data.pkl", "policy.pth/archive/data.pkl", "pickle 4 at byte 123"
  std::uint64_t bytes = 0;
  bool complete = false;  ///< read up to its STOP
  std::vector<ScannedSymbol> symbols;
};

enum class FindingKind : std::uint8_t {
  danger,   ///< loading the file attacks, as far as the names tell
  foreign,  ///< loading it runs code of another program, and nothing of it is known as an attack
  problem,  ///< program code that is meant to be there, damage, a name that lies
};
/// "danger", "foreign", "finding".
std::string_view name(FindingKind kind);

struct ScanResult {
  std::string content;                 ///< what the file is by its content: "torch-zip", "pickle", "gguf", ...
  std::vector<ScannedPickle> pickles;  ///< in the order of the file
  std::vector<Finding> findings;       ///< symbols that are not allowed, code, damage, a name that lies
  std::vector<FindingKind> kinds;      ///< of each of the findings
  std::vector<Finding> unread;         ///< what could not be analysed to its end, and why
  std::vector<Finding> notes;          ///< worth knowing, not wrong
  std::uint64_t parts = 0;             ///< members of archives and pieces of streams that were looked at

  bool complete() const { return unread.empty(); }
  bool has(FindingKind kind) const { return std::find(kinds.begin(), kinds.end(), kind) != kinds.end(); }
  /// "dangerous", "not analysed", "findings", "foreign" or "clean": the first that fits.
  std::string_view verdict() const;
  void add_finding(Finding finding, FindingKind kind = FindingKind::problem);
  bool clean() const { return findings.empty() && unread.empty(); }
};

/// Analyses a file, a shard index with its shards, or a distributed checkpoint. What the bytes say never throws: it is
/// in the result. Errors: Error(io) when the file cannot be read; Error(usage | unsupported) for a folder that is no
/// model.
ScanResult scan(const std::filesystem::path& path, const OpenOptions& options = {}, const Progress& progress = {});

}  // namespace ckpt
