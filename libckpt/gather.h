#pragma once
// GatherSource: the logical bytes of a strided window, read piece by piece. A piece is a box of the tensor (some rows
// of one dimension, all of the inner ones) that fits a bounded buffer; the storage is walked through it in address
// order with a moving window, so that even a transposed matrix larger than memory costs sequential reads; long runs of
// a file that lie apart are read one by one, and nothing between them. Internal: use gather() of entry.h. Thread
// safety: read() may be called from many threads; pieces are gathered one at a time.

#include <cstdint>
#include <mutex>
#include <vector>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/kept_memory.h"

namespace ckpt::detail {

struct StridedDim {
  std::uint64_t size = 0;
  std::uint64_t stride = 0;  ///< bytes in the storage
  std::uint64_t step = 0;    ///< bytes in the logical order
};

class GatherSource final : public ByteSource, private Keeper {
 public:
  struct Layout {
    SourcePtr storage;
    std::uint64_t start = 0;  ///< byte of the first element
    std::uint64_t width = 0;  ///< bytes of an element
    std::uint64_t size = 0;   ///< logical bytes
    std::vector<StridedDim> dims;
  };
  /// REQUIRES: every element lies inside the storage; sizes are positive.
  explicit GatherSource(Layout layout);
  ~GatherSource() override;

  std::uint64_t size() const override { return layout_.size; }
  void read(std::uint64_t offset, MutableBytes out) const override;
  void require_unchanged() const override { layout_.storage->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { layout_.storage->visit_checked(see); }

 private:
  bool is_in_runs() const;
  void read_runs(std::uint64_t offset, MutableBytes out) const;
  void gather_rows(std::uint64_t piece, std::uint64_t first, MutableBytes out) const;
  bool lies_close(std::uint64_t rows, std::uint64_t length) const;
  void copy_from_cache(std::uint64_t piece, std::uint64_t begin, MutableBytes out) const;
  bool let_go() const override;

  Layout layout_;
  std::size_t split_ = 0;             ///< the dimension whose rows make a piece; outer ones are fixed in a piece
  std::uint64_t rows_ = 1;            ///< rows of it in a piece
  std::uint64_t pieces_per_row_ = 1;  ///< pieces along that dimension
  mutable std::mutex mutex_;
  mutable core::ByteVector cache_;
  mutable std::uint64_t cached_ = UINT64_MAX;
  mutable std::uint64_t served_ = 0;  ///< bytes of cache_ handed out: all of them means that its readers are done
};

}  // namespace ckpt::detail
