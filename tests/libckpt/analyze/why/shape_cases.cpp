// Tensors of another arrangement or size: transposed, fused, heads, vocabularies, positions, depth, width.

#include <cstring>

#include "tests/libckpt/analyze/why/corpus.h"

namespace test {
namespace {

using ckpt::CauseKind;
using ckpt::Value;

/// The elements of a tensor with its dimensions in another order.
core::ByteVector permuted(const Part& part, const std::vector<std::size_t>& order, core::Shape& shape) {
  core::ByteVector from = content(part);
  core::ByteVector to(from.size());
  core::Shape strides = core::contiguous_strides(part.shape);
  shape = core::Shape();
  for (std::size_t d : order) shape.push_back(part.shape[d]);
  std::vector<std::int64_t> index(order.size(), 0);
  for (std::size_t i = 0; i < to.size() / 4; ++i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < order.size(); ++d) at += index[d] * strides[order[d]];
    std::memcpy(to.data() + 4 * i, from.data() + 4 * at, 4);
    for (std::size_t d = order.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return to;
}

/// A file whose tensors of that rank have their dimensions turned, where `chosen` says so.
Value turned(const Parts& truth, const std::vector<std::size_t>& order,
             const std::function<bool(const Part&)>& chosen) {
  ckpt::Dict dict;
  for (const Part& part : truth) {
    auto entry = entry_of(part);
    if (part.shape.size() == order.size() && chosen(part)) {
      core::Shape shape;
      entry->bytes = ckpt::memory_source(permuted(part, order, shape));
      entry->shape = shape;
    }
    dict.items.emplace_back(Value::text(part.key), Value::tensor(entry));
  }
  return Value::dict(std::move(dict));
}

bool is_conv1d(const Part& part) {
  return part.key.find(".c_") != std::string::npos;
}

Broken transposed_gpt() {
  Broken broken;
  broken.truth = small_nanogpt(2);
  broken.root = turned(broken.truth, {1, 0}, is_conv1d);
  return broken;
}

Parts convolutions() {
  return {{"stem.weight", core::Shape{4, 3, 5, 5}},
          {"stem.bias", core::Shape{4}},
          {"body.weight", core::Shape{6, 4, 3, 3}},
          {"fc.weight", core::Shape{10, 6}},
          {"fc.bias", core::Shape{10}}};
}

Broken channels_last() {
  Broken broken;
  broken.truth = convolutions();
  broken.root = turned(broken.truth, {2, 3, 1, 0}, [](const Part&) { return true; });
  return broken;
}

Broken convolution_1d() {
  Broken broken;
  broken.truth = {{"tower.0.weight", core::Shape{6, 4, 5}},
                  {"tower.0.bias", core::Shape{6}},
                  {"tower.1.weight", core::Shape{8, 6, 3}}};
  broken.root = turned(broken.truth, {2, 1, 0}, [](const Part&) { return true; });
  return broken;
}

/// The same bytes under other shapes.
Broken pointwise() {
  Broken broken;
  broken.truth = {
      {"mix.weight", core::Shape{6, 4, 1, 1}}, {"mix.bias", core::Shape{6}}, {"out.weight", core::Shape{3, 6}}};
  Parts file = broken.truth;
  ckpt::Dict dict;
  for (const Part& part : broken.truth) {
    auto entry = entry_of(part);
    if (part.key == "mix.weight") entry->shape = core::Shape{6, 4};
    dict.items.emplace_back(Value::text(part.key), Value::tensor(entry));
  }
  broken.root = Value::dict(std::move(dict));
  return broken;
}

core::ByteVector joined(const Parts& parts) {
  core::ByteVector all;
  for (const Part& part : parts) {
    core::ByteVector bytes = content(part);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

const std::vector<std::string> kQkv = {"query", "key", "value"};

Parts attention(const std::string& name) {
  Parts parts;
  for (const std::string& which : kQkv) parts.push_back({name + "." + which + ".weight", core::Shape{8, 8}});
  return parts;
}

/// The model wants three tensors, the file has one.
Broken fused_file() {
  Broken broken;
  broken.truth = {{"stem.weight", core::Shape{8, 3}}};
  ckpt::Dict dict;
  dict.items.emplace_back(Value::text("stem.weight"), Value::tensor(entry_of(broken.truth[0])));
  for (int i = 0; i < 2; ++i) {
    std::string name = "blocks." + std::to_string(i) + ".attn";
    Parts parts = attention(name);
    auto entry = entry_of({name + ".qkv.weight", core::Shape{24, 8}});
    entry->bytes = ckpt::memory_source(joined(parts));
    dict.items.emplace_back(Value::text(name + ".qkv.weight"), Value::tensor(entry));
    Part proj{name + ".proj.weight", core::Shape{8, 8}};
    dict.items.emplace_back(Value::text(proj.key), Value::tensor(entry_of(proj)));
    broken.truth.insert(broken.truth.end(), parts.begin(), parts.end());
    broken.truth.push_back(proj);
  }
  broken.root = Value::dict(std::move(dict));
  return broken;
}

/// The model has fc of `classes`, the file another head; what can be had is the rest.
Broken other(const Parts& file, const Parts& model) {
  Broken broken;
  broken.root = build(file);
  broken.truth = model;
  return broken;
}

Broken split_file() {
  Broken broken;
  Parts split = {{"attn.q_proj.weight", core::Shape{8, 8}},
                 {"attn.k_proj.weight", core::Shape{8, 8}},
                 {"attn.v_proj.weight", core::Shape{8, 8}}};
  Parts rest = {{"attn.out_proj.weight", core::Shape{8, 8}},
                {"attn.out_proj.bias", core::Shape{8}},
                {"norm.weight", core::Shape{8}}};
  Parts all = split;
  all.insert(all.end(), rest.begin(), rest.end());
  broken.root = build(all);
  broken.truth = rest;
  broken.truth.push_back({"attn.in_proj_weight", core::Shape{24, 8}});
  return broken;
}

}  // namespace

std::vector<Case> shape_cases() {
  return {
      {"transposed_linear", "nanoGPT and transformers: GPT-2 keeps (in, out)", CauseKind::transposed, Outcome::loads,
       "", transposed_gpt},
      {"channels_last", "keras-centernet#15, kernels as (H, W, in, out)", CauseKind::transposed, Outcome::loads, "",
       channels_last},
      {"transposed_conv1d", "borzoi-pytorch#1", CauseKind::transposed, Outcome::loads, "", convolution_1d},
      {"linear_for_1x1", "pytorch#36577, a Linear for a 1x1 convolution", CauseKind::reshaped, Outcome::loads, "",
       pointwise},
      {"fused_qkv", "transformers#42396", CauseKind::fused_projections, Outcome::loads, "", fused_file},
      {"split_qkv", "transformers#43355", CauseKind::fused_projections, Outcome::loads, "", split_file},
      {"head_1000", "pytorch#40859", CauseKind::head_size, Outcome::rest, "10 outputs",
       [] {
         return other(small_resnet({2, 2}, 10), small_resnet({2, 2}, 7));
       }},
      {"head_from_message", "braindecode#1026", CauseKind::head_size, Outcome::rest, "",
       [] {
         Broken broken = other(small_resnet({2, 2}, 10), small_resnet({2, 2}, 7));
         broken.has_target = false;
         broken.error =
             "RuntimeError: Error(s) in loading state_dict for ResNet:\n\tsize mismatch for fc.weight: copying a param "
             "with shape torch.Size([10, 4]) from checkpoint, the shape in current model is torch.Size([7, "
             "4]).\n\tsize mismatch for fc.bias: copying a param with shape torch.Size([10]) from checkpoint, the "
             "shape in current model is torch.Size([7]).\n";
         return broken;
       }},
      {"input_channels", "pytorch#154597", CauseKind::input_channels, Outcome::rest, "channels",
       [] {
         return other(small_resnet({2, 2}, 10, 4, 3), small_resnet({2, 2}, 10, 4, 1));
       }},
      {"vocabulary", "pytorch#155431, tokens added", CauseKind::vocabulary_size, Outcome::rest,
       "resize_token_embeddings(31)", [] { return other(small_gpt(2, 8, 31), small_gpt(2, 8, 33)); }},
      {"positions", "pytorch#39144, ViT at another resolution", CauseKind::position_table, Outcome::rest, "",
       [] { return other(small_vit(17), small_vit(26)); }},
      {"context_length", "nanoGPT: another block size", CauseKind::position_table, Outcome::rest, "",
       [] { return other(small_gpt(2, 8, 31, 16), small_gpt(2, 8, 31, 32)); }},
      {"deeper_model", "pytorch#173488, resnet18 for resnet34", CauseKind::depth, Outcome::advice, "small_resnet_2_2",
       [] {
         return other(small_resnet({2, 2}, 10), small_resnet({3, 4}, 10));
       }},
      {"shallower_model", "neoml#576", CauseKind::depth, Outcome::advice, "small_gpt_4",
       [] { return other(small_gpt(4), small_gpt(2)); }},
      {"wider_model", "transformers: gpt2 for gpt2-medium", CauseKind::width, Outcome::advice, "small_gpt_2",
       [] { return other(small_gpt(2, 8), small_gpt(2, 12)); }},
      {"head_and_wrapper",
       "pytorch#40859 after DataParallel",
       CauseKind::wrapper_prefix,
       Outcome::rest,
       "",
       [] {
         Broken broken = other({}, small_resnet({2, 2}, 7));
         broken.root = build(small_resnet({2, 2}, 10), with_prefix("module."));
         return broken;
       },
       {CauseKind::head_size}},
  };
}

}  // namespace test
