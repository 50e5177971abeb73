#include "libckpt/io/unit_source.h"

#include <algorithm>
#include <cstring>

#include "libcore/base/error.h"

namespace ckpt::detail {

void UnitSource::read(std::uint64_t offset, MutableBytes out) const {
  if (offset > size() || out.size() > size() - offset) {
    throw core::Error(core::ErrorCode::corrupt, "a read past the end of a tensor");
  }
  core::ByteVector part;
  while (!out.empty()) {
    const std::uint64_t first = offset / unit_;
    const std::uint64_t skip = offset % unit_;
    const std::uint64_t whole = skip == 0 ? std::min(at_once_, out.size() / unit_) : 0;
    std::uint64_t taken = whole * unit_;
    if (whole > 0) {
      compute(first, out.first(taken));
    } else {
      part.resize(unit_);
      compute(first, part);
      taken = std::min<std::uint64_t>(unit_ - skip, out.size());
      std::memcpy(out.data(), part.data() + skip, taken);
    }
    offset += taken;
    out = out.subspan(taken);
  }
}

}  // namespace ckpt::detail
