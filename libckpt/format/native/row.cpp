// The tensors of a native file as a row: what they are, read from the index, and nothing made for any of them.

#include <algorithm>

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

void require(bool fits) {
  if (!fits) throw NoRow{};
}

class RowBuilder {
 public:
  RowBuilder(const NativeIndex& index, const Limits& limits, TensorRow& row)
      : index_(index), limits_(limits), row_(row) {}

  /// Takes a tensor and its name.
  bool take(ByteCursor& in) {
    const std::uint64_t begin = in.position();
    if (in.take<std::uint8_t>() == kTagText) {
      const std::string_view name = core::as_text(take_run(in));
      if (in.take<std::uint8_t>() == kTagTensor) {
        take_tensor(name, in);
        return true;
      }
    }
    in.seek(begin);
    return false;
  }

 private:
  void take_tensor(std::string_view name, ByteCursor& in) {
    const auto flags = in.take<std::uint8_t>();
    require((flags & kEntryWindow) != 0 && (flags & (kEntryClass | kEntryAttributes)) == 0);
    const std::optional<core::DType> dtype = dtype_of_code(in.take<std::uint8_t>());
    const auto rank = in.take<std::uint8_t>();
    require(dtype && rank <= limits_.max_rank && row_.tensors.size() < limits_.max_tensors);
    require(name.size() <= limits_.max_name);
    RowTensor& tensor = row_.tensors.emplace_back();
    tensor.name = name;
    tensor.dtype = *dtype;
    tensor.rank = rank;
    tensor.parameter = (flags & kEntryParameter) != 0;
    tensor.requires_grad = (flags & kEntryRequiresGrad) != 0;
    tensor.conjugate = (flags & kEntryConjugate) != 0;
    tensor.negative = (flags & kEntryNegative) != 0;
    take_shape(tensor, in);
    tensor.location = core::as_text(take_run(in));
    const Payload& payload = take_window(tensor, in);
    tensor.source = tensor.storage = &payload;
    if ((flags & kEntryView) != 0) tensor.storage = take_view(tensor, payload, in);
  }

  void take_shape(RowTensor& tensor, ByteCursor& in) {
    tensor.first_size = row_.sizes.size();
    for (std::size_t d = 0; d < tensor.rank; ++d) {
      const std::uint64_t size = take_count(in);
      require(size <= INT64_MAX);
      row_.sizes.push_back(static_cast<std::int64_t>(size));
    }
    const std::optional<std::uint64_t> numel = core::try_numel(row_.shape(tensor));
    const std::optional<std::uint64_t> bytes = numel ? core::byte_size(tensor.dtype, *numel) : std::nullopt;
    require(bytes.has_value());
    tensor.bytes = *bytes;
  }

  const Payload& take_window(const RowTensor& tensor, ByteCursor& in) const {
    const std::uint64_t number = take_count(in);
    require(number < index_.payloads.size());
    const Payload& payload = index_.payloads[number];
    require(take_count(in) == 0 && payload.size == tensor.bytes);
    return payload;
  }

  /// The storage of a view that shows all of it as it lies there.
  const StorageRecord* take_view(const RowTensor& tensor, const Payload& payload, ByteCursor& in) const {
    const std::uint64_t number = take_count(in);
    require(number < index_.storages.size());
    const StorageRecord& storage = index_.storages[number];
    require(!storage.order && &index_.payloads[storage.payload] == &payload);
    require(take_count(in) == 0);
    const core::Shape plain = core::contiguous_strides(core::Shape(row_.shape(tensor)));
    for (std::int64_t stride : plain) require(take_count(in) == static_cast<std::uint64_t>(stride));
    return &storage;
  }

  const NativeIndex& index_;
  const Limits& limits_;
  TensorRow& row_;
};

}  // namespace

std::optional<Value> build_row(const OpenedNative& file, const Limits& limits, TensorRow& row) {
  if (!file.index.files.empty()) return std::nullopt;  // whether those are there is seen when they are opened
  RowBuilder builder(file.index, limits, row);
  const std::uint64_t most = std::min<std::uint64_t>(file.index.payloads.size(), limits.max_tensors);
  row.tensors.reserve(most);
  row.sizes.reserve(2 * most);  // most weights are matrices
  const EntryCompleter refuse = [](const EntryRecord& /*record*/, Entry& /*entry*/) { throw NoRow{}; };
  try {
    return decode_tree(file.index.tree.bytes(), refuse, limits, [&](ByteCursor& in) { return builder.take(in); });
  } catch (const NoRow&) {
  } catch (const core::Error&) {  // said by build_tree(), which looks at things in another order
  }
  row = {};
  return std::nullopt;
}

}  // namespace ckpt::detail
