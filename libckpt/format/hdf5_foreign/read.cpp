#include "libckpt/format/hdf5_foreign/read.h"

#include <algorithm>
#include <unordered_set>

#include "libckpt/format/hdf5_foreign/attribute_text.h"
#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"
#include "libckpt/format/hdf5_foreign/tree_order.h"
#include "libckpt/format/hdf5_foreign/user_block.h"
#include "libckpt/format/hdf5_write/hdf5_tree.h"
#include "libckpt/hdf5/dataset_source.h"
#include "libckpt/hdf5/tensor_type.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxNamed = 8;

/// Attributes that are understood and therefore no metadata.
constexpr std::string_view kOurs[] = {"ckpt_dtype", "ckpt_name", "ckpt_shape", "ckpt_location", "ckpt_versions"};

/// The first few of a list, and how many more.
std::string some_of(const std::vector<std::string>& list) {
  std::string text;
  for (std::size_t i = 0; i < std::min(list.size(), kMaxNamed); ++i) text += (i == 0 ? "" : "; ") + list[i];
  if (list.size() > kMaxNamed) text += "; and " + core::format_count(list.size() - kMaxNamed) + " more";
  return text;
}

class TreeReader {
 public:
  TreeReader(const SourcePtr& file, const OpenOptions& options)
      : file_(file),
        options_(options),
        tree_(std::make_shared<const Hdf5Tree>(walk_hdf5(*file, {options.limits, options.unsandboxed}))),
        placed_(ordered_datasets(*tree_)),
        sources_(file, options.limits,
                 options.lenient && !options.check_hashes ? DamagedChunks::pass_on : DamagedChunks::refuse) {}

