#include "libckpt/format/dcp/chunks.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>

namespace ckpt::detail {
namespace {

constexpr std::string_view kNameHead = "__";
constexpr std::string_view kNameTail = ".distcp";
constexpr std::uint32_t kFilesOfRank = 1U << 11;
constexpr std::uint32_t kMostRanks = 1U << 19;

// In a row an even number is that of a file, counted from 1, and an odd one that of a name.
constexpr std::uint64_t of_number(std::uint32_t number) {
  return (std::uint64_t{number} + 1) * 2;
}
constexpr std::uint64_t of_name(std::size_t index) {
  return static_cast<std::uint64_t>(index) * 2 + 1;
}
std::uint32_t number_in(std::uint64_t file) {
  return static_cast<std::uint32_t>(file / 2 - 1);
}

std::string name_of(std::uint32_t number) {
  std::string name(kNameHead);
  name += std::to_string(number / kFilesOfRank) + "_" + std::to_string(number % kFilesOfRank);
  return name.append(kNameTail);
}

/// Digits at the head of `text`, which is cut behind them; nullopt where to_string() would write others.
std::optional<std::uint32_t> take_number(std::string_view& text, std::uint32_t most) {
  std::uint32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digits = static_cast<std::size_t>(end - text.data());
  const bool plain = error == std::errc() && value < most && (text[0] != '0' || digits == 1);
  if (!plain) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

}  // namespace

std::optional<std::uint32_t> DcpChunks::file_number(std::string_view name) {
  if (!name.starts_with(kNameHead) || !name.ends_with(kNameTail)) return std::nullopt;
  name.remove_prefix(kNameHead.size());
  std::optional<std::uint32_t> rank = take_number(name, kMostRanks);
  if (!rank || !name.starts_with('_')) return std::nullopt;
  name.remove_prefix(1);
  std::optional<std::uint32_t> file = take_number(name, kFilesOfRank);
  if (!file || name != kNameTail) return std::nullopt;
  return *rank * kFilesOfRank + *file;
}

void DcpChunks::shrink_to_fit() {
  narrow_.shrink_to_fit();
  wide_.shrink_to_fit();
}

void DcpChunks::push_back(const DcpChunk& chunk) {
  add_box(chunk.offsets.span(), chunk.sizes.span());
  if (chunk.place) set_place(count_ - 1, *chunk.place);
}

void DcpChunks::add_box(Numbers offsets, Numbers sizes) {
  if (count_ == 0) rank_ = offsets.size();
  const bool is_odd = offsets.size() != rank_ || sizes.size() != rank_;
  if (is_odd) odd_[count_] = {core::Shape(offsets), core::Shape(sizes)};
  for (Numbers numbers : {offsets, sizes}) {
    for (std::size_t d = 0; d < rank_; ++d) append(is_odd ? 0 : static_cast<std::uint64_t>(numbers[d]));
  }
  for (std::size_t i = 0; i < kPlaceNumbers; ++i) append(0);
  ++count_;
}

void DcpChunks::append(std::uint64_t value) {
  if (!is_wide_ && value > std::numeric_limits<std::uint32_t>::max()) widen();
  if (is_wide_) return wide_.push_back(value);
  narrow_.push_back(static_cast<std::uint32_t>(value));
}

void DcpChunks::widen() {
  is_wide_ = true;
  wide_.assign(narrow_.begin(), narrow_.end());
  narrow_ = {};
}

void DcpChunks::set_number(std::size_t i, std::size_t column, std::uint64_t value) {
  if (!is_wide_ && value > std::numeric_limits<std::uint32_t>::max()) widen();
  const std::size_t at = i * width() + column;
  if (is_wide_) {
    wide_[at] = value;
  } else {
    narrow_[at] = static_cast<std::uint32_t>(value);
  }
}

core::Shape DcpChunks::shape_at(std::size_t i, std::size_t column) const {
  core::Shape shape(rank_, 0);
  for (std::size_t d = 0; d < rank_; ++d) shape[d] = static_cast<std::int64_t>(number(i, column + d));
  return shape;
}

core::Shape DcpChunks::offsets(std::size_t i) const {
  auto odd = odd_.find(i);
  return odd == odd_.end() ? shape_at(i, 0) : odd->second.offsets;
}

core::Shape DcpChunks::sizes(std::size_t i) const {
  auto odd = odd_.find(i);
  return odd == odd_.end() ? shape_at(i, rank_) : odd->second.sizes;
}

bool DcpChunks::is_at(std::size_t i, Numbers offsets) const {
  if (!odd_.empty()) return std::ranges::equal(this->offsets(i).span(), offsets);
  if (offsets.size() != rank_) return false;
  for (std::size_t d = 0; d < rank_; ++d) {
    if (number(i, d) != static_cast<std::uint64_t>(offsets[d])) return false;
  }
  return true;
}

bool DcpChunks::comes_before(std::size_t i, std::size_t k) const {
  for (std::size_t d = 0; d < rank_; ++d) {
    if (number(i, d) != number(k, d)) return number(i, d) < number(k, d);
  }
  return false;
}

bool DcpChunks::are_apart() const {
  if (!odd_.empty()) return false;
  std::size_t ordered = 1;
  while (ordered < count_ && comes_before(ordered - 1, ordered)) ++ordered;
  if (ordered >= count_) return true;
  std::vector<std::size_t> order(count_);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [this](std::size_t i, std::size_t k) { return comes_before(i, k); });
  return std::ranges::adjacent_find(order, [this](std::size_t i, std::size_t k) { return !comes_before(i, k); }) ==
         order.end();
}

std::optional<DcpPlace> DcpChunks::place(std::size_t i) const {
  const std::uint64_t file = number(i, 2 * rank_);
  if (file == kNoFile) return std::nullopt;
  return DcpPlace{file % 2 == 0 ? name_of(number_in(file)) : names_[file / 2], number(i, 2 * rank_ + 1),
                  number(i, 2 * rank_ + 2)};
}

void DcpChunks::set_place(std::size_t i, const DcpPlace& place) {
  if (std::optional<std::uint32_t> known = file_number(place.file)) {
    return put_place(i, of_number(*known), place.offset, place.length);
  }
  if (names_.empty() || names_.back() != place.file) names_.push_back(place.file);
  put_place(i, of_name(names_.size() - 1), place.offset, place.length);
}

void DcpChunks::set_place(std::size_t i, std::uint32_t file_number, std::uint64_t offset, std::uint64_t length) {
  put_place(i, of_number(file_number), offset, length);
}

void DcpChunks::put_place(std::size_t i, std::uint64_t file, std::uint64_t offset, std::uint64_t length) {
  set_number(i, 2 * rank_, file);
  set_number(i, 2 * rank_ + 1, offset);
  set_number(i, 2 * rank_ + 2, length);
}

std::vector<Box> DcpChunks::boxes() const {
  std::vector<Box> boxes;
  boxes.reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) boxes.push_back({offsets(i), sizes(i)});
  return boxes;
}

}  // namespace ckpt::detail
