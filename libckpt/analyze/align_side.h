#pragma once
// One of the two files that align compares: its tensors, which of them are still open, and what their values prove. A
// tensor of one repeated value, and one whose values another tensor of the file has too, proves nothing.
// Thread safety: one owner; const functions may be called from many threads. Use: if (side.proves(i)) ...

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/io/checksum.h"

namespace ckpt::detail {

/// What the values of a tensor are, whatever its shape; constants are the same in every dtype.
struct Content {
  enum class Kind : std::uint8_t { nothing, constant, values };
  Kind kind = Kind::nothing;
  core::DType dtype = core::DType::f64;
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Content&) const = default;
};

class Side {
 public:
  /// `hashes` are those of the contents. Reads the beginning of every tensor, and all of those that are constant.
  Side(const std::vector<NamedEntry>& entries, std::vector<Hash128> hashes, unsigned threads);

  std::size_t size() const { return entries_.size(); }
  const std::string& name(std::size_t i) const { return entries_[i].name; }
  const Entry& entry(std::size_t i) const { return *entries_[i].entry; }
  const EntryPtr& entry_ptr(std::size_t i) const { return entries_[i].entry; }
  const Hash128& hash(std::size_t i) const { return hashes_[i]; }
  const Content& content(std::size_t i) const { return contents_[i]; }
  bool is_constant(std::size_t i) const { return contents_[i].kind != Content::Kind::values; }
  /// True when no other tensor of the file has these values, and they are not all the same.
  bool proves(std::size_t i) const { return proves_[i]; }

  bool used(std::size_t i) const { return used_[i]; }
  void use(std::size_t i);
  void release(std::size_t i);
  std::vector<std::size_t> open() const;
  /// How many open tensors have each dtype.
  const std::map<core::DType, std::size_t>& open_types() const { return open_types_; }
  /// True when the keys stand in the order of the alphabet, which says nothing about the model.
  bool is_sorted() const { return sorted_; }

 private:
  const std::vector<NamedEntry>& entries_;
  std::vector<Hash128> hashes_;
  std::vector<Content> contents_;
  std::vector<char> proves_;
  std::vector<char> used_;
  std::map<core::DType, std::size_t> open_types_;
  bool sorted_ = false;
};

/// The sizes above 1: what is left of a shape when a reshape may add or remove dimensions of size 1.
std::vector<std::int64_t> squeezed(const core::Shape& shape);

}  // namespace ckpt::detail
