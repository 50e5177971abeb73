// why for an error message without its file.

#include <algorithm>

#include "libckpt/analyze/why.h"
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

/// Layers beyond those of the model are no spare keys: dropped, they would leave half of another model.
void add_depth(Diagnosis& diagnosis, const ErrorFacts& facts) {
  std::vector<std::string> dropped;
  for (const FixStep& step : diagnosis.plan.steps) {
    if (step.kind == FixStep::Kind::drop) dropped.insert(dropped.end(), step.keys.begin(), step.keys.end());
  }
  std::optional<std::string> layer = detail::layers_that_go_on(dropped, facts.missing);
  if (!layer) return;
  Cause cause{CauseKind::depth, "the file seems to be of a deeper model: it goes on with " + core::quote(*layer) +
                                    ", which the model does not have"};
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

Diagnosis diagnose(const ErrorFacts& facts, const WhyOptions& options) {
  if (facts.keys()) {
    Checkpoint file = file_of(facts);
    Diagnosis diagnosis = why(WhyInput{&file, "FILE"}, options);
    if (options.wanted.empty()) add_depth(diagnosis, facts);
    return diagnosis;
  }
  if (facts.has(Kind::device)) return device_alone(facts);
  if (facts.known != nullptr) return known_alone(*facts.known);
  throw Error(ErrorCode::usage, facts.empty() ? "the text holds no error message about a checkpoint; name the file"
                                              : "the message is about the file itself; name the file too");
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
