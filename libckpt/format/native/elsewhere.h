#pragma once
// Payloads that lie in other native files of the folder (shared_tensors.h), found there by their hash, wherever they
// lie and however they are packed. Thread safety: const members from many threads. Use: PayloadOpener opener(file,
// options); SourcePtr source = opener.open(payload, cache);

#include <map>
#include <tuple>
#include <vector>

#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/format/native/opened_file.h"
#include "libckpt/format/native/payload_plan.h"

namespace ckpt::detail {

/// Payloads of one file by their content; those that lie elsewhere are left out.
class PayloadsByContent {
 public:
  explicit PayloadsByContent(const NativeIndex& index);
  const Payload* find(const Hash128& hash, std::uint64_t size) const;

 private:
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, const Payload*> payloads_;
};

/// Opens payloads of a file, whichever file they lie in.
class PayloadOpener {
 public:
  /// Opens the other files, to be read as the options say. Errors: Error(corrupt) when one is not there, those of
  /// reading it.
  PayloadOpener(std::shared_ptr<const OpenedNative> file, const OpenOptions& options);
  /// Its bytes, whatever their hash. Errors: Error(corrupt) when the other file does not hold it any more.
  SourcePtr open(const Payload& payload, const std::shared_ptr<ChunkCache>& cache) const;
  /// The same, compared with the hash.
  SourcePtr open_checked(const Payload& payload, const std::shared_ptr<ChunkCache>& cache, ObjectArena& arena) const;

 private:
  struct Neighbour {
    PayloadFilePtr file;
    PayloadsByContent payloads;
  };
  /// The payload as the file that has its bytes records it.
  std::pair<PayloadFilePtr, const Payload*> place_of(const Payload& payload) const;

  std::shared_ptr<const OpenedNative> opened_;
  PayloadFilePtr file_;
  std::vector<Neighbour> neighbours_;
};

/// What a checkpoint is to share when it is written.
struct SharingDetail final : FormatDetail {
  std::vector<std::filesystem::path> files;
};

/// Payloads of the plan that `files` hold get their place there, in `index` as well. REQUIRES: index.payloads has the
/// packing of each.
void share_payloads(const std::vector<std::filesystem::path>& files, const std::filesystem::path& target,
                    const PayloadPlan& plan, unsigned threads, NativeIndex& index);

}  // namespace ckpt::detail
