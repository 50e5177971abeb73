// Every proved name map of the golden data (torchvision, timm, transformers, nanoGPT, old files): from names and shapes
// alone, `why` has to find a plan that brings each tensor to the name the map gives it. Tensors carry their old name
// through the plan, so that an exchange of two of one shape is seen.

#include <algorithm>
#include <unordered_map>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/zoo/map_files.h"

namespace {

namespace fs = std::filesystem;
using ckpt::KeyList;
using ckpt::Value;
using test::MapPair;

class Zeros final : public ckpt::ByteSource {
 public:
  explicit Zeros(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  void require_unchanged() const override {}
  void read(std::uint64_t, ckpt::MutableBytes out) const override { std::fill(out.begin(), out.end(), std::byte{0}); }

 private:
  std::uint64_t size_;
};

Value marked(const std::string& name, const core::Shape& shape, core::DType dtype) {
  ckpt::Entry entry;
  entry.shape = shape;
  entry.dtype = dtype;
  entry.python_class = name;
  entry.bytes = std::make_shared<Zeros>(core::byte_size(dtype, entry.numel()).value());
  return Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

struct Sides {
  ckpt::Checkpoint file;
  KeyList wanted;
  std::unordered_map<std::string, std::string> from;  ///< target name -> source name
};

Sides build(std::vector<MapPair> pairs, const KeyList& model, bool source) {
  std::unordered_map<std::string, std::size_t> order;
  for (std::size_t i = 0; i < model.keys.size(); ++i) order.emplace(model.keys[i].key, i);
  auto known = [&](const MapPair& pair) { return order.find(source ? pair.from : pair.to); };
  std::erase_if(pairs, [&](const MapPair& pair) { return known(pair) == order.end(); });
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const MapPair& a, const MapPair& b) { return known(a)->second < known(b)->second; });
  Sides sides;
  ckpt::Dict dict;
  for (const MapPair& pair : pairs) {
    const ckpt::WantedKey& key = model.keys[known(pair)->second];
    core::Shape other = test::other_shape(*key.shape, pair.operation);
    dict.items.emplace_back(Value::text(pair.from), marked(pair.from, source ? *key.shape : other, *key.dtype));
    sides.wanted.keys.push_back({pair.to, source ? other : *key.shape, key.dtype});
    sides.from.emplace(pair.to, pair.from);
  }
  sides.wanted.name = "target";
  sides.file.root = Value::dict(std::move(dict));
  return sides;
}

std::string check(const Sides& sides) {
  ckpt::Diagnosis d = ckpt::why({&sides.file, "file", {}, {}}, {.wanted = {sides.wanted}});
  if (!d.causes.empty() && !d.fixable())
    return std::to_string(d.after.keys) + " of " + std::to_string(d.after.wanted) + " keys found";
  ckpt::Checkpoint fixed = ckpt::apply_fix(sides.file, d.plan);
  for (const auto& [key, value] : fixed.root.as_dict().items) {
    auto from = sides.from.find(ckpt::step_text(key));
    if (from == sides.from.end()) return ckpt::step_text(key) + " is not wanted";
    if (value.as_entry().python_class != from->second)
      return from->first + " comes from " + value.as_entry().python_class;
  }
  return fixed.root.as_dict().items.size() == sides.wanted.keys.size() ? "" : "keys are missing";
}

void run_map(test::GoldenRun& run, const fs::path& file) {
  std::string name = file.stem().string();
  try {
    std::optional<test::MapFile> map = test::read_map(file);
    if (!map) return run.skip(name, "map_files.cpp does not name it, or its model is not here");
    std::erase_if(map->pairs, [](const MapPair& pair) { return pair.operation.starts_with("rows"); });
    std::string wrong = check(build(map->pairs, map->model, map->model_is_source));
    run.check(name, wrong.empty(), wrong);
  } catch (const core::Error& error) {
    run.fail(name, error.what());
  }
}

}  // namespace

int main() {
  return test::golden_entries("zoo_maps", "zoo/maps", "", run_map);
}
