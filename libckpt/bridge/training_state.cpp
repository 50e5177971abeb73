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

void add(Dict& dict, const char* key, Value value) {
  dict.items.emplace_back(Value::text(key), std::move(value));
}

Value bytes_as_tensor(core::ByteVector bytes) {
  auto entry = std::make_shared<Entry>();
  entry->dtype = core::DType::u8;
  entry->shape = {static_cast<std::int64_t>(bytes.size())};
  entry->bytes = memory_source(std::move(bytes));
  return Value::tensor(std::move(entry));
}

const Value& required(const Value& root, const char* key) {
  if (const Value* value = root.find(key)) return *value;
  throw Error(ErrorCode::key, "no " + core::quote(key) + " in the file, so it is not a training state");
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
void check_locations(const Value& of_model, std::vector<PlacedEntry> of_optimizer, const MapLocation& map_location) {
  std::vector<PlacedEntry> entries;
  for (NamedEntry& named : list_entries(of_model)) entries.push_back({std::move(named.name), named.entry, {}});
  entries.insert(entries.end(), of_optimizer.begin(), of_optimizer.end());
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

}  // namespace

Checkpoint training_checkpoint(const core::Module& model, const core::Optimizer& optimizer,
                               const TrainingProgress& progress, Snapshot* snapshot) {
  Dict root;
  add(root, "epoch", Value::integer(progress.epoch));
  add(root, "step", Value::integer(progress.step));
  EntryMaker of_model(snapshot), of_optimizer(snapshot);
  add(root, "model", to_value(model.state_dict(), of_model));
  add(root, "optimizer", to_value(optimizer.state_dict(), of_optimizer));
  add(root, "rng_state", bytes_as_tensor(core::default_generator().state()));
  add(root, "cuda_rng_state", cuda_generator_states());
  if (!progress.extra.is_null()) add(root, "extra", progress.extra);
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(root));
  return checkpoint;
}

void save_training(const std::filesystem::path& path, const core::Module& model, const core::Optimizer& optimizer,
                   const TrainingProgress& progress, const SaveOptions& options) {
  save(training_checkpoint(model, optimizer, progress, nullptr), path, options);
}

TrainingProgress resume_training(const std::filesystem::path& path, core::Module& model, core::Optimizer& optimizer,
                                 const ResumeOptions& options) {
  OpenOptions open_options = options.open;
  open_options.look_past_foreign = true;
  open_options.check_hashes = open_options.check_hashes || options.check_hashes;
  Checkpoint checkpoint = open(path, open_options);
  const Value& root = checkpoint.root;
  return core::with_context(path.string(), [&] {
    const Value& of_model = required(root, "model");
    const Value of_optimizer = detail::in_order_of(required(root, "optimizer"), model, optimizer);
    std::vector<PlacedEntry> entries = optimizer_entries(of_optimizer);
    check_locations(of_model, entries, options.map_location);
    place_with_parameters(entries, of_optimizer, optimizer);
    TensorMaker maker(entries, options.ring, open_options.threads);
    core::OptimizerState state = to_optimizer_state(of_optimizer, maker);
    maker.finish();
    load_into(model, checkpoint,
              {.map_location = options.map_location,
               .path = "model",
               .reconcile = options.reconcile,
               .open = open_options,
               .ring = options.ring});
    optimizer.take_state_dict(std::move(state));
    restore_generators(root);
    TrainingProgress progress{integer_or_zero(root, "epoch"), integer_or_zero(root, "step"), {}};
    if (const Value* extra = root.find("extra")) progress.extra = *extra;
    return progress;
  });
}

StepFile save_training(Run& run, const core::Module& model, const core::Optimizer& optimizer,
                       const TrainingProgress& progress, const Metrics& metrics) {
  return run.save(progress.step, training_checkpoint(model, optimizer, progress, nullptr), metrics);
}

std::optional<TrainingProgress> resume_latest(const Run& run, core::Module& model, core::Optimizer& optimizer,
                                              const ResumeOptions& options) {
  std::optional<StepFile> last = run.latest(CheckDepth::every_byte, options.open);
  if (!last) return {};
  return resume_training(last->path, model, optimizer, options);
}

PendingSave save_training_async(const std::filesystem::path& path, const core::Module& model,
                                const core::Optimizer& optimizer, const TrainingProgress& progress,
                                const AsyncSaveOptions& options) {
  return detail::start_save(
      [&](Snapshot& snapshot) { return training_checkpoint(model, optimizer, progress, &snapshot); }, path, options);
}

}  // namespace ckpt
