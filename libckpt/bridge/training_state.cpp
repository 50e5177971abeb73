#include "libckpt/bridge/training_state.h"

#include <map>

#include "libckpt/bridge/optimizer_order.h"
#include "libckpt/bridge/save_async.h"
#include "libckpt/bridge/tensor_entry.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/generator.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

void add_value(Dict& dict, const std::string& key, Value value) {
  dict.items.emplace_back(Value(key), std::move(value));
}

Value bytes_as_tensor(core::ByteVector bytes) {
  auto entry = std::make_shared<Entry>();
  entry->dtype = core::DType::u8;
  entry->shape = {static_cast<std::int64_t>(bytes.size())};
  entry->bytes = memory_source(std::move(bytes));
  return Value::tensor(std::move(entry));
}

const Value& required(const Value& root, const std::string& key) {
  if (const Value* value = root.find(key)) return *value;
  const bool is_ours = key != "model" && root.find("rng_state") != nullptr;
  std::vector<std::string> names;
  for (std::size_t i = 0; is_ours && i < root.as_dict().items.size(); ++i) {
    names.push_back(step_text(root.as_dict().items[i].first));
  }
  throw Error(ErrorCode::key, "no " + core::quote(key) + " in the file, " +
                                  (is_ours ? "which has " + core::join(names, ", ") : "so it is not a training state"));
}

std::int64_t integer_or_zero(const Value& root, const char* key) {
  const Value* value = root.find(key);
  return value != nullptr && value->is(Value::Kind::integer) ? value->as_integer() : 0;
}

/// Bytes of a uint8 tensor that holds a generator's state.
core::ByteVector state_bytes(const Value& value, const char* key) {
  if (!value.is(Value::Kind::tensor) || value.as_entry().dtype != core::DType::u8 ||
      value.as_entry().byte_size() > core::Generator::kCpuStateSize) {
    throw Error(ErrorCode::corrupt, core::quote(key) + " is not a generator state (a small uint8 tensor)");
  }
  return read_all(*value.as_entry().bytes);
}

/// Parameters and their state.
std::vector<core::Tensor> written_by_step(const core::Optimizer& optimizer) {
  std::vector<core::Tensor> written;
  for (const core::ParamGroup& group : optimizer.param_groups()) {
    for (const core::Tensor& param : group.params) {
      written.push_back(param);
      for (const auto& [name, tensor] : optimizer.state_of(param)) written.push_back(tensor);
    }
  }
  return written;
}

std::vector<std::uint32_t> versions_of(const std::vector<core::Tensor>& tensors) {
  std::vector<std::uint32_t> versions;
  for (const core::Tensor& tensor : tensors) versions.push_back(tensor.impl()->version());
  return versions;
}

void restore_generators(const Value& root) {
  if (const Value* cpu = root.find("rng_state")) core::default_generator().set_state(state_bytes(*cpu, "rng_state"));
  const Value* cuda = root.find("cuda_rng_state");
  if (cuda == nullptr || !cuda->is_sequence() || cuda->as_list().empty()) return;
  int present = core::cuda::device_count();
  for (int i = 0; i < present && static_cast<std::size_t>(i) < cuda->as_list().size(); ++i) {
    core::Generator generator = core::default_generator(core::Device(core::DeviceType::cuda, i));
    generator.set_state(state_bytes(cuda->as_list()[static_cast<std::size_t>(i)], "cuda_rng_state"));
  }
}

/// None in a program that has worked on the CPU alone.
Value cuda_generator_states() {
  Value::List states;
  const int count = core::cuda::is_initialized() ? core::cuda::device_count() : 0;
  for (int i = 0; i < count; ++i) {
    states.push_back(bytes_as_tensor(core::default_generator(core::Device(core::DeviceType::cuda, i)).state()));
  }
  return Value::list(std::move(states));
}

/// Refuses tags whose devices are not there, before any byte is read.
void check_locations(const Value& of_module, const MapLocation& map_location) {
  std::vector<PlacedEntry> entries;
  for (NamedEntry& named : list_entries(of_module)) entries.push_back({std::move(named.name), named.entry, {}});
  place(entries, map_location);
}

