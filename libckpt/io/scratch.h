#pragma once
// Memory for a moment, used again by the next one who asks. Fresh memory of a megabyte costs about as much as unpacking
// one: the system hands it out page by page, cleared. Thread safety: all functions; a Scratch belongs to one thread.
// Errors: std::bad_alloc. Use: Scratch planes(bytes.size()); shuffle(bytes, 2, planes.bytes());

#include <cstddef>
#include <new>
#include <optional>

#include "libckpt/io/aligned_block.h"
#include "libckpt/io/idle_contexts.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

/// Bytes of any values, to be written before they are read, aligned as a block.
class Scratch {
 public:
  explicit Scratch(std::size_t size) : buffer_(buffers().borrow()), size_(size) {
    if (*buffer_.get() && memory().size() >= size) return;
    buffer_.get()->reset();
    buffer_.get()->emplace(size);
  }
  ~Scratch() {
    if (memory().size() > kMostKept) buffer_.get()->reset();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  core::MutableBytes bytes() const { return memory().first(size_); }

 private:
  static constexpr std::size_t kMostKept = 4ULL << 20;  ///< bytes of one; as many are kept as were used at once

  using Buffer = std::optional<AlignedBlock>;
  static Buffer* make() { return new (std::nothrow) Buffer; }
  static void free(Buffer* buffer) { delete buffer; }
  using Buffers = IdleContexts<Buffer, make, free>;
  static Buffers& buffers() {
    static auto& all = *new Buffers();
    return all;
  }

  core::MutableBytes memory() const { return (*buffer_.get())->bytes(); }

  Buffers::Borrowed buffer_;
  std::size_t size_;
};

}  // namespace ckpt::detail
