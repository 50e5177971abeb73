#include "libckpt/format/safetensors/present_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/format/safetensors/shards.h"
#include "libckpt/hint.h"
#include "libckpt/io/json.h"
#include "libckpt/io/mentions.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;
namespace fs = std::filesystem;

constexpr std::string_view kFileEnding = ".safetensors";
constexpr std::size_t kMaxNamed = 3;

using Identity = std::pair<dev_t, ino_t>;

std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

/// The index that lies there now.
struct PresentIndex {
  std::string text;
  std::unordered_map<std::string, std::string> file_of;  ///< by tensor
  std::vector<std::string> files;                        ///< plain names of safetensors files
};

void read_index(const fs::path& path, PresentIndex& index) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  SourcePtr file = open_file(path);
  if (file->size() > Limits().max_json_bytes) return;
  JsonDocument json = JsonDocument::parse(read_all(*file));
  std::unordered_set<std::string> seen;
  for (const auto& [tensor, shard] : json.root().at("weight_map").members()) {
    std::string name(shard.is(JsonView::Kind::text) ? shard.as_text() : std::string_view());
    if (!name.ends_with(kFileEnding) || !is_plain_name(name)) continue;
    index.file_of.emplace(tensor, name);
    if (seen.insert(name).second) index.files.push_back(name);
  }
  index.text = json.text();
}

PresentIndex present_index(const fs::path& path) {
  PresentIndex index;
  try {
    read_index(path, index);
  } catch (const Error&) {
    return {};  // it is none of ours, and names nothing
  }
  return index;
}

/// Files that the new model is read from.
class Sources {
 public:
  Sources(const Checkpoint& checkpoint, const std::vector<FlatTensor>& tensors) {
    struct stat status {};
    if (!checkpoint.path.empty() && ::stat(checkpoint.path.c_str(), &status) == 0) add(status);
    std::unordered_set<int> seen;
    for (const FlatTensor& tensor : tensors) {
      std::optional<FileRange> range = tensor.entry->bytes ? tensor.entry->bytes->file_range() : std::nullopt;
      if (range && seen.insert(range->fd).second && ::fstat(range->fd, &status) == 0) add(status);
    }
    if (auto shards = std::dynamic_pointer_cast<const SafetensorsShards>(checkpoint.detail)) {
      for (const SafetensorsShard& shard : shards->shards) {
        std::optional<FileRange> range = shard.detail->file->file_range();
        if (range && ::fstat(range->fd, &status) == 0) add(status);
      }
    }
  }
  bool hold(const struct stat& status) const { return files_.contains({status.st_dev, status.st_ino}); }

 private:
  void add(const struct stat& status) { files_.emplace(status.st_dev, status.st_ino); }
  std::set<Identity> files_;
};

/// "model-00001-of-00002.safetensors" and "model-g2-00001-of-00002.safetensors" for the stem "model".
bool is_shard_of(std::string_view name, const std::string& stem) {
  auto skip_digits = [&] {
    std::size_t count = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(count);
    return count > 0;
  };
  auto skip = [&](std::string_view text) {
    bool there = name.starts_with(text);
    if (there) name.remove_prefix(text.size());
    return there;
  };
  if (!skip(stem) || !skip("-")) return false;
  if (skip("g") && (!skip_digits() || !skip("-"))) return false;
  return skip_digits() && skip("-of-") && skip_digits() && name == kFileEnding;
}

/// The set that the checkpoint was read from, when that is the one at `index_path`.
std::shared_ptr<const SafetensorsShards> set_at(const Checkpoint& checkpoint, const fs::path& index_path) {
  auto shards = std::dynamic_pointer_cast<const SafetensorsShards>(checkpoint.detail);
  std::error_code error;
  bool same = shards && fs::equivalent(shards->index_path, index_path, error) && !error;
  return same ? shards : nullptr;
}

class Judge {
 public:
  Judge(const Checkpoint& checkpoint, const std::vector<FlatTensor>& tensors, const fs::path& index_path)
      : index_(present_index(index_path)),
        folder_(index_path.parent_path()),
        stem_(shard_stem(index_path)),
        sources_(checkpoint, tensors),
        edited_(set_at(checkpoint, index_path)) {
    if (edited_ && edited_->index_text != index_.text) edited_ = nullptr;  // another model stands there now
    for (std::size_t i = 0; edited_ && i < edited_->shards.size(); ++i) {
      read_.emplace(edited_->shards[i].file_name, edited_->shards[i].detail->file.get());
    }
  }

