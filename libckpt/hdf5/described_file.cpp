#include "libckpt/hdf5/described_file.h"

#include <algorithm>

#include "libckpt/hdf5/helper_child.h"
#include "libckpt/hdf5/wire.h"
#include "libckpt/io/packed.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

[[noreturn]] void throw_wrong_description(const std::string& what) {
  throw Error(ErrorCode::internal, "the HDF5 helper's description of the file contradicts itself: " + what);
}

[[noreturn]] void fail(ByteCursor& in) {
  auto kind = in.take<std::uint8_t>();
  std::string text = core::printable(in.take_text(in.remaining()));
  switch (kind) {
    case kFailureUnsupported:
      throw Error(ErrorCode::unsupported, text);
    case kFailureRefused:
      throw Error(ErrorCode::refused, text);
    default:
      throw Error(ErrorCode::internal, text);
  }
}

/// The fields of a superblock of version 0 that say where everything is (HDF5 File Format Specification, II.A.1).
void check_superblock(const Hdf5Image& image, const DescribedPlan& plan) {
  constexpr std::string_view kSignature{"\x89HDF\r\n\x1a\n", 8};
  constexpr std::size_t kSize = 96;
  constexpr std::size_t kVersion = 8;
  constexpr std::size_t kWidths = 13;  ///< of addresses and of sizes, 8 and 8
  constexpr std::size_t kBase = 24;
  constexpr std::size_t kEnd = 40;
  constexpr std::size_t kRoot = 64;
  constexpr std::size_t kCache = 72;
  core::Bytes block = image.superblock;
  if (block.size() != kSize || !core::as_text(block).starts_with(kSignature) || block[kVersion] != std::byte{0} ||
      block[kWidths] != std::byte{8} || block[kWidths + 1] != std::byte{8}) {
    throw_wrong_description("another superblock");
  }
  auto at = [&](std::size_t field) { return core::load_le<std::uint64_t>(block.data() + field); };
  if (at(kBase) != plan.user_block) throw_wrong_description("another user block");
  if (at(kEnd) != plan.user_block + plan.metadata_begin + image.metadata.size()) throw_wrong_description("another end");
  bool inside = at(kRoot) >= plan.metadata_begin && at(kRoot) - plan.metadata_begin < image.metadata.size();
  if (!inside) throw_wrong_description("a root group outside the metadata");
  bool cached = std::any_of(block.begin() + kCache, block.end(), [](std::byte b) { return b != std::byte{0}; });
  if (cached) throw_wrong_description("a cached root group");
}

}  // namespace

Hdf5Image parse_described(core::ByteVector answer, const DescribedPlan& plan) {
  Hdf5Image image;
  image.answer = std::make_shared<const core::ByteVector>(std::move(answer));
  ByteCursor in(*image.answer, "the HDF5 helper's answer");
  take_hello(in);
  for (bool ended = false; !ended;) {
    auto tag = in.take<std::uint8_t>();
    core::Bytes content = in.take_bytes(in.take<std::uint32_t>());
    ByteCursor part(content, "a part of the HDF5 helper's answer");
    if (tag == kFrameFailure) fail(part);
    if (tag == kFrameSuperblock && image.superblock.empty()) {
      image.superblock = content;
    } else if (tag == kFrameMetadata && image.metadata.empty()) {
      image.metadata = content;
    } else if (tag == kFrameEnd) {
      if (take_count(part) != plan.datasets) throw_wrong_description("datasets are missing");
      if (take_count(part) != image.metadata.size() || !part.at_end()) throw_wrong_description("metadata is missing");
      ended = true;
    } else if (tag != kFrameStage) {
      throw_wrong_description("a part with the tag " + std::to_string(tag));
    }
  }
  if (!in.at_end()) throw_wrong_description("bytes are left after its end");
  check_superblock(image, plan);
  return image;
}

}  // namespace ckpt::detail
