#include "tests/libckpt/analyze/why/model.h"

#include <cstring>

namespace test {
namespace {

using ckpt::Value;
using core::Shape;

void conv(Parts& parts, const std::string& name, int out, int in, int kernel) {
  parts.push_back({name + ".weight", Shape{out, in, kernel, kernel}});
}

void norm(Parts& parts, const std::string& name, int size) {
  for (const char* leaf : {".weight", ".bias", ".running_mean", ".running_var"})
    parts.push_back({name + leaf, Shape{size}});
  parts.push_back({name + ".num_batches_tracked", Shape{}, core::DType::i64});
}

void linear(Parts& parts, const std::string& name, int out, int in) {
  parts.push_back({name + ".weight", Shape{out, in}});
  parts.push_back({name + ".bias", Shape{out}});
}

void layer_norm(Parts& parts, const std::string& name, int size) {
  parts.push_back({name + ".weight", Shape{size}});
  parts.push_back({name + ".bias", Shape{size}});
}

std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 16U;
  x *= 0x7feb352dU;
  x ^= x >> 15U;
  x *= 0x846ca68bU;
  return x ^ (x >> 16U);
}

/// GPT-2, with `turned` weights of (out, in).
Parts gpt(int layers, int width, int vocabulary, int positions, bool turned) {
  Parts parts;
  auto matrix = [&](const std::string& name, int in, int out) {
    parts.push_back({name + ".weight", turned ? Shape{out, in} : Shape{in, out}});
    parts.push_back({name + ".bias", Shape{out}});
  };
  parts.push_back({"transformer.wte.weight", Shape{vocabulary, width}});
  parts.push_back({"transformer.wpe.weight", Shape{positions, width}});
  for (int i = 0; i < layers; ++i) {
    std::string h = "transformer.h." + std::to_string(i);
    layer_norm(parts, h + ".ln_1", width);
    matrix(h + ".attn.c_attn", width, 3 * width);
    matrix(h + ".attn.c_proj", width, width);
    layer_norm(parts, h + ".ln_2", width);
    matrix(h + ".mlp.c_fc", width, 4 * width);
    matrix(h + ".mlp.c_proj", 4 * width, width);
  }
  layer_norm(parts, "transformer.ln_f", width);
  parts.push_back({"lm_head.weight", Shape{vocabulary, width}});
  return parts;
}

}  // namespace

Parts small_resnet(const std::vector<int>& blocks, int classes, int width, int channels) {
  Parts parts;
  conv(parts, "conv1", width, channels, 3);
  norm(parts, "bn1", width);
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int i = 0; i < blocks[stage]; ++i) {
      std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      conv(parts, name + ".conv1", width, width, 3);
      norm(parts, name + ".bn1", width);
      conv(parts, name + ".conv2", width, width, 3);
      norm(parts, name + ".bn2", width);
    }
  }
  linear(parts, "fc", classes, width);
  return parts;
}

Parts small_vgg() {
  Parts parts;
  linear(parts, "features.0", 4, 3);
  linear(parts, "features.3", 6, 4);
  linear(parts, "features.6", 8, 6);
  linear(parts, "classifier.0", 12, 8);
  linear(parts, "classifier.3", 10, 12);
  return parts;
}

Parts small_mlp() {
  Parts parts;
  linear(parts, "fc1", 6, 4);
  linear(parts, "fc2", 7, 6);
  linear(parts, "fc3", 3, 7);
  return parts;
}

Parts small_gpt(int layers, int width, int vocabulary, int positions) {
  return gpt(layers, width, vocabulary, positions, false);
}

Parts small_nanogpt(int layers, int width, int vocabulary, int positions) {
  return gpt(layers, width, vocabulary, positions, true);
}

Parts small_bert() {
  Parts parts;
  parts.push_back({"embeddings.word_embeddings.weight", Shape{30, 8}});
  parts.push_back({"embeddings.position_embeddings.weight", Shape{16, 8}});
  layer_norm(parts, "embeddings.LayerNorm", 8);
  for (int i = 0; i < 2; ++i) {
    std::string layer = "encoder.layer." + std::to_string(i);
    for (const char* part : {"query", "key", "value"}) linear(parts, layer + ".attention.self." + part, 8, 8);
    linear(parts, layer + ".attention.output.dense", 8, 8);
    layer_norm(parts, layer + ".attention.output.LayerNorm", 8);
    linear(parts, layer + ".intermediate.dense", 20, 8);
    linear(parts, layer + ".output.dense", 8, 20);
    layer_norm(parts, layer + ".output.LayerNorm", 8);
  }
  linear(parts, "pooler.dense", 8, 8);
  return parts;
}

