// why for an error message without its file.

#include <algorithm>
#include <unordered_set>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/leftover_causes.h"
#include "libckpt/analyze/why/shape_causes.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using Kind = ErrorFacts::Kind;

std::string tag_of(const ErrorFacts& facts) {
  if (!facts.has(Kind::device)) return "cpu";
  return facts.device ? "cuda:" + std::to_string(*facts.device) : "cuda";
}

constexpr std::int64_t kVersionWithCounter = 2;  // of a batch norm

/// Modules whose counter is missing while their running mean is there, as it is not missing too. PyTorch asks for a
/// counter only where the file has a version that says that there is one.
std::vector<std::string> norms_without_counter(const ErrorFacts& facts) {
  std::unordered_set<std::string_view> missing(facts.missing.begin(), facts.missing.end());
  std::vector<std::string> norms;
  for (const std::string& key : facts.missing) {
    std::string norm(detail::parent_of(key));
    if (!detail::is_counter(key) || norm.empty() || missing.contains(norm + ".running_mean")) continue;
    norms.push_back(std::move(norm));
  }
  return norms;
}

/// What the message says is in the file.
Checkpoint file_of(const ErrorFacts& facts) {
  Dict dict;
  auto add = [&](const std::string& key, const core::Shape& shape) {
    Entry entry;
    entry.shape = shape;
    entry.location = tag_of(facts);
    dict.items.emplace_back(Value::text(key), Value::tensor(std::make_shared<Entry>(std::move(entry))));
  };
  for (const std::string& key : facts.unexpected) add(key, {});
  for (const ErrorFacts::Mismatch& mismatch : facts.mismatched) add(mismatch.key, mismatch.in_file);
  Dict versions;
  for (const std::string& norm : norms_without_counter(facts)) {
    add(norm + ".running_mean", {});
    Dict entry;
    entry.items.emplace_back(Value::text("version"), Value::integer(kVersionWithCounter));
    versions.items.emplace_back(Value::text(norm), Value::dict(std::move(entry)));
  }
  if (!versions.items.empty()) {
    Dict attributes;
    attributes.items.emplace_back(Value::text("_metadata"), Value::dict(std::move(versions)));
    dict.attributes = Value::dict(std::move(attributes));
  }
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(dict));
  return checkpoint;
}

Diagnosis device_alone(const ErrorFacts& facts) {
  Diagnosis diagnosis;
  Cause cause{CauseKind::device_tags, "tensors were saved on devices that are not here: " + tag_of(facts)};
  cause.cured = true;
  diagnosis.proven = true;
  diagnosis.causes.push_back(std::move(cause));
  diagnosis.plan.steps.push_back({FixStep::Kind::remap, "move the tags to cpu", "", "cpu"});
  return diagnosis;
}

/// Keys that a profiler left say nothing of layers.
std::vector<std::string> without_profiler_counts(std::vector<std::string> keys) {
  std::erase_if(keys, [](const std::string& key) { return detail::is_profiler_count(key); });
  return keys;
}

/// Layers beyond those of the model are no spare keys: dropped, they would leave half of another model. Layers that the
/// file does not have are no parts that may start fresh.
void add_depth(Diagnosis& diagnosis, const ErrorFacts& facts) {
  std::vector<std::string> dropped;
  for (const FixStep& step : diagnosis.plan.steps) {
    if (step.kind == FixStep::Kind::drop) dropped.insert(dropped.end(), step.keys.begin(), step.keys.end());
  }
  std::optional<std::string> deeper = detail::layers_that_go_on(without_profiler_counts(dropped), facts.missing);
  std::optional<std::string> fewer;
  if (facts.unexpected.empty()) fewer = detail::blocks_that_go_on(facts.missing);
  if (!deeper && !fewer) return;
  Cause cause{CauseKind::depth, deeper ? "the file seems to be of a deeper model: it goes on with " +
                                             core::quote(*deeper) + ", which the model does not have"
                                       : "the model seems to be deeper than the file: it goes on with " +
                                             core::quote(*fewer) + ", which the file does not have"};
  cause.advice = "build the model with as many layers as the file has";
  cause.confidence = 0.8;
  diagnosis.causes.insert(diagnosis.causes.begin(), std::move(cause));
}

