// The proved name maps of golden/zoo/maps: both checkpoints are built from a map with made-up weights, and align() must
// find the map again and rules that reproduce the target.

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "libckpt/ckpt.h"
#include "tests/support/golden_json.h"

namespace {

struct Pair {
  std::string from;
  std::string to;
  std::string operation;
};

struct Map {
  std::vector<Pair> pairs;
  std::vector<std::string> unused;
};

Map read_map(test::Json root) {
  Map out;
  for (test::Json pair : test::items(test::member(root, "pairs"))) {
    std::vector<std::string> texts = test::texts(pair);
    out.pairs.push_back({texts.at(0), texts.at(1), texts.size() > 2 ? texts[2] : ""});
  }
  out.unused = test::texts(test::member(root, "unused"));
  return out;
}

bool is_counter(const std::string& name) {
  return name.ends_with("num_batches_tracked");
}

ckpt::EntryPtr float_entry(std::vector<float> values, core::Shape shape) {
  core::ByteVector raw(values.size() * sizeof(float));
  std::memcpy(raw.data(), values.data(), raw.size());
  auto entry = std::make_shared<ckpt::Entry>();
  entry->shape = std::move(shape);
  entry->bytes = ckpt::memory_source(std::move(raw));
  return entry;
}

/// All counters are alike, as in real files: contents say nothing about them.
ckpt::EntryPtr counter() {
  core::ByteVector raw;
  core::append_le<std::int64_t>(raw, 7);
  auto entry = std::make_shared<ckpt::Entry>();
  entry->dtype = core::DType::i64;
  entry->bytes = ckpt::memory_source(std::move(raw));
  return entry;
}

std::vector<float> random_values(std::size_t count, std::mt19937& random) {
  std::vector<float> out(count);
  for (float& value : out) value = static_cast<float>(random()) / 4.0e9F - 0.5F;
  return out;
}

/// "rows 64 128" -> 64, 128.
std::pair<std::int64_t, std::int64_t> rows_of(const std::string& operation) {
  std::istringstream in(operation.substr(4));
  std::int64_t begin = 0;
  std::int64_t end = 0;
  in >> begin >> end;
  return {begin, end};
}

class Builder {
 public:
  explicit Builder(const Map& map) {
    for (const Pair& pair : map.pairs) {
      if (!pair.operation.starts_with("rows")) continue;
      std::int64_t& rows = rows_[pair.from];
      rows = std::max(rows, rows_of(pair.operation).second);
    }
    for (const Pair& pair : map.pairs) add(pair);
    for (const std::string& name : map.unused) a.items.emplace_back(ckpt::Value::text(name), fresh({5}));
  }

  ckpt::Dict a;
  ckpt::Dict b;

 private:
  ckpt::Value fresh(core::Shape shape) {
    auto count = static_cast<std::size_t>(shape.numel());
    return ckpt::Value::tensor(float_entry(random_values(count, random_), std::move(shape)));
  }

  ckpt::Value source(const Pair& pair) {
    if (is_counter(pair.from)) return ckpt::Value::tensor(counter());
    bool vector = pair.from.ends_with("bias") || pair.from.find("norm") != std::string::npos;
    if (pair.operation.starts_with("rows")) {
      return vector ? fresh({rows_[pair.from]}) : fresh({rows_[pair.from], 3});
    }
    if (pair.operation == "reshape") return pair.to.ends_with("gamma") ? fresh({6, 1, 1}) : fresh({4, 6});
    return vector ? fresh({4}) : fresh({4, 4});
  }

  void add(const Pair& pair) {
    auto [known, is_new] = made_.try_emplace(pair.from);
    if (is_new) {
      known->second = source(pair);
      a.items.emplace_back(ckpt::Value::text(pair.from), known->second);
    }
    b.items.emplace_back(ckpt::Value::text(pair.to), ckpt::Value::tensor(target(pair, known->second.as_entry())));
  }

