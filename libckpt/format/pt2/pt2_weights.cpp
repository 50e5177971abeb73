#include "libckpt/format/pt2/pt2_weights.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/entry.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::int64_t kStrided = 7;

struct ScalarType {
  std::int64_t number;
  DType dtype;
};
/// The numbers of torch.export's own list, not those of PyTorch.
constexpr ScalarType kTypes[] = {{1, DType::u8},          {2, DType::i8},           {3, DType::i16},
                                 {4, DType::i32},         {5, DType::i64},          {6, DType::f16},
                                 {7, DType::f32},         {8, DType::f64},          {9, DType::c32},
                                 {10, DType::c64},        {11, DType::c128},        {12, DType::boolean},
                                 {13, DType::bf16},       {28, DType::u16},         {29, DType::f8_e4m3fn},
                                 {30, DType::f8_e5m2},    {31, DType::f8_e4m3fnuz}, {32, DType::f8_e5m2fnuz},
                                 {33, DType::f8_e8m0fnu}, {34, DType::u32},         {35, DType::u64}};

DType dtype_of(JsonView number) {
  if (!number.is_count()) corrupt("its type is no number");
  const std::int64_t wanted = number.as_integer();
  const auto* found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const ScalarType& type) { return type.number == wanted; });
  if (found != std::end(kTypes)) return found->dtype;
  throw Error(ErrorCode::unsupported,
              "its type has the number " + std::to_string(wanted) + ", which is not known here");
}

std::int64_t size_of(JsonView value) {
  if (!value.has("as_int") || !value.at("as_int").is_count()) corrupt("a size of it is no number");
  return value.at("as_int").as_integer();
}

core::Shape sizes_of(JsonView list, const Limits& limits) {
  if (!list.is(JsonView::Kind::array)) corrupt("its sizes are no list");
  core::Shape out;
  for (JsonView size : list.items()) {
    if (out.size() >= limits.max_rank) {
      throw Error(ErrorCode::refused, "it has more than " + std::to_string(limits.max_rank) + " dimensions");
    }
    out.push_back(size_of(size));
  }
  return out;
}

std::string device_of(JsonView device) {
  if (!device.has("type") || !device.at("type").is(JsonView::Kind::text)) corrupt("its device has no type");
  std::string out(device.at("type").as_text());
  if (device.has("index") && device.at("index").is_count())
    out += ":" + std::to_string(device.at("index").as_integer());
  return out;
}

std::string record_of(JsonView weight) {
  if (!weight.has("path_name") || !weight.at("path_name").is(JsonView::Kind::text)) corrupt("it has no record");
  return std::string(weight.at("path_name").as_text());
}

class WeightsReader {
 public:
  WeightsReader(const ZipArchive& zip, const ZipMember& config, const Pt2Records& records, const Limits& limits)
      : zip_(zip), folder_(config.name.substr(0, config.name.rfind('/') + 1)), records_(records), limits_(limits) {}

  Value run(JsonView root) {
    if (!root.has("config") || !root.at("config").is(JsonView::Kind::object)) corrupt("it lists no weights");
    Dict dict;
    for (const auto& [name, weight] : root.at("config").members()) {
      if (dict.items.size() >= limits_.max_tensors || name.size() > limits_.max_name) {
        throw Error(ErrorCode::refused, "it lists more or longer names than are read");
      }
      core::with_context("the weight " + core::quote(name),
                         [&] { dict.items.emplace_back(Value::text(std::string(name)), this->weight(weight)); });
    }
    return Value::dict(std::move(dict));
  }

 private:
  static bool flag(JsonView node, std::string_view key) {
    return node.has(key) && node.at(key).is(JsonView::Kind::boolean) && node.at(key).as_boolean();
  }

  Value weight(JsonView node) {
    const std::string path = record_of(node);
    const ZipMember* member = zip_.find(folder_ + path);
    if (member == nullptr) corrupt("its record " + core::quote(folder_ + path) + " is missing");
    if (flag(node, "use_pickle")) return pickled(*member, flag(node, "is_param"));
    if (!node.has("tensor_meta")) corrupt("it is not described");
    return strided(*member, node.at("tensor_meta"), flag(node, "is_param"));
  }

  Value pickled(const ZipMember& member, bool parameter) const {
    Value value = records_.pickled(member);
    if (!value.is(Value::Kind::tensor)) corrupt("its record is a pickle of something else than a tensor");
    auto entry = std::make_shared<Entry>(value.as_entry());
    entry->parameter = entry->parameter || parameter;
    return Value::tensor(std::move(entry));
  }

