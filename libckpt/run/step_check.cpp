#include "libckpt/run/step_check.h"

#include <charconv>
#include <cmath>

#include "libckpt/format/format.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/metadata.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr const char* kMetric = "metric.";

/// The bytes alone are asked for: what verify() says of code and symbols is no damage.
void check_bytes(const std::filesystem::path& path, const OpenOptions& options, StepCheck& check) {
  Input input = open_input(path, options);
  VerifyResult result = detect_format(input).verify(input, options, {});
  check.checksums = result.checksums;
  if (result.damage.empty() && result.complete) return;
  check.valid = false;
  check.why = "a part of it could not be read to its end";
  if (result.damage.empty()) return;
  const Finding& first = result.damage.front();
  check.why = core::printable(first.subject) + ": " + core::printable(first.text);
  if (result.damage.size() > 1) check.why += ", and " + std::to_string(result.damage.size() - 1) + " more findings";
}

std::optional<double> number_in(const std::string& text) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

std::optional<double> number_at(const Value* dict, const std::string& key) {
  const Value* value = dict != nullptr && dict->is(Value::Kind::dict) ? dict->find(key) : nullptr;
  if (value != nullptr && value->is(Value::Kind::real)) return value->as_real();
  if (value != nullptr && value->is(Value::Kind::integer)) return static_cast<double>(value->as_integer());
  return {};
}

std::optional<double> recorded_number(const Checkpoint& checkpoint, const std::string& key) {
  for (const std::string& name : {kMetric + key, key}) {
    for (const auto& [there, text] : checkpoint.metadata) {
      if (there == name) return number_in(text);
    }
  }
  if (!checkpoint.root.is(Value::Kind::dict)) return {};
  std::optional<double> top = number_at(&checkpoint.root, key);
  return top ? top : number_at(checkpoint.root.find("metrics"), key);
}

}  // namespace

StepCheck check_step(const std::filesystem::path& path, CheckDepth depth, const OpenOptions& given) {
  StepCheck check;
  OpenOptions options = given;
  options.look_past_foreign = true;
  Report unheard;
  options.report = &unheard;
  try {
    check.format = open(path, options).format;
    check.valid = true;
    if (depth == CheckDepth::every_byte) check_bytes(path, options, check);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    check.valid = false;
    check.why = core::printable(error.message());
  }
  return check;
}

namespace detail {

std::string none_valid_text(std::size_t count) {
  if (count == 1) return "the one checkpoint there is not valid";
  return "none of the " + core::format_count(count) + " checkpoints there is valid";
}

}  // namespace detail

LatestStep find_latest(const StepFiles& files, CheckDepth depth, const OpenOptions& options) {
  LatestStep latest;
  for (const StepFile& file : files.steps) {
    latest.check = check_step(file.path, depth, options);
    if (latest.check.valid) {
      latest.step = file;
      return latest;
    }
    latest.skipped.push_back({file, latest.check.why});
  }
  if (latest.skipped.empty()) return latest;
  const SkippedStep& newest = latest.skipped.front();
  throw Error(ErrorCode::corrupt, detail::none_valid_text(latest.skipped.size()) + "; the newest, " +
                                      core::quote(newest.file.path.filename().string()) + ": " + newest.why)
      .add_context(files.folder.string());
}

Checkpoint with_metrics(const Checkpoint& checkpoint, const Metrics& metrics) {
  MetadataEdit edit;
  for (const auto& [key, number] : metrics) {
    if (key.empty()) throw Error(ErrorCode::usage, "a metric has an empty name");
    edit.set.emplace_back(kMetric + key, core::python_float(number));
  }
  return edit.set.empty() ? checkpoint : edit_metadata(checkpoint, edit);
}

std::optional<double> find_metric(const Checkpoint& checkpoint, const std::string& key) {
  std::optional<double> number = recorded_number(checkpoint, key);
  return number && std::isnan(*number) ? std::nullopt : number;
}

}  // namespace ckpt
