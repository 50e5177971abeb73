#include "libckpt/format/native/verify_tree.h"

#include "libckpt/format/hdf5_write/hdf5_types.h"
#include "libckpt/format/native/hdf5_side.h"
#include "libckpt/hdf5/find_helper.h"
#include "libckpt/hdf5/wire.h"
#include "libckpt/hint.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;

constexpr std::uint32_t kShuffle = 2;
constexpr std::uint32_t kDeflate = 1;
constexpr std::uint32_t kZstd = 32015;

/// The HDF5 type under which a dtype is written.
DType visible_dtype(DType dtype) {
  if (dtype == DType::qint8) return DType::i8;
  if (dtype == DType::quint8) return DType::u8;
  if (dtype == DType::qint32) return DType::i32;
  return is_raw_in_hdf5(dtype) ? DType::u8 : dtype;
}

std::string type_difference(const Entry& entry, const Hdf5Dataset& dataset) {
  Hdf5Form form = hdf5_form(entry.dtype, entry.shape);
  if (!dataset.is_tensor() || dataset.big_endian || dataset.dtype != visible_dtype(entry.dtype)) {
    return "HDF5 shows another type (" + dataset.type + ")";
  }
  return dataset.dims == form.dims ? "" : "HDF5 shows another shape";
}

std::string filters_difference(const Payload& payload, const Hdf5Dataset& dataset) {
  std::vector<std::uint32_t> expected;
  if (is_shuffled(payload)) expected.push_back(kShuffle);
  expected.push_back(payload.codec == NativeCodec::gzip      ? kDeflate
                     : payload.codec == NativeCodec::fast    ? kFastFilter
                     : payload.codec == NativeCodec::delta   ? kDeltaFilter
                     : payload.codec == NativeCodec::trimmed ? kTrimmedFilter
                                                             : kZstd);
  std::vector<std::uint32_t> found;
  for (const Hdf5Filter& filter : dataset.filters) found.push_back(filter.id);
  return found == expected ? "" : "HDF5 shows other filters";
}

std::string chunks_difference(const Payload& payload, std::uint64_t begin, const Hdf5Dataset& dataset) {
  bool same = dataset.layout == kLayoutChunked && dataset.chunks.size() == payload.chunks.stored.size() &&
              dataset.chunk_bytes() == payload.chunks.chunk;
  std::uint64_t at = begin;
  for (std::size_t i = 0; same && i < dataset.chunks.size(); ++i) {
    const Hdf5Chunk& chunk = dataset.chunks[i];
    same = chunk.number == i && chunk.offset == at && chunk.stored == payload.chunks.stored[i] && chunk.skipped == 0;
    at += chunk.stored;
  }
  return same ? filters_difference(payload, dataset) : "HDF5 shows chunks in other places";
}

class ViewComparer {
 public:
  ViewComparer(const OpenedNative& file, const Limits& limits, VerifyResult& result)
      : file_(file), index_(read_index_side(file.index, limits)), result_(result) {}

  void compare(Hdf5Side side) {
    for (const IndexedTensor& tensor : index_.tensors) {
      if (!tensor.record.window || lies_elsewhere(tensor)) continue;
      auto at = side.datasets.find(tensor.path);
      if (at == side.datasets.end()) {
        add(tensor.named.name, "the index lists it and the HDF5 part does not");
        continue;
      }
      std::string text = difference(tensor, *at->second);
      if (!text.empty()) add(tensor.named.name, text + " than the index");
      side.datasets.erase(at);
    }
    for (const auto& [path, dataset] : side.datasets) {
      add(name_of_hdf5_path(path), "the HDF5 part lists it and the index does not");
    }
    for (const std::string& path : side.others) add(path, "it lies outside the group of tensors");
  }

 private:
  void add(std::string subject, std::string text) { result_.damage.push_back({std::move(subject), std::move(text)}); }

  /// HDF5 readers see it in the file that holds it.
  bool lies_elsewhere(const IndexedTensor& tensor) const {
    return file_.index.payloads.at(tensor.record.window->payload).codec == NativeCodec::elsewhere;
  }

  std::string difference(const IndexedTensor& tensor, const Hdf5Dataset& dataset) const {
    const Payload& payload = file_.index.payloads.at(tensor.record.window->payload);
    std::string found = type_difference(*tensor.named.entry, dataset);
    if (!found.empty() || dataset.size == 0) return found;
    std::uint64_t begin = file_.header.user_block + payload.offset + tensor.record.window->offset;
    if (is_packed(payload)) return chunks_difference(payload, begin, dataset);
    bool same = dataset.layout == kLayoutContiguous && dataset.offset == begin;
    return same ? "" : "HDF5 shows its bytes in another place";
  }

  const OpenedNative& file_;
  IndexSide index_;
  VerifyResult& result_;
};

}  // namespace

void compare_views(const OpenedNative& file, const Input& input, const OpenOptions& options, VerifyResult& result) {
  if (!try_find_hdf5_helper()) {
    result.notes.push_back({"HDF5 part", "not compared with the index: the helper program ckpt-hdf5 is not there"});
    return;
  }
  ViewComparer comparer(file, options.limits, result);
  try {
    Hdf5Side side = read_hdf5_side(*input.file, {options.limits, options.unsandboxed});
    for (std::string& text : unconfined_warnings(side.tree->layers)) {
      if (options.report != nullptr) options.report->warnings.push_back(std::move(text));
    }
    comparer.compare(std::move(side));
  } catch (const UnconfinedHelper& error) {
    result.notes.push_back({"HDF5 part", "not compared with the index: " + error.message(), error.hint()});
  } catch (const core::Error& error) {
    if (error.code() == core::ErrorCode::io) throw;
    result.damage.push_back({"HDF5 part", error.message(), hint_of(error)});
  }
}

}  // namespace ckpt::detail
