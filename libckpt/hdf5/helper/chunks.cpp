#include "libckpt/hdf5/helper/chunks.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "libckpt/io/packed.h"
#include "libcore/base/checked_math.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kMaxPlaces = 1 << 24;  ///< places for chunks that are looked at, whether one is stored or not
constexpr std::uint64_t kFewPlaces = 1 << 12;
constexpr std::uint64_t kMaxListed = 1 << 12;  ///< chunks that are listed in quadratic time
constexpr std::size_t kMaxFilters = 32;        ///< the library's own limit
constexpr std::size_t kMaxClientValues = 64;
constexpr std::uint64_t kSuperblock = 48;  ///< bytes that the shortest one takes
constexpr unsigned kAllFilters = 0xffffffff;

/// Filters that need a parameter have the one that their writer uses, and no other.
void require_parameters(H5Z_filter_t id, std::span<const unsigned> values, std::uint64_t width) {
  constexpr unsigned kMaxLevel = 9;
  std::string found = values.empty() ? "nothing" : std::to_string(values[0]);
  if (id == H5Z_FILTER_DEFLATE && (values.size() != 1 || values[0] > kMaxLevel)) {
    throw Failure{kFailureCorrupt, "its deflate filter says " + found + " where a level of 0 to 9 was expected"};
  }
  if (id == H5Z_FILTER_SHUFFLE && (values.size() != 1 || values[0] != width)) {
    throw Failure{kFailureCorrupt, "its shuffle filter says " + found + " where the size of an element, " +
                                       std::to_string(width) + ", was expected"};
  }
}

void put_filters(hid_t list, std::uint64_t width, core::ByteVector& out) {
  int count = H5Pget_nfilters(list);
  if (count < 0 || static_cast<std::size_t>(count) > kMaxFilters) require_hdf5(-1, "the filters");
  put_count(out, static_cast<std::uint64_t>(count));
  for (int i = 0; i < count; ++i) {
    std::array<unsigned, kMaxClientValues> values{};
    std::size_t size = values.size();
    unsigned flags = 0;
    unsigned config = 0;
    std::array<char, 1> no_name{};
    H5Z_filter_t id =
        H5Pget_filter2(list, static_cast<unsigned>(i), &flags, &size, values.data(), 0, no_name.data(), &config);
    if (id < 0) require_hdf5(-1, "a filter");
    put_count(out, static_cast<std::uint64_t>(id));
    size = std::min(size, values.size());
    require_parameters(id, std::span(values).first(size), width);
    put_count(out, size);
    for (std::size_t v = 0; v < size; ++v) put_count(out, values[v]);
  }
}