CauseKind kind_of(KnownMessage::About about) {
  switch (about) {
    case KnownMessage::About::lfs_pointer:
      return CauseKind::lfs_pointer;
    case KnownMessage::About::web_page:
      return CauseKind::web_page;
    case KnownMessage::About::packed:
      return CauseKind::not_a_checkpoint;
    case KnownMessage::About::cut:
      return CauseKind::truncated;
    case KnownMessage::About::damaged:
      return CauseKind::corrupt;
    case KnownMessage::About::classes:
      return CauseKind::foreign_globals;
    case KnownMessage::About::place:
      return CauseKind::nested_dict;
    case KnownMessage::About::program:
    case KnownMessage::About::memory:
      break;
  }
  return CauseKind::program;
}

/// A message that names no key: what it means, and what to do with the file.
Diagnosis known_alone(const KnownMessage& known) {
  Diagnosis diagnosis;
  Cause cause{kind_of(known.about), std::string(known.cause)};
  cause.confidence = known.about == KnownMessage::About::classes ? 0.8 : 0.9;
  cause.advice = known.advice;
  diagnosis.causes.push_back(std::move(cause));
  return diagnosis;
}

/// Where a message alone gives no fix, what does.
void add_advice(Diagnosis& diagnosis, const ErrorFacts& facts) {
  if (diagnosis.fixable() || facts.missing.empty() || !facts.unexpected.empty() || !facts.mismatched.empty()) return;
  auto all = [&](auto&& is) { return std::all_of(facts.missing.begin(), facts.missing.end(), is); };
  if (all([](const std::string& key) { return detail::is_usually_tied(key); })) {
    diagnosis.notes.emplace_back(
        "models often tie such a tensor to another one, and safetensors files keep it once: "
        "safetensors.torch.load_model(model, 'FILE') ties it again");
  } else if (all([](const std::string& key) { return detail::leaf_of(key) == "relative_position_index"; })) {
    diagnosis.notes.emplace_back(
        "these tables follow from the size of the window: 'ckpt why FILE' with the message makes them");
  }
}

/// Complaints about no key, no device and no known text.
Diagnosis complaint_alone(const ErrorFacts& facts) {
  Diagnosis diagnosis;
  Cause cause{CauseKind::program, ""};
  cause.confidence = 0.9;
  if (facts.has(Kind::optimizer_groups)) {
    cause = {CauseKind::optimizer_groups,
             "the optimizer of the program has other parameter groups than the one that was saved"};
    cause.advice = "build the optimizer with the groups it was saved with (ckpt optim show FILE), or start it fresh";
  } else if (facts.has(Kind::shared_memory)) {
    cause = {CauseKind::shared_tensors, "tensors share memory, which safetensors' save_file refuses"};
    cause.advice = "save with safetensors.torch.save_model(model, 'model.safetensors')";
  } else if (facts.has(Kind::dtype)) {
    cause = {CauseKind::unsupported_dtype,
             "the reader does not know the dtype " + core::quote(facts.dtype) + " of the file"};
    cause.advice = "write the file in another dtype: ckpt cast --to float32 FILE -o FILE.float32.pth";
  } else if (facts.has(Kind::not_a_dict)) {
    cause = {CauseKind::pickled_module, "load_state_dict was given something other than a dict, such as a whole model"};
    cause.advice = "write the state dict alone: ckpt fix FILE";
  }
  if (cause.text.empty()) {
    throw Error(ErrorCode::usage, facts.empty() ? "the text holds no error message about a checkpoint; name the file"
                                                : "the message is about the file itself; name the file too");
  }
  diagnosis.causes.push_back(std::move(cause));
  return diagnosis;
}

Diagnosis diagnose(const ErrorFacts& facts, const WhyOptions& options) {
  if (facts.keys()) {
    Checkpoint file = file_of(facts);
    Diagnosis diagnosis = why(WhyInput{&file, "FILE"}, options);
    if (options.wanted.empty()) add_depth(diagnosis, facts);
    add_advice(diagnosis, facts);
    return diagnosis;
  }
  if (facts.has(Kind::device)) return device_alone(facts);
  if (facts.known != nullptr) return known_alone(*facts.known);
  return complaint_alone(facts);
}

}  // namespace

Diagnosis why_message(const WhyOptions& options) {
  Diagnosis diagnosis = diagnose(parse_error_text(options.error), options);
  diagnosis.subject = "FILE";
  diagnosis.path = "FILE";
  diagnosis.from_message = true;
  diagnosis.description = "known from the error message alone";
  diagnosis.notes.push_back(
      "the file was not read: keys that the message does not name are kept. 'ckpt why FILE' with "
      "the message knows more");
  return diagnosis;
}

}  // namespace ckpt
