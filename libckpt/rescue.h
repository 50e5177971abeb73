#pragma once
// rescue: saves what can be saved of a damaged checkpoint. A .ckpt with parity data (SaveOptions::parity) comes back
// byte for byte as long as the damage stays within it; of everything else the tensors are kept whose bytes are provably
// those that were written. Thread safety: any number of calls at once on different targets. Use:
// ckpt::RescueReport r = ckpt::rescue("net.ckpt", "saved.ckpt");

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libckpt/limits.h"
#include "libckpt/options.h"
#include "libckpt/report.h"

namespace ckpt {

struct RescueOptions {
  std::string format = {};                  ///< of the output; "" = by its extension, else that of the input
  bool overwrite = false;                   ///< false: Error(io) when the output exists
  bool durable = true;                      ///< fsync of file and folder
  bool in_place = false;                    ///< the output may be the input; only when nothing of it is lost
  bool dry_run = false;                     ///< find out, write nothing
  std::uint64_t max_memory = 256ULL << 20;  ///< bytes of buffers
  Limits limits = {};
  unsigned threads = 0;  ///< 0 = all cores
  Progress progress = {};
  Report* report = nullptr;
};

/// A part of the file that parity data, or what is known of the format, gave back.
struct RestoredPart {
  std::string subject;       ///< a tensor's name, "header", "index", "HDF5 structure", "parity data", ...
  std::uint64_t blocks = 0;  ///< of the parity data's size that touch it; 0 where no parity data was needed
};

struct RescueReport {
  std::string format;        ///< of the input
  bool whole = false;        ///< the output is byte for byte what was written once, proved by its hashes
  bool damaged = false;      ///< the input was not
  bool proven = true;        ///< false: the format has no checksums, so kept tensors are whole but not proven
  std::uint64_t blocks = 0;  ///< blocks of the file that has parity data, 0 without
  std::uint64_t block_bytes = 0;
  std::uint64_t blocks_restored = 0;
  std::uint64_t blocks_lost = 0;       ///< more than the parity data can give back
  std::vector<RestoredPart> restored;  ///< in file order
  std::uint64_t tensors = 0;           ///< in the output
  std::vector<Finding> lost;           ///< tensors that are not, and why
  std::vector<Finding> notes;
  bool written = false;
};

/// Writes what can be saved of `path` to `output`. Errors: Error(corrupt | refused | unsupported) when nothing can be
/// said of the file, when another program edited it after its parity data was written, and when tensors would be lost
/// with in_place; Error(io).
RescueReport rescue(const std::filesystem::path& path, const std::filesystem::path& output,
                    const RescueOptions& options = {});

}  // namespace ckpt
