// Reed-Solomon over GF(2^8) by ISA-L. Its Cauchy matrix is used, every square part of which can be inverted: a matrix
// of powers (Vandermonde) cannot promise that at these sizes.

#include "libckpt/io/erasure_code.h"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <cassert>
#include <numeric>

#include "libcore/base/error.h"

namespace ckpt {
namespace {

using Rows = std::vector<unsigned char*>;

unsigned char* as_unsigned(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

Rows pointers(std::span<std::byte* const> rows) {
  Rows out;
  for (std::byte* row : rows) out.push_back(as_unsigned(row));
  return out;
}

Rows pointers(std::span<std::byte* const> rows, std::span<const unsigned> chosen) {
  Rows out;
  for (unsigned row : chosen) out.push_back(as_unsigned(rows[row]));
  return out;
}

constexpr int kTableBytes = 32;  ///< of one factor

/// Column by column, over all rows: hundreds of streams, which no processor reads ahead, and from rows of a round size
/// all in one set of its cache. So a few columns at a time are first brought together, row by row.
void multiply_rows(std::span<std::byte* const> rows, std::vector<unsigned char>& tables, Rows out, std::size_t length) {
  constexpr std::size_t kTile = 2048;
  constexpr std::size_t kStride = kTile + 64;
  core::ByteVector tile(rows.size() * kStride);
  Rows in;
  for (std::size_t r = 0; r < rows.size(); ++r) in.push_back(as_unsigned(tile.data() + r * kStride));
  for (std::size_t at = 0; at < length; at += kTile) {
    std::size_t part = std::min(kTile, length - at);
    for (std::size_t r = 0; r < rows.size(); ++r) std::copy_n(rows[r] + at, part, tile.data() + r * kStride);
    ec_encode_data(static_cast<int>(part), static_cast<int>(rows.size()), static_cast<int>(out.size()), tables.data(),
                   in.data(), out.data());
    for (unsigned char*& row : out) row += part;
  }
}

}  // namespace

ErasureCode::ErasureCode(unsigned data_rows, unsigned parity_rows)
    : data_rows_(data_rows), parity_rows_(parity_rows), generator_(std::size_t{data_rows} * (data_rows + parity_rows)) {
  assert(data_rows > 0 && parity_rows > 0 && data_rows + parity_rows <= kMaxRows);
  gf_gen_cauchy1_matrix(generator_.data(), static_cast<int>(data_rows + parity_rows), static_cast<int>(data_rows));
  std::vector<unsigned> rows(parity_rows);
  std::iota(rows.begin(), rows.end(), data_rows);
  parity_tables_ = tables_of(rows);
}

ErasureCode::Matrix ErasureCode::tables_of(std::span<const unsigned> rows) const {
  Matrix factors;
  factors.reserve(rows.size() * data_rows_);
  for (unsigned row : rows) {
    auto begin = generator_.begin() + static_cast<std::ptrdiff_t>(std::size_t{row} * data_rows_);
    factors.insert(factors.end(), begin, begin + data_rows_);
  }
  Matrix tables(factors.size() * kTableBytes);
  ec_init_tables(static_cast<int>(data_rows_), static_cast<int>(rows.size()), factors.data(), tables.data());
  return tables;
}

void ErasureCode::encode(std::span<std::byte* const> data, std::span<std::byte* const> parity,
                         std::size_t length) const {
  assert(data.size() == data_rows_ && parity.size() == parity_rows_);
  Matrix tables = parity_tables_;  // the library takes no const tables
  multiply_rows(data, tables, pointers(parity), length);
}

void ErasureCode::restore(std::span<std::byte* const> rows, std::span<const unsigned> lost, std::size_t length) const {
  assert(rows.size() == data_rows_ + parity_rows_ && lost.size() <= parity_rows_);
  std::vector<unsigned> data;
  std::vector<unsigned> parity;
  for (unsigned row : lost) (row < data_rows_ ? data : parity).push_back(row);
  if (!data.empty()) restore_data(rows, data, parity, length);
  if (!parity.empty()) multiply(rows, parity, pointers(rows, parity), length);
}

void ErasureCode::multiply(std::span<std::byte* const> rows, std::span<const unsigned> by, Rows out,
                           std::size_t length) const {
  Matrix tables = tables_of(by);
  multiply_rows(rows.first(data_rows_), tables, std::move(out), length);
}

/// Parity of the data that is there (the lost rows count as zeros), less the parity that was written, is what the lost
/// rows alone contribute: equations for as many unknowns.
void ErasureCode::restore_data(std::span<std::byte* const> rows, std::span<const unsigned> lost,
                               std::span<const unsigned> lost_parity, std::size_t length) const {
  std::size_t count = lost.size();
  std::vector<unsigned> used;
  for (unsigned row = data_rows_; used.size() < count; ++row) {
    if (!std::binary_search(lost_parity.begin(), lost_parity.end(), row)) used.push_back(row);
  }
  for (unsigned row : lost) std::fill_n(rows[row], length, std::byte{0});
  core::ByteVector sums(count * length);
  std::vector<std::byte*> sum_rows;
  for (std::size_t i = 0; i < count; ++i) sum_rows.push_back(sums.data() + i * length);
  multiply(rows, used, pointers(sum_rows), length);
  Matrix factors;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* written = rows[used[i]];
    for (std::size_t b = 0; b < length; ++b) sums[i * length + b] ^= written[b];
    for (unsigned column : lost) factors.push_back(generator_[std::size_t{used[i]} * data_rows_ + column]);
  }
  Matrix inverse(factors.size());
  if (gf_invert_matrix(factors.data(), inverse.data(), static_cast<int>(count)) != 0) {
    throw core::Error(core::ErrorCode::internal, "a part of the code's matrix cannot be inverted");
  }
  Matrix tables(inverse.size() * kTableBytes);
  ec_init_tables(static_cast<int>(count), static_cast<int>(count), inverse.data(), tables.data());
  multiply_rows(sum_rows, tables, pointers(rows, lost), length);
}

}  // namespace ckpt
