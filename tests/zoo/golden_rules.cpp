// Every proved name map of the golden data against the shipped rule packs: the same keys, the same operation on each
// (seen in the values), and back again; and `why` finds the pack by itself in both directions and guesses nothing.

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"
#include "tests/zoo/map_files.h"
#include "zoo/rules/rule_packs.h"

namespace {

namespace fs = std::filesystem;
using ckpt::Checkpoint;
using ckpt::Entry;
using ckpt::KeyList;
using ckpt::Value;
using test::MapFile;
using test::MapPair;

/// Words of four bytes that say which tensor and which element they are.
std::uint32_t word(std::uint32_t tensor, std::uint64_t element) {
  return tensor * 0x9E3779B1U + static_cast<std::uint32_t>(element);
}

class Words final : public ckpt::ByteSource {
 public:
  Words(std::uint32_t tensor, std::uint64_t size) : tensor_(tensor), size_(size) {}
  std::uint64_t size() const override { return size_; }
  void require_unchanged() const override {}
  void read(std::uint64_t offset, ckpt::MutableBytes out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint64_t at = offset + i;
      out[i] = static_cast<std::byte>(word(tensor_, at / 4) >> (8 * (at % 4)));
    }
  }

 private:
  std::uint32_t tensor_;
  std::uint64_t size_;
};

std::map<std::string, const Entry*> entries_of(const Checkpoint& file) {
  std::map<std::string, const Entry*> out;
  for (const auto& [key, value] : file.root.as_dict().items) out.emplace(key.as_text(), &value.as_entry());
  return out;
}

/// Some words of a tensor: of its start and its end.
std::vector<std::uint32_t> sample(const Entry& entry) {
  constexpr std::uint64_t kMost = 4096;
  core::ByteVector bytes(std::min(entry.bytes->size(), kMost));
  core::ByteVector end(bytes.size());
  entry.bytes->read(0, bytes);
  entry.bytes->read(entry.bytes->size() - end.size(), end);
  bytes.insert(bytes.end(), end.begin(), end.end());
  std::vector<std::uint32_t> words(bytes.size() / 4);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(words.data()));
  return words;
}

struct Source {
  Checkpoint file;
  std::map<std::string, std::uint32_t> number;  ///< of each key
};

void add(Source& source, ckpt::Dict& dict, const std::string& name, const core::Shape& shape, core::DType dtype) {
  const auto number = static_cast<std::uint32_t>(source.number.size());
  if (!source.number.emplace(name, number).second) return;
  Entry entry;
  entry.shape = shape;
  entry.dtype = dtype;
  entry.bytes = std::make_shared<Words>(number, core::byte_size(dtype, entry.numel()).value());
  dict.items.emplace_back(Value::text(name), Value::tensor(std::make_shared<const Entry>(std::move(entry))));
}

/// A file with the names of a map's source side: the whole model, or what an old file of it has.
Source source_of(const MapFile& map) {
  Source source;
  ckpt::Dict dict;
  std::map<std::string, std::vector<std::string>> froms;
  for (const MapPair& pair : map.pairs) froms[pair.to].push_back(pair.from);
  for (const ckpt::WantedKey& key : map.model.keys) {
    if (map.model_is_source) add(source, dict, key.key, *key.shape, *key.dtype);
    for (const std::string& from : froms[key.key]) {
      if (!map.model_is_source) add(source, dict, from, *key.shape, *key.dtype);
    }
  }
  source.file.root = Value::dict(std::move(dict));
  return source;
}

/// The element of the source that a pair puts at `element` of a target of this shape.
std::uint64_t origin(const MapPair& pair, const core::Shape& shape, std::uint64_t element) {
  if (pair.operation == "transpose") {
    const auto rows = static_cast<std::uint64_t>(shape[0]), columns = static_cast<std::uint64_t>(shape[1]);
    return element % columns * rows + element / columns;
  }
  if (!pair.operation.starts_with("rows")) return element;
  std::uint64_t row = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) row *= static_cast<std::uint64_t>(shape[d]);
  return std::stoull(pair.operation.substr(5)) * row + element;
}

