#include "libckpt/format/torch_sharded/torch_sharded.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "libckpt/budget.h"
#include "libckpt/format/shard_index.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

constexpr std::array<std::string_view, 3> kSuffixes = {".bin", ".pt", ".pth"};

bool detect(const Input& input) {
  std::string text;
  if (!is_shard_index(input, text)) return false;
  for (std::string_view suffix : kSuffixes) {
    if (text.find(std::string(suffix) + "\"") != std::string::npos) return true;
  }
  return false;
}

/// A shard is one file of its own, never another index.
Input open_input(const std::filesystem::path& folder, const std::string& name, const OpenOptions& options) {
  constexpr std::uint64_t kHead = 4096;
  Input input{folder / name, open_shard(folder, name, options), {}, nullptr};
  input.head.resize(std::min(kHead, input.file->size()));
  input.file->read(0, input.head);
  return input;
}

const Format& shard_format(const Input& input) {
  const Format& format = detect_format(input);
  if (format.torch_save) return format;
  throw Error(ErrorCode::corrupt, "it is a " + std::string(format.title) + " where a PyTorch file is needed");
}

struct Shard {
  std::string name;
  Value root;
  std::unordered_map<std::string_view, const Value*> values;
};

/// Remarks about a shard say which one it is.
void merge_report(const std::string& name, const Report& from, Report& to) {
  auto move = [&](const std::vector<std::string>& texts, std::vector<std::string>& out) {
    for (const std::string& text : texts) out.push_back("shard " + quote(name) + ": " + text);
  };
  move(from.warnings, to.warnings);
  move(from.relaxations, to.relaxations);
  to.foreign.insert(to.foreign.end(), from.foreign.begin(), from.foreign.end());
}

Shard read_shard(const Input& index, const std::string& name, const OpenOptions& options) {
  Report report;
  OpenOptions inner = options;
  if (options.report != nullptr) inner.report = &report;
  Input input = open_input(index.path.parent_path(), name, options);
  if (index.budget) index.budget->add_disk(input.file->size());
  Shard shard{name, shard_format(input).read(input, inner).root, {}};
  if (!shard.root.is(Value::Kind::dict)) throw Error(ErrorCode::corrupt, "it is not a dict of tensors");
  for (const auto& [key, value] : shard.root.as_dict().items) {
    if (key.is(Value::Kind::text)) shard.values.emplace(key.as_text(), &value);
  }
  if (options.report != nullptr) merge_report(name, report, *options.report);
  return shard;
}

std::vector<Shard> read_shards(const Input& input, const ShardIndex& index, const OpenOptions& options) {
  require_shards(input.path.parent_path(), index);
  std::vector<Shard> shards;
  for (const std::string& name : index.files) {
    shards.push_back(core::with_context("shard " + quote(name), [&] { return read_shard(input, name, options); }));
  }
  return shards;
}

/// What shards hold beyond, or against, the index.
std::vector<Finding> find_strays(const ShardIndex& index, const std::vector<Shard>& shards) {
  std::unordered_map<std::string_view, std::string_view> listed;
  for (const auto& [tensor, file] : index.weight_map) listed.emplace(tensor, file);
  std::vector<Finding> findings;
  for (const Shard& shard : shards) {
    for (const auto& [key, value] : shard.root.as_dict().items) {
      std::string name = step_text(key);
      auto found = listed.find(name);
      if (found != listed.end() && found->second == shard.name) continue;
      std::string where =
          found == listed.end() ? "the index does not list it" : "the index places it in " + quote(found->second);
      findings.push_back({name, "is in the shard " + quote(shard.name) + ", but " + where});
    }
  }
  return findings;
}

