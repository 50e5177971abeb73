#pragma once
// Tar archives, as far as old checkpoints and scanners need them: regular files, with the long names of ustar, PAX and
// GNU. Every byte is accounted for: headers are checked by their sum, padding and the end must be zeros. Thread safety:
// immutable. Use: auto tar = TarArchive::open(file, {}); SourcePtr data = tar.payload(*tar.find("pickle"));

#include <string>
#include <string_view>
#include <vector>

#include "libckpt/io/byte_source.h"
#include "libckpt/limits.h"

namespace ckpt {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  ///< of the first byte of the content
  std::uint64_t size = 0;
  bool regular = true;  ///< false for folders, links and devices
};

class TarArchive {
 public:
  /// Errors: Error(corrupt) "the file is cut off: ..." and for contradictions; Error(refused) for limits.
  static TarArchive open(SourcePtr file, const Limits& limits);

  const std::vector<TarMember>& members() const { return members_; }
  /// The only regular member of this name ("./name" counts too), or null. Error(corrupt) when there are two.
  const TarMember* find(std::string_view name) const;
  SourcePtr payload(const TarMember& member) const { return slice(file_, member.offset, member.size); }

 private:
  SourcePtr file_;
  std::vector<TarMember> members_;
};

}  // namespace ckpt
