#include "tools/ckpt/edit/carried_objects.h"

#include <algorithm>
#include <functional>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/objects.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/drop_objects.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/edit/standard_output.h"

namespace cli {
namespace {

constexpr std::size_t kMaxListed = 5;

bool takes_objects(const ckpt::Format* target, const ckpt::Checkpoint& checkpoint) {
  return target == nullptr || target->objects == ckpt::CarriedObjects::passed_on || target->name == checkpoint.format;
}

std::string object_text(const ckpt::ForeignObject& object) {
  std::string place = object.name.empty() ? "the whole file" : core::quote(object.name);
  return place + " is not plain data (" + core::quote(object.symbol) + ")";
}

std::string dropped_text(const ckpt::ForeignObject& object) {
  return core::quote(object.name) + " (not plain data: " + core::quote(object.symbol) + ")";
}

/// "'ckpt convert net.ckpt::state_dict net.safetensors' writes the weights alone"; "" where there is no such command.
std::string weights_command(const ckpt::Checkpoint& checkpoint, const CarryPlan& plan) {
  std::optional<ckpt::StateDictRef> model = ckpt::find_model(checkpoint.root);
  bool nameable = model && !model->name.empty() && model->name.find("::") == std::string::npos;
  std::filesystem::path folder = plan.output.parent_path();
  std::error_code ignored;
  bool is_place = folder.empty() || std::filesystem::is_directory(folder, ignored);
  bool piped = plan.source.is_standard_input() || is_standard_output(plan.output);
  if (!nameable || !is_place || piped) return "";
  ckpt::ShellCommand command("ckpt");
  command.word("convert").file(plan.source.path.string() + "::" + model->name).file(plan.output.string());
  bool named = ckpt::find_format_for(plan.output) == plan.target;
  if (!named) command.option("--format", plan.target->name);
  return command.is_exact() ? command.text() : "";
}

[[noreturn]] void refuse(const ckpt::ForeignObject& object, const ckpt::Checkpoint& checkpoint, const CarryPlan& plan) {
  std::string command = weights_command(checkpoint, plan);
  bool holds_any = plan.target->objects == ckpt::CarriedObjects::if_asked;
  std::string text = object_text(object) + " and is not written to a " + std::string(plan.target->title) +
                     (holds_any ? " unless --foreign-objects asks for it; " : "; ");
  if (!command.empty()) text += "write the weights alone (" + command + ") or ";
  text += "leave it out (--drop)";
  throw core::Error(core::ErrorCode::refused, text).add_context(plan.source.shown());
}

[[noreturn]] void refuse_attack(const ckpt::ForeignObject& object, const CarryPlan& plan) {
  throw core::Error(core::ErrorCode::refused, core::quote(object.name) + " names " + core::quote(object.attack) +
                                                  ", which attacks use, and is not passed on; see what it does (ckpt "
                                                  "scan), or leave it out (--drop)")
      .add_context(plan.source.shown());
}

bool is_attack(const ckpt::ForeignObject& object) {
  return !object.attack.empty();
}

void note_carried(const std::vector<ckpt::ForeignObject>& objects, ckpt::Report& report) {
  for (const std::string& symbol : report.foreign) std::erase(report.warnings, ckpt::unknown_class_text(symbol));
  for (std::size_t i = 0; i < std::min(objects.size(), kMaxListed); ++i) {
    report.warnings.push_back(object_text(objects[i]) + ": it is passed on, and nothing of it was run");
  }
  if (objects.size() <= kMaxListed) return;
  report.warnings.push_back("so are " + core::format_count(objects.size() - kMaxListed) + " more objects");
}

}  // namespace

void leave_out_objects(ckpt::Checkpoint& checkpoint, const CarryPlan& plan, ckpt::Report& report) {
  if (!plan.drop || plan.asked_for) return;
  std::vector<ckpt::ForeignObject> objects = ckpt::list_foreign_objects(checkpoint.root);
  if (takes_objects(plan.target, checkpoint)) std::erase_if(objects, std::not_fn(is_attack));
  if (objects.empty()) return;
  checkpoint.root = ckpt::drop_objects(checkpoint.root, objects);
  for (const ckpt::ForeignObject& object : objects) report.dropped.push_back(dropped_text(object));
}

void carry_objects(ckpt::Checkpoint& checkpoint, const CarryPlan& plan, ckpt::Report& report) {
  leave_out_objects(checkpoint, plan, report);
  ckpt::narrow_report(report, checkpoint.root);
  if (plan.asked_for) return;
  std::vector<ckpt::ForeignObject> objects = ckpt::list_foreign_objects(checkpoint.root);
  if (objects.empty()) return;
  auto attack = std::find_if(objects.begin(), objects.end(), is_attack);
  if (attack != objects.end()) refuse_attack(*attack, plan);
  if (!takes_objects(plan.target, checkpoint)) refuse(objects.front(), checkpoint, plan);
  note_carried(objects, report);
}

}  // namespace cli
