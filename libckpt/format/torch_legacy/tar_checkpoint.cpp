#include "libckpt/format/torch_legacy/tar_checkpoint.h"

#include <unordered_map>

#include "libckpt/format/torch/call_args.h"
#include "libckpt/format/torch/pickle_extent.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/io/tar.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt, what);
}

/// Pickles and numbers of a member, one after the other.
class MemberReader {
 public:
  MemberReader(const TarArchive& tar, std::string name, const OpenOptions& options, const TarPickleObserver& observer)
      : bytes_(tar.payload(*tar.find(name))), name_(std::move(name)), options_(options), observer_(observer) {}

  PickleGraph pickle() {
    PickleExtent extent = find_pickle_end(*bytes_, position_, options_.limits);
    std::uint64_t begin = position_;
    core::ByteVector bytes = take(extent.length);
    if (observer_) observer_(name_, begin, bytes);
    PickleGraph graph = read_pickle(std::move(bytes), options_.limits, PickleIds::tar);
    if (!extent.complete || graph.consumed() != extent.length) corrupt(extent.problem);
    return graph;
  }
  std::int64_t count() {
    PickleGraph graph = pickle();
    const PickleNode& node = graph.node(graph.root());
    if (node.kind != NodeKind::integer || node.integer < 0) {
      corrupt("a count is " + describe_node(graph, graph.root()));
    }
    return node.integer;
  }
  template <class T>
  T number() {
    return core::load_le<T>(take(sizeof(T)).data());
  }
  SourcePtr range(std::uint64_t length) {
    SourcePtr part = slice(bytes_, position_, length);
    position_ += length;
    return part;
  }
  std::uint64_t left() const { return bytes_->size() - position_; }
  void expect_end(const char* name) const {
    if (left() > 0) corrupt(core::format_size(left()) + " are left after the " + name);
  }

 private:
  core::ByteVector take(std::uint64_t length) {
    if (length > left())
      corrupt("the file is cut off: " + core::format_size(length) + " are needed, " + core::format_size(left()) +
              " are left");
    core::ByteVector bytes(length);
    bytes_->read(position_, bytes);
    position_ += length;
    return bytes;
  }

  SourcePtr bytes_;
  std::string name_;
  const OpenOptions& options_;
  const TarPickleObserver& observer_;
  std::uint64_t position_ = 0;
};

/// The members of a tuple or list.
CallArgs tuple_of(const PickleGraph& graph, NodeId id, const char* what) {
  bool is_tuple = graph.kind(id) == NodeKind::tuple || graph.kind(id) == NodeKind::list;
  if (!is_tuple) corrupt(std::string(what) + " is " + describe_node(graph, id));
  return {graph, what, graph.children(id)};
}

/// A storage, or the part of one that tensors see.
struct StoragePart {
  std::shared_ptr<const Storage> storage;
  std::int64_t offset = 0;
  std::int64_t size = 0;  ///< elements
};

class TarStorages final : public StorageProvider {
 public:
  TarStorages(const TarArchive& tar, const OpenOptions& options, const TarPickleObserver& observer)
      : options_(options) {
    core::with_context("storages", [&] { read_storages(MemberReader(tar, "storages", options, observer)); });
    core::with_context("tensors", [&] { read_tensors(MemberReader(tar, "tensors", options, observer)); });
  }

  std::shared_ptr<const Storage> provide(const StorageRequest& request) override {
    corrupt("the storage " + core::quote(request.key) + " is named as zip files do, in a tar archive");
  }
  EntryPtr numbered(std::int64_t number) override {
    auto found = tensors_.find(number);
    if (found == tensors_.end())
      corrupt("the object refers to tensor " + std::to_string(number) + ", which is not there");
    return found->second;
  }
  std::uint64_t count() const { return count_; }

 private:
  void read_storages(MemberReader in);
  void read_storage(MemberReader& in);
  void read_views(const PickleGraph& graph);
  void read_tensors(MemberReader in);
  void read_tensor(MemberReader& in);
  const StoragePart& part(std::int64_t key) const {
    auto found = parts_.find(key);
    if (found == parts_.end()) corrupt("storage " + std::to_string(key) + " is not there");
    return found->second;
  }

  const OpenOptions& options_;
  std::unordered_map<std::int64_t, StoragePart> parts_;
  std::unordered_map<std::int64_t, EntryPtr> tensors_;
  std::uint64_t count_ = 0;
};

void TarStorages::read_storages(MemberReader in) {
  for (std::int64_t left = in.count(); left > 0; --left) read_storage(in);
  read_views(in.pickle());
  in.expect_end("list of views");
}

