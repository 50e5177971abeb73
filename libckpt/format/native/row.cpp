// The tensors of a native file as a row: what they are, read from the index, and nothing made for any of them.

#include <algorithm>

#include "libckpt/format/native/index_tables.h"
#include "libckpt/format/native/opened_file.h"
#include "libckpt/format/native/value_codec.h"
#include "libckpt/format/native/value_tags.h"
#include "libckpt/io/packed.h"
#include "libckpt/tensor_row.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

/// A tensor is there that is no RowTensor, or a wrong one.
struct NoRow {};

/// As memcmp(), without a call for the few bytes that most tensors have here. REQUIRES: as many of each.
bool same_bytes(core::Bytes a, core::Bytes b) {
  std::size_t i = 0;
  for (; a.size() - i >= 8; i += 8) {
    if (core::load_le<std::uint64_t>(a.data() + i) != core::load_le<std::uint64_t>(b.data() + i)) return false;
  }
  // The last eight once more, instead of the rest of them one by one.
  if (a.size() >= 8) {
    return core::load_le<std::uint64_t>(a.data() + a.size() - 8) ==
           core::load_le<std::uint64_t>(b.data() + a.size() - 8);
  }
  for (; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

void require(bool fits) {
  if (!fits) throw NoRow{};
}

class RowBuilder {
 public:
  RowBuilder(const TableRows& tables, const Limits& limits, TensorRow& row)
      : tables_(tables), limits_(limits), row_(row) {}

  /// Takes a tensor and its name.
  bool take(ByteCursor& in) {
    const std::uint64_t begin = in.position();
    if (!decoder_.take_name(in)) {
      in.seek(begin);
      return false;
    }
    require(decoder_.take_tensor(in));
    require_good();
    add(begin, in.position());
    return true;
  }

 private:
  void require_good() const {
    const RowTensor& tensor = decoder_.tensor();
    require(tensor.shape.size() <= limits_.max_rank && row_.count < limits_.max_tensors);
    require(tensor.name.size() <= limits_.max_name);
    require(decoder_.payload() < tables_.payload_count());
    require(tables_.size_of(decoder_.payload()) == tensor.bytes);
    if (!decoder_.is_view()) return;
    // The storage of a view that shows all of it as it lies there.
    require(decoder_.storage() < tables_.storage_payloads.size());
    require(tables_.storage_payloads[decoder_.storage()] == decoder_.payload());
  }

  void add(std::uint64_t begin, std::uint64_t end) {
    const RowTensor& tensor = decoder_.tensor();
    if (row_.runs.empty() || begin != end_) row_.runs.push_back({begin, 0});
    ++row_.runs.back().count;
    end_ = end;
    ++row_.count;
    row_.elements += tensor.elements;
    row_.bytes += tensor.bytes;
    row_.name_bytes += tensor.name.size();
    // A writer numbers them as it meets them, so numbers that come again do not rise.
    row_.all_differ = row_.all_differ && tensor.storage > last_storage_ && tensor.source > last_source_;
    last_storage_ = tensor.storage;
    last_source_ = tensor.source;
  }

  const TableRows& tables_;
  const Limits& limits_;
  TensorRow& row_;
  RowDecoder decoder_;
  std::uint64_t end_ = 0;  ///< of the last one, in the tree
  std::uint64_t last_storage_ = 0;
  std::uint64_t last_source_ = 0;
};

}  // namespace

bool RowDecoder::take_name(ByteCursor& in) {
  if (in.take<std::uint8_t>() != kTagText) return false;
  tensor_.name = core::as_text(take_run(in));
  return in.take<std::uint8_t>() == kTagTensor;
}

bool RowDecoder::take_tensor(ByteCursor& in) {
  if (!take_kind(in)) return false;
  payload_ = take_count(in);
  if (payload_ > UINT32_MAX || take_count(in) != 0) return false;
  tensor_.source = payload_ + 1;
  tensor_.storage = tensor_.source;
  return !is_view_ || take_view(in);
}

/// Flags to location. Most tensors are like the one before, in the same bytes.
bool RowDecoder::take_kind(ByteCursor& in) {
  const std::uint64_t begin = in.position();
  tensor_.as_before =
      !kind_.empty() && kind_.size() <= in.remaining() && same_bytes(in.take_bytes(kind_.size()), kind_);
  if (tensor_.as_before) return true;
  in.seek(begin);
  kind_ = {};
  const auto flags = in.take<std::uint8_t>();
  if ((flags & kEntryWindow) == 0 || (flags & (kEntryClass | kEntryAttributes)) != 0) return false;
  const std::optional<core::DType> dtype = dtype_of_code(in.take<std::uint8_t>());
  if (!dtype) return false;
  tensor_.dtype = *dtype;
  tensor_.parameter = (flags & kEntryParameter) != 0;
  tensor_.requires_grad = (flags & kEntryRequiresGrad) != 0;
  tensor_.conjugate = (flags & kEntryConjugate) != 0;
  tensor_.negative = (flags & kEntryNegative) != 0;
  is_view_ = (flags & kEntryView) != 0;
  if (!take_shape(in, in.take<std::uint8_t>())) return false;
  tensor_.location = core::as_text(take_run(in));
  const std::uint64_t end = in.position();
  in.seek(begin);
  kind_ = in.take_bytes(end - begin);
  return true;
}

bool RowDecoder::take_shape(ByteCursor& in, std::size_t rank) {
  shape_.clear();
  for (std::size_t d = 0; d < rank; ++d) {
    const std::uint64_t size = take_count(in);
    if (size > INT64_MAX) return false;
    shape_.push_back(static_cast<std::int64_t>(size));
  }
  tensor_.shape = shape_;
  const std::optional<std::uint64_t> numel = core::try_numel(shape_);
  const std::optional<std::uint64_t> bytes = numel ? core::byte_size(tensor_.dtype, *numel) : std::nullopt;
  if (!bytes) return false;
  tensor_.elements = *numel;
  tensor_.bytes = *bytes;
  return true;
}

/// Of row-major order, from the first element on.
bool RowDecoder::take_view(ByteCursor& in) {
  constexpr std::uint64_t kViews = 1ULL << 32;  // above all payloads
  storage_ = take_count(in);
  if (storage_ > UINT32_MAX || take_count(in) != 0) return false;
  tensor_.storage = kViews + 1 + storage_;
  const core::Shape plain = core::contiguous_strides(core::Shape(tensor_.shape));
  return std::ranges::all_of(plain, [&](std::int64_t s) { return take_count(in) == static_cast<std::uint64_t>(s); });
}

const RowTensor* RowReader::next() {
  if (left_ == 0) {
    if (next_run_ == row_.runs.size()) return nullptr;
    in_.seek(row_.runs[next_run_].begin);
    left_ = row_.runs[next_run_++].count;
  }
  --left_;
  decoder_.take_name(in_);  // as when the row was filled
  decoder_.take_tensor(in_);
  return &decoder_.tensor();
}

std::optional<Value> build_row(const SharedBytes& tree, const TableRows& tables, const Limits& limits, TensorRow& row) {
  RowBuilder builder(tables, limits, row);
  const EntryCompleter refuse = [](const EntryRecord& /*record*/, Entry& /*entry*/) { throw NoRow{}; };
  try {
    row.tree = tree;
    return decode_tree(tree.bytes(), refuse, limits, [&](ByteCursor& in) { return builder.take(in); });
  } catch (const NoRow&) {
  } catch (const core::Error&) {  // said by build_tree(), which looks at things in another order
  }
  row = {};
  return std::nullopt;
}

}  // namespace ckpt::detail