/// Per-module versions of all shards together.
Value merge_versions(const std::vector<Shard>& shards) {
  Dict merged;
  merged.type = "collections.OrderedDict";
  std::unordered_map<std::string, bool> seen;
  for (const Shard& shard : shards) {
    const Value* versions = shard.root.as_dict().attributes.find("_metadata");
    if (versions == nullptr || !versions->is(Value::Kind::dict)) continue;
    for (const auto& [key, value] : versions->as_dict().items) {
      if (key.is(Value::Kind::text) && seen.emplace(key.as_text(), true).second) merged.items.emplace_back(key, value);
    }
  }
  if (merged.items.empty()) return {};
  Dict attributes;
  attributes.items.emplace_back(Value::text("_metadata"), Value::dict(std::move(merged)));
  return Value::dict(std::move(attributes));
}

Value join_shards(const ShardIndex& index, const std::vector<Shard>& shards) {
  std::unordered_map<std::string_view, const Shard*> by_name;
  for (const Shard& shard : shards) by_name.emplace(shard.name, &shard);
  Dict dict;
  dict.type = "collections.OrderedDict";
  for (const auto& [tensor, file] : index.weight_map) {
    const Shard& shard = *by_name.at(file);
    auto found = shard.values.find(tensor);
    if (found == shard.values.end()) {
      throw Error(ErrorCode::corrupt, "the index places tensor " + quote(tensor) + " in the shard " + quote(file) +
                                          ", which does not hold it");
    }
    dict.items.emplace_back(Value::text(tensor), *found->second);
  }
  dict.attributes = merge_versions(shards);
  return Value::dict(std::move(dict));
}

Checkpoint read(const Input& input, const OpenOptions& options) {
  const Report before = options.report == nullptr ? Report() : *options.report;
  ShardIndex index;
  std::vector<Shard> shards;
  Checkpoint checkpoint;
  read_until_it_stands(input, [&](const Input& now) {
    if (options.report != nullptr) *options.report = before;
    index = read_shard_index(now, options, kSuffixes);
    shards = read_shards(now, index, options);
    checkpoint.root = join_shards(index, shards);
  });
  checkpoint.metadata = index.metadata;
  if (options.report != nullptr) {
    for (const Finding& stray : find_strays(index, shards)) {
      options.report->warnings.push_back("tensor " + quote(stray.subject) + " " + stray.text);
    }
  }
  return checkpoint;
}

/// What all shards have in common.
ChecksumCover cover_of(const std::vector<ChecksumCover>& shards) {
  bool same = !shards.empty() &&
              std::all_of(shards.begin(), shards.end(), [&](ChecksumCover cover) { return cover == shards.front(); });
  return same ? shards.front() : ChecksumCover::some;
}

VerifyResult verify(const Input& input, const OpenOptions& options, const Progress& progress) {
  ShardIndex index = read_shard_index(input, options, kSuffixes);
  VerifyResult result;
  result.method = "what each shard records, and index and shards against each other";
  std::filesystem::path folder = input.path.parent_path();
  std::vector<ChecksumCover> covers;
  for (const std::string& name : index.files) {
    core::with_context("shard " + quote(name), [&] {
      Input shard = open_input(folder, name, options);
      VerifyResult part = shard_format(shard).verify(shard, options, progress);
      covers.push_back(part.checksums);
      for (Finding& damage : part.damage)
        result.damage.push_back({name + ": " + damage.subject, damage.text, damage.hint});
      for (Finding& note : part.notes) result.notes.push_back({name + ": " + note.subject, note.text, note.hint});
      result.tensors_checked += part.tensors_checked;
      result.bytes_checked += part.bytes_checked;
    });
  }
  result.checksums = cover_of(covers);
  OpenOptions inner = options;
  inner.foreign_objects = true;
  inner.lenient = true;
  inner.report = nullptr;
  std::vector<Shard> shards = read_shards(input, index, inner);
  join_shards(index, shards);
  for (Finding& stray : find_strays(index, shards)) result.damage.push_back(std::move(stray));
  return result;
}

}  // namespace

const Format kTorchSharded = {
    .name = "torch-sharded",
    .title = "sharded PyTorch checkpoint",
    .extensions = {},
    .detect = detect,
    .read = read,
    .verify = verify,
    .several_files = true,
    .writes_as = "torch-zip",
};

}  // namespace ckpt::detail
