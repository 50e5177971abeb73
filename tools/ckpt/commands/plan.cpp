// ckpt plan: the memory that a model needs to run or to be trained, before anything is started.

#include "libckpt/analyze/plan.h"

#include <algorithm>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/plan_model.h"
#include "tools/ckpt/commands/process.h"
#include "tools/ckpt/commands/runtime_program.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : ReadOptions {
  std::string file;
  std::string target;
  std::string optimizer;
  unsigned devices = 1;
  std::string parallel = "dp";
  std::string dtype;
  std::string amp;
  std::string memory;
  bool fused = false;
};

/// What a device has, and whether the plan fits.
struct Room {
  std::vector<std::uint64_t> bytes;  ///< of each device; fewer where there are fewer
  bool is_known = false;
  bool fits = true;
};

ckpt::PlanOptions plan_options(const Options& options, const PlannedModel& model) {
  ckpt::PlanOptions out;
  out.optimizer = options.optimizer;
  out.devices = static_cast<int>(options.devices);
  out.parallel = options.parallel == "dp"    ? ckpt::Parallel::data_parallel
                 : options.parallel == "ddp" ? ckpt::Parallel::distributed
                                             : ckpt::Parallel::zero;
  if (!options.dtype.empty()) out.dtype = core::parse_dtype(options.dtype);
  if (!options.amp.empty()) out.autocast = core::parse_dtype(options.amp);
  out.foreach_step = !options.fused;
  out.loaded_bytes = model.file_bytes;
  return out;
}

/// Free memory of the devices that `ckpt devices` lists.
std::vector<std::uint64_t> memory_here() {
  const ProcessResult result = run_process({find_runtime_program().string(), "devices", "--json"});
  if (result.code != 0)
    throw Error(ErrorCode::device, "the devices of this machine could not be listed: " + result.err);
  const ckpt::JsonDocument document = ckpt::JsonDocument::parse(result.out, {.what = "what 'ckpt devices' says"});
  std::vector<std::uint64_t> bytes;
  for (const ckpt::JsonView& device : document.root().at("devices").items()) {
    bytes.push_back(device.at("free_memory").as_unsigned());
  }
  return bytes;
}

Room room_for(const Options& options, const ckpt::MemoryPlan& plan) {
  Room room;
  if (options.memory.empty()) return room;
  room.is_known = true;
  const std::size_t devices = std::max<std::size_t>(1, plan.places.size() - 1);
  if (options.memory == "here") {
    if (options.devices == 0)
      throw Error(ErrorCode::usage, "--memory here knows devices alone; with --devices 0 give the size");
    room.bytes = memory_here();
  } else {
    const std::optional<std::uint64_t> size = core::try_parse_size(options.memory);
    if (!size)
      throw Error(ErrorCode::usage, "--memory " + core::quote(options.memory) + " is no size such as 24GB, nor 'here'");
    room.bytes.assign(devices, *size);
  }
  room.fits = room.bytes.size() >= devices;
  for (std::size_t i = 0; i < std::min(devices, room.bytes.size()); ++i) room.fits &= plan.most[i] <= room.bytes[i];
  return room;
}

std::string size_or_dash(std::uint64_t bytes) {
  return bytes == 0 ? "-" : core::format_size(bytes);
}

/// Of many devices the first, a few that are unlike the one before, and the host.
std::vector<std::size_t> shown_places(const ckpt::MemoryPlan& plan) {
  auto alike = [&](std::size_t a, std::size_t b) {
    return std::all_of(plan.parts.begin(), plan.parts.end(),
                       [&](const ckpt::PlanPart& part) { return part.bytes[a] == part.bytes[b]; });
  };
  constexpr std::size_t kMost = 4;
  std::vector<std::size_t> out;
  const std::size_t host = plan.places.size() - 1;
  for (std::size_t i = 0; i < host; ++i) {
    if (host <= kMost || i == 0 || (out.size() < kMost && !alike(i, i - 1))) out.push_back(i);
  }
  out.push_back(host);
  return out;
}

std::string heading(const Options& options, const PlannedModel& model, const ckpt::MemoryPlan& plan) {
  std::string text =
      model.name + ": " + count_and_size(plan.parameters) + " trainable values in " + count_of(plan.tensors, "tensor");
  if (options.optimizer.empty()) return text + ", to be run\n";
  text += ", to be trained with " + core::printable(options.optimizer);
  if (options.devices == 0) return text + " on the CPU\n";
  const ckpt::PlanOptions how = plan_options(options, model);
  if (options.devices > 1) text += ", " + std::string(ckpt::name(how.parallel));
  return text + " on " + count_of(options.devices, "device") + "\n";
}

