#pragma once
// map_location: other device tags for the tensors of a file. A tag is text, so no GPU is needed and no byte moves.
// Thread safety: pure. Use: ckpt::Checkpoint c = ckpt::map_location(ckpt::open("net.pth"), {.to = "cpu"});

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

struct MapLocationOptions {
  std::string to = {};  ///< every tensor goes there; "" = use `map`
  /// Old tag, new tag; matched exactly (cuda:1 is not cuda:10) and all at once, so that a swap works.
  std::vector<std::pair<std::string, std::string>> map = {};
  std::string at = {};  ///< dotted path of what to act on; "" = the whole file
};

struct LocationChanges {
  std::uint64_t tensors = 0;  ///< looked at
  std::uint64_t changed = 0;
  std::uint64_t device_values = 0;  ///< torch.device values beside the tensors that were changed
  /// Old tag, new tag, how many tensors; in the order in which they were met.
  struct Count {
    std::string from;
    std::string to;
    std::uint64_t tensors = 0;
  };
  std::vector<Count> counts;
};

/// Tensors on "meta" have no bytes and stay there. Errors: Error(usage) for a tag that is not a device, for an old tag
/// given twice, and for neither or both of `to` and `map`.
Checkpoint map_location(const Checkpoint& checkpoint, const MapLocationOptions& options,
                        LocationChanges* changes = nullptr);

namespace detail {
/// map_location for the tensors and devices that stand in `nodes`, a tree of values that `checkpoint` holds too.
Checkpoint move_below(const Checkpoint& checkpoint, const Value& nodes, const std::string& to,
                      LocationChanges* changes = nullptr);
}  // namespace detail

}  // namespace ckpt
