#pragma once
// scan: what a file could make a program do that loads it. Every symbol of every pickle in it is listed, in archives
// and archives inside of those too, with everything else that carries code. Nothing is executed, and nothing is
// called clean that was not read to its end. Thread safety: any number of calls at once. Use:
// ckpt::ScanResult r = ckpt::scan("best.pth"); if (!r.clean()) ...

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/open_save.h"

namespace ckpt {

enum class SymbolVerdict : std::uint8_t {
  allowed,      ///< becomes data: containers, tensors, numbers
  inert,        ///< a known class of plain settings
  not_allowed,  ///< anything else, whatever it is
};
/// "allowed", "inert", "not allowed".
std::string_view verdict_text(SymbolVerdict verdict);

struct ScannedSymbol {
  std::string name;  ///< "posix.system", Python 2 names normalised
  SymbolVerdict verdict = SymbolVerdict::not_allowed;
  std::uint64_t calls = 0;  ///< times the pickle calls it, also where the result is dropped
};

struct ScannedPickle {
  std::string where;  ///< "data.pkl", "policy.pth/archive/data.pkl", "pickle 4 at byte 123"
  std::uint64_t bytes = 0;
  bool complete = false;  ///< read up to its STOP
  std::vector<ScannedSymbol> symbols;
};

struct ScanResult {
  std::string content;                 ///< what the file is by its content: "torch-zip", "pickle", "gguf", ...
  std::vector<ScannedPickle> pickles;  ///< in the order of the file
  std::vector<Finding> findings;       ///< symbols that are not allowed, code, damage, a name that lies
  std::vector<Finding> unread;         ///< what could not be analysed to its end, and why
  std::vector<Finding> notes;          ///< worth knowing, not wrong
  std::uint64_t parts = 0;             ///< members of archives and pieces of streams that were looked at

  bool complete() const { return unread.empty(); }
  bool clean() const { return findings.empty() && unread.empty(); }
};

/// Analyses a file, a shard index with its shards, or a distributed checkpoint. What the bytes say never throws: it is
/// in the result. Errors: Error(io) when the file cannot be read; Error(usage | unsupported) for a folder that is no
/// model.
ScanResult scan(const std::filesystem::path& path, const OpenOptions& options = {}, const Progress& progress = {});

}  // namespace ckpt