/// What stands against a tensor being what its pair says, or "".
std::string check_pair(const MapPair& pair, const Source& source, const Entry& made) {
  const Entry& from = *entries_of(source.file).at(pair.from);
  core::Shape wanted = pair.operation.starts_with("rows") ? made.shape : test::other_shape(from.shape, pair.operation);
  if (made.shape != wanted) return pair.to + " is " + core::to_list(made.shape);
  const std::uint32_t number = source.number.at(pair.from);
  std::vector<std::uint32_t> words = sample(made);
  const std::uint64_t total = made.bytes->size() / 4, half = words.size() / 2;
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    const std::uint64_t element = i < half ? i : total - words.size() + i;
    if (words[i] != word(number, origin(pair, made.shape, element))) return pair.to + " has other values";
  }
  return "";
}

/// Every pair, and no key beyond them but `others`.
std::string check_pairs(const MapFile& map, const Source& source, const Checkpoint& made, std::size_t others) {
  auto entries = entries_of(made);
  std::set<std::string> targets;
  for (const MapPair& pair : map.pairs) {
    auto found = entries.find(pair.to);
    if (found == entries.end()) return "no key " + pair.to;
    if (std::string wrong = check_pair(pair, source, *found->second); !wrong.empty()) return wrong;
    targets.insert(pair.to);
  }
  return entries.size() == targets.size() + others ? "" : "there are " + std::to_string(entries.size()) + " keys";
}

/// `made` has the tensors of `wanted` under its names; others may be there too.
std::string check_same(const Checkpoint& made, const Checkpoint& wanted, const std::set<std::string>& keys) {
  auto entries = entries_of(made);
  for (const auto& [key, entry] : entries_of(wanted)) {
    if (!keys.contains(key)) continue;
    auto found = entries.find(key);
    if (found == entries.end()) return "no key " + key + " on the way back";
    bool same = found->second->shape == entry->shape && sample(*found->second) == sample(*entry);
    if (!same) return key + " differs on the way back";
  }
  return "";
}

Checkpoint apply_packs(Checkpoint file, std::vector<std::string> names, bool backwards) {
  if (backwards) std::reverse(names.begin(), names.end());
  for (const std::string& name : names) {
    ckpt::RulePack pack = *zoo::find_rule_pack(name);
    file = ckpt::apply_rules(file, backwards ? ckpt::turned_round(pack).rules : pack.rules);
  }
  return file;
}

KeyList wanted_of(const std::string& name, const Checkpoint& file, const std::set<std::string>& keys) {
  KeyList list;
  list.name = name;
  for (const auto& [key, value] : file.root.as_dict().items) {
    const Entry& entry = value.as_entry();
    if (keys.contains(key.as_text())) list.keys.push_back({key.as_text(), entry.shape, entry.dtype});
  }
  return list;
}

/// What `why` makes of a file; it may guess nothing.
Checkpoint fixed(const Checkpoint& file, const KeyList& wanted, const MapFile& map, std::string& wrong) {
  ckpt::WhyOptions options;
  options.wanted = {wanted};
  options.packs = []() -> const std::vector<ckpt::RulePack>& { return zoo::rule_packs(); };
  ckpt::Diagnosis d = ckpt::why({&file, "file", {}, {}}, options);
  if (!d.loads() && !d.fixable()) wrong = std::to_string(d.after.keys) + " of " + std::to_string(d.after.wanted);
  if (d.guesses()) wrong = "it guesses";
  bool named = d.loads() || std::any_of(d.plan.steps.begin(), d.plan.steps.end(), [&](const ckpt::FixStep& step) {
                 return step.kind == ckpt::FixStep::Kind::rules && step.at == map.packs.front();
               });
  if (!named) wrong = "it does not find the rules " + map.packs.front();
  if (!wrong.empty()) return file;
  return ckpt::apply_fix(file, d.plan);
}

