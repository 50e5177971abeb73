#include "libckpt/format/torch/cut_archive.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/budget.h"
#include "libckpt/checkpoint.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/io/byte_swap.h"
#include "libckpt/io/patched_source.h"
#include "libckpt/io/zip_salvage.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

/// The storages that a pickle asks for, in their order, before anything is known of the file.
class AskedStorages final : public StorageProvider {
 public:
  std::shared_ptr<const Storage> provide(const StorageRequest& request) override {
    auto [at, fresh] = sizes_.try_emplace(request.key, request.bytes);
    if (fresh) order_.push_back(request.key);
    core::DType dtype = request.untyped ? core::DType::u8 : request.dtype;
    return std::make_shared<const Storage>(Storage{dtype, missing_source(request.bytes, ""), request.location});
  }
  const std::vector<std::string>& order() const { return order_; }
  std::optional<std::uint64_t> size_of(const std::string& key) const {
    auto at = sizes_.find(key);
    return at == sizes_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  std::vector<std::string> order_;
  std::unordered_map<std::string, std::uint64_t> sizes_;
};

const FoundRecord* find_record(const std::vector<FoundRecord>& records, const std::string& name) {
  for (const FoundRecord& record : records) {
    if (record.name == name) return &record;
  }
  return nullptr;
}

/// Storages of an archive of which some are missing.
class FoundStorages final : public StorageProvider {
 public:
  FoundStorages(SourcePtr file, const std::vector<FoundRecord>& records, std::string root, bool big_endian)
      : file_(std::move(file)), root_(std::move(root)), big_endian_(big_endian) {
    for (const FoundRecord& record : records) records_.emplace(record.name, &record);
  }

  std::shared_ptr<const Storage> provide(const StorageRequest& request) override {
    std::shared_ptr<const Storage>& known = known_[request.key];
    if (known == nullptr) {
      std::string fault = fault_of(request);
      SourcePtr bytes = fault.empty() ? bytes_of(request) : missing_source(request.bytes, fault);
      if (big_endian_) bytes = byte_swapped(std::move(bytes), swap_width(request.dtype));
      core::DType dtype = request.untyped ? core::DType::u8 : request.dtype;
      known = std::make_shared<const Storage>(Storage{dtype, std::move(bytes), request.location});
      if (!fault.empty()) missing_.insert(known.get());
    } else if (known->bytes->size() != request.bytes) {
      throw Error(ErrorCode::corrupt, "the storage " + core::quote("data/" + request.key) + " is used with two sizes");
    }
    return known;
  }
  bool is_missing(const void* storage) const { return missing_.contains(storage); }

 private:
  std::string fault_of(const StorageRequest& request) const {
    if (request.bytes == 0) return "";
    std::string name = "data/" + request.key;
    std::string subject = "the record " + core::quote(name);
    auto at = records_.find(root_ + name);
    if (at == records_.end()) return subject + " is not in the file, which is cut";
    if (!at->second->complete()) return subject + " is cut or its checksum is";
    return at->second->size == request.bytes ? "" : subject + " is of another size";
  }
  SourcePtr bytes_of(const StorageRequest& request) const {
    if (request.bytes == 0) return memory_source({});
    return record_bytes(file_, *records_.at(root_ + "data/" + request.key));
  }

  SourcePtr file_;
  std::string root_;
  bool big_endian_;
  std::unordered_map<std::string, const FoundRecord*> records_;
  std::unordered_map<std::string, std::shared_ptr<const Storage>> known_;
  std::unordered_set<const void*> missing_;
};

/// The folder of the record at the head of the file, with its slash; "" where no record in a folder stands there.
std::string root_folder(const ByteSource& file, const Limits& limits) {
  constexpr std::uint64_t kHeader = 30;
  if (file.size() < kHeader) return "";
  core::ByteVector head(kHeader);
  file.read(0, head);
  auto length = core::load_le<std::uint16_t>(head.data() + 26);
  if (!core::as_text(head).starts_with("PK\x03\x04") || length > limits.max_name || file.size() - kHeader < length) {
    return "";
  }
  core::ByteVector name(length);
  file.read(kHeader, name);
  std::string text(core::as_text(name));
  return text.substr(0, text.find('/') + 1);
}

class CutReader {
 public:
  CutReader(const SourcePtr& file, std::string root, const Limits& limits) : file_(file), root_(std::move(root)) {
    open_.limits = limits;
    open_.foreign_objects = true;
  }

  std::optional<CutArchive> run() {
    ZipReadOptions zip;
    zip.max_members = open_.limits.max_zip_members;
    zip.max_name = open_.limits.max_name;
    records_ =
        find_zip_records(*file_, zip, [this](const auto& name, const auto& found) { return guess(name, found); });
    looked_ = 0;  // of records with one name the last counts, so that their numbers are others now
    look_for_pickle(records_);
    if (!graph_ && is_npz()) return std::nullopt;
    if (!graph_)
      throw Error(ErrorCode::corrupt, "the record 'data.pkl', which says what the tensors are, is cut or missing");
    FoundStorages storages(file_, records_, root_, is_big_endian());
    CutArchive out;
    Budget budget(open_.limits, file_->size());
    Value root = within_budget(to_value(*graph_, storages, open_, SymbolCheck::refuse), *file_, budget);
    out.root = weights_alone(std::move(root));
    for (const NamedEntry& named : list_entries(out.root)) {
      ++out.tensors;
      bool lost = named.entry->view && storages.is_missing(named.entry->view->storage.get());
      out.whole += lost ? 0 : 1;
    }
    bool is_script = records_.front().name != root_ + "data.pkl";  // code follows there, of which nothing is known
    out.written = is_script ? 0 : size_when_written();
    return out;
  }

