// Writing a plain ".h5": payloads first, then the description that libhdf5 makes in the helper program, as in a native
// file without its user block. Dotted names become groups, ties hard links, plain values attributes of the root group.

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"
#include "libckpt/format/hdf5_foreign/read.h"
#include "libckpt/format/hdf5_write/hdf5_tree.h"
#include "libckpt/format/hdf5_write/payload_packing.h"
#include "libckpt/format/hdf5_write/payload_writer.h"
#include "libckpt/format/save_file.h"
#include "libckpt/io/json.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::quote;

constexpr std::uint64_t kMetadataPerDataset = 2048;  ///< more than libhdf5 needs, for reserving space
constexpr std::uint64_t kMetadataAtLeast = 128ULL << 10;
constexpr std::size_t kMostAttributes = 65'000;  ///< of the root; libhdf5 numbers them in 16 bits, and some are ours

using ObstacleKind = Obstacle::Kind;

std::optional<Obstacle> tensor_obstacle(const std::string& name, const Entry& entry) {
  if (!entry.bytes) return no_data_obstacle(name);
  if (entry.conjugate || entry.negative) return pending_obstacle(name);
  return std::nullopt;
}

/// Why something about a tensor would be lost although its values are kept.
std::optional<Obstacle> tensor_loss(const std::string& name, const Entry& entry) {
  if (!entry.python_class.empty()) return python_class_obstacle(name, entry);
  if (entry.attributes.is_null()) return std::nullopt;
  return Obstacle{name, ObstacleKind::attribute, "Python attributes of a tensor"};
}

/// Why a tensor of this name would not come back under it: its links are too long for readers, or its name differs from
/// its path and is too long for the attribute that says it.
std::optional<Obstacle> link_obstacle(const std::string& name) {
  if (name.size() <= Limits().max_name / 4) return std::nullopt;
  const Hdf5Path path = plan_hdf5_paths({&name, 1}).front();
  bool long_link =
      std::any_of(path.begin(), path.end(), [](const std::string& link) { return link.size() > Limits().max_name; });
  bool unsaid = !path_shows_name(path, name) && name.size() > kMaxHdf5Text;
  if (!long_link && !unsaid) return std::nullopt;
  return name_obstacle(name, "of " + std::to_string(name.size()) + " bytes that HDF5 would have to change");
}

bool is_attribute_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxHdf5Text && core::is_utf8(name) && name.find('\0') == std::string::npos;
}
bool is_attribute_text(std::string_view text) {
  return text.size() <= kMaxHdf5Text && core::is_utf8(text) && text.find('\0') == std::string::npos;
}

bool is_attribute_value(const Value& value) {
  return value.is(Value::Kind::integer) || value.is(Value::Kind::real) || value.is(Value::Kind::boolean) ||
         (value.is(Value::Kind::text) && is_attribute_text(value.as_text()));
}

/// The tree as it will be: tensors by dotted name, plain values by dotted name, and what has no place.
class Flattener {
 public:
  std::vector<Hdf5RootAttribute> values;
  std::vector<Obstacle> obstacles;

  void run(const Value& root) {
    if (!root.is(Value::Kind::dict)) return obstacles.push_back(top_obstacle(root, "a dict"));
    look_at_dict(root.as_dict(), "");
  }

 private:
  void look_at_dict(const Dict& dict, const std::string& prefix) {
    look_at_attributes(dict, prefix);
    for (const auto& [key, value] : dict.items) {
      std::string name = prefix + step_text(key);
      if (!key.is(Value::Kind::text)) obstacles.push_back(key_obstacle(name, key));
      look_at_value(name, value);
    }
  }

  void look_at_attributes(const Dict& dict, const std::string& prefix) {
    if (dict.attributes.is_null()) return;
    for (const auto& [key, value] : dict.attributes.as_dict().items) {
      if (step_text(key) == "_metadata") continue;
      obstacles.push_back({prefix + step_text(key), ObstacleKind::attribute, "an attribute of a state dict"});
    }
  }

