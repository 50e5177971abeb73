#pragma once
// Lets the helper program make superblock and metadata of an HDF5 file, or change its links. It is started first, so
// that whatever is wrong with it shows before a byte of the file is written, and asked when the places of all tensors
// are known. Thread safety: one owner. Use: Hdf5Describer helper; helper.require_ready(); ... helper.describe(bytes,
// plan);

#include <memory>
#include <optional>
#include <string>

#include "libckpt/hdf5/described_file.h"
#include "libckpt/hdf5/helper_child.h"

namespace ckpt::detail {

class Hdf5Describer {
 public:
  /// Starts the helper, unless answers of it are kept: then it is started where none of them will do. Errors:
  /// Error(unsupported) when there is none; Error(io) when it cannot be started.
  Hdf5Describer();

  /// Waits for its greeting, some milliseconds; starts it where it was not. Error(unsupported) for another version;
  /// Error(io) when it dies.
  void require_ready();

  /// A kept answer may be what describe() will be asked for. Whoever does without require_ready() then meets its errors
  /// in describe().
  bool may_know(std::uint64_t datasets) const;

  /// `description` is what wire.h says of the job. A helper that has died since is started once more. Errors: those of
  /// parse_described(); Error(io) when it dies or takes too long. An answer to the same description is kept (see
  /// kept_answers.h). REQUIRES: `plan` says what the description says.
  Hdf5Image describe(core::Bytes description, const DescribedPlan& plan);

  /// Superblock and metadata with other links: `request` is what wire.h says of the job "relink", `plan` has the number
  /// of moves for the number of datasets. nullopt where the helper cannot do it, for whatever reason: the metadata is
  /// that of a file that nobody vouches for, and what describe() makes does as well.
  static std::optional<Hdf5Image> relink(core::Bytes request, const DescribedPlan& plan);

 private:
  explicit Hdf5Describer(const char* job);
  void start();
  /// False when the helper has died before it was done.
  bool ask(core::Bytes description);

  const char* job_;
  std::string program_;  ///< whose answers are kept; "" for none
  Fd socket_;
  std::unique_ptr<HelperChild> child_;
};

}  // namespace ckpt::detail
