#pragma once
// Limits: every bound on what a file may ask for, in one place. All can be raised or lowered by the caller.
// Thread safety: plain value. Use: ckpt::OpenOptions options; options.limits.max_tensors = 10'000;

#include <cstdint>

namespace ckpt {

struct Limits {
  std::uint64_t max_safetensors_header = 100'000'000;  ///< bytes; the reference library's own limit
  std::uint64_t max_tensors = 1'048'576;               ///< per file
  std::uint64_t max_name = 65'535;                     ///< bytes of a key
  std::uint64_t max_rank = 64;                         ///< dimensions of a tensor (HDF5 files: 32)
  std::uint64_t max_pickle_bytes = 1ULL << 30;
  std::uint64_t max_pickle_opcodes = 64'000'000;
  std::uint64_t max_pickle_stack = 100'000;  ///< deeper than any real file; a batch of SETITEMS is 2,000
  std::uint64_t max_pickle_memo = 16'000'000;
  std::uint64_t max_depth = 1'000;  ///< nesting of containers in a file; Python's own limit
  std::uint64_t max_zip_members = 1'048'576 + 64;
  std::uint64_t max_json_depth_header = 8;
  std::uint64_t max_json_depth = 64;
  std::uint64_t max_json_bytes = 256ULL << 20;
  std::uint64_t max_expansion = 100;  ///< decoded over stored bytes, where more than expansion_floor is decoded
  std::uint64_t expansion_floor = 256ULL << 20;  ///< bytes that the smallest file may decode or unfold to
  std::uint64_t max_hdf5_depth = 32;             ///< nesting of groups in an HDF5 file of another program
  std::uint64_t max_helper_seconds = 60;         ///< for the structure of such a file
  std::uint64_t max_index_bytes = 1ULL << 30;    ///< packed index of a native file
  std::uint64_t max_checked = 64ULL << 20;       ///< bytes of tensors that a diagnosis reads to look for damage
};

/// What a file may ask for whatever its size, and beyond that for each byte that it has on the disk: work and memory
/// follow the bytes, not the claims. `per_byte` grows with Limits::max_expansion and is meant for 100. budget.h counts,
/// and says what was too much.
struct Allowance {
  std::uint64_t free;
  double per_byte;
};
inline constexpr Allowance kValueAllowance = {1'000'000, 1};     ///< values, every reference counted; containers are 4
inline constexpr Allowance kTensorAllowance = {65'536, 0.125};   ///< names of tensors
inline constexpr Allowance kNameAllowance = {96ULL << 20, 16};   ///< bytes of the full names of all values and of texts
inline constexpr Allowance kDecodedAllowance = {1ULL << 20, 1};  ///< bytes of a compressed pickle
inline constexpr Allowance kChunkAllowance = {64ULL << 20, 100};  ///< bytes of a compressed chunk when decoded
inline constexpr Allowance kJsonAllowance = {1'000'000, 0.125};   ///< values of a JSON header; a tensor takes about ten

// What no caller changes: sizes of single fields, which the makers of a format set or no real file comes near, and how
// much is looked into of what may be something else.
inline constexpr std::uint64_t kMaxHeaderFields = 4096;        ///< values of one tensor in a safetensors header
inline constexpr std::uint64_t kMaxHeaderTexts = 1'048'576;    ///< entries of metadata in a safetensors header
inline constexpr std::uint64_t kMaxNpyHeader = 10'000;         ///< bytes; NumPy's own limit for files it does not trust
inline constexpr std::uint64_t kMaxGgufKey = 65'535;           ///< bytes; ggml's own limit
inline constexpr std::uint64_t kMaxGgufArray = 1ULL << 30;     ///< elements; ggml's own limit
inline constexpr std::uint64_t kMaxGgufPadding = 64ULL << 10;  ///< bytes behind the last tensor
inline constexpr std::uint64_t kMaxGgufSplits = 99'999;        ///< files; their names have five digits
inline constexpr std::uint64_t kMaxPickleDigits = 4300;        ///< of a number; Python's own limit
inline constexpr std::uint64_t kMaxTarRecord = 1ULL << 20;     ///< bytes of a long name or PAX header
inline constexpr std::uint64_t kMaxOddChunks = 4096;           ///< chunks of a tensor that form no grid
inline constexpr std::uint64_t kMaxIndexLook = 64ULL << 20;    ///< bytes of JSON that may be the index of shards
inline constexpr std::uint64_t kMaxScannedMember = 256ULL << 20;    ///< bytes of one inflated member that are scanned
inline constexpr std::uint64_t kMaxScannedUnknown = 64ULL << 20;    ///< bytes of what may be a pickle without a mark
inline constexpr std::uint64_t kMaxScannedNpyHeader = 64ULL << 10;  ///< bytes of an array's header that are scanned
inline constexpr std::uint64_t kMaxSalvagedMembers = 1000;  ///< of an archive without a directory that are scanned
inline constexpr int kMaxNestedArchives = 2;                ///< archives inside a file that are scanned

}  // namespace ckpt
