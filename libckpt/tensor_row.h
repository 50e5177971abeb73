#pragma once
// TensorRow: the tensors of a checkpoint as a list shows them, read one after the other from where they stand in the
// file's index, so that nothing is made for any of them. Of 100,000 tensors memory that is touched for the first time
// costs more than reading them twice. Internal to libckpt and its tools. Thread safety: a filled row is immutable; a
// reader has one owner. Use: TensorRow row; Checkpoint rest = open_row("net.ckpt", {}, row);
// RowReader reader(row); while (const RowTensor* tensor = reader.next()) std::puts(std::string(tensor->name).c_str());

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "libckpt/budget.h"
#include "libckpt/checkpoint.h"
#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/shared_bytes.h"
#include "libckpt/options.h"

namespace ckpt::detail {

/// A tensor in the top dict that is all of a run of bytes in row-major order, and no subclass.
struct RowTensor {
  std::string_view name;                ///< valid as long as the row, as is the location
  std::string_view location;            ///< device tag
  std::span<const std::int64_t> shape;  ///< valid until the next one is taken
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
  std::uint64_t storage = 0;  ///< not zero; what tied tensors have in common
  std::uint64_t source = 0;   ///< not zero; what tensors over the same bytes have in common
  core::DType dtype = core::DType::u8;
  bool parameter = false;
  bool requires_grad = false;
  bool conjugate = false;
  bool negative = false;
  bool as_before = false;  ///< as the one before but for name, storage and source
};

struct TensorRow {
  /// Tensors one behind the other, none of anything else between them.
  struct Run {
    std::uint64_t begin = 0;  ///< in the tree
    std::uint64_t count = 0;
  };

  SharedBytes tree;  ///< as the native format keeps it
  std::vector<Run> runs;
  std::uint64_t count = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;       ///< of all, those of tied tensors several times
  std::uint64_t name_bytes = 0;  ///< of all names
  bool all_differ = true;        ///< storages and sources; false says nothing

  bool empty() const { return count == 0; }
};

/// Takes a tensor, of which nothing is believed, out of a tree (format/native/row.cpp).
class RowDecoder {
 public:
  // False, and `in` is anywhere, where there is no tensor under a name, and one that is no RowTensor. Errors:
  // Error(corrupt) where `in` ends.
  bool take_name(ByteCursor& in);
  bool take_tensor(ByteCursor& in);
  const RowTensor& tensor() const { return tensor_; }
  std::uint64_t payload() const { return payload_; }  ///< number of that of the last one
  bool is_view() const { return is_view_; }
  std::uint64_t storage() const { return storage_; }  ///< number of that of a view

 private:
  bool take_kind(ByteCursor& in);
  bool take_shape(ByteCursor& in, std::size_t rank);
  bool take_view(ByteCursor& in);

  RowTensor tensor_;
  std::vector<std::int64_t> shape_;
  core::Bytes kind_;  ///< of the last one, where it stands: what as_before is about
  std::uint64_t payload_ = 0;
  std::uint64_t storage_ = 0;
  bool is_view_ = false;
};

class RowReader {
 public:
  /// REQUIRES: the row outlives it.
  explicit RowReader(const TensorRow& row) : row_(row), in_(row.tree.bytes(), "the tree of the index") {}
  /// The next one, valid until then; null behind the last one.
  const RowTensor* next();

 private:
  const TensorRow& row_;
  ByteCursor in_;
  std::size_t next_run_ = 0;
  std::uint64_t left_ = 0;  ///< of the run
  RowDecoder decoder_;
};

/// open(), which gives all tensors of a native file into `row` where each of them is such a one: the checkpoint's top
/// dict then lacks them, and its detail knows none. Else, and of other formats, the row stays empty. Errors: those of
/// open().
Checkpoint open_row(const std::filesystem::path& path, const OpenOptions& options, TensorRow& row);

/// within_budget() of budget.h, for which the tensors of `row` are items of the root.
Value within_budget(const Value& root, const TensorRow& row, const ByteSource& file, Budget& budget);

}  // namespace ckpt::detail