void print_place(Output& out, const ckpt::MemoryPlan& plan, std::size_t place, const std::string& title) {
  Table table({{"  " + title}, {"DTYPE"}, {"WHEN"}, {"SIZE", Table::Align::right}});
  for (const ckpt::PlanPart& part : plan.parts) {
    if (part.bytes[place] == 0) continue;
    table.add_row({"  " + part.what, part.dtype, ckpt::name(part.phase), size_or_dash(part.bytes[place])});
  }
  table.add_row({"  between steps", "", "", size_or_dash(plan.lasting[place])});
  if (plan.most[place] != plan.lasting[place]) table.add_row({"  at most", "", "", size_or_dash(plan.most[place])});
  table.print(out);
}

/// "cuda:0", or "cuda:1 to cuda:7, each" for those that are alike.
std::string title_of(const ckpt::MemoryPlan& plan, const std::vector<std::size_t>& shown, std::size_t at) {
  const std::size_t first = shown[at];
  const std::size_t next = at + 1 < shown.size() ? shown[at + 1] : first + 1;
  if (next <= first + 1) return plan.places[first];
  return plan.places[first] + " to " + plan.places[next - 1] + ", each about";
}

std::vector<std::string> notes_of(const Options& options, const PlannedModel& model, const ckpt::MemoryPlan& plan) {
  std::vector<std::string> notes = model.notes;
  if (plan.packed > 0) {
    notes.push_back(count_of(plan.packed, "tensor") +
                    " in quantised blocks: counted as they are, and not trained; --dtype plans their values");
  }
  notes.emplace_back(
      "not counted: activations, which grow with the batch and the input, and what CUDA and its libraries "
      "keep for themselves (often 0.5 to 1 GiB a device)");
  const bool trained = !options.optimizer.empty();
  if (trained && !options.fused && options.devices > 0) {
    notes.emplace_back(
        "results in between: of PyTorch's default step on devices (foreach); --fused plans the one that "
        "needs none");
  }
  if (trained && options.devices > 1 && options.parallel != "dp") {
    notes.emplace_back("buckets of gradients: gradient_as_bucket_view=True saves them");
  }
  if (!options.amp.empty()) {
    notes.emplace_back("copies that autocast makes: at most these, as only linear and convolution layers get one");
  }
  return notes;
}

std::string room_text(const ckpt::MemoryPlan& plan, const Room& room) {
  const std::size_t devices = std::max<std::size_t>(1, plan.places.size() - 1);
  if (room.bytes.size() < devices) {
    return "does not fit: this machine has " + count_of(room.bytes.size(), "device") + " of " +
           core::format_count(devices);
  }
  for (std::size_t i = 0; i < devices; ++i) {
    if (plan.most[i] <= room.bytes[i]) continue;
    return "does not fit: " + plan.places[i] + " needs " + core::format_size(plan.most[i]) +
           " before any activation and has " + core::format_size(room.bytes[i]);
  }
  const std::size_t tightest = [&] {
    std::size_t at = 0;
    for (std::size_t i = 1; i < devices; ++i) {
      if (room.bytes[i] - plan.most[i] < room.bytes[at] - plan.most[at]) at = i;
    }
    return at;
  }();
  return "fits: " + core::format_size(room.bytes[tightest] - plan.most[tightest]) + " of " +
         core::format_size(room.bytes[tightest]) + " are left for activations on " + plan.places[tightest];
}

void print_text(Output& out, const Options& options, const PlannedModel& model, const ckpt::MemoryPlan& plan,
                const Room& room) {
  out.print_heading(heading(options, model, plan));
  const std::vector<std::size_t> shown = shown_places(plan);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (plan.most[shown[i]] == 0) continue;
    out.print("\n");
    print_place(out, plan, shown[i], title_of(plan, shown, i));
  }
  out.print("\n");
  for (const std::string& note : notes_of(options, model, plan)) out.print(note + "\n");
  if (!room.is_known) return;
  const std::string text = room_text(plan, room);
  const std::size_t colon = text.find(':');
  out.print_tone(room.fits ? Tone::good : Tone::bad, text.substr(0, colon));
  out.print(text.substr(colon) + "\n");
}

