#pragma once
// KeyChanges: what a transform of keys did, for a report or a dry run.
// Thread safety: plain value. Use: ckpt::KeyChanges changes; ckpt::strip_prefix(checkpoint, {}, &changes);

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ckpt {

struct KeyChange {
  std::string state_dict;  ///< dotted path of the dict that holds the key, "" for the top
  std::string from;
  std::string to;
};

struct KeyChanges {
  std::vector<KeyChange> renamed;  ///< in file order
  std::uint64_t keys = 0;          ///< text keys of the dicts in which something changed; of all when nothing did
  /// strip_prefix that found nothing: what the keys do begin with ("encoder."), how often; the most frequent first.
  std::vector<std::pair<std::string, std::uint64_t>> starts;
  /// The same: a key that has the prefix, but not at its beginning; "" for none.
  std::string inside;
};

}  // namespace ckpt
