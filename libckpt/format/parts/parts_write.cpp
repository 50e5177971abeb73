#include <algorithm>

#include "libckpt/entry.h"
#include "libckpt/format/dcp/part_writer.h"
#include "libckpt/format/dcp/rank_layout.h"
#include "libckpt/format/dcp/write.h"
#include "libckpt/format/parts/parts.h"
#include "libckpt/format/parts/parts_index.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/atomic_folder.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

namespace fs = std::filesystem;

/// What one rank owns, under the names of its items. No rank has two pieces of one tensor.
Checkpoint part_of(const std::vector<FlatItem>& flat, const RankLayout& layout, std::uint64_t rank) {
  Dict dict;
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const DcpItem& item = layout.metadata().items[i];
    const std::vector<std::uint64_t>& owners = layout.owners(i);
    for (std::size_t k = 0; k < owners.size(); ++k) {
      if (owners[k] != rank) continue;
      Value value = flat[i].value;
      if (item.is_tensor) {
        const Box box{item.chunks[k].offsets, item.chunks[k].sizes};
        value = core::with_context(core::quote(item.name),
                                   [&] { return boxed_tensor(value.as_entry(), box, PartCheck::kept); });
      }
      dict.items.emplace_back(Value::text(item.name), std::move(value));
    }
  }
  Checkpoint part;
  part.root = Value::dict(std::move(dict));
  part.metadata = {{std::string(kSaveIdKey), layout.metadata().save_id}};
  return part;
}

IndexedItem indexed(const DcpItem& item, const std::vector<std::uint64_t>& owners) {
  IndexedItem out;
  out.name = item.name;
  out.path = item.path;
  out.is_tensor = item.is_tensor;
  out.part = owners[0];
  if (!item.is_tensor) return out;
  out.dtype = item.dtype;
  out.requires_grad = item.requires_grad;
  out.shape = item.shape;
  for (std::size_t k = 0; k < item.chunks.size(); ++k) {
    out.boxes.push_back({{item.chunks[k].offsets, item.chunks[k].sizes}, owners[k]});
  }
  return out;
}

std::uint64_t write_parts_index(const fs::path& folder, const PartsIndex& index, const SaveOptions& options) {
  const std::string text = encode_parts_index(index);
  if (const std::uint64_t most = Limits().max_json_bytes; text.size() > most) {
    throw core::Error(core::ErrorCode::refused, "the index of " + std::to_string(index.parts.size()) + " parts takes " +
                                                    core::format_size(text.size()) + ", where " +
                                                    core::format_size(most) + " are read; take fewer ranks");
  }
  AtomicFile file(folder / kPartsIndex, {.durable = options.durable, .expected_size = text.size(), .lock = false});
  file.write(core::as_bytes(text));
  file.commit();
  return text.size();
}

/// Progress over all parts: what is done of one comes on top of those before it.
Progress progress_from(const SaveOptions& options, std::uint64_t before, std::uint64_t total) {
  if (!options.progress) return {};
  return [say = options.progress, before, total](std::uint64_t done, std::uint64_t) {
    say(std::min(total, before + done), total);
  };
}

}  // namespace

std::vector<Obstacle> parts_obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  return flatten_tree(checkpoint.root).obstacles;
}

void write_parts(const Checkpoint& checkpoint, const fs::path& path, const SaveOptions& options) {
  const FlatTree tree = flatten_tree(checkpoint.root);
  report_losses(checkpoint, tree, options);
  RankLayout layout(tree.items, nullptr, options);
  layout.name_save();
  std::uint64_t total = 0;
  for (std::uint64_t bytes : layout.load()) total += bytes;
  AtomicFolder folder(path,
                      {.overwrite = options.overwrite, .durable = options.durable, .may_replace = is_file_of_parts});
  PartsIndex index;
  index.save_id = layout.metadata().save_id;
  const Format& native = *find_format("native");
  SaveOptions of_part = options;
  of_part.shards = 0;
  of_part.shard_dim = 0;
  of_part.overwrite = false;
  std::uint64_t done = 0;
  std::uint64_t written = 0;
  for (std::uint64_t rank = 0; rank < layout.ranks(); ++rank) {
    const std::string name = native_part_name(rank);
    of_part.progress = progress_from(options, done, total);
    native.write(part_of(tree.items, layout, rank), folder.hidden() / name, of_part);
    done += layout.load()[rank];
    const SourcePtr file = open_file(folder.hidden() / name);
    index.parts.push_back({name, file->size(), hash128(*file)});
    written += file->size();
  }
  for (std::size_t i = 0; i < tree.items.size(); ++i) {
    index.items.push_back(indexed(layout.metadata().items[i], layout.owners(i)));
  }
  written += write_parts_index(folder.hidden(), index, options);
  folder.commit();
  if (options.report == nullptr) return;
  options.report->bytes_written = written;
  options.report->rung = "rewrite";
}

}  // namespace ckpt::detail
