#pragma once
// Report: what an operation noticed and did, apart from its result. Libraries never print; a caller shows this.
// Thread safety: plain value, one writer. Use: ckpt::Report report; ckpt::open(path, {.report = &report});

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ckpt {

struct Report {
  std::vector<std::string> warnings;     ///< one sentence each, for a person
  std::vector<std::string> relaxations;  ///< what lenient reading let pass, one sentence each
  std::vector<std::string> dropped;      ///< what a caller allowed to be dropped and was
  std::vector<std::string> foreign;      ///< pickle symbols that nobody knows and whose objects were kept as inert data
  std::vector<std::string> globals;      ///< names in a pickle that torch.load(weights_only=True) refuses
  std::vector<std::string> modules;      ///< classes of pickled modules whose tensors were read as a state dict
  std::vector<const void*> module_dicts;  ///< Value::identity() of the dict that each of them became
  std::uint64_t bytes_written = 0;
  std::string rung;  ///< how the output was made: "rewrite", "in place", "append"
  std::string part;  ///< what of the file was written, where not all of it was: "header"
};

/// Called now and then during long work with bytes done and bytes in all. May be called from the working thread only.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

}  // namespace ckpt