  void look_at_value(const std::string& name, const Value& value) {
    if (value.is(Value::Kind::tensor)) {
      std::optional<Obstacle> obstacle = tensor_obstacle(name, value.as_entry());
      if (!obstacle) obstacle = tensor_loss(name, value.as_entry());
      if (!obstacle) obstacle = link_obstacle(name);
      if (obstacle) obstacles.push_back(std::move(*obstacle));
    } else if (value.is(Value::Kind::dict)) {
      look_at_dict(value.as_dict(), name + ".");
    } else if (is_attribute_value(value) && is_attribute_name(name)) {
      if (values.size() < kMostAttributes) return values.push_back({name, value});
      obstacles.push_back({name, ObstacleKind::value, "more plain values than HDF5 has attributes for"});
    } else {
      obstacles.push_back(value_obstacle(name, value));
    }
  }
};

/// Tensors are the same dataset when they show the same elements in the same order.
using Sameness =
    std::tuple<const void*, core::DType, std::vector<std::int64_t>, std::int64_t, std::vector<std::int64_t>>;

Sameness sameness_of(const Entry& entry) {
  const void* identity = entry.view ? storage_identity(entry) : entry.bytes.get();
  std::int64_t offset = entry.view ? entry.view->offset : 0;
  return {identity, entry.dtype, entry.shape.to_vector(), offset,
          entry.view ? entry.view->strides.to_vector() : std::vector<std::int64_t>()};
}

class PlainPlan {
 public:
  PlainPlan(const Checkpoint& checkpoint, Codec codec) {
    std::vector<NamedEntry> entries = list_entries(checkpoint.root);
    std::erase_if(entries, [](const NamedEntry& named) {
      return tensor_obstacle(named.name, *named.entry) || link_obstacle(named.name);
    });
    require_distinct(entries);
    place(entries);
    pack(codec);
  }

  const std::vector<PlannedPayload>& planned() const { return planned_; }
  std::vector<Payload>& payloads() { return payloads_; }
  std::size_t datasets() const { return plans_.size(); }

  /// REQUIRES: payloads() have their places.
  std::vector<DatasetPlan> plans() {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (plans_[i].same_as == nullptr) plans_[i].payload = &payloads_[number_[i]];
    }
    return plans_;
  }

 private:
  static void require_distinct(const std::vector<NamedEntry>& entries) {
    std::unordered_set<std::string_view> names;
    for (const NamedEntry& named : entries) {
      if (names.insert(named.name).second) continue;
      throw core::Error(core::ErrorCode::collision, "two tensors would both be named " + quote(named.name));
    }
  }

  void place(const std::vector<NamedEntry>& entries) {
    std::vector<std::string> names;
    for (const NamedEntry& named : entries) names.push_back(named.name);
    paths_ = plan_hdf5_paths(names);
    std::map<Sameness, std::size_t> first;
    for (std::size_t i : in_group_order(paths_)) {
      DatasetPlan plan{.name = names[i], .path = paths_[i], .entry = entries[i].entry.get()};
      // A dataset under two names can carry neither of them in an attribute.
      bool shown = path_shows_name(paths_[i], names[i]);
      auto [at, is_new] = first.try_emplace(sameness_of(*plan.entry), i);
      bool tied =
          !is_new && shown && plan.entry->byte_size() > 0 && path_shows_name(paths_[at->second], names[at->second]);
      if (tied) plan.same_as = &paths_[at->second];
      number_.push_back(planned_.size());
      if (!tied) planned_.push_back({plan.entry->bytes, plan.entry});
      kept_.push_back(entries[i].entry);
      plans_.push_back(std::move(plan));
    }
  }

  /// Other programs lack the zstd filter, so nothing is compressed unless it is asked for.
  void pack(Codec codec) {
    Codec chosen = codec == Codec::automatic ? Codec::none : codec;
    for (const PlannedPayload& planned : planned_) payloads_.push_back(choose_packing(planned, chosen));
  }

  std::vector<Hdf5Path> paths_;
  std::vector<DatasetPlan> plans_;
  std::vector<std::size_t> number_;  ///< of the payload, by plan
  std::vector<EntryPtr> kept_;
  std::vector<PlannedPayload> planned_;
  std::vector<Payload> payloads_;
};

