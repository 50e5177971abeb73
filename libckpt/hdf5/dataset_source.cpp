#include "libckpt/hdf5/dataset_source.h"

#include <algorithm>

#include "libckpt/budget.h"
#include "libckpt/hdf5/chunk_cache.h"
#include "libckpt/hdf5/filters.h"
#include "libckpt/hint.h"
#include "libckpt/io/byte_swap.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/file_source.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::Hdf5ChunkCache;

void require_inside(std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
  if (offset <= size && length <= size - offset) return;
  throw Error(ErrorCode::corrupt, "a read goes past the end of a dataset of " + std::to_string(size) + " bytes");
}

/// Fills `out` with a repeated pattern whose phase is that of byte `offset`; no pattern means zeros.
void fill_pattern(core::Bytes pattern, std::uint64_t offset, MutableBytes out) {
  if (pattern.empty()) return std::fill(out.begin(), out.end(), std::byte{0});
  std::size_t at = offset % pattern.size();
  for (std::byte& byte : out) {
    byte = pattern[at];
    at = at + 1 == pattern.size() ? 0 : at + 1;
  }
}

/// Nothing is stored: every element is the fill value.
class FillSource final : public ByteSource {
 public:
  FillSource(SourcePtr file, std::shared_ptr<const Hdf5Dataset> dataset)
      : file_(std::move(file)), dataset_(std::move(dataset)) {}
  std::uint64_t size() const override { return dataset_->size; }
  void read(std::uint64_t offset, MutableBytes out) const override {
    require_inside(size(), offset, out.size());
    fill_pattern(dataset_->fill, offset, out);
  }
  void require_unchanged() const override { file_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { file_->visit_checked(see); }

 private:
  SourcePtr file_;
  std::shared_ptr<const Hdf5Dataset> dataset_;
};

/// Bytes of the decoded chunks that are read before the first of them is needed again.
std::uint64_t row_of_chunks(const Hdf5Dataset& dataset) {
  std::size_t rank = dataset.dims.size();
  while (rank > 1 && dataset.dims[rank - 1] == dataset.chunk[rank - 1]) --rank;
  std::uint64_t row = dataset.chunk_bytes();
  for (std::size_t d = 1; d < rank; ++d) {
    std::uint64_t across = dataset.dims[d] / dataset.chunk[d] + (dataset.dims[d] % dataset.chunk[d] != 0 ? 1 : 0);
    row = core::try_mul(row, across).value_or(UINT64_MAX);
  }
  return row;
}

/// A dataset that can be listed but not decoded.
class RefusedSource final : public ByteSource {
 public:
  RefusedSource(const Hdf5Dataset& dataset, const std::string& reason, std::optional<Hint> hint)
      : size_(dataset.size),
        refusal_(ErrorCode::unsupported, "the dataset " + core::quote(dataset.path) + " cannot be read: " + reason,
                 std::move(hint)) {}
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t /*offset*/, MutableBytes out) const override {
    if (!out.empty()) throw HintedError(refusal_);
  }
  void require_unchanged() const override {}

 private:
  std::uint64_t size_;
  HintedError refusal_;
};

/// A dataset cut into chunks. Dimensions that every chunk spans whole are folded into the element, so that a run of
/// bytes of a chunk is as long as it can be.
class ChunkedSource final : public ByteSource, public detail::MadeOf {
 public:
  struct Parts {
    SourcePtr file;
    std::shared_ptr<const Hdf5Dataset> dataset;
    std::shared_ptr<Hdf5ChunkCache> cache;
    SeenDamage let_pass;  ///< null: a damaged chunk is an error
  };
  explicit ChunkedSource(Parts parts)
      : file_(std::move(parts.file)),
        dataset_(std::move(parts.dataset)),
        cache_(std::move(parts.cache)),
        let_pass_(std::move(parts.let_pass)) {
    dims_ = dataset_->dims;
    chunk_ = dataset_->chunk;
    width_ = dataset_->width;
    while (dims_.size() > 1 && dims_.back() == chunk_.back()) {
      width_ *= dims_.back();
      dims_.pop_back();
      chunk_.pop_back();
    }
    for (std::size_t d = 0; d < dims_.size(); ++d) grid_.push_back((dims_[d] + chunk_[d] - 1) / chunk_[d]);
    cache_->want_room(row_of_chunks(*dataset_));
  }

  std::uint64_t size() const override { return dataset_->size; }

