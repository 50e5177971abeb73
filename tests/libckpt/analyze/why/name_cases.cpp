// Other prefixes, renamed components, names of older releases, order alone, and keys that are too many or missing.

#include "tests/libckpt/analyze/why/corpus.h"

namespace test {
namespace {

using ckpt::CauseKind;
using ckpt::Value;

Broken named(const Parts& truth, const Naming& naming) {
  Broken broken;
  broken.root = build(truth, naming);
  broken.truth = truth;
  return broken;
}

Parts net() {
  return small_resnet({2, 2}, 10);
}

std::string without(const std::string& key, const std::string& end) {
  return key.ends_with(end) ? "" : key;
}

/// The file has more: `extra` is built beside the model.
Broken with_extra(const Parts& truth, const Parts& extra) {
  Parts all = truth;
  all.insert(all.end(), extra.begin(), extra.end());
  Broken broken;
  broken.root = build(all);
  broken.truth = truth;
  return broken;
}

Parts old_densenet() {
  Parts parts;
  for (int i = 1; i <= 3; ++i) {
    std::string layer = "features.denseblock1.denselayer" + std::to_string(i);
    for (const char* n : {".norm1", ".norm2"}) {
      for (const char* leaf : {".weight", ".bias", ".running_mean", ".running_var"})
        parts.push_back({layer + n + leaf, core::Shape{4}});
    }
    parts.push_back({layer + ".conv1.weight", core::Shape{4, 4, 1, 1}});
    parts.push_back({layer + ".conv2.weight", core::Shape{4, 4, 3, 3}});
  }
  return parts;
}

Parts weight_norm() {
  Parts parts;
  for (int i = 0; i < 3; ++i) {
    std::string conv = "blocks." + std::to_string(i) + ".conv";
    parts.push_back({conv + ".bias", core::Shape{4}});
    parts.push_back({conv + ".weight_g", core::Shape{4, 1, 1}});
    parts.push_back({conv + ".weight_v", core::Shape{4, 2, 3}});
  }
  return parts;
}

/// A Sequential with a Flatten more in front.
std::string shifted(const std::string& key) {
  static const std::vector<std::pair<std::string, std::string>> kNumbers = {
      {"fc1", "net.0"}, {"fc2", "net.2"}, {"fc3", "net.4"}};
  for (const auto& [from, to] : kNumbers) {
    if (key.starts_with(from)) return to + key.substr(from.size());
  }
  return key;
}

Parts sequential() {
  Parts parts = small_mlp();
  for (Part& part : parts) {
    part.key = shifted(part.key);
    int number = part.key[4] - '0';
    part.key[4] = static_cast<char>('0' + number + 1);
  }
  return parts;
}

std::string one_less(const std::string& key) {
  std::string out = key;
  out[4] = static_cast<char>(key[4] - 1);
  return out;
}

Broken two_students() {
  Parts truth = net();
  Parts all;
  for (const char* who : {"student.backbone.", "teacher.backbone."}) {
    for (Part part : truth) {
      if (who[0] == 't') part.shape = part.shape;
      all.push_back({who + part.key, part.shape, part.dtype});
    }
  }
  Broken broken;
  ckpt::Dict dict;
  std::size_t half = truth.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    // The student holds the values of the truth, the teacher others.
    const Part& source = i < half ? truth[i] : all[i];
    dict.items.emplace_back(Value::text(all[i].key), Value::tensor(entry_of(source)));
  }
  broken.root = Value::dict(std::move(dict));
  broken.truth = truth;
  return broken;
}

}  // namespace

