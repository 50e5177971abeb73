#include "libckpt/hdf5/helper/heap_texts.h"

#include <algorithm>
#include <string>

namespace ckpt::detail {
namespace {

// HDF5 File Format Specification, III.E.
constexpr std::size_t kHeapHead = 8;  ///< signature, version, reserved
constexpr std::size_t kHeapPadding = 8;
constexpr std::uint64_t kMaxCollection = 1ULL << 30;
constexpr std::uint64_t kMaxKept = 1 << 20;  ///< sizes of all collections that are remembered

[[noreturn]] void fail_text(std::uint64_t length, const std::string& what) {
  throw Failure{kFailureCorrupt, "a text of " + std::to_string(length) + " bytes " + what};
}

}  // namespace

void HeapTexts::require(std::uint64_t address, std::uint64_t index, std::uint64_t length) {
  if (length == 0) return;
  auto known = known_.find(address);
  if (known == known_.end()) {
    if (kept_ > kMaxKept) {
      known_.clear();
      bytes_.reset();
      kept_ = 0;
    }
    known = known_.emplace(address, read(address)).first;
    kept_ += known->second.size() + 1;
  }
  auto size = known->second.find(index);
  if (size == known->second.end()) fail_text(length, "is not where its attribute says");
  if (size->second < length) fail_text(length, "lies in " + std::to_string(size->second) + " bytes");
}

HeapTexts::Sizes HeapTexts::read(std::uint64_t address) {
  std::size_t width = reader_.widths().size;
  core::ByteVector head = reader_.bytes(address, kHeapHead + width);
  ByteCursor start(head);
  bool signed_so = start.take_text(4) == "GCOL";
  start.skip(4);
  std::uint64_t size = take_number(start, width);
  if (!signed_so || size < kHeapHead + width || size > kMaxCollection) {
    throw Failure{kFailureCorrupt, "its texts lie at " + std::to_string(address) + ", where there are none"};
  }
  core::ByteVector bytes = reader_.bytes(address, size);
  ByteCursor in(bytes);
  in.skip(kHeapHead + width);
  if (bytes_) *bytes_ += size;
  Sizes sizes;
  while (in.remaining() >= kHeapHead + width) {
    auto index = in.take<std::uint16_t>();
    in.skip(kHeapHead - 2);
    std::uint64_t length = take_number(in, width);
    if (index == 0) break;  // what is left is free
    if (length > in.remaining()) {
      throw Failure{kFailureCorrupt, "its texts lie in a collection that ends before the last of them"};
    }
    sizes[index] = length;
    in.skip(std::min<std::uint64_t>(in.remaining(), (length + kHeapPadding - 1) / kHeapPadding * kHeapPadding));
  }
  return sizes;
}

}  // namespace ckpt::detail