/// (key, location, storage class), a count, the elements.
void TarStorages::read_storage(MemberReader& in) {
  PickleGraph graph = in.pickle();
  CallArgs head = tuple_of(graph, graph.root(), "a storage");
  head.expect(3, 3);
  std::optional<core::DType> dtype = storage_class_dtype(head.symbol_at(2).full);
  if (!dtype) head.fail(2, "a storage class");
  auto count = in.number<std::int64_t>();
  std::optional<std::uint64_t> size;
  if (count >= 0) size = core::byte_size(*dtype, static_cast<std::uint64_t>(count));
  if (!size || *size > in.left()) {
    corrupt("a storage says that it has " + std::to_string(count) + " elements where " + core::format_size(in.left()) +
            " are left");
  }
  auto storage = std::make_shared<Storage>();
  storage->dtype = *dtype;
  storage->location = head.text(1);
  storage->bytes = in.range(*size);
  if (!parts_.emplace(head.integer(0), StoragePart{storage, 0, count}).second) {
    corrupt("storage " + std::to_string(head.integer(0)) + " is there twice");
  }
  ++count_;
}

/// [(key of the view, key of the storage, offset, size)]
void TarStorages::read_views(const PickleGraph& graph) {
  CallArgs views = tuple_of(graph, graph.root(), "the list of views");
  for (NodeId id : views.ids()) {
    CallArgs view = tuple_of(graph, id, "a view");
    view.expect(4, 4);
    StoragePart root = part(view.integer(1));
    std::int64_t offset = view.integer(2);
    std::int64_t size = view.integer(3);
    if (offset < 0 || size < 0 || offset > root.size || size > root.size - offset) {
      corrupt("a view of " + std::to_string(size) + " elements at " + std::to_string(offset) +
              " reaches outside of its storage of " + std::to_string(root.size));
    }
    if (!parts_.emplace(view.integer(0), StoragePart{root.storage, root.offset + offset, size}).second) {
      corrupt("storage " + std::to_string(view.integer(0)) + " is there twice");
    }
  }
}

void TarStorages::read_tensors(MemberReader in) {
  for (std::int64_t left = in.count(); left > 0; --left) {
    if (tensors_.size() >= options_.limits.max_tensors) {
      throw Error(ErrorCode::refused, "the file has more tensors than allowed");
    }
    read_tensor(in);
  }
  in.expect_end("last tensor");
}

/// (key, key of the storage, tensor class), rank, four unused bytes, sizes, strides, offset.
void TarStorages::read_tensor(MemberReader& in) {
  PickleGraph graph = in.pickle();
  CallArgs head = tuple_of(graph, graph.root(), "a tensor");
  head.expect(3, 3);
  const StoragePart& from = part(head.integer(1));
  auto rank = in.number<std::int32_t>();
  if (rank < 0 || static_cast<std::uint64_t>(rank) > options_.limits.max_rank) {
    corrupt("a tensor has " + std::to_string(rank) + " dimensions");
  }
  in.number<std::int32_t>();
  Entry entry;
  core::Shape strides;
  for (std::int32_t i = 0; i < rank; ++i) entry.shape.push_back(in.number<std::int64_t>());
  for (std::int32_t i = 0; i < rank; ++i) strides.push_back(in.number<std::int64_t>());
  auto offset = in.number<std::int64_t>();
  check_strided(entry.shape, strides, options_.limits);
  if (offset < 0) corrupt("a tensor begins " + std::to_string(offset) + " elements into its storage");
  std::int64_t last = last_element(entry.shape, strides, offset);
  if (last >= from.size) {
    corrupt("a tensor reaches to element " + std::to_string(last) + " of a storage of " + std::to_string(from.size));
  }
  entry.dtype = from.storage->dtype;
  entry.location = from.storage->location;
  entry.view = View{from.storage, core::checked_add(from.offset, offset), strides};
  entry.bytes = gather(*entry.view, entry.dtype, entry.shape);
  if (!tensors_.emplace(head.integer(0), std::make_shared<const Entry>(std::move(entry))).second) {
    corrupt("tensor " + std::to_string(head.integer(0)) + " is there twice");
  }
}

void require_members(const TarArchive& tar) {
  for (const char* name : {"storages", "tensors", "pickle"}) {
    if (tar.find(name) != nullptr) continue;
    throw Error(ErrorCode::unsupported, "this is a tar archive, but not a PyTorch checkpoint: it has no member " +
                                            core::quote(name) + "; extract it first");
  }
}

}  // namespace

TarCheckpoint read_tar_checkpoint(const SourcePtr& file, const OpenOptions& options, SymbolCheck check,
                                  const TarPickleObserver& observer) {
  TarArchive tar = TarArchive::open(file, options.limits);
  require_members(tar);
  MemberReader in(tar, "pickle", options, observer);
  PickleGraph object = in.pickle();
  in.expect_end("object");
  if (check == SymbolCheck::refuse) require_known_symbols(object, options);
  TarStorages storages(tar, options, observer);
  return {to_value(object, storages, options, check), storages.count()};
}

}  // namespace ckpt
