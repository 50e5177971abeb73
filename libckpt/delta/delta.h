#pragma once
// delta: what turns one checkpoint into a later one of the same run, small because most bits stay: a checkpoint with
// the tree of the later one, in which a tensor that the base has too (same name, dtype and shape) is the difference of
// both, number by number as integers. Saved as a compressed .ckpt, unchanged tensors take no room. Bit-exact. A base is
// known by its digest (analyze/digest.h), so the same values in another format are the same base, and any other is
// refused. What make_delta() returns is no checkpoint to load: ckpt::open() refuses a file of it. Thread safety: pure;
// nothing is read but for the digests before the result is. Use: ckpt::save(ckpt::make_delta(a, b,
// {.digests_when_saved = true}), "b.delta.ckpt", {.codec = ckpt::Codec::zstd}); ckpt::save(ckpt::apply_delta(a,
// ckpt::open_delta("b.delta.ckpt")), "b.pth");

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/io/checksum.h"
#include "libckpt/options.h"
#include "libcore/base/error.h"

namespace ckpt {

struct DeltaOptions {
  unsigned threads = 0;    ///< 0 = all cores
  Progress progress = {};  ///< bytes that digests have read; not called by save() of a result that is compared
  /// make_delta(): the digests are made of what save() of a .ckpt reads for the differences, so that both checkpoints
  /// are read once. Until then delta_facts() reads them, and the metadata do not have them.
  bool digests_when_saved = false;
  /// apply_delta(): save() of what comes out is Error(refused) where its digest, made of what is written, is not the
  /// one that the delta names, or where the base is another. The base is read once only, for what is written; it is
  /// read for its digest where something is wrong, so that the message can say what.
  bool check_target = false;
};

/// Error(refused): a base, or what comes of it, has another digest than the delta names. Its message names all of them;
/// as it may come up while a tensor is written, its context says no more.
class DigestError : public core::Error {
 public:
  explicit DigestError(std::string message) : Error(core::ErrorCode::refused, std::move(message)) {}
};

/// What a delta says of itself.
struct DeltaFacts {
  Hash128 base;                ///< digest of the checkpoint that it is applied to
  Hash128 target;              ///< digest of the one that comes out
  std::uint64_t tensors = 0;   ///< of the target
  std::uint64_t compared = 0;  ///< of those, kept as the difference to the base
  /// A letter a tensor of list_entries(): s difference, d exclusive or, t tied to an earlier one, w whole.
  std::string marks;
};

/// Errors: those of reading, with the key as context; Error(refused) when one of both is a delta itself.
Checkpoint make_delta(const Checkpoint& base, const Checkpoint& target, const DeltaOptions& options = {});

bool is_delta(const Checkpoint& checkpoint);
/// Errors: Error(usage) when it is no delta; Error(corrupt) when its record is damaged or of other tensors.
DeltaFacts delta_facts(const Checkpoint& delta);
/// The same without the digests, for which nothing is read.
DeltaFacts delta_counts(const Checkpoint& delta);

/// Opens a file that make_delta() was saved to; its format must be one that keeps metadata. Errors: those of open();
/// Error(usage) when it is no delta.
Checkpoint open_delta(const std::filesystem::path& path, const OpenOptions& options = {});

/// The target of `delta`. Errors: DigestError naming both digests when `base` is another checkpoint than the delta
/// was made for, with `check_target` not before the result is saved; Error(corrupt) when a tensor does not fit its
/// difference.
Checkpoint apply_delta(const Checkpoint& base, const Checkpoint& delta, const DeltaOptions& options = {});
/// The target of the last of several deltas, each made for the target of the one before; nothing is written between.
/// DigestError names the first link that does not fit.
Checkpoint apply_deltas(const Checkpoint& base, const std::vector<Checkpoint>& deltas,
                        const DeltaOptions& options = {});

namespace detail {

/// Error(refused) that says what the file is and how to make a checkpoint of it, when it is a delta.
void refuse_delta(const Checkpoint& checkpoint);

}  // namespace detail
}  // namespace ckpt
