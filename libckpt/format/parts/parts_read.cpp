#include <algorithm>
#include <map>
#include <mutex>

#include "libckpt/budget.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/dcp/chunk_source.h"
#include "libckpt/format/folder.h"
#include "libckpt/format/parts/parts.h"
#include "libckpt/format/parts/parts_index.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

/// The parts, each opened when something of it is asked for.
class Parts {
 public:
  Parts(std::filesystem::path folder, const PartsIndex& index, const OpenOptions& options)
      : folder_(std::move(folder)), save_id_(index.save_id), parts_(index.parts), options_(options) {
    options_.report = nullptr;
    for (const PartFacts& part : parts_) check_size(part);
  }

  Value find(std::size_t part, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const Value* value = opened(part).find(name);
    if (value == nullptr) corrupt("the part " + quote(parts_[part].file) + " does not hold it");
    return *value;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const PartFacts& part : parts_) sum += part.size;
    return sum;
  }

 private:
  void check_size(const PartFacts& part) const {
    std::error_code missing;
    std::uint64_t size = std::filesystem::file_size(folder_ / part.file, missing);
    if (missing) corrupt("the part " + quote(part.file) + " is missing, although the index names it");
    if (size == part.size) return;
    corrupt("the part " + quote(part.file) + " has " + core::format_count(size) + " bytes where this save wrote " +
            core::format_count(part.size) + ": it is cut off, or a part of another save");
  }

  const Value& opened(std::size_t number) {
    auto known = opened_.find(number);
    if (known != opened_.end()) return known->second;
    const std::string& file = parts_[number].file;
    return core::with_context("part " + quote(file), [&]() -> const Value& {
      Input input = open_native_part(folder_, file, options_);
      const Format& native = *find_format("native");
      if (!native.detect(input)) corrupt("it is no native checkpoint");
      Checkpoint part = native.read(input, options_);
      std::pair<std::string, std::string> wanted(kSaveIdKey, save_id_);
      if (std::find(part.metadata.begin(), part.metadata.end(), wanted) == part.metadata.end()) {
        corrupt("it is a part of another save than the index");
      }
      return opened_.emplace(number, part.root).first->second;
    });
  }

  std::filesystem::path folder_;
  std::string save_id_;
  std::vector<PartFacts> parts_;
  OpenOptions options_;
  std::mutex mutex_;
  std::map<std::size_t, Value> opened_;
};

SourcePtr box_bytes(const IndexedItem& item, const IndexedBox& box, const std::shared_ptr<Parts>& parts) {
  std::optional<std::uint64_t> numel = core::try_numel(box.box.sizes.span());
  std::optional<std::uint64_t> bytes = numel ? core::byte_size(item.dtype, *numel) : std::nullopt;
  if (!bytes) corrupt("a piece has the shape " + core::to_list(box.box.sizes) + ", which no memory can hold");
  return opened_when_read(*bytes, [name = item.name, dtype = item.dtype, box, parts] {
    return core::with_context(quote(name), [&] {
      Value value = parts->find(box.part, name);
      if (!value.is(Value::Kind::tensor)) corrupt("its part holds no tensor of that name");
      const Entry& entry = value.as_entry();
      if (entry.dtype != dtype || entry.shape != box.box.sizes || entry.bytes == nullptr) {
        corrupt("its part holds " + std::string(core::name(entry.dtype)) + " " + core::to_list(entry.shape) +
                " where " + std::string(core::name(dtype)) + " " + core::to_list(box.box.sizes) + " is expected");
      }
      return entry.bytes;
    });
  });
}

Value read_item(const IndexedItem& item, const std::shared_ptr<Parts>& parts) {
  if (!item.is_tensor) return parts->find(item.part, item.name);
  std::optional<std::uint64_t> numel = core::try_numel(item.shape.span());
  if (!numel || !core::byte_size(item.dtype, *numel) || core::bit_width(item.dtype) % 8 != 0) {
    corrupt("it is " + std::string(core::name(item.dtype)) + " " + core::to_list(item.shape) +
            ", which has no place in pieces");
  }
  std::vector<Box> boxes;
  std::vector<SourceChunk> chunks;
  for (const IndexedBox& box : item.boxes) {
    boxes.push_back(box.box);
    if (core::try_numel(box.box.sizes.span()).value_or(1) > 0) chunks.push_back({box.box, box_bytes(item, box, parts)});
  }
  check_tiling(item.shape, boxes);
  auto entry = std::make_shared<Entry>();
  entry->dtype = item.dtype;
  entry->shape = item.shape;
  entry->requires_grad = item.requires_grad;
  auto width = static_cast<std::uint64_t>(core::bit_width(item.dtype)) / 8;
  entry->bytes = assemble_chunks(item.shape, width, std::move(chunks));
  return Value::tensor(std::move(entry));
}

}  // namespace

Input open_native_part(const std::filesystem::path& folder, const std::string& file, const OpenOptions& options) {
  Input input{folder / file, open_part(folder, file, options, "the index"), {}, nullptr};
  input.budget = std::make_shared<Budget>(options.limits, input.file->size());
  input.head.resize(std::min<std::uint64_t>(4096, input.file->size()));
  input.file->read(0, input.head);
  return input;
}

Checkpoint read_parts_checkpoint(const Input& input, const OpenOptions& options) {
  PartsIndex index = read_parts_index(*input.file, options);
  auto parts = std::make_shared<Parts>(input.path.parent_path(), index, options);
  NestedBuilder tree(options.limits);
  for (const IndexedItem& item : index.items) {
    core::with_context(quote(item.name), [&] {
      tree.add(item.path.empty() ? std::vector<PathStep>{item.name} : item.path, read_item(item, parts));
    });
  }
  if (input.budget) input.budget->add_disk(parts->bytes());
  Checkpoint checkpoint;
  checkpoint.root = tree.take();
  return checkpoint;
}

}  // namespace ckpt::detail