std::vector<Case> name_cases() {
  return {
      {"task_prefix", "examples#1029", CauseKind::prefix_offset, Outcome::loads, "strip-prefix --prefix model.",
       [] { return named(net(), with_prefix("model.")); }},
      {"backbone_prefix", "mmpretrain#18", CauseKind::prefix_offset, Outcome::loads, "backbone.",
       [] { return named(net(), with_prefix("backbone.")); }},
      {"prefix_missing_in_file", "transformers: a base model into one with a head", CauseKind::prefix_offset,
       Outcome::loads, "add-prefix",
       [] {
         Parts truth = small_bert();
         for (Part& part : truth) part.key = "bert." + part.key;
         return named(truth, [](const std::string& key) { return key.substr(5); });
       }},
      {"prefix_exchanged", "MJ-Video#1", CauseKind::prefix_offset, Outcome::loads, "",
       [] {
         Parts truth = small_mlp();
         for (Part& part : truth) part.key = "generator." + part.key;
         return named(truth, with_changes({{"generator.", "net_g."}}));
       }},
      {"backbone_and_head", "Minerva#57", CauseKind::prefix_offset, Outcome::loads, "",
       [] {
         return named(net(), [](const std::string& key) {
           return key.starts_with("fc.") ? "model.head." + key.substr(3) : "model.backbone." + key;
         });
       }},
      {"student_and_teacher",
       "DINO: student and teacher in one dict",
       CauseKind::prefix_offset,
       Outcome::loads,
       "",
       two_students,
       {CauseKind::extra_keys}},
      {"nested_sequential", "pytorch#36577", CauseKind::component_inserted, Outcome::loads, "",
       [] {
         return named(small_vgg(), with_changes({{"features.", "features.body."}}));
       }},
      {"peft_base_layer", "DePT#4", CauseKind::component_inserted, Outcome::loads, "",
       [] {
         return named(small_nanogpt(2), with_changes({{"c_attn.", "c_attn.base_layer."}}));
       }},
      {"gamma_beta", "transformers: old BERT files say gamma and beta", CauseKind::old_names, Outcome::loads, "",
       [] {
         return named(small_bert(),
                      with_changes({{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}}));
       }},
      {"densenet_dots", "torchvision: published densenet files say norm.1 and conv.2", CauseKind::old_names,
       Outcome::loads, "",
       [] {
         return named(
             old_densenet(),
             with_changes({{"norm1", "norm.1"}, {"norm2", "norm.2"}, {"conv1", "conv.1"}, {"conv2", "conv.2"}}));
       }},
      {"weight_norm", "weight_norm became a parametrization in PyTorch 2.1", CauseKind::old_names, Outcome::loads, "",
       [] {
         return named(weight_norm(), with_changes({{"weight_g", "parametrizations.weight.original0"},
                                                   {"weight_v", "parametrizations.weight.original1"}}));
       }},
      {"renamed_head", "timm and torchvision name the head differently", CauseKind::prefix_offset, Outcome::loads, "",
       [] {
         return named(net(), with_changes({{"fc.", "head."}}));
       }},
      {"renamed_component", "transformers#42254", CauseKind::component_renamed, Outcome::loads, "",
       [] {
         return named(small_nanogpt(2), with_changes({{".mlp.c_fc", ".mlp.up"}, {".mlp.c_proj", ".mlp.down"}}));
       }},
      {"order_only", "keras-centernet#15", CauseKind::order_only, Outcome::loads, "",
       [] {
         int next = 0;
         return named(small_vgg(), [&next](const std::string& key) {
           return "variable_" + std::to_string(next++) + key.substr(key.rfind('.'));
         });
       }},
      {"index_shift", "objax#85", CauseKind::order_only, Outcome::loads, "",
       [] { return named(sequential(), one_less); }},
      {"extra_counters", "a model of PyTorch before 0.4.1", CauseKind::extra_counters, Outcome::loads, "",
       [] {
         Parts truth = net();
         Broken broken;
         broken.root = build(truth);
         std::erase_if(truth, [](const Part& part) { return part.key.ends_with("num_batches_tracked"); });
         broken.truth = truth;
         return broken;
       }},
      {"position_ids", "transformers: position_ids is no longer saved", CauseKind::stale_buffers, Outcome::loads,
       "embeddings.position_ids",
       [] {
         return with_extra(small_bert(), {{"embeddings.position_ids", core::Shape{1, 16}, core::DType::i64}});
       }},
      {"causal_masks", "transformers: GPT-2 masks in older files", CauseKind::stale_buffers, Outcome::loads, "",
       [] {
         return with_extra(small_gpt(2), {{"transformer.h.0.attn.bias", core::Shape{1, 1, 16, 16}},
                                          {"transformer.h.1.attn.bias", core::Shape{1, 1, 16, 16}},
                                          {"transformer.h.0.attn.masked_bias", core::Shape{}}});
       }},
      {"extra_head", "transformers: weights of the pretraining head", CauseKind::extra_keys, Outcome::loads, "",
       [] {
         return with_extra(small_bert(), {{"cls.predictions.bias", core::Shape{30}},
                                          {"cls.seq_relationship.weight", core::Shape{2, 8}}});
       }},
      {"tied_head_missing", "safetensors#202", CauseKind::missing_tied, Outcome::loads, "",
       [] {
         Parts truth = small_gpt(2);
         truth.back() = {"lm_head.weight", truth.front().shape};
         Broken broken = named(truth, [](const std::string& key) { return without(key, "lm_head.weight"); });
         broken.extension = ".safetensors";
         broken.ties = {{"transformer.wte.weight", "lm_head.weight"}};
         return broken;
       }},
      {"tied_head_missing_unsaid", "exllamav2#320", CauseKind::missing_tied, Outcome::loads, "",
       [] {
         Parts truth = small_gpt(2);
         Broken broken = named(truth, [](const std::string& key) { return without(key, "lm_head.weight"); });
         broken.extension = ".safetensors";
         broken.names_only = true;
         return broken;
       }},
      {"missing_for_good", "pytorch#141256", CauseKind::missing_keys, Outcome::advice, "fc3.weight",
       [] { return named(small_mlp(), [](const std::string& key) { return key.starts_with("fc3") ? "" : key; }); }},
      {"another_model",
       "DiffSBDD#57",
       CauseKind::depth,
       Outcome::advice,
       "",
       [] {
         Broken broken;
         broken.root = build(small_bert());
         broken.truth = net();
         return broken;
       },
       {CauseKind::extra_keys, CauseKind::missing_keys}},
  };
}

}  // namespace test