  Checkpoint run() {
    check_outside();
    make_entries();
    name_all();
    Dict dict;
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (const EntryPtr& entry = entries_[placed_[i].object]) {
        dict.items.emplace_back(Value::text(names_[i]), Value::tensor(entry));
      }
    }
    collect_metadata(dict);
    checkpoint_.root = Value::dict(std::move(dict));
    report();
    auto detail = std::make_shared<Hdf5Detail>();
    detail->keras_lists = keras_lists_;
    detail->checksums = checksums();
    detail->end = tree_->end;
    const std::vector<Hdf5Link>& top = tree_->objects[0].links;
    detail->only_data = top.size() == 1 && top[0].name == "data" && top[0].kind == kLinkGroup;
    checkpoint_.detail = std::move(detail);
    return std::move(checkpoint_);
  }

 private:
  /// Fletcher-32 is there where the writer asked for it.
  ChecksumCover checksums() const {
    constexpr std::uint32_t kFletcher32 = 3;
    std::size_t with = 0;
    std::size_t all = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i] == nullptr) continue;
      ++all;
      const std::vector<Hdf5Filter>& filters = tree_->objects[i].dataset->filters;
      with += std::any_of(filters.begin(), filters.end(), [](const Hdf5Filter& f) { return f.id == kFletcher32; });
    }
    return with == 0 ? ChecksumCover::absent : with < all ? ChecksumCover::some : ChecksumCover::all;
  }

  static std::string path_text(const PlacedDataset& placed) { return core::join(placed.path, "/"); }

  /// External links, virtual datasets and external data are never opened.
  void check_outside() {
    std::vector<std::string> found;
    for (const Hdf5Object& object : tree_->objects) {
      for (const Hdf5Link& link : object.links) {
        if (link.kind == kLinkOutside) found.push_back(core::quote(link.name) + " is an external link");
      }
    }
    for (const PlacedDataset& placed : placed_) {
      const Hdf5Dataset& dataset = *tree_->objects[placed.object].dataset;
      if (!dataset.outside.empty()) found.push_back(core::quote(path_text(placed)) + " is " + dataset.outside);
    }
    if (found.empty()) return;
    refuse_view_of_parts();
    std::string text = "content outside the file, which is never opened: " + some_of(found);
    if (!options_.lenient) throw Error(ErrorCode::refused, "the file refers to " + text);
    if (options_.report != nullptr) options_.report->relaxations.push_back("left out " + text);
  }

  /// What virtual_file.h writes. Its datasets would read as NaN or zeros where a part is missing, so it is never taken
  /// for the checkpoint.
  void refuse_view_of_parts() const {
    std::optional<std::string> parts = text_of(tree_->objects[0].attributes, kVirtualOf);
    if (!parts || options_.lenient) return;
    throw Error(ErrorCode::refused,
                "it is a view of the checkpoint in the folder " + core::quote(core::printable(*parts)) +
                    " and has no values of its own, so that a part missing there would read as NaN or zeros; open that "
                    "folder itself");
  }

  void make_entries() {
    entries_.resize(tree_->objects.size());
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      const Hdf5Object& object = tree_->objects[placed_[i].object];
      if (!object.dataset->outside.empty() || entries_[placed_[i].object] != nullptr) continue;
      make_entry(placed_[i], *object.dataset);
    }
  }

  void make_entry(const PlacedDataset& placed, const Hdf5Dataset& dataset) {
    Hdf5TensorType type = hdf5_tensor_type(dataset);
    if (!dataset.has_space || !type.dtype) {
      std::string what = dataset.has_space ? dataset.type : "a dataset without elements";
      left_out_.push_back(core::quote(path_text(placed)) + " (" + what + ")");
      return;
    }
    if (dataset.is_enum) enums_.push_back(core::quote(path_text(placed)));
    auto entry = std::make_shared<Entry>();
    entry->dtype = *type.dtype;
    if (dataset.opaque16) entry->stored_type = "void16";
    entry->shape = std::move(type.shape);
    entry->location = text_of(dataset.attributes, "ckpt_location").value_or("cpu");
    entry->bytes = sources_.open(std::shared_ptr<const Hdf5Dataset>(tree_, &dataset));
    entries_[placed.object] = std::move(entry);
  }

  /// Dots between the links; slashes when dots would make two names one.
  void name_all() {
    std::vector<std::size_t> links(tree_->objects.size());
    for (const PlacedDataset& placed : placed_) ++links[placed.object];
    if (take_names(links, ".") || take_names(links, "/")) return;
    throw Error(ErrorCode::corrupt, "two datasets claim the name " + core::quote(twice_));
  }

  bool take_names(const std::vector<std::size_t>& links, std::string_view separator) {
    std::unordered_set<std::string_view> seen;
    names_.clear();
    names_.reserve(placed_.size());
    for (const PlacedDataset& placed : placed_) {
      const Hdf5Dataset& dataset = *tree_->objects[placed.object].dataset;
      // A dataset under several names cannot say which one is meant.
      std::optional<std::string> said;
      if (links[placed.object] == 1) said = text_of(dataset.attributes, "ckpt_name");
      bool usable = said && core::is_utf8(*said) && said->size() <= options_.limits.max_name;
      names_.push_back(usable ? *said : core::join(placed.path, separator));
      if (seen.insert(names_.back()).second) continue;
      twice_ = names_.back();
      return false;
    }
    return true;
  }

  void collect_metadata(Dict& root) {
    take_attributes(tree_->objects[0].attributes, "");
    restore_versions(root);
    std::vector<std::pair<std::uint32_t, std::string>> groups = {{0, ""}};
    while (!groups.empty()) {
      auto [number, path] = std::move(groups.back());
      groups.pop_back();
      for (const Hdf5Link& link : tree_->objects[number].links) {
        if (link.kind == kLinkSoft) soft_.push_back(core::quote(path + link.name) + " to " + core::quote(link.value));
        if (link.kind == kLinkOther) left_out_.push_back(core::quote(path + link.name) + " (a named type)");
        if (link.kind != kLinkGroup) continue;
        take_attributes(tree_->objects[link.object].attributes, path + link.name);
        groups.emplace_back(link.object, path + link.name + "/");
      }
    }
    std::vector<bool> seen(tree_->objects.size());
    for (const PlacedDataset& placed : placed_) {
      const Hdf5Dataset& dataset = *tree_->objects[placed.object].dataset;
      if (!seen[placed.object]) take_attributes(dataset.attributes, path_text(placed), dataset.opaque16);
      seen[placed.object] = true;
    }
  }

  void take_attributes(const std::vector<Hdf5Attribute>& attributes, const std::string& path, bool keras = false) {
    for (const Hdf5Attribute& attribute : attributes) {
      keras_lists_ = keras_lists_ || is_order_attribute(attribute.name);
      bool ours = std::find(std::begin(kOurs), std::end(kOurs), attribute.name) != std::end(kOurs);
      if (ours || is_order_attribute(attribute.name) || (keras && attribute.name == "dtype")) continue;
      std::string key = path.empty() ? attribute.name : path + "@" + attribute.name;
      if (attribute.kind == kAttributeOther) {
        left_out_.push_back("the attribute " + core::quote(key) + " (" + attribute_text(attribute) + ")");
      } else {
        checkpoint_.metadata.emplace_back(std::move(key), attribute_text(attribute));
      }
    }
  }

  /// {"module path": version} becomes the _metadata of a state dict again.
  void restore_versions(Dict& root) const {
    std::optional<std::string> text = text_of(tree_->objects[0].attributes, "ckpt_versions");
    if (!text) return;
    Dict metadata;
    metadata.type = "collections.OrderedDict";
    try {
      JsonDocument document = JsonDocument::parse(*text);
      for (const auto& [path, version] : document.root().members()) {
        Dict module;
        module.items.emplace_back(Value::text("version"), Value::integer(version.as_integer()));
        metadata.items.emplace_back(Value::text(std::string(path)), Value::dict(std::move(module)));
      }
    } catch (const Error&) {
      return;
    }
    Dict attributes;
    attributes.items.emplace_back(Value::text("_metadata"), Value::dict(std::move(metadata)));
    root.type = "collections.OrderedDict";
    root.attributes = Value::dict(std::move(attributes));
  }

  void report() const {
    if (options_.report == nullptr) return;
    std::vector<std::string>& warnings = options_.report->warnings;
    for (std::string& text : unconfined_warnings(tree_->layers)) warnings.push_back(std::move(text));
    if (file_->size() > tree_->end) {
      warnings.push_back(core::format_size(file_->size() - tree_->end) + std::string(kTrailingUnread));
    }
    if (!left_out_.empty()) warnings.push_back("no tensors and therefore left out: " + some_of(left_out_));
    if (!soft_.empty()) warnings.push_back("soft links are not followed: " + some_of(soft_));
    if (!enums_.empty()) warnings.push_back("named integers are read as numbers: " + some_of(enums_));
    std::vector<std::string> unread;
    for (const PlacedDataset& placed : placed_) {
      std::string obstacle = dataset_obstacle(*tree_->objects[placed.object].dataset);
      if (!obstacle.empty()) unread.push_back(core::quote(path_text(placed)) + " (" + obstacle + ")");
    }
    if (!unread.empty()) warnings.push_back("listed, but their values cannot be read: " + some_of(unread));
  }

  const SourcePtr& file_;
  const OpenOptions& options_;
  std::shared_ptr<const Hdf5Tree> tree_;
  std::vector<PlacedDataset> placed_;
  Hdf5Sources sources_;
  std::vector<EntryPtr> entries_;  ///< by object
  std::vector<std::string> names_;
  std::string twice_;
  std::vector<std::string> left_out_;
  std::vector<std::string> soft_;
  std::vector<std::string> enums_;
  bool keras_lists_ = false;
  Checkpoint checkpoint_;
};

}  // namespace

Checkpoint read_hdf5_tree(const SourcePtr& file, const OpenOptions& options) {
  return TreeReader(file, options).run();
}

void warn_of_user_block(const SourcePtr& file, const OpenOptions& options) {
  UserBlock block = find_user_block(file);
  if (block.size > 0 && options.report != nullptr) options.report->warnings.push_back(describe(block));
}

Checkpoint read_hdf5(const Input& input, const OpenOptions& options) {
  warn_of_user_block(input.file, options);
  return read_hdf5_tree(input.file, options);
}

}  // namespace ckpt::detail
