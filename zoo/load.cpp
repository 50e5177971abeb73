#include "zoo/load.h"

#include <unordered_map>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "libckpt/bridge/module_state.h"
#include "libckpt/origin.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/rules/rule_packs.h"

namespace zoo {
namespace {

using core::Error;
using core::ErrorCode;

/// What stands in the way where no edit of the file helps.
[[noreturn]] void refuse(const ckpt::Diagnosis& d) {
  const ckpt::Cause& cause = d.causes.front();
  std::string text = cause.text;
  if (!cause.advice.empty()) text += "; " + cause.advice;
  throw Error(d.readable ? ErrorCode::unsupported : ErrorCode::corrupt, text);
}

void check(const ckpt::Diagnosis& d, const LoadOptions& options) {
  if (!d.readable) refuse(d);
  if (d.loads()) return;
  if (!d.fixable()) refuse(d);
  if (d.guesses() && !options.guess) {
    throw Error(ErrorCode::unsupported,
                "its tensors can be paired with the model's by shape and order alone, which is "
                "a guess; set LoadOptions::guess to take it");
  }
}

void take_notes(LoadNotes& notes, const ckpt::Diagnosis& d, const ckpt::Report& report) {
  notes.warnings = report.warnings;
  for (const ckpt::FixStep& step : d.plan.steps) {
    if (step.kind == ckpt::FixStep::Kind::convert) continue;  // nothing is written here
    notes.steps.push_back(step.text);
    const ckpt::RulePack* pack = step.kind == ckpt::FixStep::Kind::rules ? find_rule_pack(step.at) : nullptr;
    if (pack != nullptr && !pack->note.empty()) notes.warnings.push_back(pack->note);
  }
}

}  // namespace

ckpt::KeyList key_list_of(const core::Module& module, std::string_view name) {
  ckpt::KeyList list;
  list.name = name;
  core::StateDict state = module.state_dict();
  std::unordered_map<const void*, std::string> first;
  for (const std::string& key : state.keys()) {
    const core::Tensor& tensor = state.at(key);
    list.keys.push_back({key, tensor.sizes(), tensor.dtype()});
    if (tensor.numel() == 0) continue;
    // By storage: shapes alone have no address.
    const void* place = tensor.device().is_meta() ? tensor.storage().id() : tensor.raw_data();
    auto [at, is_new] = first.emplace(place, key);
    if (!is_new) list.ties.push_back({at->second, key});
  }
  return list;
}

std::string fit_of(const core::Module& module, const std::filesystem::path& file) {
  ckpt::WhyOptions asked;
  asked.wanted = {key_list_of(module, "model")};
  asked.packs = rule_packs;
  const ckpt::Diagnosis d = ckpt::why(file, asked);
  if (d.loads()) return "fit";
  if (!d.fixable() || d.guesses()) return "do not fit" + (d.causes.empty() ? "" : ": " + d.causes.front().text);
  std::string steps;
  for (const ckpt::FixStep& step : d.plan.steps) {
    if (step.kind == ckpt::FixStep::Kind::convert) continue;  // nothing is written
    steps += (steps.empty() ? "" : "; ") + step.text;
  }
  return steps.empty() ? "fit" : "fit after: " + steps;
}

void load_into(core::Module& module, std::string_view name, const std::filesystem::path& file,
               const LoadOptions& options, LoadNotes* notes) {
  core::with_context(file.string(), [&] {
    ckpt::WhyOptions asked;
    asked.wanted = {key_list_of(module, name)};
    asked.at = options.at;
    asked.packs = rule_packs;
    ckpt::Diagnosis d = ckpt::why(file, asked);
    check(d, options);
    ckpt::OpenOptions open = options.open;
    ckpt::Report report;
    open.report = &report;
    open.foreign_objects = true;  // the plan leaves them behind
    const ckpt::Checkpoint opened = ckpt::open(file, open);
    const std::string origin = ckpt::origin_of(opened);
    ckpt::Checkpoint checkpoint = ckpt::apply_fix(opened, d.plan);
    ckpt::load_into(module, checkpoint,
                    {.map_location = "cpu", .path = d.plan.empty() ? options.at : d.plan.at, .reconcile = false});
    if (notes == nullptr) return;
    take_notes(*notes, d, report);
    if (!origin.empty()) notes->warnings.push_back("its weights were converted " + core::printable(origin));
  });
}

std::shared_ptr<core::Module> load(std::string_view name, const std::filesystem::path& file, const LoadOptions& options,
                                   LoadNotes* notes) {
  std::shared_ptr<core::Module> module = make(name, options.model);
  load_into(*module, name, file, options, notes);
  return module;
}

}  // namespace zoo