  void read(std::uint64_t offset, MutableBytes out) const override {
    require_inside(size(), offset, out.size());
    while (!out.empty()) {
      Place place = place_of(offset);
      std::uint64_t part = std::min<std::uint64_t>(place.run, out.size());
      copy(place, offset, out.first(part));
      offset += part;
      out = out.subspan(part);
    }
  }
  void require_unchanged() const override { file_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { file_->visit_checked(see); }
  const ByteSource& made_of() const override { return *file_; }

 private:
  struct Place {
    std::uint64_t number = 0;  ///< of the chunk
    std::uint64_t offset = 0;  ///< in the chunk
    std::uint64_t run = 0;     ///< bytes that follow in the chunk and in the dataset alike
  };

  Place place_of(std::uint64_t offset) const {
    Place place;
    std::uint64_t within = offset % width_;
    std::uint64_t rest = offset / width_;
    std::uint64_t scale = 1;
    std::uint64_t stride = 1;
    for (std::size_t d = dims_.size(); d-- > 0;) {
      std::uint64_t at = rest % dims_[d];
      rest /= dims_[d];
      std::uint64_t local = at % chunk_[d];
      place.number += at / chunk_[d] * scale;
      place.offset += local * stride;
      scale *= grid_[d];
      stride *= chunk_[d];
      if (d + 1 == dims_.size()) place.run = std::min(chunk_[d] - local, dims_[d] - at);
    }
    place.offset = place.offset * width_ + within;
    place.run = place.run * width_ - within;
    return place;
  }

  void copy(const Place& place, std::uint64_t offset, MutableBytes out) const {
    constexpr std::uint64_t kWorthAlone = 4096;
    auto at = std::lower_bound(dataset_->chunks.begin(), dataset_->chunks.end(), place.number,
                               [](const Hdf5Chunk& chunk, std::uint64_t number) { return chunk.number < number; });
    if (at == dataset_->chunks.end() || at->number != place.number) return fill_pattern(dataset_->fill, offset, out);
    if (dataset_->filters.empty() && out.size() >= kWorthAlone) return file_->read(at->offset + place.offset, out);
    Hdf5ChunkCache::Chunk chunk = decoded(*at);
    std::copy_n(chunk->begin() + static_cast<std::ptrdiff_t>(place.offset), out.size(), out.begin());
  }

  Hdf5ChunkCache::Chunk decoded(const Hdf5Chunk& chunk) const {
    Hdf5ChunkCache::Key key{dataset_.get(), chunk.number};
    if (Hdf5ChunkCache::Chunk known = cache_->find(key)) return known;
    core::ByteVector stored(chunk.stored);
    file_->read(chunk.offset, stored);
    auto made = std::make_shared<const core::ByteVector>(
        core::with_context("the dataset " + core::quote(dataset_->path) + " is damaged", [&] {
          return detail::decode_chunk(std::move(stored), *dataset_,
                                      {.skipped = chunk.skipped, .let_pass = let_pass_.get()});
        }));
    cache_->keep(key, made);
    return made;
  }

  SourcePtr file_;
  std::shared_ptr<const Hdf5Dataset> dataset_;
  std::shared_ptr<Hdf5ChunkCache> cache_;
  SeenDamage let_pass_;
  std::vector<std::uint64_t> dims_;
  std::vector<std::uint64_t> chunk_;
  std::vector<std::uint64_t> grid_;
  std::uint64_t width_ = 1;
};

}  // namespace

std::string dataset_obstacle(const Hdf5Dataset& dataset) {
  return detail::filter_obstacle(dataset);
}

Hdf5Sources::Hdf5Sources(SourcePtr file, const Limits& limits, DamagedChunks damaged)
    : file_(std::move(file)), limits_(limits), damaged_(damaged), cache_(std::make_shared<Hdf5ChunkCache>()) {}
Hdf5Sources::~Hdf5Sources() = default;

/// A small file may not claim chunks that take memory for nothing, or that are decoded over and over.
std::string Hdf5Sources::expansion_obstacle(const Hdf5Dataset& dataset) const {
  if (dataset.layout != detail::kLayoutChunked || dataset.filters.empty()) return "";
  std::uint64_t chunk = dataset.chunk_bytes();
  std::uint64_t row = row_of_chunks(dataset);
  Budget budget(limits_, file_->size());
  std::string file = " where the file has only " + core::format_size(file_->size());
  if (budget.is_large_chunk(chunk)) return "its chunks are " + core::format_size(chunk) + " each when decoded," + file;
  bool scattered = row > Hdf5ChunkCache::kMaxRoom && budget.is_large_chunk(dataset.size);
  return scattered ? "its rows lie in chunks of " + core::format_size(row) + " when decoded," + file : "";
}

/// A chunk that does not decode, or whose checksum is another, is damage of this tensor.
SourcePtr Hdf5Sources::open_chunks(std::shared_ptr<const Hdf5Dataset> dataset) const {
  auto seen = std::make_shared<std::atomic<bool>>(false);
  ChunkedSource::Parts parts{file_, std::move(dataset), cache_, nullptr};
  if (damaged_ == DamagedChunks::pass_on) parts.let_pass = seen;
  return checked(std::make_shared<ChunkedSource>(std::move(parts)), seen,
                 {.subject = "a chunk is damaged", .lenient = damaged_ == DamagedChunks::pass_on});
}

SourcePtr Hdf5Sources::open(std::shared_ptr<const Hdf5Dataset> dataset) {
  SourcePtr source;
  unsigned width = dataset->big_endian && dataset->dtype ? swap_width(*dataset->dtype) : 0;
  std::string undecodable = detail::filter_obstacle(*dataset);
  std::string too_large = undecodable.empty() ? expansion_obstacle(*dataset) : "";
  if (dataset->size == 0) {
    return memory_source({});
  } else if (!undecodable.empty()) {
    return std::make_shared<RefusedSource>(*dataset, undecodable, std::nullopt);
  } else if (!too_large.empty()) {
    return std::make_shared<RefusedSource>(*dataset, too_large,
                                           Hint{"{} allows more", {{Hint::Option::max_expansion}}});
  } else if (dataset->layout == detail::kLayoutContiguous) {
    source = slice(file_, dataset->offset, dataset->size);
  } else if (dataset->layout == detail::kLayoutCompact) {
    source = memory_source(dataset->compact);
  } else if (dataset->layout == detail::kLayoutChunked) {
    source = open_chunks(dataset);
  } else {
    source = std::make_shared<FillSource>(file_, dataset);
  }
  return width == 0 ? source : byte_swapped(std::move(source), width);
}

}  // namespace ckpt
