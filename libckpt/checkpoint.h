#pragma once
// Checkpoint: a file as a tree of values with lazy tensors, and helpers that walk it.
// Thread safety: immutable once built. Use: for (auto& e : ckpt::list_entries(checkpoint.root)) std::cout << e.name;

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/entry.h"
#include "libckpt/value.h"

namespace ckpt {

/// What one format remembers of a file so that it can write it back as it was. Each format derives its own.
struct FormatDetail {
  virtual ~FormatDetail() = default;
  /// The open file, where all was read from one; else null.
  virtual const ByteSource* file_read() const { return nullptr; }
};

struct Checkpoint {
  Value root;                  ///< usually a dict; a bare tensor or list is allowed
  std::string format;          ///< name of the format it was read from, "" for one built in memory
  std::filesystem::path path;  ///< where it was read from
  std::vector<std::pair<std::string, std::string>> metadata;  ///< file-level text (safetensors __metadata__), in order
  std::shared_ptr<const FormatDetail> detail;                 ///< null unless the format left one
};

/// A tensor with its place in the tree.
struct NamedEntry {
  std::vector<Value> path;  ///< keys and indexes from the root
  std::string name;         ///< the path joined with dots: "model.fc.weight", "optimizer.state.0.exp_avg"
  EntryPtr entry;
};

/// All tensors in file order, also those inside lists, tuples and objects.
std::vector<NamedEntry> list_entries(const Value& root);

/// The value at "model" or "ema.model" (text keys; an index where the value is a list). Keys that contain dots are
/// matched longest first. Error(key) names what is there instead.
const Value& value_at(const Value& root, std::string_view path);

/// "model", 0 or (1, 2) as one step of a dotted name.
std::string step_text(const Value& step);

/// Steps joined with dots.
std::string path_text(const std::vector<Value>& path);

/// The Python name of a value's type: "int", "collections.OrderedDict", "tensor", "torch.Size".
std::string type_text(const Value& value);

/// Per-module versions of a state dict: [module path, version] from its _metadata, in order; empty when it has none.
std::vector<std::pair<std::string, std::int64_t>> module_versions(const Dict& state_dict);

}  // namespace ckpt
