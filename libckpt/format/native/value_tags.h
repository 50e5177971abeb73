#pragma once
// Numbers in the encoded Value tree (FORMAT_NATIVE.md, "The tree"). Internal to the encoder and the decoder.
// Thread safety: constants. Use: out.push_back(std::byte{kTagNull}).

#include <array>
#include <cstdint>
#include <string_view>

namespace ckpt::detail {

enum ValueTag : std::uint8_t {
  kTagNull = 0,
  kTagFalse = 1,
  kTagTrue = 2,
  kTagInteger = 3,
  kTagBigInteger = 4,
  kTagReal = 5,
  kTagComplex = 6,
  kTagText = 7,
  kTagBytes = 8,
  kTagBytearray = 9,
  kTagList = 10,
  kTagTuple = 11,
  kTagSet = 12,
  kTagFrozenset = 13,
  kTagDict = 14,
  kTagTensor = 15,
  kTagObject = 16,
  kTagShared = 32,  ///< the value that follows is met again
  kTagAgain = 33,   ///< and this is where: its number follows
};

/// Dict types by number; a number past the end is followed by the type's name.
inline constexpr std::array<std::string_view, 4> kDictTypes = {"dict", "collections.OrderedDict", "collections.Counter",
                                                               "collections.defaultdict"};
inline constexpr std::uint8_t kNamedDictType = 255;

enum DictFlag : std::uint8_t { kDictAttributes = 1, kDictArgs = 2 };

enum ObjectFlag : std::uint8_t { kObjectArgs = 1, kObjectKwargs = 2, kObjectState = 4 };

enum EntryFlag : std::uint8_t {
  kEntryParameter = 1,
  kEntryRequiresGrad = 2,
  kEntryConjugate = 4,
  kEntryNegative = 8,
  kEntryWindow = 16,
  kEntryView = 32,
  kEntryClass = 64,
  kEntryAttributes = 128,
};

}  // namespace ckpt::detail