  Value strided(const ZipMember& member, JsonView meta, bool parameter) {
    if (meta.at("layout").is_count() && meta.at("layout").as_integer() != kStrided) {
      throw Error(ErrorCode::unsupported, "its layout is not strided");
    }
    auto entry = std::make_shared<Entry>();
    entry->dtype = dtype_of(meta.at("dtype"));
    entry->shape = sizes_of(meta.at("sizes"), limits_);
    entry->location = device_of(meta.at("device"));
    entry->parameter = parameter;
    entry->requires_grad = flag(meta, "requires_grad");
    View view;
    view.storage = storage(member, entry->dtype, entry->location);
    view.offset = size_of(meta.at("storage_offset"));
    view.strides = sizes_of(meta.at("strides"), limits_);
    if (view.strides.size() != entry->shape.size()) corrupt("it has more sizes than strides, or fewer");
    if (!core::try_numel(entry->shape.span())) corrupt("it has the impossible shape " + core::to_list(entry->shape));
    entry->bytes = bytes_of(member, view, *entry);
    entry->view = std::move(view);
    return Value::tensor(std::move(entry));
  }

  std::shared_ptr<const Storage> storage(const ZipMember& member, DType dtype, const std::string& location) {
    std::shared_ptr<const Storage>& known = storages_[member.name];
    if (known == nullptr) {
      auto made = std::make_shared<Storage>();
      made->dtype = dtype;
      made->bytes = records_.bytes(member);
      made->location = location;
      known = std::move(made);
    }
    return known;
  }

  /// Equal views share their bytes, so that ties are seen.
  SourcePtr bytes_of(const ZipMember& member, const View& view, const Entry& entry) {
    std::string key = member.name + " " + std::string(core::name(entry.dtype)) + core::to_list(entry.shape) +
                      core::to_list(view.strides) + std::to_string(view.offset);
    SourcePtr& known = sources_[key];
    if (known == nullptr) known = gather(view, entry.dtype, entry.shape);
    return known;
  }

  const ZipArchive& zip_;
  std::string folder_;
  const Pt2Records& records_;
  const Limits& limits_;
  std::unordered_map<std::string, std::shared_ptr<const Storage>> storages_;
  std::unordered_map<std::string, SourcePtr> sources_;
};

/// At the places where torch.export looks for them, so that no other archive can declare its pickles to be numbers.
bool is_list(std::string_view name) {
  std::string_view inner = name.substr(name.find('/') + 1);
  return (inner.starts_with("data/weights/") && inner.ends_with(kPt2WeightsEnd)) ||
         (inner.starts_with("data/constants/") && inner.ends_with("_constants_config.json"));
}

}  // namespace

Value read_pt2_weights(const ZipArchive& zip, const ZipMember& config, const Pt2Records& records,
                       const Limits& limits) {
  return core::with_context(core::quote(config.name), [&] {
    if (config.size > limits.max_json_bytes || config.method != kZipStored) {
      throw Error(ErrorCode::refused, "it is packed, or longer than " + core::format_size(limits.max_json_bytes));
    }
    JsonDocument json =
        JsonDocument::parse(read_all(*records.bytes(config)), {.max_depth = limits.max_json_depth_header});
    return WeightsReader(zip, config, records, limits).run(json.root());
  });
}

std::unordered_set<std::string> raw_pt2_records(const ZipArchive& zip, const Limits& limits) {
  std::unordered_set<std::string> raw;
  std::unordered_set<std::string> pickled;
  for (const ZipMember& member : zip.members()) {
    if (!is_list(member.name) || member.size > limits.max_json_bytes || member.method != kZipStored) continue;
    const std::string folder = member.name.substr(0, member.name.rfind('/') + 1);
    try {
      JsonDocument json =
          JsonDocument::parse(read_all(*zip.payload(member)), {.max_depth = limits.max_json_depth_header});
      const JsonView config = json.root().at("config");
      if (!config.is(JsonView::Kind::object)) corrupt("it lists no weights");
      for (const auto& item : config.members()) {
        const std::string name = folder + record_of(item.second);
        const JsonView pickle = item.second.at("use_pickle");
        const bool values = pickle.is(JsonView::Kind::boolean) && !pickle.as_boolean();
        (values ? raw : pickled).insert(name);
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::io) throw;
      return {};  // then every record is looked at
    }
  }
  for (const std::string& name : pickled) raw.erase(name);
  return raw;
}

}  // namespace ckpt::detail