std::string check(const MapFile& map) {
  Source source = source_of(map);
  std::set<std::string> from_keys, to_keys;
  for (const MapPair& pair : map.pairs) {
    from_keys.insert(pair.from);
    to_keys.insert(pair.to);
  }
  const std::size_t unused = source.number.size() - from_keys.size();
  Checkpoint target = apply_packs(source.file, map.packs, map.backwards);
  if (std::string wrong = check_pairs(map, source, target, unused); !wrong.empty()) return wrong;
  std::set<std::string> all_keys;
  for (const auto& [key, number] : source.number) all_keys.insert(key);
  Checkpoint back = apply_packs(target, map.packs, !map.backwards);
  if (std::string wrong = check_same(back, source.file, all_keys); !wrong.empty()) return wrong;

  std::string wrong;
  Checkpoint there = fixed(source.file, wanted_of("target", target, to_keys), map, wrong);
  if (wrong.empty()) wrong = check_pairs(map, source, there, 0);
  if (!wrong.empty()) return "why to the target: " + wrong;
  ckpt::Dict kept;  // without what the target does not save
  for (const auto& [key, value] : target.root.as_dict().items) {
    if (to_keys.contains(key.as_text())) kept.items.emplace_back(key, value);
  }
  Checkpoint saved;
  saved.root = Value::dict(std::move(kept));
  Checkpoint home = fixed(saved, wanted_of("source", source.file, all_keys), map, wrong);
  if (wrong.empty()) wrong = check_same(home, source.file, from_keys);
  return wrong.empty() ? "" : "why to the source: " + wrong;
}

/// Hugging Face writes some tensors under other names than its modules have; that is a map too.
std::optional<MapFile> saved_names(const fs::path& file) {
  ckpt::JsonDocument golden = ckpt::JsonDocument::parse(std::string_view(test::read_file(file)));
  if (!golden.root().has("saved") || !golden.root().at("saved").has("renamed")) return std::nullopt;
  MapFile map;
  map.name = file.stem().string() + "_saved";
  map.model = ckpt::parse_key_list(test::read_file(file), map.name);
  map.packs = {"hf-vit-5"};
  map.backwards = true;
  std::map<std::string, std::string> renamed;
  for (const ckpt::JsonView& pair : golden.root().at("saved").at("renamed").items()) {
    renamed.emplace(std::string(pair.items()[0].as_text()), std::string(pair.items()[1].as_text()));
  }
  for (const ckpt::WantedKey& key : map.model.keys) {
    auto other = renamed.find(key.key);
    map.pairs.push_back({key.key, other == renamed.end() ? key.key : other->second, ""});
  }
  return renamed.empty() ? std::nullopt : std::optional(std::move(map));
}

void run_map(test::GoldenRun& run, const std::string& name, const std::function<std::optional<MapFile>()>& read) {
  try {
    std::optional<MapFile> map = read();
    if (!map) return run.skip(name, "map_files.cpp does not name it, or its model is not here");
    std::string wrong = check(*map);
    run.check(name, wrong.empty(), wrong);
  } catch (const core::Error& error) {
    run.fail(name, error.what());
  }
}

}  // namespace

int main() {
  test::GoldenRun run("zoo_rules");
  auto folder = test::golden_file("zoo/maps");
  if (!folder) return 77;
  for (const auto& entry : fs::directory_iterator(*folder)) {
    run_map(run, entry.path().stem().string(), [&] { return test::read_map(entry.path()); });
  }
  for (const char* model : {"hf_vit_base", "hf_vit_tiny"}) {
    auto file = test::golden_file("zoo/language/" + std::string(model) + ".json");
    run_map(run, std::string(model) + "_saved", [&] { return file ? saved_names(*file) : std::nullopt; });
  }
  return run.finish();
}
