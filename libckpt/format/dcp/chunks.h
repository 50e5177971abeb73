#pragma once
// DcpChunks: the boxes of one tensor and where each lies, packed. A training of thousands of ranks has millions of
// them, so each is a row of numbers, of 32 bits while all fit. Thread safety: plain value.
// Use: DcpChunks chunks; chunks.push_back({{0, 0}, {4, 5}, {}}); chunks.set_place(0, {"__0_0.distcp", 64, 80});

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/format/dcp/tiling.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

/// A range of one of the folder's files.
struct DcpPlace {
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// A box of a tensor.
struct DcpChunk {
  core::Shape offsets;
  core::Shape sizes;
  std::optional<DcpPlace> place;  ///< none for a chunk without elements that was not written
};

class DcpChunks {
 public:
  using Numbers = std::span<const std::int64_t>;

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// Gives back what was reserved and not used.
  void shrink_to_fit();
  void push_back(const DcpChunk& chunk);
  /// REQUIRES, here and below: i < size().
  DcpChunk operator[](std::size_t i) const { return {offsets(i), sizes(i), place(i)}; }
  core::Shape offsets(std::size_t i) const;
  core::Shape sizes(std::size_t i) const;
  std::optional<DcpPlace> place(std::size_t i) const;
  bool is_placed(std::size_t i) const { return number(i, 2 * rank_) != kNoFile; }
  void set_place(std::size_t i, const DcpPlace& place);
  /// Of all.
  std::vector<Box> boxes() const;

  // What reads millions of them has no shapes and no names.

  /// A number that stands for a file "__RANK_NUMBER.distcp"; nullopt for a name of another form, or with numbers past
  /// those of any save.
  static std::optional<std::uint32_t> file_number(std::string_view name);
  /// As push_back() of a box without a place.
  void add_box(Numbers offsets, Numbers sizes);
  bool is_at(std::size_t i, Numbers offsets) const;
  /// True where no two begin at the same place, as one without elements and its neighbour may.
  bool are_apart() const;
  void set_place(std::size_t i, std::uint32_t file_number, std::uint64_t offset, std::uint64_t length);

  /// Chunks one after the other, by value.
  class Iterator {
   public:
    Iterator(const DcpChunks& chunks, std::size_t at) : chunks_(&chunks), at_(at) {}
    DcpChunk operator*() const { return (*chunks_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const DcpChunks* chunks_;
    std::size_t at_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, count_}; }

 private:
  static constexpr std::uint64_t kNoFile = 0;
  static constexpr std::size_t kPlaceNumbers = 3;  ///< file, offset, length

  std::size_t width() const { return 2 * rank_ + kPlaceNumbers; }
  std::uint64_t number(std::size_t i, std::size_t column) const {
    const std::size_t at = i * width() + column;
    return is_wide_ ? wide_[at] : narrow_[at];
  }
  void set_number(std::size_t i, std::size_t column, std::uint64_t value);
  bool comes_before(std::size_t i, std::size_t k) const;
  void append(std::uint64_t value);
  void widen();
  core::Shape shape_at(std::size_t i, std::size_t column) const;
  void put_place(std::size_t i, std::uint64_t file, std::uint64_t offset, std::uint64_t length);

  std::size_t rank_ = 0;  ///< of the first, and of all that are not odd
  std::size_t count_ = 0;
  bool is_wide_ = false;
  std::vector<std::uint32_t> narrow_;  ///< rows: offsets, sizes, place
  std::vector<std::uint64_t> wide_;    ///< the same, once a number needs it
  std::map<std::size_t, Box> odd_;     ///< boxes of other ranks than the first, which only damaged files have
  std::vector<std::string> names_;     ///< of files without a number
};

}  // namespace ckpt::detail
