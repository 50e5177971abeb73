// Prefixes that wrappers leave: DataParallel, torch.compile, FSDP, Lightning.

#include "tests/libckpt/analyze/why/corpus.h"

namespace test {
namespace {

using ckpt::CauseKind;
using ckpt::Value;

Parts net() {
  return small_resnet({2, 2}, 10);
}

Broken named(const Naming& naming, Parts truth = net()) {
  Broken broken;
  broken.root = build(truth, naming);
  broken.truth = std::move(truth);
  return broken;
}

Naming inside(const std::string& parent, const std::string& wrapper) {
  return with_changes({{parent + ".", parent + "." + wrapper + "."}});
}

/// Every block wrapped on its own, as FSDP and activation checkpointing do.
Naming every_block(const std::string& wrapper) {
  return with_changes({{".0.", ".0." + wrapper + "."}, {".1.", ".1." + wrapper + "."}});
}

Parts with_inner_module() {
  return {{"encoder.module.weight", core::Shape{4, 3}},
          {"encoder.module.bias", core::Shape{4}},
          {"module_list.0.weight", core::Shape{2, 4}}};
}

Broken missing_wrapper(const std::string& wrapper) {
  Parts truth = net();
  for (Part& part : truth) part.key = wrapper + part.key;
  return named([wrapper](const std::string& key) { return key.substr(wrapper.size()); }, truth);
}

}  // namespace

std::vector<Case> wrapper_cases() {
  return {
      {"dp_prefix", "pytorch#3805", CauseKind::wrapper_prefix, Outcome::loads, "strip-prefix --prefix module.",
       [] { return named(with_prefix("module.")); }},
      {"dp_twice", "apex#647", CauseKind::wrapper_prefix, Outcome::loads, "module.module.",
       [] { return named(with_prefix("module.module.")); }},
      {"model_wrapped_file_plain", "pytorch#41048", CauseKind::missing_wrapper, Outcome::loads, "add-prefix",
       [] { return missing_wrapper("module."); }},
      {"dp_inside", "pytorch-classification#27", CauseKind::wrapper_inside, Outcome::loads, "--wrappers",
       [] { return named(inside("features", "module"), small_vgg()); }},
      {"module_is_a_real_name", "AL-MDN#8", CauseKind::wrapper_prefix, Outcome::loads, "strip-prefix",
       [] { return named(with_prefix("module."), with_inner_module()); }},
      {"dp_on_backbone_alone", "pointMLP#35", CauseKind::wrapper_inside, Outcome::loads, "",
       [] { return named(inside("layer1", "module")); }},
      {"names_without_shapes", "pytorch#9176", CauseKind::wrapper_prefix, Outcome::loads, "strip-prefix",
       [] {
         Broken broken = named(with_prefix("module."));
         broken.names_only = true;
         return broken;
       }},
      {"compiled", "nanoGPT#325", CauseKind::wrapper_prefix, Outcome::loads, "_orig_mod.",
       [] { return named(with_prefix("_orig_mod."), small_nanogpt(2)); }},
      {"compiled_then_dp", "timm#2003", CauseKind::wrapper_prefix, Outcome::loads, "_orig_mod.module.",
       [] { return named(with_prefix("_orig_mod.module.")); }},
      {"dp_then_compiled", "open_clip#639", CauseKind::wrapper_prefix, Outcome::loads, "module._orig_mod.",
       [] { return named(with_prefix("module._orig_mod.")); }},
      {"compiled_inside", "stable-baselines3#2137", CauseKind::wrapper_inside, Outcome::loads, "",
       [] { return named(inside("layer2", "_orig_mod")); }},
      {"fsdp_everywhere", "pytorch#158519", CauseKind::wrapper_inside, Outcome::loads, "--wrappers",
       [] {
         return named(
             [](const std::string& key) { return "_fsdp_wrapped_module." + every_block("_fsdp_wrapped_module")(key); });
       }},
      {"checkpoint_wrapper", "eole#179", CauseKind::wrapper_inside, Outcome::loads, "",
       [] { return named(every_block("_checkpoint_wrapped_module")); }},
      {"fabric", "Lightning Fabric keeps the module as _forward_module", CauseKind::wrapper_prefix, Outcome::loads,
       "_forward_module.", [] { return named(with_prefix("_forward_module.")); }},
      {"wrapper_and_task_prefix",
       "flood-forecasting#263",
       CauseKind::wrapper_inside,
       Outcome::loads,
       "",
       [] { return named(with_prefix("model._orig_mod.")); },
       {CauseKind::prefix_offset}},
      {"alone_dp", "pytorch#9176, without a model", CauseKind::wrapper_prefix, Outcome::plain, "strip-prefix",
       [] {
         Broken broken = named(with_prefix("module."));
         broken.has_target = false;
         return broken;
       }},
      {"other_wrapper_places", "pytorch#158519, other wrappers at load than at save", CauseKind::missing_wrapper,
       Outcome::loads, "",
       [] {
         Parts truth = net();
         for (Part& part : truth) part.key = every_block("_checkpoint_wrapped_module")(part.key);
         return named(
             [](const std::string& key) {
               return with_changes({{"_checkpoint_wrapped_module.", ""}})(key);
             },
             truth);
       }},
  };
}

}  // namespace test
