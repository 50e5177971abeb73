#pragma once
// What `ckpt info` says of the optimizers of a file: which kind, how many parameters, how many bytes.
// Thread safety: pure functions. Use: for (const OptimizerFact& o : optimizer_facts(checkpoint)) show(o.kind, o.bytes);

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "libckpt/checkpoint.h"

namespace cli {

struct OptimizerFact {
  std::string at;    ///< dotted path, "" for the top
  std::string kind;  ///< "AdamW", "Adam or AdamW" where the file cannot tell, "unknown optimizer"
  std::uint64_t params = 0;
  std::uint64_t bytes = 0;
};

/// Empty when there is none, or none that can be understood.
std::vector<OptimizerFact> optimizer_facts(const ckpt::Checkpoint& checkpoint);

/// Where the optimizers of a file lie.
class OptimizerPlaces {
 public:
  explicit OptimizerPlaces(const std::vector<OptimizerFact>& optimizers);
  /// True for the dotted name of what lies inside one of them.
  bool hold(std::string_view name) const;

 private:
  std::unordered_set<std::string> places_;
};

}  // namespace cli
