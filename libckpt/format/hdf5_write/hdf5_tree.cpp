#include "libckpt/format/hdf5_write/hdf5_tree.h"

#include <algorithm>
#include <map>

#include "libckpt/format/hdf5_write/chunk_codec.h"
#include "libckpt/format/hdf5_write/hdf5_types.h"
#include "libckpt/format/hdf5_write/payload_packing.h"
#include "libckpt/hdf5/wire.h"
#include "libckpt/io/packed.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// An attribute of an old-style object must fit into one header message; a longer name can be told from its path.
constexpr std::size_t kMaxTextAttribute = 65'000;

/// Attributes of one object, as wire.h says.
class AttributeList {
 public:
  void text(std::string_view name, std::string_view value) {
    begin(name, kAttributeText);
    put_text(bytes_, value);
  }
  void value(const Hdf5RootAttribute& attribute) {
    const Value& value = attribute.value;
    if (value.is(Value::Kind::text)) return text(attribute.name, value.as_text());
    if (value.is(Value::Kind::integer)) {
      begin(attribute.name, kAttributeInteger);
      core::append_le<std::int64_t>(bytes_, value.as_integer());
    } else if (value.is(Value::Kind::real)) {
      begin(attribute.name, kAttributeReal);
      core::append_le<double>(bytes_, value.as_real());
    } else {
      begin(attribute.name, kAttributeBoolean);
      bytes_.push_back(static_cast<std::byte>(value.as_boolean()));
    }
  }
  void shape(const core::Shape& shape) {
    ++count_;
    put_text(bytes_, "ckpt_shape");
    bytes_.push_back(std::byte{kAttributeInteger});
    bytes_.push_back(std::byte{1});
    put_count(bytes_, shape.size());
    for (std::int64_t size : shape) core::append_le<std::int64_t>(bytes_, size);
  }
  void append_to(core::ByteVector& out) const {
    put_count(out, count_);
    core::append(out, bytes_);
  }

 private:
  /// One value follows.
  void begin(std::string_view name, AttributeKind kind) {
    ++count_;
    put_text(bytes_, name);
    bytes_.push_back(static_cast<std::byte>(kind));
    bytes_.push_back(std::byte{0});
    put_count(bytes_, 1);
  }

  std::uint64_t count_ = 0;
  core::ByteVector bytes_;
};

/// Writes what wire.h says of the job "describe".
class DescriptionWriter {
 public:
  explicit DescriptionWriter(const Hdf5Plan& plan) : style_(plan.style) {
    put_count(out_, plan.place.user_block);
    put_count(out_, plan.place.metadata_begin);
    out_.push_back(static_cast<std::byte>(style_.keep_order ? kDescribeInOrder : 0));
    put_text(out_, style_.top_group);
    AttributeList attributes;
    for (const Hdf5RootAttribute& attribute : style_.attributes) attributes.value(attribute);
    attributes.append_to(out_);
    put_count(out_, plan.datasets.size());
    for (const DatasetPlan& dataset : plan.datasets) add(dataset);
  }

  core::ByteVector take() { return std::move(out_); }

  /// What is said of a dataset behind its path.
  static core::ByteVector object(const DatasetPlan& plan, const Hdf5Style& style) {
    DescriptionWriter writer(style);
    writer.add_object(plan);
    return writer.take();
  }

 private:
  explicit DescriptionWriter(const Hdf5Style& style) : style_(style) {}

  void add(const DatasetPlan& plan) {
    put_path(plan.path);
    add_object(plan);
  }

  void add_object(const DatasetPlan& plan) {
    if (plan.same_as != nullptr) {
      out_.push_back(std::byte{kDescribedLink});
      return put_text(out_, core::join(*plan.same_as, "/"));
    }
    bool packed = plan.payload != nullptr && plan.payload->codec != NativeCodec::raw;
    Hdf5Form form = hdf5_form(plan.entry->dtype, plan.entry->shape);
    DescribedKind kind = plan.pieces != nullptr ? kDescribedVirtual : packed ? kDescribedPacked : kDescribedRaw;
    out_.push_back(static_cast<std::byte>(kind));
    put_text(out_, core::name(plan.entry->dtype));
    put_count(out_, form.dims.size());
    put_sizes(form.dims);
    if (plan.pieces != nullptr) {
      put_pieces(*plan.pieces);
    } else if (packed) {
      put_packed(*plan.payload, form);
    } else {
      put_count(out_, plan.payload->offset + plan.offset);
      put_count(out_, plan.entry->byte_size());
    }
    attributes_of(plan, form).append_to(out_);
  }