  static ckpt::EntryPtr target(const Pair& pair, const ckpt::Entry& entry) {
    core::ByteVector raw = ckpt::read_all(*entry.bytes);
    auto out = std::make_shared<ckpt::Entry>(entry);
    if (pair.operation.starts_with("rows")) {
      auto [begin, end] = rows_of(pair.operation);
      std::size_t row = raw.size() / static_cast<std::size_t>(entry.shape[0]);
      raw.assign(raw.begin() + begin * static_cast<std::ptrdiff_t>(row),
                 raw.begin() + end * static_cast<std::ptrdiff_t>(row));
      out->shape[0] = end - begin;
    } else if (pair.operation == "reshape") {
      out->shape = pair.to.ends_with("gamma") ? core::Shape{6} : core::Shape{4, 6, 1, 1};
    } else if (pair.operation == "transpose") {
      core::ByteVector turned(raw.size());
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t k = 0; k < 4; ++k) std::memcpy(&turned[(k * 4 + i) * 4], &raw[(i * 4 + k) * 4], 4);
      }
      raw = std::move(turned);
    }
    out->bytes = ckpt::memory_source(std::move(raw));
    return out;
  }

  std::mt19937 random_{42};
  std::map<std::string, ckpt::Value> made_;
  std::map<std::string, std::int64_t> rows_;
};

ckpt::Checkpoint checkpoint_of(ckpt::Dict dict) {
  ckpt::Checkpoint out;
  out.root = ckpt::Value::dict(std::move(dict));
  return out;
}

std::set<std::pair<std::string, std::string>> edges_of(const ckpt::AlignResult& result) {
  std::set<std::pair<std::string, std::string>> out;
  for (const ckpt::AlignedTensors& pair : result.pairs) {
    for (const std::string& from : pair.from) {
      for (const std::string& to : pair.to) out.emplace(from, to);
    }
  }
  return out;
}

/// "" when the map was found and the rules, read back from their text, make B of A.
std::string check(const Map& map, bool reverse_order) {
  Builder builder(map);
  if (reverse_order) std::reverse(builder.b.items.begin(), builder.b.items.end());
  ckpt::Checkpoint a = checkpoint_of(builder.a);
  ckpt::Checkpoint b = checkpoint_of(builder.b);
  ckpt::AlignResult result = ckpt::align(a, b, {.drop_unused = true});
  std::set<std::pair<std::string, std::string>> wanted;
  for (const Pair& pair : map.pairs) wanted.emplace(pair.from, pair.to);
  std::set<std::pair<std::string, std::string>> found = edges_of(result);
  for (const auto& [from, to] : wanted) {
    if (!found.contains({from, to})) return from + " -> " + to + " was not found";
  }
  if (found.size() != wanted.size()) return "more was found than is there";
  if (!result.complete)
    return "incomplete: " + (result.wrong.empty() ? std::string("leftovers") : result.wrong.front());
  if (result.only_in_a != map.unused) return "other tensors are unused";
  ckpt::Rules rules = ckpt::parse_rules(ckpt::to_toml(result.rules), "rules");
  ckpt::Checkpoint made = rules.empty() ? a : ckpt::apply_rules(a, rules, {.require_matches = true});
  if (ckpt::digest(made.root).model != ckpt::digest(b.root).model) return "the rules do not make B of A";
  std::size_t names = 0;
  for (const ckpt::Rule& rule : result.rules) names += std::max<std::size_t>(rule.names.size(), 1);
  // Patterns, not a list: far fewer than there are names (the shortest maps have a dozen).
  if (names > 12 + map.pairs.size() / 2) return "not generalised: " + ckpt::to_toml(result.rules);
  return "";
}

}  // namespace

int main() {
  return test::golden_entries("align maps", "zoo/maps", ".json",
                              [](test::GoldenRun& run, const std::filesystem::path& file) {
                                for (bool reverse_order : {false, true}) {
                                  std::string id = file.stem().string() + (reverse_order ? " reversed" : "");
                                  test::guarded(run, id, [&] {
                                    test::GoldenJson json(file);
                                    std::string difference = check(read_map(json.root()), reverse_order);
                                    run.check(id, difference.empty(), difference);
                                  });
                                }
                              });
}
