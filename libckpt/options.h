#pragma once
// Options and results of the calls in open_save.h, without the calls: how a checkpoint is opened, how it is saved, and
// what verification found. Thread safety: plain data; a Report belongs to one call at a time. Errors: none here. Use:
// ckpt::SaveOptions options = {.codec = ckpt::Codec::zstd};

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/hint.h"
#include "libckpt/io/page_cache_use.h"
#include "libckpt/limits.h"
#include "libckpt/report.h"
#include "libcore/base/dtype.h"

namespace ckpt {

struct OpenOptions {
  Limits limits = {};
  bool lenient = false;          ///< accept the named relaxations of FORMAT_SUPPORT.md; each used one is in the report
  bool foreign_objects = false;  ///< keep unknown pickle globals as inert nodes (never called) instead of refusing them
  /// For commands that only look: unknown pickle globals are kept as above and listed in report->foreign, unless the
  /// whole file is one object of an unknown class.
  bool look_past_foreign = false;
  /// Files of a checkpoint folder may be symbolic links that lead out of it, as in the caches of model hubs. Without it
  /// such a link is Error(refused).
  bool allow_symlinks = false;
  /// The HDF5 helper may read a file where the system refuses to confine it (Landlock, seccomp); each layer that is
  /// missing is then a warning in the report. Without it that is Error(refused).
  bool unsandboxed = false;
  /// Compare recorded hashes and CRCs before the first byte of a tensor is handed out. Without it they are compared
  /// while it is read, and the last read or require_unchanged() is Error(corrupt).
  bool check_hashes = false;
  unsigned threads = 0;  ///< 0 = all cores
  /// How large reads of files go. What is past the page cache does not stay in memory for the next reader.
  Io io = Io::automatic;
  Residency residency = Residency::on_demand;
  Report* report = nullptr;
};

/// How tensor bytes are packed, where a format can.
enum class Codec : std::uint8_t {
  automatic,
  none,
  zstd,  ///< byte planes, each packed as its bytes ask for, in one zstd frame a chunk: HDF5's shuffle and filter 32015
  gzip,  ///< HDF5's shuffle and deflate, which every HDF5 program reads
  fast,  ///< .ckpt: f16, bf16 and f32 in planes that are unpacked as fast as copied; no other HDF5 program reads them
};
/// The codec of that name ("none", "zstd", also "tight", "gzip", "fast"), nullopt for any other text.
std::optional<Codec> codec_named(std::string_view text);

/// Every tensor of one type is written as another (cast.h says how values are rounded).
struct Retype {
  core::DType from;
  core::DType to;
};

struct SaveOptions {
  std::string format = {};  ///< name of a format; "" = by the file name's extension
  bool overwrite = true;    ///< false: Error(io) when the target exists
  bool durable = true;      ///< fsync of file and folder
  Codec codec = Codec::automatic;
  /// The target is the file that the checkpoint was read from: where no byte of a tensor moves, only what changes is
  /// written, and report->rung says "in place" or "append", report->part what. Interrupted, it is taken back; done, it
  /// can be undone (format/in_place.h). Programs that have the file open see it change, and may see half of it for a
  /// moment; the checkpoint itself cannot be read from it any more.
  bool in_place = false;
  /// .safetensors: bytes of room behind the header, for names that grow in later edits in place; the tensors then begin
  /// at a multiple of 4,096. 0 gives the file that the reference library writes.
  std::uint64_t slack = 4096;
  double parity = 0;  ///< .ckpt: share of the file, 0 to 1, that may decay and still be restored (ckpt rescue)
  std::uint64_t max_shard_size = 0;  ///< bytes a file; 0 = one file
  std::uint32_t shards = 0;          ///< number of files of about the same size; 0 = as max_shard_size says
  std::uint32_t shard_dim = 0;       ///< .dcp: the dimension along which tensors are cut into `shards` pieces
  std::vector<std::string> shard_prefixes = {};  ///< one file (or more, by max_shard_size) a prefix, one for the rest
  bool drop_inexpressible = false;  ///< leave out what the target format cannot hold and list it in report->dropped
  std::vector<Retype> retype = {};  ///< for types that the target format does not have; all at once
  /// Bytes of buffers, whatever the size of the file. What readers keep meanwhile is limit_read_memory()'s.
  std::uint64_t max_memory = 256ULL << 20;
  unsigned threads = 0;  ///< 0 = all cores; 1: every system call by the calling thread
  Io io = Io::automatic;
  Progress progress = {};
  Report* report = nullptr;
};

/// One thing that verification found.
struct Finding {
  std::string subject;  ///< key or part of the file
  std::string text;     ///< what is wrong, one sentence
  std::optional<Hint> hint = {};
};

/// How much of what verification read the file has a checksum for. Where it has none, damage that leaves the structure
/// whole cannot be seen.
enum class ChecksumCover : std::uint8_t {
  none,    ///< the format has no checksums
  absent,  ///< the format has them, and the file was written without
  some,
  all,
};
/// "none", "absent", "some", "all".
std::string_view name(ChecksumCover cover);

struct VerifyResult {
  std::vector<Finding> damage;  ///< the file is not what it was when written, or carries what is no plain data
  std::vector<Finding> notes;   ///< worth knowing, not wrong
  bool complete = true;         ///< false: a part of it, named in `damage`, could not be analysed to its end
  std::uint64_t tensors_checked = 0;
  std::uint64_t bytes_checked = 0;
  std::string method;  ///< what was compared: "128-bit content hashes", "CRC-32 of every member", ...
  ChecksumCover checksums = ChecksumCover::none;
};

}  // namespace ckpt
