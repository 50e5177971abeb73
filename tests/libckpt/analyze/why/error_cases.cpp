// Nothing but the error message, as people paste it.

#include "libcore/base/text.h"
#include "tests/libckpt/analyze/why/corpus.h"

namespace test {
namespace {

using ckpt::CauseKind;
using ckpt::Value;

Parts net() {
  return small_resnet({2, 2}, 10);
}

std::string quoted(const Parts& parts, const std::string& prefix, char quote = '"') {
  std::vector<std::string> names;
  for (const Part& part : parts) names.push_back(quote + prefix + part.key + quote);
  return core::join(names, ", ");
}

/// PyTorch's message when every key is missing and every key unexpected.
std::string load_error(const Parts& parts, const std::string& file_prefix, const std::string& model_prefix) {
  return "Traceback (most recent call last):\n  File \"test.py\", line 31, in <module>\n    "
         "model.load_state_dict(state)\nRuntimeError: Error(s) in loading state_dict for ResNet:\n\tMissing key(s) in "
         "state_dict: " +
         quoted(parts, model_prefix) + ". \n\tUnexpected key(s) in state_dict: " + quoted(parts, file_prefix) + ". \n";
}

Broken told(Value root, std::string error, Parts truth = net()) {
  Broken broken;
  broken.root = std::move(root);
  broken.truth = std::move(truth);
  broken.has_target = false;
  broken.error = std::move(error);
  return broken;
}

Parts typed(core::DType dtype) {
  Parts parts = small_mlp();
  for (Part& part : parts) part.dtype = dtype;
  return parts;
}

Broken nested_message() {
  Parts truth = net();
  std::string error =
      "RuntimeError: Error(s) in loading state_dict for ResNet:\n\tMissing key(s) in state_dict: " + quoted(truth, "") +
      ". \n\tUnexpected key(s) in state_dict: \"epoch\", \"state_dict\", \"optimizer\". \n";
  return told(dict_of({{"epoch", Value::integer(1)}, {"state_dict", build(truth)}, {"optimizer", optimizer_of({1})}}),
              error, truth);
}

Value tied() {
  auto entry = entry_of({"a", core::Shape{5, 4}});
  return dict_of({{"embed.weight", Value::tensor(entry)}, {"head.weight", Value::tensor(entry)}});
}

constexpr const char* kGroups =
    "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group";

}  // namespace

std::vector<Case> error_cases() {
  return {
      {"message_dp", "iSeeBetter#12", CauseKind::wrapper_prefix, Outcome::loads, "strip-prefix",
       [] { return told(build(net(), with_prefix("module.")), load_error(net(), "module.", "")); }},
      {"message_model_wrapped", "pytorch#41048", CauseKind::missing_wrapper, Outcome::loads, "add-prefix",
       [] {
         Parts truth = net();
         for (Part& part : truth) part.key = "module." + part.key;
         return told(build(truth, [](const std::string& key) { return key.substr(7); }),
                     load_error(net(), "", "module."), truth);
       }},
      {"message_nested", "pytorch#9176", CauseKind::nested_dict, Outcome::loads, "", nested_message},
      {"message_incompatible_keys", "executorch#2191", CauseKind::prefix_offset, Outcome::loads, "backbone.",
       [] {
         return told(build(net(), with_prefix("backbone.")), "_IncompatibleKeys(missing_keys=[" +
                                                                 quoted(net(), "", '\'') + "], unexpected_keys=[" +
                                                                 quoted(net(), "backbone.", '\'') + "])");
       }},
      {"message_mmcv", "mmpretrain#18", CauseKind::prefix_offset, Outcome::loads, "",
       [] {
         std::string missing;
         std::string unexpected;
         for (const Part& part : net()) {
           missing += (missing.empty() ? "" : ", ") + part.key;
           unexpected += (unexpected.empty() ? "" : ", ") + ("model." + part.key);
         }
         return told(build(net(), with_prefix("model.")),
                     "The model and loaded state dict do not match exactly\n\nunexpected key in source state_dict: " +
                         unexpected + "\n\nmissing keys in source state_dict: " + missing + "\n");
       }},
      {"message_transformers", "transformers#38531", CauseKind::extra_keys, Outcome::loads, "",
       [] {
         Parts truth = small_bert();
         Parts all = truth;
         all.push_back({"cls.predictions.bias", core::Shape{30}});
         return told(build(all),
                     "Some weights of the model checkpoint at bert were not used when initializing BertModel: "
                     "['cls.predictions.bias']\n- This IS expected if you are initializing",
                     truth);
       }},
      {"message_old_pytorch", "apex#647, PyTorch 0.3", CauseKind::missing_keys, Outcome::advice, "",
       [] {
         return told(build(small_mlp(), [](const std::string& key) { return key == "fc3.bias" ? "" : key; }),
                     "KeyError: 'missing keys in state_dict: \"{'fc3.bias'}\"'", small_mlp());
       }},
      {"message_device", "deep_sort#51", CauseKind::device_tags, Outcome::plain, "remap --to cpu",
       [] {
         return told(build(net(), {}, "cuda:1"),
                     "RuntimeError: Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is "
                     "1. Please use torch.load with map_location to map your storages to an existing device.");
       }},
      {"message_no_cuda", "LearningToCompare#33", CauseKind::device_tags, Outcome::plain, "remap --to cpu",
       [] {
         return told(
             build(net(), {}, "cuda:0"),
             "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.");
       }},
      {"message_groups_size",
       "pytorch#1489",
       CauseKind::nested_dict,
       Outcome::plain,
       "",
       [] {
         return told(dict_of({{"model", build(net())}, {"optimizer", optimizer_of({3, 4})}}), kGroups);
       },
       {CauseKind::optimizer_groups}},
      {"message_groups_number",
       "pytorch#3852",
       CauseKind::nested_dict,
       Outcome::plain,
       "",
       [] {
         return told(dict_of({{"model", build(net())}, {"optimizer", optimizer_of({3})}}),
                     "ValueError: loaded state dict has a different number of parameter groups");
       },
       {CauseKind::optimizer_groups}},
      {"message_shared_memory", "safetensors#304", CauseKind::shared_tensors, Outcome::advice, "ckpt convert",
       [] {
         return told(tied(), "RuntimeError: \n Some tensors share memory, this will lead to duplicate memory on disk");
       }},
      {"message_bfloat16", "safetensors: numpy has no bfloat16", CauseKind::unsupported_dtype, Outcome::plain, "cast",
       [] { return told(build(typed(core::DType::bf16)), "TypeError: Got unsupported ScalarType BFloat16"); }},
      {"message_float8", "sd_dreambooth#1348, a reader without float8", CauseKind::unsupported_dtype, Outcome::plain,
       "cast",
       [] {
         Broken broken = told(build(typed(core::DType::f8_e4m3fn)), "KeyError: 'F8_E4M3'");
         broken.extension = ".safetensors";
         return broken;
       }},
      {"message_globals",
       "minimo#21",
       CauseKind::foreign_globals,
       Outcome::plain,
       "",
       [] {
         ckpt::Object object;
         object.symbol = "omegaconf.dictconfig.DictConfig";
         object.form = ckpt::Object::Form::instance;
         object.args = Value::tuple({});
         object.has_state = true;
         object.state = dict_of({{"lr", Value::real(1)}});
         return told(dict_of({{"model", build(net())}, {"config", Value::object(object)}}),
                     "_pickle.UnpicklingError: Weights only load failed. ... WeightsUnpickler error: Unsupported "
                     "global: GLOBAL omegaconf.dictconfig.DictConfig was not an allowed global by default.");
       },
       {CauseKind::nested_dict}},
  };
}

}  // namespace test