void write_plan(ckpt::JsonWriter& json, const ckpt::MemoryPlan& plan, const Room& room) {
  json.key("places").begin_array();
  for (std::size_t place = 0; place < plan.places.size(); ++place) {
    json.begin_object();
    json.key("place").value(plan.places[place]);
    json.key("parts").begin_array();
    for (const ckpt::PlanPart& part : plan.parts) {
      if (part.bytes[place] == 0) continue;
      json.begin_object();
      json.key("what").value(part.what);
      if (!part.dtype.empty()) json.key("dtype").value(part.dtype);
      json.key("when").value(ckpt::name(part.phase));
      json.key("bytes").value(part.bytes[place]);
      json.end_object();
    }
    json.end_array();
    json.key("between_steps").value(plan.lasting[place]);
    json.key("at_most").value(plan.most[place]);
    if (place < room.bytes.size() && place < std::max<std::size_t>(1, plan.places.size() - 1)) {
      json.key("memory").value(room.bytes[place]);
    }
    json.end_object();
  }
  json.end_array();
}

std::string json_text(const Options& options, const PlannedModel& model, const ckpt::MemoryPlan& plan,
                      const Room& room) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("path").value(model.input.address.text());
  json.key("model").value(model.name);
  json.key("parameters").value(plan.parameters);
  json.key("untrained").value(plan.untrained);
  json.key("tensors").value(plan.tensors);
  if (!options.optimizer.empty()) json.key("optimizer").value(options.optimizer);
  json.key("devices").value(std::uint64_t{options.devices});
  if (options.devices > 1) json.key("parallel").value(options.parallel);
  write_plan(json, plan, room);
  if (room.is_known) json.key("fits").value(room.fits);
  json.key("activations").null();
  json.key("notes").begin_array();
  for (const std::string& note : notes_of(options, model, plan)) json.value(note);
  json.end_array();
  write_report(json, model.input.report);
  json.end_object();
  return json.take() + "\n";
}

int run(Context& context, const Options& options) {
  const PlannedModel model = planned_model(options, options.file, options.target);
  const ckpt::MemoryPlan plan = ckpt::plan_memory(model.tensors, plan_options(options, model));
  const Room room = room_for(options, plan);
  if (options.json) {
    context.out.print(json_text(options, model, plan, room));
  } else if (!options.quiet) {
    print_text(context.out, options, model, plan, room);
  }
  return room.fits ? kDone : kNo;
}

void add_training_options(CommandSpec command, Options& options) {
  command
      .add_option("--optimizer", options.optimizer,
                  "what it is trained with: " + core::join(ckpt::optimizer_names(), ", ") +
                      "; sgd+momentum, adam+amsgrad, rmsprop+centered for what keeps more (default: it is only run)")
      .type_name("NAME");
  command.add_option("--devices", options.devices, "how many devices share the work; 0: the CPU alone (default: 1)")
      .type_name("N")
      .range(0, 4096);
  command
      .add_option(
          "--parallel", options.parallel,
          "how they do: dp (DataParallel), ddp (DistributedDataParallel), zero1 (the same, each with a share of "
          "the optimizer's state) (default: dp)")
      .type_name("HOW")
      .one_of({"dp", "ddp", "zero1"});
  command.add_option("--dtype", options.dtype, "the type of all weights, as model.to(dtype) (default: what they are)")
      .type_name("DT");
  command.add_option("--amp", options.amp, "autocast to float16 or bfloat16").type_name("DT");
  command.add_flag("--fused", options.fused, "a fused step, which needs no room for results in between");
  command
      .add_option("--memory", options.memory,
                  "what a device has, such as 24GB, or 'here' to ask for what is free on this machine; exit 1 when it "
                  "does not fit")
      .type_name("SIZE");
}

}  // namespace

void add_plan(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "plan",
                                    "ckpt plan best.pth --for resnet50 --optimizer adamw --devices 2\n  ckpt plan "
                                    "model.safetensors --dtype bf16 --memory 24GB",
                                    "Say how much memory a model needs to run or to be trained: weights, gradients and "
                                    "the optimizer's state, on every device. No value is read.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->file, "checkpoint, or FILE::path").required().type_name("");
  command
      .add_option("--for", options->target,
                  "the model that it is loaded into: a known one (ckpt zoo ls), a list of keys or another checkpoint "
                  "(default: the file's own tensors)")
      .type_name("MODEL");
  add_training_options(command, *options);
  add_read_options(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
