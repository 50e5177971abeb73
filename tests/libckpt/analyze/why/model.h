#pragma once
// Small models as lists of tensors, and checkpoints of them with values that tell where they came from.
// Use: Parts net = small_resnet({2, 2}, 10); Value file = build(net, [](const std::string& k) { return "module." + k;
// });

#include <functional>
#include <string>
#include <vector>

#include "libckpt/analyze/key_list.h"
#include "libckpt/analyze/why.h"
#include "libckpt/checkpoint.h"

namespace test {

struct Part {
  std::string key;
  core::Shape shape;
  core::DType dtype = core::DType::f32;
};
using Parts = std::vector<Part>;
using Naming = std::function<std::string(const std::string&)>;

/// conv1, bn1, layer1.0 ... with batch norm and counters, fc.
Parts small_resnet(const std::vector<int>& blocks, int classes, int width = 4, int channels = 3);
/// features.0 ... classifier.6 as VGG has them, without batch norm.
Parts small_vgg();
/// fc1, fc2, fc3 with weights and biases.
Parts small_mlp();
/// transformer.wte, h.N.attn.c_attn ... with weights (in, out) as GPT-2 keeps them; lm_head last.
Parts small_gpt(int layers, int width = 8, int vocabulary = 31, int positions = 16);
/// The same with weights (out, in) as nanoGPT keeps them.
Parts small_nanogpt(int layers, int width = 8, int vocabulary = 31, int positions = 16);
/// embeddings, encoder.layer.N with query, key, value and LayerNorm.
Parts small_bert();
/// cls_token, pos_embed, blocks.N with a fused qkv; head.
Parts small_vit(int positions = 17, int classes = 10);

/// Value of an element: a mix of the key and its place. Counters are 0.
core::ByteVector content(const Part& part);
std::shared_ptr<ckpt::Entry> entry_of(const Part& part, const std::string& location = "cpu");

/// A state dict under other names; "" leaves a key out.
ckpt::Value build(const Parts& parts, const Naming& naming = {}, const std::string& location = "cpu");
ckpt::KeyList wanted(const Parts& parts, const std::string& name = "model");

/// Of a file "net.pth" with that content.
ckpt::Diagnosis diagnose(ckpt::Value root, const ckpt::WhyOptions& options, const std::string& format = "torch-zip");

Naming with_prefix(const std::string& prefix);
/// Text inside names exchanged, each pair wherever it stands.
Naming with_changes(std::vector<std::pair<std::string, std::string>> changes);

ckpt::Value dict_of(std::vector<std::pair<std::string, ckpt::Value>> items);
/// {'state': {0: {...}}, 'param_groups': [{'lr': 0.1, 'params': [...]}, ...]}.
ckpt::Value optimizer_of(const std::vector<int>& groups, const std::string& location = "cpu");

}  // namespace test