  void put_sizes(const std::vector<std::uint64_t>& sizes) {
    for (std::uint64_t size : sizes) put_count(out_, size);
  }

  void put_pieces(const std::vector<VirtualPiece>& pieces) {
    put_count(out_, pieces.size());
    for (const VirtualPiece& piece : pieces) {
      put_text(out_, piece.file);
      put_text(out_, piece.dataset);
      put_sizes(piece.offsets);
      put_sizes(piece.sizes);
    }
  }

  void put_path(const Hdf5Path& path) {
    std::size_t same = 0;
    while (path_ != nullptr && same < path_->size() && same + 1 < path.size() && (*path_)[same] == path[same]) ++same;
    put_count(out_, same);
    put_count(out_, path.size() - same);
    for (std::size_t i = same; i < path.size(); ++i) put_text(out_, path[i]);
    path_ = &path;
  }

  void put_packed(const Payload& payload, const Hdf5Form& form) {
    put_count(out_, payload.offset);
    put_sizes(chunk_dims(form.dims, form.width, payload.chunks.chunk));
    out_.push_back(static_cast<std::byte>(is_shuffled(payload)));
    auto [filter, level] = filter_of(payload);
    out_.push_back(static_cast<std::byte>(filter));
    put_count(out_, level);
    put_count(out_, payload.chunks.stored.size());
    for (std::uint32_t stored : payload.chunks.stored) put_count(out_, stored);
  }

  static std::pair<DescribedFilter, unsigned> filter_of(const Payload& payload) {
    if (payload.codec == NativeCodec::fast) return {kDescribedFast, static_cast<unsigned>(payload.floats)};
    if (payload.codec == NativeCodec::delta) return {kDescribedDelta, payload.shuffle};
    if (payload.codec == NativeCodec::trimmed) return {kDescribedTrimmed, 0};
    if (payload.codec == NativeCodec::gzip) return {kDescribedGzip, kGzipLevel};
    return {kDescribedZstd, kZstdLevel};
  }

  AttributeList attributes_of(const DatasetPlan& plan, const Hdf5Form& form) const {
    AttributeList list;
    const Entry& entry = *plan.entry;
    bool long_name = plan.name.size() > kMaxTextAttribute;
    if (!long_name && !path_shows_name(plan.path, plan.name)) list.text("ckpt_name", plan.name);
    if (form.named_dtype) list.text("ckpt_dtype", core::name(entry.dtype));
    if (form.flattened) list.shape(entry.shape);
    if (style_.locations && entry.location != "cpu") list.text("ckpt_location", entry.location);
    if (entry.conjugate) list.text("ckpt_view", entry.negative ? "conj neg" : "conj");
    if (!entry.conjugate && entry.negative) list.text("ckpt_view", "neg");
    return list;
  }

  const Hdf5Style& style_;
  const Hdf5Path* path_ = nullptr;  ///< of the dataset before
  core::ByteVector out_;
};

}  // namespace

Hdf5Image build_hdf5(Hdf5Describer& helper, Hdf5Plan plan) {
  if (!plan.style.keep_order) {
    std::sort(plan.datasets.begin(), plan.datasets.end(),
              [](const DatasetPlan& a, const DatasetPlan& b) { return a.path < b.path; });
  }
  return helper.describe(DescriptionWriter(plan).take(),
                         {plan.place.user_block, plan.place.metadata_begin, plan.datasets.size()});
}

bool same_but_for_paths(const Hdf5Plan& first, const Hdf5Plan& second) {
  auto same = [&](const DatasetPlan& a, const DatasetPlan& b) {
    return DescriptionWriter::object(a, first.style) == DescriptionWriter::object(b, second.style);
  };
  return std::ranges::equal(first.datasets, second.datasets, same);
}

std::vector<std::size_t> in_group_order(const std::vector<Hdf5Path>& paths) {
  // Every group and dataset gets the number of the first path that goes through it; paths are sorted by those.
  std::map<std::pair<std::size_t, std::string_view>, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> keys(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::size_t parent = 0;
    for (const std::string& step : paths[i]) {
      parent = numbers.try_emplace({parent, step}, numbers.size() + 1).first->second;
      keys[i].push_back(parent);
    }
  }
  std::vector<std::size_t> order(paths.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  return order;
}

}  // namespace ckpt::detail
