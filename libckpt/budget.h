#pragma once
// Budget: what one opening may still take. A file is a claim by whoever made it; a few bytes can claim a million
// objects or terabytes of values. Everything that grows is counted here, for the whole opening, against the bytes that
// lie on the disk (Limits and the allowances of limits.h), so that small files stay cheap whatever they say. Thread
// safety: any thread. Use: Budget budget(limits, file->size()); budget.take_values(count);

#include <atomic>
#include <cstdint>
#include <string>

#include "libckpt/hint.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/limits.h"
#include "libckpt/value.h"

namespace ckpt {

class Budget {
 public:
  Budget(const Limits& limits, std::uint64_t disk_bytes) : limits_(limits), disk_(disk_bytes) {}

  /// Another file of the same checkpoint was opened.
  void add_disk(std::uint64_t bytes) { disk_ += bytes; }
  /// The file is one that was packed as a whole, and `disk_bytes` are those of the packed one.
  void set_packed() { whole_packed_ = true; }
  /// `given`, where the pickles of a packed file have no more opcodes than the values that it may have need.
  Limits limits(Limits given) const;
  /// Values that were packed by this library, which packs zeros to next to nothing: they account for themselves.
  void add_packed(std::uint64_t bytes) { packed_ += bytes; }

  // Each throws Error(refused) with a sentence of its own when all that was taken is more than the disk accounts for.
  void take_values(std::uint64_t count);
  /// Of a tree that is being built, whose values are taken when it is there.
  void require_values(std::uint64_t count) const;
  void take_tensors(std::uint64_t count);
  void take_names(std::uint64_t bytes);
  /// `what` will be `bytes` long when decompressed, and all of it at once in memory.
  void take_decoded(const std::string& what, std::uint64_t bytes);

  /// Counts values of a tensor that can be read. False when they would be too many; nothing is counted then.
  bool take_logical(std::uint64_t bytes);
  /// Why take_logical() said no: "tensor 'w' would be ... where the file has ...".
  HintedError logical_refusal(const std::string& name, std::uint64_t bytes) const;
  /// True when a compressed chunk is too large to be decoded; it is not counted, for chunks come and go.
  bool is_large_chunk(std::uint64_t bytes) const { return bytes > allowed(kChunkAllowance); }

 private:
  std::uint64_t allowed(const Allowance& allowance) const;
  [[noreturn]] void refuse(const std::string& claim, std::uint64_t allowed, const char* unit) const;

  Limits limits_;
  bool whole_packed_ = false;
  std::atomic<std::uint64_t> disk_;
  std::atomic<std::uint64_t> packed_ = 0;
  std::atomic<std::uint64_t> values_ = 0;
  std::atomic<std::uint64_t> tensors_ = 0;
  std::atomic<std::uint64_t> names_ = 0;
  std::atomic<std::uint64_t> decoded_ = 0;
  std::atomic<std::uint64_t> logical_ = 0;
};

/// The tree that a file gave, as far as the budget goes: Error(refused) when it unfolds to too many values, tensors or
/// names; a tensor whose values would be too many stays with its shape and its storage, but reading them is
/// Error(refused). Values and bytes that several parts share are looked at once.
/// `file` is the one that was opened, whose bytes the budget knows; others that the tensors lie in are added.
Value within_budget(const Value& root, const ByteSource& file, Budget& budget);

}  // namespace ckpt