/// Entries of the optimizer's state go where their parameters are, what counts steps stays on the host.
void place_with_parameters(std::vector<PlacedEntry>& entries, const Value& state, const core::Optimizer& optimizer) {
  std::map<std::string, core::Device> devices;  // by what the names of a parameter's state begin with: "state.0."
  const Value* groups = state.find("param_groups");
  for (std::size_t g = 0; g < groups->as_list().size() && g < optimizer.param_groups().size(); ++g) {
    const Value* ids = groups->as_list()[g].find("params");
    if (ids == nullptr || !ids->is_sequence()) continue;
    const std::vector<core::Tensor>& params = optimizer.param_groups()[g].params;
    for (std::size_t i = 0; i < ids->as_list().size() && i < params.size(); ++i) {
      devices["state." + step_text(ids->as_list()[i]) + "."] = params[i].device();
    }
  }
  for (PlacedEntry& placed : entries) {
    const std::size_t dot = placed.key.find('.', std::string_view("state.").size());
    const auto found = dot == std::string::npos ? devices.end() : devices.find(placed.key.substr(0, dot + 1));
    const bool counts_steps = placed.key.ends_with(".step");
    if (found != devices.end() && !counts_steps && !found->second.is_meta()) placed.device = found->second;
  }
}

/// What a program saved beside its parts, from the first part on and behind the last.
Dict run_before_parts(const TrainingProgress& progress) {
  Dict root;
  add_value(root, "epoch", Value(progress.epoch));
  add_value(root, "step", Value(progress.step));
  return root;
}
Checkpoint run_after_parts(Dict root, const TrainingProgress& progress) {
  add_value(root, "rng_state", bytes_as_tensor(core::default_generator().state()));
  add_value(root, "cuda_rng_state", cuda_generator_states());
  if (!progress.extra.is_null()) add_value(root, "extra", progress.extra);
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(root));
  return checkpoint;
}

/// Parts of a file on their way into a run. What can fail without a change is done first.
class Resumption {
 public:
  Resumption(const Checkpoint& checkpoint, const TrainingParts& parts, const ResumeOptions& options,
             const OpenOptions& open)
      : checkpoint_(checkpoint), parts_(parts), options_(options), open_(open) {
    for (const TrainingParts::Part& part : parts.parts()) required(checkpoint.root, part.name);
  }

  void run() {
    each<core::Module*>(
        [&](const std::string&, core::Module*, const Value& saved) { check_locations(saved, options_.map_location); });
    each<core::Optimizer*>([&](const std::string&, core::Optimizer* optimizer, const Value& saved) {
      states_.push_back(state_of(*optimizer, saved));
    });
    each<core::Module*>([&](const std::string& name, core::Module* module, const Value&) {
      load_into(*module, checkpoint_,
                {.map_location = options_.map_location,
                 .path = name,
                 .reconcile = options_.reconcile,
                 .open = open_,
                 .ring = options_.ring});
    });
    std::size_t next = 0;
    each<core::Optimizer*>([&](const std::string&, core::Optimizer* optimizer, const Value&) {
      optimizer->take_state_dict(std::move(states_[next++]));
    });
    each<TrainingParts::Plain>([&](const std::string& name, const TrainingParts::Plain& plain, const Value& saved) {
      core::with_context(core::quote(name), [&] { plain.load(saved); });
    });
  }

 private:
  template <class What, class Function>
  void each(const Function& function) const {
    for (const TrainingParts::Part& part : parts_.parts()) {
      if (const What* what = std::get_if<What>(&part.what)) {
        function(part.name, *what, required(checkpoint_.root, part.name));
      }
    }
  }

  core::OptimizerState state_of(const core::Optimizer& optimizer, const Value& saved) const {
    const Value ordered = detail::in_order_of(saved, parts_.modules(), optimizer);
    std::vector<PlacedEntry> entries = optimizer_entries(ordered);
    place(entries, options_.map_location);
    place_with_parameters(entries, ordered, optimizer);
    TensorMaker maker(entries, options_.ring, open_.threads);
    core::OptimizerState state = to_optimizer_state(ordered, maker);
    maker.finish();
    return state;
  }

  const Checkpoint& checkpoint_;
  const TrainingParts& parts_;
  const ResumeOptions& options_;
  const OpenOptions& open_;
  std::vector<core::OptimizerState> states_;
};

TrainingParts plain_run(core::Module& model, core::Optimizer& optimizer) {
  TrainingParts parts;
  parts.add("model", model).add("optimizer", optimizer);
  return parts;
}

}  // namespace