Parts small_vit(int positions, int classes) {
  Parts parts;
  parts.push_back({"cls_token", Shape{1, 1, 8}});
  parts.push_back({"pos_embed", Shape{1, positions, 8}});
  parts.push_back({"patch_embed.proj.weight", Shape{8, 3, 4, 4}});
  parts.push_back({"patch_embed.proj.bias", Shape{8}});
  for (int i = 0; i < 2; ++i) {
    std::string block = "blocks." + std::to_string(i);
    layer_norm(parts, block + ".norm1", 8);
    linear(parts, block + ".attn.qkv", 24, 8);
    linear(parts, block + ".attn.proj", 8, 8);
    layer_norm(parts, block + ".norm2", 8);
    linear(parts, block + ".mlp.fc1", 32, 8);
    linear(parts, block + ".mlp.fc2", 8, 32);
  }
  layer_norm(parts, "norm", 8);
  linear(parts, "head", classes, 8);
  return parts;
}

core::ByteVector content(const Part& part) {
  auto count = static_cast<std::size_t>(part.shape.numel());
  core::ByteVector bytes(core::byte_size(part.dtype, count).value());
  if (part.dtype == core::DType::i64) return bytes;
  auto seed = static_cast<std::uint32_t>(std::hash<std::string>()(part.key));
  for (std::size_t i = 0; i < count; ++i) {
    float value = static_cast<float>(mix(seed + static_cast<std::uint32_t>(i)) >> 24U) / 64.0F;
    if (part.dtype == core::DType::f32) std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
  }
  return bytes;
}

std::shared_ptr<ckpt::Entry> entry_of(const Part& part, const std::string& location) {
  auto entry = std::make_shared<ckpt::Entry>();
  entry->dtype = part.dtype;
  entry->shape = part.shape;
  entry->location = location;
  entry->bytes = ckpt::memory_source(content(part));
  return entry;
}

Value build(const Parts& parts, const Naming& naming, const std::string& location) {
  ckpt::Dict dict;
  dict.type = "collections.OrderedDict";
  for (const Part& part : parts) {
    std::string name = naming ? naming(part.key) : part.key;
    if (!name.empty()) dict.items.emplace_back(Value::text(name), Value::tensor(entry_of(part, location)));
  }
  return Value::dict(std::move(dict));
}

ckpt::KeyList wanted(const Parts& parts, const std::string& name) {
  ckpt::KeyList list;
  list.name = name;
  for (const Part& part : parts) list.keys.push_back({part.key, part.shape, part.dtype});
  return list;
}

ckpt::Diagnosis diagnose(ckpt::Value root, const ckpt::WhyOptions& options, const std::string& format) {
  ckpt::Checkpoint checkpoint;
  checkpoint.root = std::move(root);
  checkpoint.format = format;
  return ckpt::why({&checkpoint, "net.pth"}, options);
}

Naming with_prefix(const std::string& prefix) {
  return [prefix](const std::string& key) { return prefix + key; };
}

Naming with_changes(std::vector<std::pair<std::string, std::string>> changes) {
  return [changes = std::move(changes)](std::string key) {
    for (const auto& [from, to] : changes) {
      for (std::size_t at = key.find(from); at != std::string::npos; at = key.find(from, at + to.size())) {
        key.replace(at, from.size(), to);
      }
    }
    return key;
  };
}

Value dict_of(std::vector<std::pair<std::string, Value>> items) {
  ckpt::Dict dict;
  for (auto& [key, value] : items) dict.items.emplace_back(Value::text(key), std::move(value));
  return Value::dict(std::move(dict));
}

Value optimizer_of(const std::vector<int>& groups, const std::string& location) {
  ckpt::Dict state;
  Value::List group_list;
  std::int64_t next = 0;
  for (int size : groups) {
    Value::List ids;
    for (int i = 0; i < size; ++i, ++next) {
      Part part{"exp_avg" + std::to_string(next), core::Shape{5}};
      state.items.emplace_back(Value::integer(next), dict_of({{"exp_avg", Value::tensor(entry_of(part, location))}}));
      ids.push_back(Value::integer(next));
    }
    group_list.push_back(dict_of({{"lr", Value::real(0.1)}, {"params", Value::list(std::move(ids))}}));
  }
  return dict_of({{"state", Value::dict(std::move(state))}, {"param_groups", Value::list(std::move(group_list))}});
}

}  // namespace test
