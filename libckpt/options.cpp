#include "libckpt/options.h"

#include <array>
#include <cstddef>

namespace ckpt {

std::optional<Codec> codec_named(std::string_view text) {
  if (text == "none") return Codec::none;
  if (text == "zstd" || text == "tight") return Codec::zstd;
  if (text == "gzip") return Codec::gzip;
  if (text == "fast") return Codec::fast;
  return std::nullopt;
}

std::string_view name(ChecksumCover cover) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "absent", "some", "all"};
  return kNames[static_cast<std::size_t>(cover)];
}

}  // namespace ckpt
