// ckpt plan: the memory that a model needs to run or to be trained, before anything is started.

#include "libckpt/analyze/plan.h"

#include <algorithm>
#include <csignal>

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
  std::int64_t batch = 0;   ///< 0: activations are not counted
  std::int64_t length = 0;  ///< of texts
  std::int64_t size = 0;    ///< of images
};

/// What a pass over a device's share of the batch takes, and how that is known.
struct Activations {
  ckpt::PlanPass pass;
  std::int64_t samples = 0;  ///< on each device
  std::string input;         ///< "images of 3 x 224 x 224"
  std::string dtype;         ///< of the weights
  bool is_measured = false;  ///< at this size; else carried on from smaller ones
};

/// What a device has, and whether the plan fits.
struct Room {
  std::vector<std::uint64_t> bytes;  ///< of each device; fewer where there are fewer
  bool is_known = false;
  bool fits = true;
};

ckpt::PlanOptions plan_options(const Options& options, const PlannedModel& model,
                               const std::optional<Activations>& activations) {
  ckpt::PlanOptions out;
  out.optimizer = options.optimizer;
  out.devices = static_cast<int>(options.devices);
  out.parallel = options.parallel == "dp"    ? ckpt::Parallel::data_parallel
                 : options.parallel == "ddp" ? ckpt::Parallel::distributed
                                             : ckpt::Parallel::zero;
  if (!options.dtype.empty()) out.dtype = core::parse_dtype(options.dtype);
  if (!options.amp.empty()) out.autocast = core::parse_dtype(options.amp);
  out.foreach_step = !options.fused;
  if (activations) out.pass = activations->pass;
  out.loaded_bytes = model.file_bytes;
  return out;
}

/// What the program that has the runtime said, whose errors are this command's.
std::string answer_of(const std::vector<std::string>& words) {
  const ProcessResult result = run_process(words);
  if (result.code == kDone) return result.out;
  std::string text = result.err.starts_with("ckpt: ") ? result.err.substr(6) : result.err;
  while (text.ends_with('\n')) text.pop_back();
  if (text.empty()) {
    text = "the program that runs the model for --batch ended with exit code " + std::to_string(result.code) +
           (result.code == 128 + SIGKILL ? ", as it does where the machine has no memory left for it" : "");
  }
  throw Error(result.code == kUsage ? ErrorCode::usage
              : result.code == kBad ? ErrorCode::unsupported
                                    : ErrorCode::device,
              text);
}