class ChunkLister {
 public:
  ChunkLister(hid_t dataset, hid_t list, const std::vector<hsize_t>& dims, ReadOnlyFile& file)
      : dataset_(dataset), dims_(dims), chunk_(dims.size()), file_(file) {
    if (H5Pget_chunk(list, static_cast<int>(chunk_.size()), chunk_.data()) != static_cast<int>(chunk_.size())) {
      throw Failure{kFailureCorrupt, "the chunks have another number of dimensions than the dataset"};
    }
    unsigned options = 0;
    require_hdf5(H5Pget_chunk_opts(list, &options), "the options of chunks");
    filters_ = static_cast<unsigned>(std::max(H5Pget_nfilters(list), 0));
    partial_unfiltered_ = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (chunk_[d] == 0) throw Failure{kFailureCorrupt, "a chunk has a side of length zero"};
      grid_.push_back(dims[d] / chunk_[d] + (dims[d] % chunk_[d] != 0 ? 1 : 0));
    }
  }

  const std::vector<hsize_t>& chunk() const { return chunk_; }

  void list() {
    std::uint64_t places = 1;
    for (hsize_t count : grid_) {
      auto product = core::try_mul<std::uint64_t>(places, count);
      places = product.value_or(UINT64_MAX);
      if (count == 0) return;
    }
    Handle space(H5Dget_space(dataset_), H5Sclose);
    hsize_t stored = 0;
    require_hdf5(H5Dget_num_chunks(dataset_, space.get(), &stored), "the chunks");
    if (stored == 0) return;
    if (places <= kFewPlaces || places / 4 <= stored) {
      look_everywhere(places);
    } else if (stored <= kMaxListed) {
      look_at_listed(stored, space.get());
    } else {
      look_everywhere(places);
    }
    if (found_ == stored) return;
    throw Failure{kFailureCorrupt, "its index lists " + std::to_string(stored) + " chunks, and " +
                                       std::to_string(found_) + " of them are where it has places for them"};
  }

  std::uint64_t found() const { return found_; }
  const core::ByteVector& table() const { return table_; }

 private:
  void look_everywhere(std::uint64_t places) {
    if (places > kMaxPlaces) {
      throw Failure{kFailureRefused, "a dataset has places for " + std::to_string(places) + " chunks; the limit is " +
                                         std::to_string(kMaxPlaces)};
    }
    std::vector<hsize_t> corner(dims_.size(), 0);
    for (std::uint64_t i = 0; i < places; ++i) {
      look_at(i, corner);
      advance(corner);
    }
  }

  void look_at_listed(std::uint64_t stored, hid_t space) {
    std::vector<std::uint64_t> numbers;
    std::vector<hsize_t> corner(dims_.size(), 0);
    for (std::uint64_t i = 0; i < stored; ++i) {
      unsigned mask = 0;
      haddr_t address = 0;
      hsize_t size = 0;
      require_hdf5(H5Dget_chunk_info(dataset_, space, i, corner.data(), &mask, &address, &size), "a chunk");
      numbers.push_back(number_of(corner));
    }
    std::sort(numbers.begin(), numbers.end());
    for (std::uint64_t number : numbers) look_at(number, corner_of(number));
  }

  std::uint64_t number_of(const std::vector<hsize_t>& corner) const {
    std::uint64_t number = 0;
    for (std::size_t d = 0; d < corner.size(); ++d) {
      if (corner[d] >= dims_[d]) throw Failure{kFailureCorrupt, "a chunk lies outside its dataset"};
      number = number * grid_[d] + corner[d] / chunk_[d];
    }
    return number;
  }

  std::vector<hsize_t> corner_of(std::uint64_t number) const {
    std::vector<hsize_t> corner(dims_.size(), 0);
    for (std::size_t d = corner.size(); d-- > 0;) {
      corner[d] = number % grid_[d] * chunk_[d];
      number /= grid_[d];
    }
    return corner;
  }

  /// To the next chunk in row-major order.
  void advance(std::vector<hsize_t>& corner) const {
    for (std::size_t d = corner.size(); d-- > 0;) {
      corner[d] += chunk_[d];
      if (corner[d] < dims_[d]) return;
      corner[d] = 0;
    }
  }

  bool is_partial(const std::vector<hsize_t>& corner) const {
    for (std::size_t d = 0; d < corner.size(); ++d) {
      if (corner[d] + chunk_[d] > dims_[d]) return true;
    }
    return false;
  }

  /// 0 for a chunk that is not there. This version of the library calls that a failure.
  hsize_t stored_size(const std::vector<hsize_t>& corner) const {
    hsize_t size = 0;
    herr_t result = H5Dget_chunk_storage_size(dataset_, corner.data(), &size);
    if (result < 0 && hdf5_reason() == "chunk storage is not allocated") return 0;
    require_hdf5(result, "a chunk");
    return size;
  }

  void look_at(std::uint64_t number, const std::vector<hsize_t>& corner) {
    hsize_t size = stored_size(corner);
    if (size == 0) return;
    std::uint32_t mask = 0;
    char nothing = 0;  // the driver does not touch it
    file_.capture();
    herr_t result = H5Dread_chunk(dataset_, H5P_DEFAULT, corner.data(), &mask, &nothing);
    std::optional<ReadOnlyFile::Range> range = file_.captured();
    require_hdf5(result, "a chunk");
    if (!range || range->size != size) throw Failure{kFailureCorrupt, "a chunk is stored in no single place"};
    if (filters_ < 32 && mask >> filters_ != 0) {
      throw Failure{kFailureCorrupt, "a chunk leaves out filters that its dataset does not have"};
    }
    if (range->offset < kSuperblock) throw Failure{kFailureCorrupt, "a chunk lies upon the head of the file"};
    if (partial_unfiltered_ && is_partial(corner)) mask = kAllFilters;
    put_count(table_, number);
    put_count(table_, range->offset);
    put_count(table_, size);
    put_count(table_, mask);
    ++found_;
  }

  hid_t dataset_;
  const std::vector<hsize_t>& dims_;
  std::vector<hsize_t> chunk_;
  std::vector<hsize_t> grid_;  ///< number of chunks along each dimension
  ReadOnlyFile& file_;
  bool partial_unfiltered_ = false;
  unsigned filters_ = 0;
  core::ByteVector table_;
  std::uint64_t found_ = 0;
};

}  // namespace

void put_chunks(hid_t dataset, const ChunkedShape& shape, ReadOnlyFile& file, core::ByteVector& out) {
  ChunkLister lister(dataset, shape.list, shape.dims, file);
  lister.list();
  out.push_back(std::byte{kLayoutChunked});
  for (hsize_t size : lister.chunk()) put_count(out, size);
  put_filters(shape.list, shape.width, out);
  put_count(out, lister.found());
  core::append(out, lister.table());
}

}  // namespace ckpt::detail
