#include "libckpt/format/dcp/chunk_source.h"

#include <algorithm>
#include <mutex>
#include <span>

#include "libckpt/entry.h"
#include "libckpt/io/checked_source.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

/// What is assembled at once: enough that each chunk has about a kilobyte of it, so that the work on a tensor is that
/// on its bytes however many chunks it has.
constexpr std::uint64_t kFromEach = 1024;
constexpr std::uint64_t kLeastPiece = 4 << 20;
constexpr std::uint64_t kMostPiece = 64 << 20;

/// One box as a sequence of runs: bytes that follow each other both in the box and in the tensor. Run i of the box lies
/// at i * run_length in its source; where it lies in the tensor grows with i.
class Runs {
 public:
  Runs(const core::Shape& shape, std::uint64_t width, SourceChunk chunk) : chunk_(std::move(chunk)) {
    const Box& box = chunk_.box;
    std::size_t rank = shape.size();
    std::size_t inner = rank;  // dimensions from here on are covered whole
    length_ = width;
    while (inner > 0 && box.sizes[inner - 1] == shape[inner - 1]) length_ *= extent(shape[--inner]);
    if (inner > 0) length_ *= extent(box.sizes[--inner]);
    std::uint64_t stride = width;
    for (std::size_t d = rank; d-- > 0;) {
      start_ += extent(box.offsets[d]) * stride;
      if (d < inner) outer_.insert(outer_.begin(), {extent(box.sizes[d]), stride});
      stride *= extent(shape[d]);
    }
    for (const Outer& dim : outer_) count_ *= dim.size;
    end_ = place(count_ - 1) + length_;
  }

  const ByteSource& bytes() const { return *chunk_.bytes; }
  const SourceChunk& chunk() const { return chunk_; }
  /// Of the first run in the tensor, and behind the last.
  std::uint64_t begin() const { return start_; }
  std::uint64_t end() const { return end_; }

  /// Copies what the box has of the bytes [begin, begin + out.size()) of the tensor.
  void copy(std::uint64_t begin, MutableBytes out, core::ByteVector& buffer) const {
    std::uint64_t end = begin + out.size();
    if (start_ >= end || end_ <= begin) return;
    std::uint64_t first = first_reaching(begin);
    std::uint64_t last = first_starting_at(end);  // one behind
    if (first >= last) return;
    std::uint64_t head = place(first) < begin ? begin - place(first) : 0;
    std::uint64_t tail = std::min(length_, end - place(last - 1));
    std::uint64_t from = first * length_ + head;
    std::uint64_t to = (last - 1) * length_ + tail;
    if (last - first == 1) return bytes().read(from, out.subspan(place(first) + head - begin, to - from));
    buffer.resize(to - from);
    bytes().read(from, buffer);
    for (std::uint64_t run = first; run < last; ++run) {
      std::uint64_t a = run == first ? head : 0;
      std::uint64_t b = run + 1 == last ? tail : length_;
      auto source = buffer.begin() + static_cast<std::ptrdiff_t>(run * length_ + a - from);
      std::copy_n(source, b - a, out.begin() + static_cast<std::ptrdiff_t>(place(run) + a - begin));
    }
  }

 private:
  struct Outer {
    std::uint64_t size;
    std::uint64_t stride;
  };
  static std::uint64_t extent(std::int64_t n) { return static_cast<std::uint64_t>(n); }

