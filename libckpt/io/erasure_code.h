#pragma once
// ErasureCode: a Reed-Solomon code. From k rows of bytes it makes m rows of parity, and any k of the k + m rows give
// back all the others. Bytes of different columns never mix, so rows may be worked on in parts.
// Thread safety: immutable; any number of threads. Use: ErasureCode code(200, 10); code.encode(data, parity, length);

#include <cstddef>
#include <span>
#include <vector>

#include "libcore/base/bytes.h"

namespace ckpt {

class ErasureCode {
 public:
  /// Rows are numbered by a byte.
  static constexpr unsigned kMaxRows = 255;

  /// REQUIRES: both positive, together at most kMaxRows.
  ErasureCode(unsigned data_rows, unsigned parity_rows);

  unsigned data_rows() const { return data_rows_; }
  unsigned parity_rows() const { return parity_rows_; }

  /// Fills the parity rows. All rows have `length` bytes (at most 2^31 - 1). Cost: some GB of data a second and core,
  /// falling with the number of parity rows.
  void encode(std::span<std::byte* const> data, std::span<std::byte* const> parity, std::size_t length) const;

  /// Fills the rows named in `lost` from the others; `rows` are the data rows and then the parity rows.
  /// REQUIRES: `lost` rises and names at most parity_rows() rows.
  void restore(std::span<std::byte* const> rows, std::span<const unsigned> lost, std::size_t length) const;

 private:
  using Matrix = std::vector<unsigned char>;
  using Rows = std::vector<unsigned char*>;
  /// The tables that multiply by these rows of the generator.
  Matrix tables_of(std::span<const unsigned> rows) const;
  /// The data rows times these rows of the generator.
  void multiply(std::span<std::byte* const> rows, std::span<const unsigned> by, Rows out, std::size_t length) const;
  void restore_data(std::span<std::byte* const> rows, std::span<const unsigned> lost,
                    std::span<const unsigned> lost_parity, std::size_t length) const;

  unsigned data_rows_;
  unsigned parity_rows_;
  Matrix generator_;  ///< data_rows_ + parity_rows_ rows of data_rows_ factors; its head is the identity
  Matrix parity_tables_;
};

}  // namespace ckpt
