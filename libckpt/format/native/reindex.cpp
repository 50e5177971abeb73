#include "libckpt/reindex.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "libckpt/format/hdf5_write/hdf5_types.h"
#include "libckpt/format/native/hdf5_side.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/native/opened_file.h"
#include "libckpt/format/native/parity_writer.h"
#include "libckpt/format/native/reindex_tree.h"
#include "libckpt/hdf5/dataset_source.h"
#include "libckpt/hdf5/tensor_type.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace detail {
namespace {

using core::Error;
using core::ErrorCode;

/// Where the bytes of a dataset begin in the file; nullopt for one without any.
std::optional<std::uint64_t> place_of(const Hdf5Dataset& dataset) {
  if (dataset.size == 0) return std::nullopt;
  if (dataset.layout == kLayoutContiguous) return dataset.offset;
  if (dataset.layout == kLayoutChunked && !dataset.chunks.empty()) return dataset.chunks.front().offset;
  return std::nullopt;
}

class Reindexer {
 public:
  Reindexer(const std::filesystem::path& path, const ReindexOptions& options)
      : options_(options), input_{path, open_file(path), {}, nullptr} {
    input_.head.resize(std::min<std::uint64_t>(4096, input_.file->size()));
    input_.file->read(0, input_.head);
    if (!detect_native(input_)) {
      throw Error(ErrorCode::unsupported, "only native files (.ckpt) have an index; this is not one");
    }
    file_ = open_edited_native(input_, options.limits);
    if (!file_->index.files.empty()) {
      throw Error(ErrorCode::unsupported, "some of its tensors lie in " + core::quote(file_->index.files[0]) +
                                              "; make a whole file of it first, by converting it to .ckpt");
    }
    index_ = read_index_side(file_->index, options.limits);
    hdf5_ = read_hdf5_side(*input_.file, {options.limits, options.unsandboxed});
    for (const std::string& text : unconfined_warnings(hdf5_.tree->layers)) warn(text);
    if (hdf5_.tree->user_block != file_->header.user_block) {
      throw Error(ErrorCode::corrupt, "the HDF5 part begins elsewhere than the header says");
    }
    sources_.emplace(input_.file);
  }

  ReindexResult run(Checkpoint& made) {
    match();
    note_others();
    make_storages();
    std::vector<TensorChange> changes;
    for (std::size_t i = 0; i < index_.tensors.size(); ++i) changes.push_back(change_of(i));
    made.root = rebuild_tree(index_.root, changes, std::move(added_));
    made.metadata = file_->index.metadata;
    keep_parity(made);
    result_.tensors = list_entries(made.root).size();
    result_.needed = !result_.changed.empty() || !result_.renamed.empty() || !result_.added.empty() ||
                     !result_.removed.empty() || is_stale();
    return std::move(result_);
  }

 private:
  struct Match {
    const Hdf5Dataset* dataset = nullptr;
    std::string new_name;
    bool same_place = false;  ///< its bytes lie where the index says
    bool same_form = false;   ///< its type and shape are those of the index
    bool same_value = false;  ///< and so are its bytes
  };

  void keep_parity(Checkpoint& made) const {
    if (!file_->index.parity) return;
    auto detail = std::make_shared<NativeDetail>();
    detail->parity = file_->index.parity->share;
    made.detail = std::move(detail);
  }

  bool is_stale() const {
    return input_.file->size() != file_->header.user_block + file_->header.body_size ||
           find_stale_range(*file_) != nullptr;
  }

  const Payload& payload_of(const IndexedTensor& tensor) const {
    return file_->index.payloads.at(tensor.record.window->payload);
  }
  std::uint64_t place_of_old(const IndexedTensor& tensor) const {
    return file_->header.user_block + payload_of(tensor).offset + tensor.record.window->offset;
  }
  /// The tensor is all of its payload, so the payload's hash is that of the tensor.
  bool is_whole(const IndexedTensor& tensor) const {
    return tensor.record.window->offset == 0 && tensor.named.entry->numel() > 0 &&
           core::byte_size(tensor.named.entry->dtype, tensor.named.entry->numel()) == payload_of(tensor).size;
  }

  // --- Which dataset is which tensor.

  void match() {
    matches_.resize(index_.tensors.size());
    std::multimap<std::uint64_t, std::size_t> missing;  // by place
    for (std::size_t i = 0; i < index_.tensors.size(); ++i) {
      const IndexedTensor& tensor = index_.tensors[i];
      if (!tensor.record.window) continue;
      auto at = hdf5_.datasets.find(tensor.path);
      if (at == hdf5_.datasets.end()) {
        missing.emplace(place_of_old(tensor), i);
      } else {
        matches_[i] = {at->second, tensor.named.name};
        hdf5_.datasets.erase(at);
      }
    }
    for (const auto& [path, dataset] : hdf5_.datasets) take_unknown(path, *dataset, missing);
    for (const auto& [place, i] : missing) removed_.insert(i);
    for (std::size_t i : removed_) result_.removed.push_back(index_.tensors[i].named.name);
    compare();
  }