  /// Where run i begins in the tensor.
  std::uint64_t place(std::uint64_t run) const {
    std::uint64_t at = start_;
    for (std::size_t d = outer_.size(); d-- > 0;) {
      at += run % outer_[d].size * outer_[d].stride;
      run /= outer_[d].size;
    }
    return at;
  }
  /// The first run that ends behind `position`.
  std::uint64_t first_reaching(std::uint64_t position) const {
    return search([&](std::uint64_t run) { return place(run) + length_ > position; });
  }
  std::uint64_t first_starting_at(std::uint64_t position) const {
    return search([&](std::uint64_t run) { return place(run) >= position; });
  }
  template <class Test>
  std::uint64_t search(Test test) const {
    std::uint64_t low = 0;
    std::uint64_t high = count_;
    while (low < high) {
      std::uint64_t middle = low + (high - low) / 2;
      if (test(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  SourceChunk chunk_;
  std::uint64_t start_ = 0;   ///< of the first run in the tensor
  std::uint64_t length_ = 0;  ///< of a run
  std::uint64_t count_ = 1;
  std::uint64_t end_ = 0;
  std::vector<Outer> outer_;  ///< dimensions that are walked, outermost first
};

class ChunkSource final : public ByteSource {
 public:
  ChunkSource(std::uint64_t size, std::vector<Runs> chunks) : size_(size), chunks_(std::move(chunks)) {
    std::stable_sort(chunks_.begin(), chunks_.end(),
                     [](const Runs& a, const Runs& b) { return a.begin() < b.begin(); });
    reach_.reserve(chunks_.size());
    for (const Runs& chunk : chunks_) {
      interleaved_ |= !reach_.empty() && chunk.begin() < reach_.back();
      reach_.push_back(std::max(reach_.empty() ? 0 : reach_.back(), chunk.end()));
    }
    piece_ = std::clamp(chunks_.size() * kFromEach, kLeastPiece, kMostPiece);
  }

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size_ || out.size() > size_ - offset) {
      throw core::Error(core::ErrorCode::corrupt, "a read past the end of a sharded tensor");
    }
    while (!out.empty()) {
      std::uint64_t begin = offset / piece_ * piece_;
      std::uint64_t length = std::min(piece_, size_ - begin);
      std::uint64_t part = std::min<std::uint64_t>(begin + length - offset, out.size());
      if (!interleaved_ || part == length) {
        assemble(offset, out.first(part));
      } else {
        copy_from_cache({begin, length}, offset, out.first(part));
      }
      offset += part;
      out = out.subspan(part);
    }
  }
  void require_unchanged() const override {
    for (const Runs& chunk : chunks_) chunk.bytes().require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override {
    for (const Runs& chunk : chunks_) chunk.bytes().visit_checked(see);
  }
  const std::vector<Runs>& chunks() const { return chunks_; }

 private:
  struct Piece {
    std::uint64_t begin;
    std::uint64_t length;
  };

  void assemble(std::uint64_t offset, MutableBytes out) const {
    core::ByteVector buffer;
    for (const Runs& chunk : chunks_at(offset, out.size())) chunk.copy(offset, out, buffer);
  }

  /// Where every chunk has a little of each row, a small read would ask all of them for a few bytes each.
  void copy_from_cache(const Piece& piece, std::uint64_t offset, MutableBytes out) const {
    std::lock_guard lock(mutex_);
    if (cached_ != piece.begin) {
      cached_ = UINT64_MAX;
      cache_.resize(piece.length);
      assemble(piece.begin, cache_);
      cached_ = piece.begin;
    }
    std::copy_n(cache_.begin() + static_cast<std::ptrdiff_t>(offset - piece.begin), out.size(), out.begin());
    if (offset + out.size() < piece.begin + piece.length) return;
    cached_ = UINT64_MAX;  // read to its end: thousands of tensors must not each hold a piece
    cache_ = core::ByteVector();
  }

  /// The chunks that may have some of these bytes: a read of a few rows does not ask those of all others.
  std::span<const Runs> chunks_at(std::uint64_t offset, std::uint64_t size) const {
    auto first = std::upper_bound(reach_.begin(), reach_.end(), offset) - reach_.begin();
    auto behind = std::lower_bound(chunks_.begin(), chunks_.end(), offset + size,
                                   [](const Runs& chunk, std::uint64_t end) { return chunk.begin() < end; });
    return {chunks_.begin() + first, std::max(behind, chunks_.begin() + first)};
  }

  std::uint64_t size_;
  std::vector<Runs> chunks_;          ///< by where they begin
  std::vector<std::uint64_t> reach_;  ///< the end of each and of all before it
  bool interleaved_ = false;          ///< some chunk has bytes before and behind those of another
  std::uint64_t piece_ = kLeastPiece;
  mutable std::mutex mutex_;
  mutable std::uint64_t cached_ = UINT64_MAX;  ///< where the cached piece begins
  mutable core::ByteVector cache_;
};

/// The source of a tensor in chunks, made when it is needed: who only lists thousands of them reads none.
class LateChunks final : public ByteSource {
 public:
  LateChunks(std::uint64_t size, std::function<SourcePtr()> make) : size_(size), make_(std::move(make)) {}
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, MutableBytes out) const override { inner()->read(offset, out); }
  void require_unchanged() const override {
    if (SourcePtr made = known()) made->require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override {
    if (SourcePtr made = known()) made->visit_checked(see);
  }
  SourcePtr inner() const {
    std::lock_guard lock(mutex_);
    if (inner_ == nullptr) inner_ = make_();
    return inner_;
  }

 private:
  SourcePtr known() const {
    std::lock_guard lock(mutex_);
    return inner_;
  }
  std::uint64_t size_;
  std::function<SourcePtr()> make_;
  mutable std::mutex mutex_;
  mutable SourcePtr inner_;
};

/// A chunk without its check (PartCheck::left_out), which check_hashes and verify make.
class PartlyRead final : public ByteSource {
 public:
  explicit PartlyRead(SourcePtr whole) : whole_(std::move(whole)) {}
  std::uint64_t size() const override { return whole_->size(); }
  void read(std::uint64_t offset, MutableBytes out) const override { raw().read(offset, out); }
  Bytes memory() const override { return raw().memory(); }
  std::optional<FileRange> file_range() const override { return raw().file_range(); }
  void require_unchanged() const override { raw().require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override {
    if (&raw() == whole_.get()) whole_->visit_checked(see);
  }

 private:
  static bool are_same(const std::optional<FileRange>& a, const std::optional<FileRange>& b) {
    return a && b && a->fd == b->fd && a->offset == b->offset && a->length == b->length;
  }

  /// What is behind the check, where nothing but the check stands between the file and these bytes: they may as well be
  /// a transposed tensor, or of another byte order. Known once the chunk is open.
  const ByteSource& raw() const {
    std::call_once(opened_, [&] {
      whole_->read(0, {});
      whole_->visit_checked([&](const CheckedSource& checked) {
        const bool plain = are_same(checked.file_range(), whole_->file_range()) && !checked.checks_before_use();
        if (plain) raw_ = checked.raw();
      });
    });
    return raw_ != nullptr ? *raw_ : *whole_;
  }

  SourcePtr whole_;
  mutable std::once_flag opened_;
  mutable SourcePtr raw_;
};

bool meet(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.offsets.size(); ++d) {
    if (a.offsets[d] + a.sizes[d] <= b.offsets[d] || b.offsets[d] + b.sizes[d] <= a.offsets[d]) return false;
  }
  return true;
}

/// The part of a chunk that lies in `box`, placed as in a tensor that is the box alone.
SourceChunk part_in(const SourceChunk& chunk, core::DType dtype, const Box& box, PartCheck check) {
  std::size_t rank = box.sizes.size();
  SourceChunk part{{core::Shape(rank, 0), core::Shape(rank, 0)}, nullptr};
  const SourcePtr bytes = check == PartCheck::kept ? chunk.bytes : std::make_shared<PartlyRead>(chunk.bytes);
  View view{std::make_shared<Storage>(Storage{dtype, bytes, "cpu"}), 0, core::Shape(rank, 1)};
  for (std::size_t d = rank; d-- > 0;) {
    if (d + 1 < rank) view.strides[d] = view.strides[d + 1] * chunk.box.sizes[d + 1];
    std::int64_t begin = std::max(chunk.box.offsets[d], box.offsets[d]);
    std::int64_t end = std::min(chunk.box.offsets[d] + chunk.box.sizes[d], box.offsets[d] + box.sizes[d]);
    part.box.offsets[d] = begin - box.offsets[d];
    part.box.sizes[d] = std::max<std::int64_t>(end - begin, 0);
    view.offset += (begin - chunk.box.offsets[d]) * view.strides[d];
  }
  bool is_empty = core::try_numel(part.box.sizes.span()).value_or(0) == 0;
  part.bytes = is_empty ? nullptr : gather(view, dtype, part.box.sizes);
  if (part.box.sizes == chunk.box.sizes) part.bytes = chunk.bytes;
  return part;
}

}  // namespace

SourcePtr assemble_chunks(const core::Shape& shape, std::uint64_t width, std::vector<SourceChunk> chunks) {
  std::uint64_t size = core::try_numel(shape.span()).value_or(0) * width;
  std::erase_if(chunks, [](const SourceChunk& chunk) { return chunk.bytes == nullptr || chunk.bytes->size() == 0; });
  if (chunks.size() == 1 && chunks[0].bytes->size() == size) return chunks[0].bytes;
  std::vector<Runs> runs;
  runs.reserve(chunks.size());
  for (SourceChunk& chunk : chunks) runs.emplace_back(shape, width, std::move(chunk));
  return std::make_shared<ChunkSource>(size, std::move(runs));
}

SourcePtr assemble_when_read(const core::Shape& shape, std::uint64_t width,
                             std::function<std::vector<SourceChunk>()> make) {
  std::uint64_t size = core::try_numel(shape.span()).value_or(0) * width;
  return std::make_shared<LateChunks>(
      size, [shape, width, make = std::move(make)] { return assemble_chunks(shape, width, make()); });
}

SourcePtr read_box(const SourcePtr& bytes, core::DType dtype, const core::Shape& shape, const Box& box,
                   PartCheck check) {
  if (box.sizes == shape) return bytes;
  auto width = static_cast<std::uint64_t>(core::bit_width(dtype)) / 8;
  if (const auto* late = dynamic_cast<const LateChunks*>(bytes.get()))
    return read_box(late->inner(), dtype, shape, box, check);
  const auto* several = dynamic_cast<const ChunkSource*>(bytes.get());
  std::vector<SourceChunk> found;
  if (several == nullptr) {
    found.push_back(part_in({{core::Shape(shape.size(), 0), shape}, bytes}, dtype, box, check));
  } else {
    for (const Runs& runs : several->chunks()) {
      if (meet(runs.chunk().box, box)) found.push_back(part_in(runs.chunk(), dtype, box, check));
    }
  }
  if (found.empty()) return memory_source({});
  return assemble_chunks(box.sizes, width, std::move(found));
}

}  // namespace ckpt::detail
