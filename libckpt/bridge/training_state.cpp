#include "libckpt/bridge/training_state.h"

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
  throw Error(ErrorCode::key, "no " + core::quote(key) + " in the file, so it is no training state");
}

std::int64_t integer_or_zero(const Value& root, const char* key) {
  const Value* value = root.find(key);
  return value != nullptr && value->is(Value::Kind::integer) ? value->as_integer() : 0;
}

/// Bytes of a uint8 tensor that holds a generator's state.
core::ByteVector state_bytes(const Value& value, const char* key) {
  if (!value.is(Value::Kind::tensor) || value.as_entry().dtype != core::DType::u8 ||
      value.as_entry().byte_size() > core::Generator::kCpuStateSize) {
    throw Error(ErrorCode::corrupt, core::quote(key) + " is no generator state (a small uint8 tensor)");
  }
  return read_all(*value.as_entry().bytes);
}

void restore_generators(const Value& root) {
  if (const Value* cpu = root.find("rng_state")) core::default_generator().set_state(state_bytes(*cpu, "rng_state"));
  const Value* cuda = root.find("cuda_rng_state");
  if (cuda == nullptr || !cuda->is_sequence()) return;
  int present = core::cuda::device_count();
  for (int i = 0; i < present && static_cast<std::size_t>(i) < cuda->as_list().size(); ++i) {
    core::Generator generator = core::default_generator(core::Device(core::DeviceType::cuda, i));
    generator.set_state(state_bytes(cuda->as_list()[static_cast<std::size_t>(i)], "cuda_rng_state"));
  }
}

Value cuda_generator_states() {
  Value::List states;
  for (int i = 0; i < core::cuda::device_count(); ++i) {
    states.push_back(bytes_as_tensor(core::default_generator(core::Device(core::DeviceType::cuda, i)).state()));
  }
  return Value::list(std::move(states));
}

}  // namespace

void save_training(const std::filesystem::path& path, const core::Module& model, const core::Optimizer& optimizer,
                   const TrainingProgress& progress, const SaveOptions& options) {
  Dict root;
  add(root, "epoch", Value::integer(progress.epoch));
  add(root, "step", Value::integer(progress.step));
  add(root, "model", to_value(model.state_dict()));
  add(root, "optimizer", to_value(optimizer.state_dict()));
  add(root, "rng_state", bytes_as_tensor(core::default_generator().state()));
  add(root, "cuda_rng_state", cuda_generator_states());
  if (!progress.extra.is_null()) add(root, "extra", progress.extra);
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(root));
  save(checkpoint, path, options);
}

TrainingProgress resume_training(const std::filesystem::path& path, core::Module& model, core::Optimizer& optimizer,
                                 const ResumeOptions& options) {
  OpenOptions open_options = options.open;
  open_options.check_hashes = open_options.check_hashes || options.check_hashes;
  Checkpoint checkpoint = open(path, open_options);
  const Value& root = checkpoint.root;
  return core::with_context(path.string(), [&] {
    required(root, "model");
    core::OptimizerState state = to_optimizer_state(required(root, "optimizer"), MapLocation(core::Device()));
    load_into(
        model, checkpoint,
        {.map_location = options.map_location, .path = "model", .reconcile = options.reconcile, .open = open_options});
    optimizer.load_state_dict(state);
    restore_generators(root);
    TrainingProgress progress{integer_or_zero(root, "epoch"), integer_or_zero(root, "step"), {}};
    if (const Value* extra = root.find("extra")) progress.extra = *extra;
    return progress;
  });
}

}  // namespace ckpt
