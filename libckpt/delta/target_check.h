#pragma once
// Whether what comes out of a difference has the digest that the difference names, found out while it is written: what
// has it comes of the right base, which then need not be read for a digest of its own. Who writes a tensor reads all of
// it and then asks require_unchanged(); the last one to do so compares. Where bytes were read in an order that left
// some out, or could not be read, the base is looked at instead. Internal. Thread safety: note(), ended() and
// require_base() from many threads, once expect() was called. Use: auto check = std::make_shared<TargetCheck>(wanted,
// "net.delta.ckpt", look_at_base); check->add(*source); check->expect(list_entries(root), 1);

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/delta/passing_hash.h"

namespace ckpt::detail {

class TargetCheck {
 public:
  /// `made_of`: names of what it comes of, for the message. `look_at_base` throws where the base is another than the
  /// one that the difference was made for; it is asked at most once, unless it does.
  TargetCheck(const Hash128& wanted, std::string made_of, std::function<void()> look_at_base)
      : wanted_(wanted), made_of_(std::move(made_of)), look_at_base_(std::move(look_at_base)) {}

  /// One whose bytes will be noted, and its end.
  void add(const ByteSource& source, std::uint64_t size) {
    sources_.try_emplace(&source, std::make_unique<Source>(size));
    ++left_;
  }
  /// What comes out. Tensors are not kept: where one is gone when all were read, nothing is compared.
  void expect(const std::vector<NamedEntry>& entries, unsigned threads);
  bool has_sources() const { return !sources_.empty(); }
  void note(const ByteSource& source, std::uint64_t offset, Bytes bytes) const;
  /// Errors: Error(refused) naming both digests where the last of all was read and they differ; those of
  /// require_base(); those of reading.
  void ended(const ByteSource& source) const;
  /// Errors: those of `look_at_base`.
  void require_base() const;

 private:
  struct Source {
    explicit Source(std::uint64_t size) : hash(size) {}
    PassingHash hash;
    std::atomic<bool> ended = false;
  };
  struct Tensor {
    std::string name;
    Entry entry;  ///< without bytes
    std::weak_ptr<const ByteSource> bytes;
  };
  /// Those that are there still, as long as none is gone.
  std::vector<NamedEntry> tensors() const;

  Hash128 wanted_;
  std::string made_of_;
  std::function<void()> look_at_base_;
  mutable std::mutex looking_;
  mutable bool base_is_right_ = false;
  unsigned threads_ = 0;
  std::vector<Tensor> tensors_;
  std::unordered_map<const ByteSource*, std::unique_ptr<Source>> sources_;
  mutable std::atomic<std::size_t> left_ = 0;  ///< that have not ended
};

}  // namespace ckpt::detail
