#pragma once
// What the helper program ckpt-hdf5 says to the library over a pipe: frames of a tag, a length and a content, in which
// counts are LEB128 and texts carry their length (libckpt/io/packed.h); and what the library says to it for the job
// "describe" or "relink". Both sides include this header and nothing else of each other, and neither trusts the other.
// Thread safety: constants. Use: reply.begin(kFrameLink).

#include <cstdint>

namespace ckpt::detail {

/// Both sides must agree: a helper of another version is refused.
inline constexpr std::uint32_t kHelperProtocol = 7;

/// A tag (1 byte), the length of the content (4 bytes), the content.
inline constexpr std::size_t kFrameHead = 5;

enum FrameTag : std::uint8_t {
  kFrameHello = 1,    ///< protocol (4 bytes), SandboxLayer (1 byte); always first
  kFrameStage = 2,    ///< what comes next, as text: the subject of messages should the helper die there
  kFrameLink = 3,     ///< parent, kind (1 byte), target, name; a new target gets the next number
  kFrameGroup = 4,    ///< number, flags (1 byte), attributes; behind the link that introduced it
  kFrameDataset = 5,  ///< number, type, space, layout, attributes
  kFrameFailure = 6,  ///< kind (1 byte), text; the last frame of a failed job
  /// Size of the user block, number of objects, end of what the file's superblock speaks of, bytes before it that
  /// belong to nothing (where that was asked for and is known, else 0); or, of a description: number of datasets, bytes
  /// of metadata. The last frame of a good answer.
  kFrameEnd = 7,
  kFrameSuperblock = 8,  ///< of a described file
  kFrameMetadata = 9,    ///< of a described file
};

/// What confines the helper.
enum SandboxLayer : std::uint8_t {
  kLayerFiles = 1,   ///< Landlock: no file can be opened
  kLayerCalls = 2,   ///< seccomp: a short list of system calls
  kLayerLimits = 4,  ///< bounds on memory, time and descriptors
  kAllLayers = 7,
};

/// The root group is object 0.
enum LinkKind : std::uint8_t {
  kLinkKnown = 0,    ///< a hard link to an object that was met before
  kLinkGroup = 1,    ///< a hard link to a new group
  kLinkDataset = 2,  ///< a hard link to a new dataset
  kLinkOther = 3,    ///< a hard link to a named type: nothing that holds values
  kLinkSoft = 4,     ///< not followed; `name` is followed by the path it holds
  kLinkOutside = 5,  ///< an external link; `name` is followed by the file it names
};

enum GroupFlag : std::uint8_t {
  kGroupInOrder = 1,  ///< its links come in the order in which they were made, not by name
};

enum TypeFlag : std::uint8_t {
  kTypeBigEndian = 1,
  kTypeEnum = 2,  ///< named integers that are no booleans
};

enum SpaceKind : std::uint8_t {
  kSpaceNull = 0,  ///< no elements and no shape
  kSpaceSimple = 1,
};

enum LayoutKind : std::uint8_t {
  kLayoutNone = 0,        ///< nothing is stored: every element is the fill value
  kLayoutCompact = 1,     ///< the bytes follow
  kLayoutContiguous = 2,  ///< offset in the file
  kLayoutChunked = 3,     ///< sizes of a chunk, filters, chunks
  kLayoutOutside = 4,     ///< in other files; what, as text
  kLayoutUnread = 5,      ///< not looked at, because the elements are no numbers
};

enum AttributeKind : std::uint8_t {
  kAttributeOther = 0,  ///< a text that says what it is
  kAttributeText = 1,
  kAttributeInteger = 2,   ///< 8 bytes, signed
  kAttributeUnsigned = 3,  ///< 8 bytes
  kAttributeReal = 4,      ///< 8 bytes
  kAttributeBoolean = 5,   ///< 1 byte
};

enum FailureKind : std::uint8_t {
  kFailureCorrupt = 0,
  kFailureRefused = 1,
  kFailureUnsupported = 2,
  kFailureInternal = 3,
  kFailureUnconfined = 4,  ///< no text: the hello says which layers hold
};

/// Exit codes that say more than frames can, which need memory.
enum HelperExit : int {
  kExitNoMemory = 12,     ///< the system has none left
  kExitMemoryLimit = 13,  ///< the file asks for more than the sandbox allows
};

// The job "describe". The library sends the length of what follows (8 bytes), then: size of the user block; where the
// metadata begins, from the end of the user block; DescribeFlag (1 byte); name of the top group, "" for none;
// attributes of the root group; number of datasets; the datasets. Attributes are written as in an answer.
//
// A dataset: how many links of its path are those of the one before, how many more follow, these; DescribedKind (1
// byte). Then for a link the path of the other dataset, links joined with "/". For others: name of the dtype; number of
// dimensions, these; offset from the end of the user block; bytes (kDescribedRaw), or: sizes of a chunk, shuffle (1
// byte), DescribedFilter (1 byte), its level, number of chunks, bytes of each (kDescribedPacked); attributes. A virtual
// one has, in place of offset and bytes, the number of its pieces and of each the file, the path of the dataset in it,
// where it begins in this one and how large it is in every dimension.

enum DescribeFlag : std::uint8_t {
  kDescribeInOrder = 1,  ///< links are listed in the order in which they come here
};

enum DescribedKind : std::uint8_t {
  kDescribedLink = 0,     ///< a hard link to a dataset that came before
  kDescribedRaw = 1,      ///< bytes as they are, one behind the other
  kDescribedPacked = 2,   ///< packed chunks, one behind the other
  kDescribedVirtual = 3,  ///< made of whole datasets of other files
};

/// The codec fast (libckpt/io/float_planes.h) as a filter: of the numbers that HDF5 leaves to programs' own use.
inline constexpr std::uint32_t kFastFilter = 444;
/// And the codec delta (libckpt/io/word_planes.h).
inline constexpr std::uint32_t kDeltaFilter = 445;
/// And chunks without the zeros at their end.
inline constexpr std::uint32_t kTrimmedFilter = 446;

/// What packed the chunks.
enum DescribedFilter : std::uint8_t {
  kDescribedZstd = 0,
  kDescribedGzip = 1,     ///< HDF5's own deflate filter
  kDescribedFast = 2,     ///< kFastFilter; its "level" is the FloatKind
  kDescribedDelta = 3,    ///< kDeltaFilter; its "level" is the width of a word
  kDescribedTrimmed = 4,  ///< kTrimmedFilter; its "level" is 0
};

// The job "relink". The library sends the length of what follows (8 bytes), then: size of the user block; where the
// metadata begins, from the end of the user block; superblock and metadata, a length and the bytes each; and three
// lists, each behind its length, whose paths begin with "/": groups to be made; moves (from, to); groups that are empty
// then and go. The answer is that of "describe", with the number of moves for the number of datasets.

inline constexpr std::uint64_t kMaxDescription = 4ULL << 30;  ///< bytes
inline constexpr std::uint64_t kMaxSuperblock = 4096;         ///< bytes; nothing else lies before that

}  // namespace ckpt::detail