/// The runtime runs the model: the one that the file is loaded into, or the file's own folder.
std::optional<Activations> activations_of(const Options& options) {
  if (options.batch == 0) {
    if (options.length + options.size == 0) return std::nullopt;
    throw Error(ErrorCode::usage, "--length and --size say what goes in; --batch says how much of it");
  }
  const std::string model = options.target.empty() ? options.file : options.target;
  Activations out;
  const std::int64_t devices = std::max<std::int64_t>(1, options.devices);
  out.samples = options.batch / devices + (options.batch % devices != 0 ? 1 : 0);
  std::vector<std::string> words = {find_runtime_program().string(), "zoo", "activations", model};
  auto add = [&](const char* option, const std::string& value) { words.insert(words.end(), {option, value}); };
  add("--batch", std::to_string(out.samples));
  if (options.length != 0) add("--length", std::to_string(options.length));
  if (options.size != 0) add("--size", std::to_string(options.size));
  if (!options.dtype.empty()) add("--dtype", options.dtype);
  if (!options.amp.empty()) add("--amp", options.amp);
  if (!options.optimizer.empty()) words.emplace_back("--train");
  const ckpt::JsonDocument said = ckpt::JsonDocument::parse(answer_of(words), {.what = "what the runtime says"});
  out.pass = {said.root().at("kept").as_unsigned(), said.root().at("between").as_unsigned()};
  out.input = said.root().at("input").as_text();
  out.dtype = said.root().at("dtype").as_text();
  out.is_measured = said.root().at("tried").items().size() == 1;
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
  const ckpt::PlanOptions how = plan_options(options, model, std::nullopt);
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

/// What of a pass is counted, and how well.
std::string about_pass(const Options& options, const Activations& activations) {
  const bool trained = !options.optimizer.empty();
  std::string text = "activations: of " + core::format_count(static_cast<std::uint64_t>(activations.samples)) + " " +
                     activations.input + (options.devices > 1 ? " on each device" : "") + ", weights in " +
                     activations.dtype;
  text += trained ? ": the input, what backward needs, and the loss (cross entropy, or the sum of what is no class); "
                  : ": all of it lies between the input and the output; ";
  return text +
         (activations.is_measured ? "measured with the runtime's own operations"
                                  : "measured at smaller sizes with the runtime's own operations and carried on, the "
                                    "results in between roughly") +
         "; CUDA's libraries may want room beside them";
}

std::vector<std::string> notes_of(const Options& options, const PlannedModel& model, const ckpt::MemoryPlan& plan,
                                  const std::optional<Activations>& activations) {
  std::vector<std::string> notes = model.notes;
  if (plan.packed > 0) {
    notes.push_back(count_of(plan.packed, "tensor") +
                    " in quantised blocks: counted as they are, and not trained; --dtype plans their values");
  }
  if (activations) notes.push_back(about_pass(options, *activations));
  notes.emplace_back(std::string("not counted: ") +
                     (activations ? "" : "activations, which grow with the batch and the input (--batch), and ") +
                     "what CUDA and its libraries keep for themselves (often 0.5 to 1 GiB a device)");
  const bool trained = !options.optimizer.empty();
  if (trained && !options.fused && options.devices > 0) {
    notes.emplace_back(
        "results in between: of PyTorch's default step on devices (foreach); --fused plans the one that "
        "needs none");
  }
  if (trained && options.devices > 1 && options.parallel != "dp") {
    notes.emplace_back("buckets of gradients: gradient_as_bucket_view=True saves them");
  }
  if (!options.amp.empty() && !activations) {
    notes.emplace_back("copies that autocast makes: at most these, as only linear and convolution layers get one");
  }
  return notes;
}

std::string room_text(const ckpt::MemoryPlan& plan, const Room& room, bool activations) {
  const std::size_t devices = std::max<std::size_t>(1, plan.places.size() - 1);
  if (room.bytes.size() < devices) {
    return "does not fit: this machine has " + count_of(room.bytes.size(), "device") + " of " +
           core::format_count(devices);
  }
  for (std::size_t i = 0; i < devices; ++i) {
    if (plan.most[i] <= room.bytes[i]) continue;
    return "does not fit: " + plan.places[i] + " needs " + core::format_size(plan.most[i]) +
           (activations ? " and has " : " before any activation and has ") + core::format_size(room.bytes[i]);
  }
  const std::size_t tightest = [&] {
    std::size_t at = 0;
    for (std::size_t i = 1; i < devices; ++i) {
      if (room.bytes[i] - plan.most[i] < room.bytes[at] - plan.most[at]) at = i;
    }
    return at;
  }();
  return "fits: " + core::format_size(room.bytes[tightest] - plan.most[tightest]) + " of " +
         core::format_size(room.bytes[tightest]) + " are left " + (activations ? "on " : "for activations on ") +
         plan.places[tightest];
}

void print_text(Output& out, const Options& options, const PlannedModel& model, const ckpt::MemoryPlan& plan,
                const std::optional<Activations>& activations, const Room& room) {
  out.print_heading(heading(options, model, plan));
  const std::vector<std::size_t> shown = shown_places(plan);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (plan.most[shown[i]] == 0) continue;
    out.print("\n");
    print_place(out, plan, shown[i], title_of(plan, shown, i));
  }
  out.print("\n");
  for (const std::string& note : notes_of(options, model, plan, activations)) out.print(note + "\n");
  if (!room.is_known) return;
  const std::string text = room_text(plan, room, activations.has_value());
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

void write_activations(ckpt::JsonWriter& json, const std::optional<Activations>& activations) {
  json.key("activations");
  if (!activations) {
    json.null();
    return;
  }
  json.begin_object();
  json.key("samples").value(activations->samples);
  json.key("input").value(activations->input);
  json.key("kept_bytes").value(activations->pass.kept);
  json.key("between_bytes").value(activations->pass.between);
  json.key("measured").value(activations->is_measured);
  json.end_object();
}

std::string json_text(const Options& options, const PlannedModel& model, const ckpt::MemoryPlan& plan,
                      const std::optional<Activations>& activations, const Room& room) {
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
  write_activations(json, activations);
  json.key("notes").begin_array();
  for (const std::string& note : notes_of(options, model, plan, activations)) json.value(note);
  json.end_array();
  write_report(json, model.input.report);
  json.end_object();
  return json.take() + "\n";
}

int run(Context& context, const Options& options) {
  const PlannedModel model = planned_model(options, options.file, options.target);
  ckpt::plan_memory(model.tensors, plan_options(options, model, std::nullopt));  // its errors before a model is run
  const std::optional<Activations> activations = activations_of(options);
  const ckpt::MemoryPlan plan = ckpt::plan_memory(model.tensors, plan_options(options, model, activations));
  const Room room = room_for(options, plan);
  if (options.json) {
    context.out.print(json_text(options, model, plan, activations, room));
  } else if (!options.quiet) {
    print_text(context.out, options, model, plan, activations, room);
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
  command
      .add_option("--batch", options.batch,
                  "samples in a step, over all devices: counts activations too, of a known model or a folder with "
                  "config.json")
      .type_name("N")
      .from(1);
  command.add_option("--length", options.length, "tokens of a text (default: 512, or the model's positions)")
      .type_name("N")
      .from(1);
  command.add_option("--size", options.size, "height and width of images (default: what the model expects)")
      .type_name("N")
      .range(1, 1000000);
  command.add_flag("--fused", options.fused, "a fused step, which needs no room for results in between");
  command
      .add_option("--memory", options.memory,
                  "what a device has, such as 24GB, or 'here' to ask for what is free on this machine; exit 1 when it "
                  "does not fit")
      .type_name("SIZE");
}

}  // namespace

void add_plan(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "plan",
                  "ckpt plan best.pth --for resnet50 --optimizer adamw --devices 2\n  ckpt plan "
                  "best.pth --for resnet50 --optimizer adamw --batch 64\n  ckpt plan "
                  "model.safetensors --dtype bf16 --memory 24GB",
                  "Say how much memory a model needs to run or to be trained: weights, gradients and "
                  "the optimizer's state, with --batch activations, on every device. No value is read.");
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
