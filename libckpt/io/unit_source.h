#pragma once
// UnitSource: bytes that are computed in units, such as elements, rows or blocks, when they are read. A class that
// derives from it says how some units are computed; reads that begin or end within one are its business no more.
// Thread safety: as compute(), which many threads may call. Use: class Doubled final : public UnitSource { ... };

#include <cstdint>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

class UnitSource : public ByteSource {
 public:
  std::uint64_t size() const final { return count_ * unit_; }
  void read(std::uint64_t offset, MutableBytes out) const final;

 protected:
  /// `count` units of `unit` bytes, of which at most `at_once` are computed by one call.
  UnitSource(std::uint64_t count, std::uint64_t unit, std::uint64_t at_once)
      : count_(count), unit_(unit), at_once_(at_once == 0 ? 1 : at_once) {}

  std::uint64_t count() const { return count_; }
  std::uint64_t unit() const { return unit_; }

 private:
  /// Fills `units`, which is a whole number of them, from unit `first` on.
  virtual void compute(std::uint64_t first, MutableBytes units) const = 0;

  std::uint64_t count_;
  std::uint64_t unit_;
  std::uint64_t at_once_;
};

}  // namespace ckpt::detail
