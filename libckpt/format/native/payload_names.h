#pragma once
// Names of the first tensor that each payload of a native file holds, for messages. Thread safety: immutable.
// Use: PayloadNames names(*file, limits); names.name(3)

#include <string>
#include <unordered_map>

#include "libckpt/format/native/opened_file.h"

namespace ckpt::detail {

class PayloadNames {
 public:
  /// Errors: those of decode_tree.
  PayloadNames(const OpenedNative& file, const Limits& limits);
  /// The tensor's name, "payload 7" for one that no tensor shows.
  std::string name(std::uint32_t payload) const;

 private:
  std::unordered_map<std::uint32_t, std::string> names_;
};

}  // namespace ckpt::detail