 private:
  /// The module of a TorchScript archive is no use without its program: its tensors are kept under their names.
  static Value weights_alone(Value root) {
    if (!root.is(Value::Kind::object) || !root.as_object().symbol.starts_with("__torch__.")) return root;
    Dict dict;
    for (const NamedEntry& named : list_entries(root)) {
      dict.items.emplace_back(Value::text(named.name), Value::tensor(named.entry));
    }
    return Value::dict(std::move(dict));
  }

  /// Storages are as large as the pickle says, which comes before them.
  std::optional<std::uint64_t> guess(const std::string& name, const std::vector<FoundRecord>& found) {
    std::string start = root_ + "data/";
    look_for_pickle(found);
    return graph_ && name.starts_with(start) ? asked_.size_of(name.substr(start.size())) : std::nullopt;
  }

  void look_for_pickle(const std::vector<FoundRecord>& found) {
    for (; !graph_ && looked_ < found.size(); ++looked_) {
      const FoundRecord& record = found[looked_];
      if (record.name == root_ + "data.pkl" && record.complete()) read_object_pickle(record);
    }
  }

  void read_object_pickle(const FoundRecord& pickle) {
    if (pickle.size > open_.limits.max_pickle_bytes) {
      throw Error(ErrorCode::refused, "the record 'data.pkl' holds " + core::format_size(pickle.size) +
                                          " where at most " + core::format_size(open_.limits.max_pickle_bytes) +
                                          " are accepted");
    }
    if (pickle.method == kZipDeflated) Budget(open_.limits, file_->size()).take_decoded("data.pkl", pickle.size);
    graph_ = read_pickle(read_all(*record_bytes(file_, pickle)), open_.limits);
    to_value(*graph_, asked_, open_, SymbolCheck::refuse);
  }

  /// Names of arrays may have folders, too.
  bool is_npz() const {
    return std::any_of(records_.begin(), records_.end(),
                       [&](const FoundRecord& record) { return record.name.ends_with(".npy"); });
  }

  bool is_big_endian() const {
    constexpr std::uint64_t kSmall = 64;
    const FoundRecord* order = find_record(records_, root_ + "byteorder");
    return order != nullptr && order->complete() && order->size < kSmall &&
           core::as_text(read_all(*record_bytes(file_, *order))) == "big";
  }

  /// What is there, what is missing, and the two records that PyTorch writes last.
  std::uint64_t size_when_written() const {
    std::vector<ZipItem> items;
    std::unordered_set<std::string> names;
    auto add = [&](const std::string& name, std::uint64_t size) {
      if (names.insert(name).second) items.push_back({name, missing_source(size, "")});
    };
    for (const FoundRecord& record : records_) {
      if (record.complete()) add(record.name, record.stored_size);
    }
    for (const std::string& key : asked_.order()) add(root_ + "data/" + key, *asked_.size_of(key));
    add(root_ + "version", 2);
    add(root_ + ".data/serialization_id", 40);
    return ZipWriter(std::move(items)).total_size();
  }

  SourcePtr file_;
  std::string root_;
  OpenOptions open_;
  AskedStorages asked_;
  std::vector<FoundRecord> records_;
  std::size_t looked_ = 0;
  std::optional<PickleGraph> graph_;
};

std::string begin_of_sentence(const ByteSource& file) {
  return "the file is cut off after " + core::format_count(file.size());
}

}  // namespace

std::optional<CutArchive> read_cut_archive(const SourcePtr& file, const Limits& limits) {
  std::string root = root_folder(*file, limits);
  if (root.empty()) return std::nullopt;
  return CutReader(file, std::move(root), limits).run();
}

std::optional<HintedError> cut_archive_error(const SourcePtr& file, const Limits& limits) {
  if (has_zip_end(*file)) return std::nullopt;
  try {
    std::optional<CutArchive> cut = read_cut_archive(file, limits);
    if (!cut) return std::nullopt;
    std::string of = cut->written > file->size() ? " of about " + core::format_count(cut->written) : "";
    std::string text = begin_of_sentence(*file) + of + " bytes: " + core::format_count(cut->whole) + " of " +
                       core::format_count(cut->tensors) + " tensors are whole";
    std::optional<Hint> hint;
    if (cut->whole > 0) hint = Hint{"{} saves those whose checksums match", {{Hint::Option::rescue}}};
    return HintedError(ErrorCode::corrupt, std::move(text), std::move(hint));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    std::string text = begin_of_sentence(*file) + " bytes: no tensor can be saved: " + error.message();
    return HintedError(ErrorCode::corrupt, std::move(text), hint_of(error));
  }
}

}  // namespace ckpt
