#include "libckpt/format/torch/rebuild.h"

#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

template <class T>
void append_raw(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_raw(std::string& out, const core::Shape& shape) {
  append_raw(out, shape.size());
  for (std::int64_t n : shape) append_raw(out, n);
}

}  // namespace

void check_strided(const core::Shape& sizes, const core::Shape& strides, const Limits& limits) {
  if (sizes.size() != strides.size()) {
    throw Error(ErrorCode::corrupt, "a tensor has " + std::to_string(sizes.size()) + " sizes and " +
                                        std::to_string(strides.size()) + " strides");
  }
  if (sizes.size() > limits.max_rank) {
    throw Error(ErrorCode::refused, "a tensor has " + std::to_string(sizes.size()) + " dimensions where at most " +
                                        std::to_string(limits.max_rank) + " are accepted");
  }
  if (!core::try_numel(sizes.span())) {
    throw Error(ErrorCode::corrupt, "a tensor has the shape " + core::to_list(sizes) + ", which no memory can hold");
  }
  std::int64_t reach = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] < 0) throw Error(ErrorCode::corrupt, "a tensor has negative strides: " + core::to_list(strides));
    if (sizes[i] > 1) reach = core::checked_add(reach, core::checked_mul(sizes[i] - 1, strides[i]));
  }
}

std::int64_t last_element(const core::Shape& sizes, const core::Shape& strides, std::int64_t offset) {
  std::int64_t last = offset;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return offset - 1;
    if (sizes[i] > 1) last = core::checked_add(last, core::checked_mul(sizes[i] - 1, strides[i]));
  }
  return last;
}

TensorRebuilder::Parts TensorRebuilder::take_parts(const CallArgs& args) const {
  if (args.kind(0) != NodeKind::persistent) args.fail(0, "a storage");
  return {args.id(0), args.integer(1), args.sizes(2), args.sizes(3)};
}

Entry TensorRebuilder::tensor_v1(const CallArgs& args) {
  args.expect(4, 4);
  return strided(take_parts(args), std::nullopt);
}

Entry TensorRebuilder::tensor_v2(const CallArgs& args) {
  args.expect(6, 7);
  Entry entry = strided(take_parts(args), std::nullopt);
  entry.requires_grad = args.boolean(4);
  if (args.size() > 6) read_metadata(args, 6, entry);
  return entry;
}

Entry TensorRebuilder::tensor_v3(const CallArgs& args) {
  args.expect(7, 8);
  std::optional<DType> dtype = dtype_symbol(args.symbol_at(6).full);
  if (!dtype) args.fail(6, "a known dtype");
  Entry entry = strided(take_parts(args), dtype);
  entry.requires_grad = args.boolean(4);
  if (args.size() > 7) read_metadata(args, 7, entry);
  return entry;
}

Entry TensorRebuilder::meta(const CallArgs& args) {
  args.expect(4, 4);
  std::optional<DType> dtype = dtype_symbol(args.symbol_at(0).full);
  if (!dtype) args.fail(0, "a known dtype");
  count_tensor();
  Entry entry;
  entry.dtype = *dtype;
  entry.shape = args.sizes(1);
  core::Shape strides = args.sizes(2);
  check_strided(entry.shape, strides, limits_);
  entry.location = "meta";
  entry.requires_grad = args.boolean(3);
  entry.view = View{nullptr, 0, strides};
  return entry;
}

Entry TensorRebuilder::whole_storage(NodeId persistent) {
  StorageRequest wanted = read_storage_id(graph_, persistent);
  std::shared_ptr<const Storage> storage = storages_.provide(wanted);
  Entry entry;
  entry.dtype = wanted.dtype;
  auto width = static_cast<std::uint64_t>(core::bit_width(entry.dtype));
  entry.shape = {wanted.window ? wanted.window->size : static_cast<std::int64_t>(wanted.bytes * 8 / width)};
  entry.location = storage->location;
  entry.view = View{storage, wanted.window ? wanted.window->offset : 0, core::Shape{1}};
  entry.bytes = shared_source(entry);
  return entry;
}

EntryPtr StorageProvider::numbered(std::int64_t number) {
  throw Error(ErrorCode::corrupt,
              "a persistent id is the number " + std::to_string(number) + " where a tuple of 5 is needed");
}

EntryPtr TensorRebuilder::numbered(NodeId persistent) {
  std::optional<std::int64_t> number = numbered_id(graph_, persistent);
  if (!number) return nullptr;
  count_tensor();
  return storages_.numbered(*number);
}

void TensorRebuilder::count_tensor() {
  if (++tensors_ <= limits_.max_tensors) return;
  throw Error(ErrorCode::refused, "the file has more than " + core::format_count(limits_.max_tensors) +
                                      " tensors; raise the limit to read it");
}

/// The offset in the whole storage. A window bounds what the tensor may see of it.
std::int64_t TensorRebuilder::offset_in(const StorageRequest& storage, const Parts& parts) {
  if (!storage.window) return parts.offset;
  std::int64_t last = last_element(parts.sizes, parts.strides, parts.offset);
  if (last >= storage.window->size) {
    throw Error(ErrorCode::corrupt, "a tensor reaches to element " + std::to_string(last) + " of a view of " +
                                        std::to_string(storage.window->size));
  }
  return core::checked_add(parts.offset, storage.window->offset);
}

Entry TensorRebuilder::strided(const Parts& parts, std::optional<DType> dtype) {
  count_tensor();
  check_strided(parts.sizes, parts.strides, limits_);
  if (parts.offset < 0) {
    throw Error(ErrorCode::corrupt, "a tensor begins " + std::to_string(parts.offset) + " elements into its storage");
  }
  StorageRequest wanted = read_storage_id(graph_, parts.storage);
  if (dtype) wanted.dtype = *dtype;
  Entry entry;
  entry.dtype = wanted.dtype;
  entry.shape = parts.sizes;
  std::shared_ptr<const Storage> storage = storages_.provide(wanted);
  entry.location = storage->location;
  entry.view = View{storage, offset_in(wanted, parts), parts.strides};
  entry.bytes = shared_source(entry);
  return entry;
}

SourcePtr TensorRebuilder::shared_source(const Entry& entry) {
  std::string key;
  append_raw(key, entry.view->storage.get());
  append_raw(key, entry.view->offset);
  append_raw(key, entry.dtype);
  append_raw(key, entry.shape);
  append_raw(key, entry.view->strides);
  SourcePtr& source = sources_[std::move(key)];
  if (source == nullptr) source = gather(*entry.view, entry.dtype, entry.shape);
  return source;
}

void TensorRebuilder::read_metadata(const CallArgs& args, std::size_t i, Entry& entry) const {
  if (args.kind(i) == NodeKind::none) return;
  if (args.kind(i) != NodeKind::dict) args.fail(i, "a dict");
  std::span<const NodeId> items = graph_.children(args.id(i));
  for (std::size_t k = 0; k + 1 < items.size(); k += 2) {
    CallArgs item(graph_, "tensor metadata", items.subspan(k, 2));
    std::string_view name = item.text(0);
    if (name != "conj" && name != "neg") {
      throw Error(ErrorCode::unsupported, "a tensor has the unknown property " + core::quote(name));
    }
    (name == "conj" ? entry.conjugate : entry.negative) = item.boolean(1);
  }
}

}  // namespace ckpt