  SupersededShards run() const {
    SupersededShards out;
    for (const std::string& name : index_.files) {
      std::optional<struct stat> status = status_of(folder_ / name);
      if (!status) continue;
      std::string reason = objection(name, *status);
      if (reason.empty()) {
        out.removable.push_back(name);
      } else {
        out.left.push_back({name, std::move(reason)});
      }
    }
    return out;
  }

 private:
  /// Why the file may not be removed, "" for nothing.
  std::string objection(const std::string& name, const struct stat& status) const {
    if (!S_ISREG(status.st_mode)) return "it is not a regular file";
    std::optional<std::size_t> unlisted = count_unlisted(name);
    if (!unlisted) return "it cannot be read as safetensors";
    if (*unlisted > 0) {
      return "the index does not list " + core::format_count(*unlisted) + " of its tensors";
    }
    if (edited_) return is_as_read(name) ? "" : "another program replaced it";
    if (!is_shard_of(name, stem_)) return "its name is not that of a shard of this model";
    return sources_.hold(status) ? "the new model was read from it" : "";
  }

  std::optional<std::size_t> count_unlisted(const std::string& name) const {
    try {
      std::size_t count = 0;
      for (const SafetensorsItem& item : read_safetensors_header(*open_file(folder_ / name), {}).items) {
        auto listed = index_.file_of.find(item.name);
        count += listed == index_.file_of.end() || listed->second != name ? 1 : 0;
      }
      return count;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  bool is_as_read(const std::string& name) const {
    auto found = read_.find(name);
    return found != read_.end() && is_file_of(*found->second, folder_ / name);
  }

  PresentIndex index_;
  fs::path folder_;
  std::string stem_;
  Sources sources_;
  std::shared_ptr<const SafetensorsShards> edited_;
  std::unordered_map<std::string, const ByteSource*> read_;  ///< files of the edited set
};

/// Compares what is written with what a file holds; nothing is kept.
class ComparingSink final : public ByteSink {
 public:
  explicit ComparingSink(SourcePtr present) : present_(std::move(present)) {}

  void write(Bytes bytes) override {
    if (same_) same_ = holds(bytes);
    position_ += bytes.size();
  }
  void write_from(const ByteSource& source) override {
    if (same_) return ByteSink::write_from(source);
    position_ += source.size();
  }
  std::uint64_t position() const override { return position_; }
  bool same() const { return same_ && position_ == present_->size(); }

 private:
  bool holds(Bytes bytes) {
    if (bytes.size() > present_->size() - position_) return false;
    buffer_.resize(bytes.size());
    present_->read(position_, buffer_);
    return std::equal(bytes.begin(), bytes.end(), buffer_.begin());
  }

  SourcePtr present_;
  core::ByteVector buffer_;
  std::uint64_t position_ = 0;
  bool same_ = true;
};

}  // namespace

SupersededShards find_superseded(const Checkpoint& checkpoint, const std::vector<FlatTensor>& tensors,
                                 const fs::path& index_path) {
  return Judge(checkpoint, tensors, index_path).run();
}

void require_all_listed(const Checkpoint& checkpoint, const fs::path& index_path) {
  std::shared_ptr<const SafetensorsShards> edited = set_at(checkpoint, index_path);
  if (!edited || edited->lenient) return;
  std::vector<Finding> unlisted = find_unlisted_tensors(*edited);
  if (unlisted.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(unlisted.size(), kMaxNamed); ++i) {
    names += (i == 0 ? "" : ", ") + quote(unlisted[i].subject) + " " + unlisted[i].text;
  }
  if (unlisted.size() > kMaxNamed) names += ", and more";
  HintedError error(
      ErrorCode::corrupt,
      "this would drop " + core::format_count(unlisted.size()) + (unlisted.size() == 1 ? " tensor" : " tensors") +
          " of the model: " + names,
      Hint{"correct the index, or leave them behind with {}, which keeps their files", {{Hint::Option::lenient}}});
  error.add_context(index_path);
  throw error;
}

bool holds_plan(const fs::path& path, const SafetensorsPlan& plan) {
  std::optional<struct stat> status = status_of(path);
  bool alone = status && S_ISREG(status->st_mode) && status->st_uid == ::geteuid() && status->st_nlink == 1;
  if (!alone || static_cast<std::uint64_t>(status->st_size) != plan.total_size()) return false;
  try {
    ComparingSink sink(open_file(path));
    plan.write(sink, [](std::uint64_t) {});
    return sink.same();
  } catch (const Error&) {
    return false;  // whatever cannot be read is not used; writing says what is wrong
  }
}

}  // namespace ckpt::detail