/// {"module path": version} of all state dicts, paths from the root; "" when there are none.
std::string versions_json(const Checkpoint& checkpoint) {
  JsonWriter out;
  out.begin_object();
  bool any = false;
  for (const StateDictRef& dict : list_state_dicts(checkpoint.root)) {
    for (const auto& [module, version] : module_versions(*dict.dict)) {
      bool both = !dict.name.empty() && !module.empty();
      out.key(dict.name + (both ? "." : "") + module).value(version);
      any = true;
    }
  }
  out.end_object();
  return any ? out.take() : "";
}

void warn(const SaveOptions& options, const std::string& text) {
  if (options.report != nullptr) options.report->warnings.push_back(text);
}

/// Plain values, text metadata and module versions, each name once.
std::vector<Hdf5RootAttribute> root_attributes(const Checkpoint& checkpoint, const SaveOptions& options) {
  Flattener flat;
  flat.run(checkpoint.root);
  std::vector<Hdf5RootAttribute> attributes = std::move(flat.values);
  std::unordered_set<std::string> names;
  for (const Hdf5RootAttribute& attribute : attributes) names.insert(attribute.name);
  auto add = [&](const std::string& name, const std::string& text) {
    bool fits = is_attribute_name(name) && is_attribute_text(text) &&
                (attributes.size() < kMostAttributes || name == "ckpt_versions");
    if (fits && names.insert(name).second) {
      attributes.push_back({name, Value::text(text)});
    } else {
      warn(options, "the metadata " + quote(name, 60) + " does not fit an HDF5 attribute and is left out");
    }
  };
  for (const auto& [name, text] : checkpoint.metadata) add(name, text);
  std::string versions = versions_json(checkpoint);
  if (!versions.empty()) add("ckpt_versions", versions);
  return attributes;
}

std::uint64_t logical_bytes(const std::vector<Payload>& payloads) {
  std::uint64_t total = 0;
  for (const Payload& payload : payloads) total += payload.size;
  return total;
}

}  // namespace

std::vector<Obstacle> hdf5_obstacles(const Checkpoint& checkpoint, const SaveOptions& /*options*/) {
  Flattener flat;
  flat.run(checkpoint.root);
  return std::move(flat.obstacles);
}

void write_hdf5_file(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  Hdf5Describer helper;  // started now, it is ready when the plans are made
  auto old = std::dynamic_pointer_cast<const Hdf5Detail>(checkpoint.detail);
  if (old && old->keras_lists) {
    warn(options,
         "the lists by which Keras finds its weights (layer_names, weight_names) are not written: Keras will not load "
         "this file");
  }
  Hdf5Style style{.top_group = "", .keep_order = true, .locations = true};
  style.attributes = root_attributes(checkpoint, options);
  PlainPlan plan(checkpoint, options.codec);
  helper.require_ready();
  std::uint64_t bound =
      core::checked_add(bound_of_payloads(plan.payloads()), kMetadataAtLeast + plan.datasets() * kMetadataPerDataset);
  AtomicFile file(path, file_options(options, bound));
  PayloadWriter writer(file, 0, logical_bytes(plan.payloads()), options);
  writer.write(plan.planned(), plan.payloads());
  Hdf5Place place{0, core::align_up(writer.finish(), kPageAlignment)};
  Hdf5Image image = build_hdf5(helper, {plan.plans(), place, std::move(style)});
  core::ByteVector superblock(image.superblock.begin(), image.superblock.end());
  superblock.resize(kFirstPayload);
  file.write_at(0, superblock);
  file.skip_to(place.metadata_begin);
  file.write(image.metadata);
  file.commit();
  if (options.report != nullptr) {
    options.report->bytes_written += file.position();
    options.report->rung = "rewrite";
  }
}

}  // namespace ckpt::detail