Checkpoint training_checkpoint(const core::Module& model, const core::Optimizer& optimizer,
                               const TrainingProgress& progress, Snapshot* snapshot) {
  Dict root = run_before_parts(progress);
  EntryMaker maker(snapshot);
  add_value(root, "model", to_value(model.state_dict(), maker));
  add_value(root, "optimizer", to_value(optimizer.state_dict(), maker));
  return run_after_parts(std::move(root), progress);
}
Checkpoint training_checkpoint(const TrainingParts& parts, const TrainingProgress& progress, Snapshot* snapshot) {
  Dict root = run_before_parts(progress);
  EntryMaker maker(snapshot);
  for (const TrainingParts::Part& part : parts.parts()) {
    if (const auto* module = std::get_if<core::Module*>(&part.what)) {
      add_value(root, part.name, to_value((*module)->state_dict(), maker));
    } else if (const auto* optimizer = std::get_if<core::Optimizer*>(&part.what)) {
      add_value(root, part.name, to_value((*optimizer)->state_dict(), maker));
    } else {
      add_value(root, part.name, std::get<TrainingParts::Plain>(part.what).save());
    }
  }
  return run_after_parts(std::move(root), progress);
}

void save_training(const std::filesystem::path& path, const core::Module& model, const core::Optimizer& optimizer,
                   const TrainingProgress& progress, const SaveOptions& options) {
  save(training_checkpoint(model, optimizer, progress, nullptr), path, options);
}
void save_training(const std::filesystem::path& path, const TrainingParts& parts, const TrainingProgress& progress,
                   const SaveOptions& options) {
  save(training_checkpoint(parts, progress, nullptr), path, options);
}

TrainingProgress resume_training(const std::filesystem::path& path, const TrainingParts& parts,
                                 const ResumeOptions& options) {
  OpenOptions open_options = options.open;
  open_options.look_past_foreign = true;
  open_options.check_hashes = open_options.check_hashes || options.check_hashes;
  Checkpoint checkpoint = open(path, open_options);
  const Value& root = checkpoint.root;
  return core::with_context(path.string(), [&] {
    Resumption(checkpoint, parts, options, open_options).run();
    restore_generators(root);
    TrainingProgress progress{integer_or_zero(root, "epoch"), integer_or_zero(root, "step"), {}};
    if (const Value* extra = root.find("extra")) progress.extra = *extra;
    return progress;
  });
}
TrainingProgress resume_training(const std::filesystem::path& path, core::Module& model, core::Optimizer& optimizer,
                                 const ResumeOptions& options) {
  return resume_training(path, plain_run(model, optimizer), options);
}

StepFile save_training(Run& run, const core::Module& model, const core::Optimizer& optimizer,
                       const TrainingProgress& progress, const Metrics& metrics) {
  return run.save(progress.step, training_checkpoint(model, optimizer, progress, nullptr), metrics);
}
StepFile save_training(Run& run, const TrainingParts& parts, const TrainingProgress& progress, const Metrics& metrics) {
  return run.save(progress.step, training_checkpoint(parts, progress, nullptr), metrics);
}

std::optional<TrainingProgress> resume_latest(const Run& run, const TrainingParts& parts,
                                              const ResumeOptions& options) {
  std::optional<StepFile> last = run.latest(CheckDepth::every_byte, options.open);
  if (!last) return {};
  return resume_training(last->path, parts, options);
}
std::optional<TrainingProgress> resume_latest(const Run& run, core::Module& model, core::Optimizer& optimizer,
                                              const ResumeOptions& options) {
  return resume_latest(run, plain_run(model, optimizer), options);
}

PendingSave save_training_async(const std::filesystem::path& path, const core::Module& model,
                                const core::Optimizer& optimizer, const TrainingProgress& progress,
                                const AsyncSaveOptions& options) {
  return detail::start_save(
      [&](Snapshot& snapshot) { return training_checkpoint(model, optimizer, progress, &snapshot); }, path, options);
}
PendingSave save_training_async(const std::filesystem::path& path, const TrainingParts& parts,
                                const TrainingProgress& progress, const AsyncSaveOptions& options) {
  return detail::start_save([&](Snapshot& snapshot) { return training_checkpoint(parts, progress, &snapshot); }, path,
                            options);
}

PendingSave step_and_save_async(const std::filesystem::path& path, const core::Module& model,
                                core::Optimizer& optimizer, const TrainingProgress& progress,
                                const AsyncSaveOptions& options) {
  const auto take = [&](Snapshot& snapshot) {
    const std::vector<core::Tensor> written = written_by_step(optimizer);
    snapshot.copy_in_step(written, [&] { optimizer.step(); });
    const auto versions = versions_of(written);
    Checkpoint checkpoint = training_checkpoint(model, optimizer, progress, &snapshot);
    if (versions_of(written) != versions) snapshot.copy_again();  // hooks of state_dict() may write
    return checkpoint;
  };
  return detail::start_save(take, path, options);
}

}  // namespace ckpt