  void take_unknown(const Hdf5Path& path, const Hdf5Dataset& dataset,
                    std::multimap<std::uint64_t, std::size_t>& missing) {
    std::string name = name_of_hdf5_path(path);
    std::optional<std::uint64_t> place = place_of(dataset);
    for (auto at = missing.find(place.value_or(UINT64_MAX)); at != missing.end() && at->first == place; ++at) {
      if (!has_form(index_.tensors[at->second], dataset)) continue;
      matches_[at->second] = {&dataset, name};
      result_.renamed.emplace_back(index_.tensors[at->second].named.name, name);
      missing.erase(at);
      return;
    }
    Hdf5TensorType type = hdf5_tensor_type(dataset);
    if (!type.dtype || !dataset.outside.empty()) {
      warn("the dataset " + core::quote(name) + " is not a tensor (" + dataset.type + ") and is left out");
      return;
    }
    auto entry = std::make_shared<Entry>();
    entry->dtype = *type.dtype;
    entry->shape = std::move(type.shape);
    entry->bytes = source_of(dataset);
    added_.push_back({name, std::move(entry)});
    result_.added.push_back(name);
  }

  /// Type and shape are what the tensor would be written with.
  static bool has_form(const IndexedTensor& tensor, const Hdf5Dataset& dataset) {
    const Entry& entry = *tensor.named.entry;
    Hdf5Form form = hdf5_form(entry.dtype, entry.shape);
    return dataset.is_tensor() && dataset.dims == form.dims && dataset.width == form.width &&
           (is_raw_in_hdf5(entry.dtype) ? dataset.dtype == core::DType::u8
                                        : core::is_quantized(entry.dtype) || dataset.dtype == entry.dtype);
  }

  void compare() {
    std::vector<char> same(matches_.size());
    auto hash_one = [&](std::size_t i) {
      const IndexedTensor& tensor = index_.tensors[i];
      if (matches_[i].dataset == nullptr || !is_whole(tensor) || !has_form(tensor, *matches_[i].dataset)) return;
      same[i] = static_cast<char>(hash128(*Hdf5Sources(input_.file).open(share(*matches_[i].dataset))) ==
                                  payload_of(tensor).hash);
    };
    parallel_for(matches_.size(), thread_count(options_.threads), hash_one);
    for (std::size_t i = 0; i < matches_.size(); ++i) {
      Match& match = matches_[i];
      if (match.dataset == nullptr) continue;
      const IndexedTensor& tensor = index_.tensors[i];
      match.same_form = has_form(tensor, *match.dataset);
      match.same_place = place_of(*match.dataset) == place_of_old(tensor);
      match.same_value = same[i] != 0 || match.dataset->size == 0 || (match.same_place && !is_whole(tensor));
      if (!match.same_form || !match.same_value) result_.changed.push_back(tensor.named.name);
    }
  }

  void note_others() const {
    for (const std::string& path : hdf5_.others) {
      warn(core::quote(path) + " lies outside the group \"data\" or is a link, and is left out");
    }
  }

  void warn(const std::string& text) const {
    if (options_.report != nullptr) options_.report->warnings.push_back(text);
  }

  // --- Bytes, and what was tied.

  std::shared_ptr<const Hdf5Dataset> share(const Hdf5Dataset& dataset) const {
    return std::shared_ptr<const Hdf5Dataset>(hdf5_.tree, &dataset);
  }

  /// Datasets over the same bytes get one source: that is what ties them. All chunks count: a program that changes one
  /// may have moved it for one dataset and not for its twin.
  SourcePtr source_of(const Hdf5Dataset& dataset) {
    if (!place_of(dataset)) return sources_->open(share(dataset));
    std::vector<std::uint64_t> places = {dataset.size, dataset.offset};
    for (const Hdf5Chunk& chunk : dataset.chunks)
      places.insert(places.end(), {chunk.number, chunk.offset, chunk.stored});
    SourcePtr& source = opened_[std::move(places)];
    if (source == nullptr) source = sources_->open(share(dataset));
    return source;
  }

