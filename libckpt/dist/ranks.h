#pragma once
// Ranks: the processes that write or read one checkpoint together, as far as this needs them: one exchange, in which
// every rank gives a text and gets those of all. A process alone is the only rank of itself. Thread safety: one user at
// a time; all ranks make the same exchanges in the same order. Use: std::unique_ptr<Ranks> ranks = ranks_of(group);
// std::vector<std::string> all = ranks->exchange(mine);

#include <memory>
#include <string>
#include <vector>

#include "libcore/dist/process_group.h"

namespace ckpt::dist {

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The texts of all ranks, in their order. Errors: those of the engine, which name a rank that is gone or does not
  /// answer.
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
};

/// Those of the group; without one, of the default group; without that, this process alone.
std::unique_ptr<Ranks> ranks_of(const core::distributed::Group& group);

}  // namespace ckpt::dist
