#include "libckpt/format/gguf/gguf_plan.h"

#include "libcore/base/checked_math.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// Blocks that something has cut or joined no longer are what their shape says.
bool fits(const Entry& entry, const GgmlType& type) {
  std::optional<std::uint64_t> numel = core::try_numel(value_shape(entry).span());
  return numel && *numel % type.elements == 0 &&
         core::try_mul<std::uint64_t>(*numel / type.elements, type.bytes) == entry.byte_size();
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
  core::append_le(out, gguf_type(*flat.entry)->id);
  core::append_le(out, offset);
}

/// The header without its padding.
GgufPlan plan_unpadded(const std::vector<FlatEntry>& entries, const std::vector<GgufValue>& values) {
  GgufPlan plan{.alignment = alignment_of(values)};
  core::append(plan.header, core::as_bytes(kGgufMagic));
  core::append_le(plan.header, kGgufVersion);
  core::append_le(plan.header, static_cast<std::uint64_t>(entries.size()));
  core::append_le(plan.header, static_cast<std::uint64_t>(values.size()));
  for (const GgufValue& value : values) append_value(plan.header, value);
  for (const FlatEntry& flat : entries) {
    append_tensor(plan.header, flat, plan.data_size);
    plan.offsets.push_back(plan.data_size);
    plan.data_size = core::align_up(core::checked_add(plan.data_size, flat.entry->byte_size()), plan.alignment);
  }
  return plan;
}

/// The value that takes `room` bytes of a header; nullopt where the shortest one is longer.
std::optional<GgufValue> make_slack(std::uint64_t room) {
  constexpr std::uint64_t kEmptyText = sizeof(std::uint64_t) + kSlackKey.size() + sizeof(std::uint32_t) +  // key, type
                                       sizeof(std::uint64_t);
  if (room < kEmptyText) return std::nullopt;
  GgufValue value{.key = std::string(kSlackKey), .type = GgufValueType::text, .stored = {}};
  append_text(value.stored, std::string(room - kEmptyText, ' '));
  return value;
}

}  // namespace

const GgmlType* gguf_type(const Entry& entry) {
  return entry.blocks ? find_ggml_type(entry.blocks->name) : find_ggml_type(entry.dtype);
}

std::optional<Obstacle> gguf_obstacle(const std::string& name, const Entry& entry) {
  using Kind = Obstacle::Kind;
  const GgmlType* type = gguf_type(entry);
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

GgufPlan plan_gguf(const std::vector<FlatEntry>& entries, const std::vector<GgufValue>& values) {
  GgufPlan plan = plan_unpadded(entries, values);
  if (!entries.empty()) plan.header.resize(core::align_up(plan.header.size(), plan.alignment));
  return plan;
}

std::optional<GgufPlan> plan_gguf_before(const std::vector<FlatEntry>& entries, std::vector<GgufValue> values,
                                         std::uint64_t data_begin) {
  GgufPlan plan = plan_unpadded(entries, values);
  std::uint64_t length = plan.header.size();
  if (length > data_begin || data_begin % plan.alignment != 0) return std::nullopt;
  if (data_begin - length >= plan.alignment) {
    std::optional<GgufValue> slack = make_slack(data_begin - length);
    if (!slack) return std::nullopt;
    values.push_back(std::move(*slack));
    plan = plan_unpadded(entries, values);
  }
  plan.header.resize(data_begin);
  return plan;
}

}  // namespace ckpt::detail