  /// The storages that can still be given back: those that a dataset covers, and raw ones into which all tensors look
  /// from where they did.
  void make_storages() {
    storages_.resize(file_->index.storages.size());
    std::vector<char> moved(storages_.size());
    for (std::size_t i = 0; i < index_.tensors.size(); ++i) {
      const IndexedTensor& tensor = index_.tensors[i];
      if (!tensor.record.view || !tensor.record.window || matches_[i].dataset == nullptr) continue;
      std::uint32_t number = tensor.record.view->storage;
      const StorageRecord& record = file_->index.storages.at(number);
      bool own = tensor.record.window->payload != record.payload;  // a copy beside the storage
      moved[number] |= static_cast<char>(own ? !matches_[i].same_value : !matches_[i].same_place);
      if (!own && is_whole(tensor) && matches_[i].same_form && storages_[number] == nullptr) {
        storages_[number] = make_storage(record, source_of(*matches_[i].dataset));
        covered_.insert(number);
      }
    }
    for (std::uint32_t number = 0; number < storages_.size(); ++number) {
      if (covered_.contains(number) || moved[number] != 0) continue;
      const Payload& payload = file_->index.payloads.at(file_->index.storages[number].payload);
      bool there = payload.codec == NativeCodec::raw && payload.offset + payload.size <= file_->body->size();
      if (there)
        storages_[number] =
            make_storage(file_->index.storages[number], slice(file_->body, payload.offset, payload.size));
    }
  }

  static std::shared_ptr<const Storage> make_storage(const StorageRecord& record, SourcePtr bytes) {
    if (record.order) {
      auto payload = std::make_shared<const Storage>(Storage{record.order->dtype, bytes, record.location});
      bytes = gather(View{payload, 0, record.order->strides}, record.order->dtype, record.order->shape);
    }
    return std::make_shared<const Storage>(Storage{record.dtype, std::move(bytes), record.location});
  }

  // --- Entries.

  TensorChange change_of(std::size_t i) {
    const IndexedTensor& tensor = index_.tensors[i];
    TensorChange change{tensor.named.name, tensor.named.name, nullptr};
    if (removed_.contains(i)) return change;
    auto entry = std::make_shared<Entry>(*tensor.named.entry);
    if (matches_[i].dataset != nullptr) {
      fill_from_dataset(tensor, matches_[i], *entry);
      change.new_name = matches_[i].new_name;
    }
    restore_view(tensor, matches_[i], *entry);
    change.entry = std::move(entry);
    return change;
  }

  void fill_from_dataset(const IndexedTensor& tensor, const Match& match, Entry& entry) {
    entry.bytes = source_of(*match.dataset);
    if (match.same_form) return;
    Hdf5TensorType type = hdf5_tensor_type(*match.dataset);
    if (!type.dtype || !match.dataset->outside.empty()) {
      throw Error(ErrorCode::unsupported,
                  core::quote(tensor.named.name) + " is not a tensor any more but " + match.dataset->type);
    }
    entry.dtype = *type.dtype;
    entry.shape = std::move(type.shape);
    entry.conjugate = entry.negative = false;
  }

  void restore_view(const IndexedTensor& tensor, const Match& match, Entry& entry) {
    if (!tensor.record.view) return;
    const ViewRecord& record = *tensor.record.view;
    const std::shared_ptr<const Storage>& storage = storages_.at(record.storage);
    bool fits = storage != nullptr && (match.dataset == nullptr || match.same_form);
    if (fits) {
      entry.view = View{storage, record.offset, record.strides};
      SourcePtr gathered = gather(*entry.view, entry.dtype, entry.shape);
      if (entry.bytes == nullptr) entry.bytes = std::move(gathered);
    } else if (match.dataset != nullptr) {
      warn(core::quote(tensor.named.name) + " is not a view of a larger storage any more");
    } else {
      throw Error(ErrorCode::corrupt, core::quote(tensor.named.name) + " is a view of a storage that was changed");
    }
  }

  const ReindexOptions& options_;
  Input input_;
  std::shared_ptr<const OpenedNative> file_;
  IndexSide index_;
  Hdf5Side hdf5_;
  std::optional<Hdf5Sources> sources_;
  std::vector<Match> matches_;
  std::set<std::size_t> removed_;
  std::vector<NewTensor> added_;
  std::map<std::vector<std::uint64_t>, SourcePtr> opened_;
  std::vector<std::shared_ptr<const Storage>> storages_;
  std::set<std::uint32_t> covered_;
  ReindexResult result_;
};

}  // namespace
}  // namespace detail

ReindexResult reindex(const std::filesystem::path& path, const ReindexOptions& options) {
  return core::with_context(path.string(), [&] {
    Checkpoint made;
    ReindexResult result = detail::Reindexer(path, options).run(made);
    bool elsewhere = !options.output.empty();
    if (options.dry_run || (!result.needed && !elsewhere)) return result;
    SaveOptions save;
    save.overwrite = options.overwrite || !elsewhere;
    save.durable = options.durable;
    save.threads = options.threads;
    save.progress = options.progress;
    save.report = options.report;
    detail::write_native(made, elsewhere ? options.output : path, save);
    return result;
  });
}

}  // namespace ckpt
