#include "libckpt/format/flat_state.h"
#include "libckpt/format/gguf/gguf_file.h"
#include "libckpt/io/atomic_file.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kCopyStep = 64ULL << 20;

const GgmlType* type_of(const Entry& entry) {
  return entry.blocks ? find_ggml_type(entry.blocks->name) : find_ggml_type(entry.dtype);
}

/// Blocks that something has cut or joined no longer are what their shape says.
bool fits(const Entry& entry, const GgmlType& type) {
  std::optional<std::uint64_t> numel = core::try_numel(value_shape(entry).span());
  return numel && *numel % type.elements == 0 &&
         core::try_mul<std::uint64_t>(*numel / type.elements, type.bytes) == entry.byte_size();
}

std::optional<Obstacle> gguf_obstacle(const std::string& name, const Entry& entry) {
  using Kind = Obstacle::Kind;
  const GgmlType* type = type_of(entry);
  if (type == nullptr && entry.blocks) return Obstacle{name, Kind::blocks, "blocks of type " + type_name(entry)};
  if (type == nullptr) return dtype_obstacle(name, entry.dtype);
  if (!fits(entry, *type)) return Obstacle{name, Kind::shape, "blocks that no longer have their shape"};
  std::size_t rank = value_shape(entry).size();
  if (rank > kGgufMaxRank) {
    return Obstacle{name, Kind::shape, std::to_string(rank) + " dimensions, where at most 4 are allowed"};
  }
  if (name.size() > kGgufMaxName) {
    return name_obstacle(name, "of " + std::to_string(name.size()) + " bytes, where at most " +
                                   std::to_string(kGgufMaxName) + " are allowed");
  }
  if (core::is_utf8(name)) return std::nullopt;
  return name_obstacle(name, "that is not valid UTF-8");
}

std::uint64_t alignment_of(const std::vector<GgufValue>& values) {
  for (const GgufValue& value : values) {
    if (value.key == kAlignmentKey) return core::load_le<std::uint32_t>(value.stored.data());
  }
  return kGgufAlignment;
}

void append_text(core::ByteVector& out, const std::string& text) {
  core::append_le(out, static_cast<std::uint64_t>(text.size()));
  core::append(out, core::as_bytes(text));
}

void append_value(core::ByteVector& out, const GgufValue& value) {
  append_text(out, value.key);
  core::append_le(out, static_cast<std::uint32_t>(value.type));
  core::append(out, value.stored);
}

void append_tensor(core::ByteVector& out, const FlatEntry& flat, std::uint64_t offset) {
  const core::Shape& shape = value_shape(*flat.entry);
  append_text(out, flat.name);
  core::append_le(out, static_cast<std::uint32_t>(shape.size()));
  for (std::size_t d = shape.size(); d-- > 0;) core::append_le(out, shape[d]);
  core::append_le(out, type_of(*flat.entry)->id);
  core::append_le(out, offset);
}

/// Everything before the data, padded, and the size of the whole file.
struct Plan {
  core::ByteVector header;
  std::uint64_t alignment = kGgufAlignment;
  std::uint64_t total = 0;
};

Plan make_plan(const std::vector<FlatEntry>& entries, const std::vector<GgufValue>& values) {
  Plan plan;
  plan.alignment = alignment_of(values);
  core::append(plan.header, core::as_bytes(kGgufMagic));
  core::append_le(plan.header, kGgufVersion);
  core::append_le(plan.header, static_cast<std::uint64_t>(entries.size()));
  core::append_le(plan.header, static_cast<std::uint64_t>(values.size()));
  for (const GgufValue& value : values) append_value(plan.header, value);
  std::uint64_t offset = 0;
  for (const FlatEntry& flat : entries) {
    append_tensor(plan.header, flat, offset);
    offset = core::align_up(core::checked_add(offset, flat.entry->byte_size()), plan.alignment);
  }
  if (!entries.empty()) plan.header.resize(core::align_up(plan.header.size(), plan.alignment));
  plan.total = core::checked_add<std::uint64_t>(plan.header.size(), offset);
  return plan;
}

void write_data(const std::vector<FlatEntry>& entries, const Plan& plan, ByteSink& file, const Progress& progress) {
  for (const FlatEntry& flat : entries) {
    std::uint64_t size = flat.entry->byte_size();
    for (std::uint64_t done = 0; done < size; done += kCopyStep) {
      file.write_from(*slice(flat.entry->bytes, done, std::min(kCopyStep, size - done)));
      if (progress) progress(file.position(), plan.total);
    }
    file.write(core::ByteVector(core::align_up(size, plan.alignment) - size));
  }
}

}  // namespace

std::vector<Obstacle> gguf_obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  std::vector<Obstacle> found = flat_obstacles(checkpoint, gguf_obstacle);
  std::vector<std::string> bad;
  metadata_values(checkpoint, &bad);
  for (const std::string& key : bad) {
    found.push_back({key, Obstacle::Kind::metadata, "metadata whose text is not a value of its type"});
  }
  return found;
}

void write_gguf(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  std::vector<FlatEntry> entries = flat_entries(checkpoint, gguf_obstacle);
  warn_about_losses(checkpoint, entries, options.report);
  Plan plan = make_plan(entries, metadata_values(checkpoint, nullptr));
  AtomicFile file(path, {options.overwrite, options.durable, plan.total});
  BufferedSink out(file);
  out.write(plan.header);
  write_data(entries, plan, out, options.progress);
  out.flush();
  file.commit();
  if (options.report == nullptr) return;
  options.report->bytes_written += plan.total;
  options.report->rung = "rewrite";
}

}  // namespace ckpt::detail
