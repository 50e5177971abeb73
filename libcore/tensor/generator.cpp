#include "libcore/tensor/generator.h"

#include <array>
#include <cstring>
#include <map>
#include <random>

#include "libcore/backend/mt19937.h"
#include "libcore/backend/random_stream.h"
#include "libcore/base/error.h"

namespace core {

namespace {

using detail::RandomStream;

// Offsets in the CPU blob: seed u64, left i32, seeded i32, next u64, 624 words widened to u64, three doubles (x, y,
// rho) of which only y is in use, a flag, padding, and an unused float with its flag.
constexpr std::size_t kLeftAt = 8;
constexpr std::size_t kSeededAt = 12;
constexpr std::size_t kNextAt = 16;
constexpr std::size_t kWordsAt = 24;
constexpr std::size_t kNormalAt = kWordsAt + 8 * Mt19937::kWords;
constexpr std::size_t kNormalValidAt = kNormalAt + 24;

ByteVector cpu_blob(const RandomStream& stream) {
  const Mt19937::State& state = stream.engine.state();
  ByteVector blob(Generator::kCpuStateSize, std::byte{0});
  store_le(blob.data(), state.seed);
  store_le(blob.data() + kLeftAt, state.left);
  store_le(blob.data() + kSeededAt, static_cast<std::int32_t>(state.seeded));
  store_le(blob.data() + kNextAt, static_cast<std::uint64_t>(state.next));
  for (int i = 0; i < Mt19937::kWords; ++i) {
    store_le(blob.data() + kWordsAt + 8 * static_cast<std::size_t>(i), static_cast<std::uint64_t>(state.words[i]));
  }
  store_le(blob.data() + kNormalAt + 8, stream.cached_normal.value_or(0.0));
  store_le(blob.data() + kNormalValidAt, static_cast<std::int32_t>(stream.cached_normal.has_value()));
  return blob;
}

[[noreturn]] void invalid_state() {
  throw Error(ErrorCode::runtime, "Invalid mt19937 state");
}

Mt19937::State engine_state(Bytes blob) {
  Mt19937::State state;
  state.seed = load_le<std::uint64_t>(blob.data());
  state.left = load_le<std::int32_t>(blob.data() + kLeftAt);
  state.seeded = load_le<std::int32_t>(blob.data() + kSeededAt) == 1;
  auto next = load_le<std::uint64_t>(blob.data() + kNextAt);
  bool in_range = state.left >= 1 && state.left <= Mt19937::kWords && next <= Mt19937::kWords;
  if (!state.seeded || !in_range) invalid_state();
  // Before the first twist nothing is left; later `left` counts down from 624 as `next` counts up from 0.
  bool fresh = state.left == 1;
  if (!fresh && static_cast<std::uint64_t>(state.left) + next > Mt19937::kWords + 1) invalid_state();
  state.next = static_cast<std::uint32_t>(next);
  for (int i = 0; i < Mt19937::kWords; ++i) {
    auto word = load_le<std::uint64_t>(blob.data() + kWordsAt + 8 * static_cast<std::size_t>(i));
    state.words[i] = static_cast<std::uint32_t>(word);
  }
  return state;
}

void check_cpu_size(Bytes blob) {
  if (blob.size() == Generator::kCpuStateSize) return;
  throw Error(ErrorCode::runtime, "Expected a CPUGeneratorImplState of size " +
                                      std::to_string(Generator::kCpuStateSize) +
                                      " but found the input RNG state size to be " + std::to_string(blob.size()));
}

std::uint64_t entropy() {
  std::random_device device;
  std::uint64_t high = device();
  return high << 32 | device();
}

thread_local std::optional<Generator> scoped_default;

/// Default generators by ordinal (CUDA); made on first use with the seed given last, so that a device that appears
/// later is seeded too.
struct CudaDefaults {
  std::mutex mutex;
  std::uint64_t seed = Generator::kDefaultSeed;
  std::map<int, Generator> generators;
};

CudaDefaults& cuda_defaults() {
  static CudaDefaults defaults;
  return defaults;
}

Generator& cpu_default() {
  static Generator generator;
  return generator;
}

}  // namespace

Generator::Generator(Device device) : stream_(std::make_shared<RandomStream>(device, kDefaultSeed)) {
  if (device.is_cpu() || device.is_cuda()) return;
  throw Error(ErrorCode::runtime,
              "Device type " + std::string(name(device.type())) + " is not supported for torch.Generator() api.");
}

Generator& Generator::reseed(std::uint64_t seed) {
  std::scoped_lock lock(stream_->mutex);
  stream_->engine = Mt19937(seed);
  stream_->cached_normal.reset();
  stream_->seed = seed;
  stream_->offset = 0;
  return *this;
}

std::uint64_t Generator::seed() {
  std::uint64_t value = entropy();
  reseed(value);
  return value;
}

std::uint64_t Generator::initial_seed() const {
  std::scoped_lock lock(stream_->mutex);
  return stream_->seed;
}

Device Generator::device() const {
  return stream_->device;
}

ByteVector Generator::state() const {
  std::scoped_lock lock(stream_->mutex);
  if (stream_->device.is_cpu()) return cpu_blob(*stream_);
  ByteVector blob;
  append_le(blob, stream_->seed);
  append_le(blob, stream_->offset);
  return blob;
}

void Generator::set_state(Bytes blob) {
  std::scoped_lock lock(stream_->mutex);
  if (stream_->device.is_cpu()) {
    check_cpu_size(blob);
    stream_->engine.set_state(engine_state(blob));
    stream_->seed = stream_->engine.state().seed;
    bool cached = load_le<std::int32_t>(blob.data() + kNormalValidAt) != 0;
    stream_->cached_normal.reset();
    if (cached) stream_->cached_normal = load_le<double>(blob.data() + kNormalAt + 8);
    return;
  }
  if (blob.size() != kCudaStateSize) throw Error(ErrorCode::runtime, "RNG state is wrong size");
  stream_->seed = load_le<std::uint64_t>(blob.data());
  stream_->offset = load_le<std::uint64_t>(blob.data() + 8);
}

Generator Generator::clone() const {
  Generator copy(device());
  copy.set_state(state());
  return copy;
}

Generator default_generator(Device device) {
  if (!device.is_cuda()) return scoped_default ? *scoped_default : cpu_default();
  CudaDefaults& defaults = cuda_defaults();
  std::scoped_lock lock(defaults.mutex);
  int ordinal = device.has_index() ? device.index() : 0;
  auto found = defaults.generators.find(ordinal);
  if (found != defaults.generators.end()) return found->second;
  Generator generator(Device(DeviceType::cuda, ordinal));
  generator.manual_seed(defaults.seed);
  defaults.generators.emplace(ordinal, generator);
  return generator;
}

Generator manual_seed(std::uint64_t seed) {
  CudaDefaults& defaults = cuda_defaults();
  {
    std::scoped_lock lock(defaults.mutex);
    defaults.seed = seed;
    for (auto& [ordinal, generator] : defaults.generators) generator.manual_seed(seed);
  }
  return default_generator().manual_seed(seed);
}

DefaultGeneratorScope::DefaultGeneratorScope(Generator generator) : previous_(scoped_default) {
  scoped_default = std::move(generator);
}

DefaultGeneratorScope::~DefaultGeneratorScope() {
  scoped_default = previous_;
}

}  // namespace core
