// Every proved name map of the golden data (torchvision, timm, transformers, nanoGPT, old files): from names and shapes
// alone, `why` has to find a plan that brings each tensor to the name the map gives it. Tensors carry their old name
// through the plan, so that an exchange of two of one shape is seen.

#include <algorithm>
#include <unordered_map>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why_fix.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using ckpt::KeyList;
using ckpt::Value;

/// The model whose shapes a map goes by, and on which side of its pairs the names of that model stand.
struct Shapes {
  const char* map;
  const char* model;
  bool source;
};
constexpr Shapes kShapes[] = {
    {"convnext_tiny_torchvision_timm", "vision/convnext_tiny", true},
    {"efficientnet_b0_torchvision_timm", "vision/efficientnet_b0", true},
    {"gpt2_hf_nanogpt", "language/gpt2_tiny", true},
    {"legacy_bert_gamma_beta", "language/bert_tiny", false},
    {"legacy_torchvision_densenet121", "vision/densenet121", false},
    {"legacy_torchvision_vit", "vision/vit_small_twin", false},
    {"mobilenet_v2_torchvision_timm", "vision/mobilenet_v2", true},
    {"mobilenet_v3_small_torchvision_timm", "vision/mobilenet_v3_small", true},
    {"regnet_y_400mf_torchvision_timm", "vision/regnet_y_400mf", true},
    {"resnet18_torchvision_hf", "vision/resnet18", true},
    {"resnet18_torchvision_timm", "vision/resnet18", true},
    {"resnet50_torchvision_hf", "vision/resnet50", true},
    {"swin_t_torchvision_timm", "vision/swin_t", true},
    {"vit_torchvision_hf", "vision/vit_small_twin", true},
    {"vit_torchvision_timm", "vision/vit_small_twin", true},
};

class Zeros final : public ckpt::ByteSource {
 public:
  explicit Zeros(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t, ckpt::MutableBytes out) const override { std::fill(out.begin(), out.end(), std::byte{0}); }

 private:
  std::uint64_t size_;
};

struct Pair {
  std::string from;
  std::string to;
  std::string operation;
};

std::vector<Pair> read_pairs(const ckpt::JsonView& map, const KeyList& model) {
  std::vector<Pair> pairs;
  for (const ckpt::JsonView& item : map.at("pairs").items()) {
    std::vector<ckpt::JsonView> parts = item.items();
    std::string operation = parts.size() > 2 ? std::string(parts[2].as_text()) : "";
    if (!operation.starts_with("rows"))
      pairs.push_back({std::string(parts[0].as_text()), std::string(parts[1].as_text()), operation});
  }
  if (!map.has("same_names")) return pairs;
  std::unordered_map<std::string, bool> named;
  for (const Pair& pair : pairs) named[pair.to] = true;
  for (const ckpt::WantedKey& key : model.keys) {
    bool counter = key.key.ends_with("num_batches_tracked");
    if (!counter && !named.contains(key.key)) pairs.push_back({key.key, key.key, ""});
  }
  return pairs;
}

/// The other side's shape: reversed, or with dimensions of 1 added or taken away.
core::Shape other_shape(const core::Shape& shape, const std::string& operation) {
  core::Shape out;
  if (operation == "transpose") {
    for (std::size_t d = shape.size(); d-- > 0;) out.push_back(shape[d]);
    return out;
  }
  if (operation != "reshape") return shape;
  if (shape.size() == 2) return core::Shape{shape[0], shape[1], 1, 1};
  for (std::int64_t size : shape) {
    if (size != 1) out.push_back(size);
  }
  return out;
}

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

Sides build(std::vector<Pair> pairs, const KeyList& model, bool source) {
  std::unordered_map<std::string, std::size_t> order;
  for (std::size_t i = 0; i < model.keys.size(); ++i) order.emplace(model.keys[i].key, i);
  auto known = [&](const Pair& pair) { return order.find(source ? pair.from : pair.to); };
  std::erase_if(pairs, [&](const Pair& pair) { return known(pair) == order.end(); });
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const Pair& a, const Pair& b) { return known(a)->second < known(b)->second; });
  Sides sides;
  ckpt::Dict dict;
  for (const Pair& pair : pairs) {
    const ckpt::WantedKey& key = model.keys[known(pair)->second];
    core::Shape other = other_shape(*key.shape, pair.operation);
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
  const Shapes* shapes = nullptr;
  for (const Shapes& candidate : kShapes) {
    if (name == candidate.map) shapes = &candidate;
  }
  auto model_file = shapes == nullptr ? std::nullopt : test::golden_file("zoo/" + std::string(shapes->model) + ".json");
  if (!model_file) return run.skip(name, "the model's shapes are not here");
  try {
    ckpt::JsonDocument map = ckpt::JsonDocument::parse(std::string_view(test::read_file(file)));
    KeyList model = ckpt::parse_key_list(test::read_file(*model_file), shapes->model);
    std::string wrong = check(build(read_pairs(map.root(), model), model, shapes->source));
    run.check(name, wrong.empty(), wrong);
  } catch (const core::Error& error) {
    run.fail(name, error.what());
  }
}

}  // namespace

int main() {
  test::GoldenRun run("zoo_maps");
  auto folder = test::golden_file("zoo/maps");
  if (!folder) return 77;
  for (const auto& entry : fs::directory_iterator(*folder)) run_map(run, entry.path());
  return run.finish() == 0 ? 0 : 1;
}
