#pragma once
// Generator: the source of random numbers, bit for bit PyTorch's. A handle: copies draw from the same stream.
// Thread safety: seeding, state and whole fills lock the stream; each call is one piece.
// Use: core::manual_seed(0); core::Generator g; g.manual_seed(5); g.state();

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>

#include "libcore/base/bytes.h"
#include "libcore/base/device.h"

namespace core {

namespace detail {
struct RandomStream;
}

class Generator {
 public:
  /// Seed of a generator that nobody seeded.
  static constexpr std::uint64_t kDefaultSeed = 67280421310721;
  /// Bytes of state(): of a CPU generator, and of a CUDA one (seed and offset).
  static constexpr std::size_t kCpuStateSize = 5056;
  static constexpr std::size_t kCudaStateSize = 16;

  /// A stream of its own. Error(runtime) for a device type that has no generator.
  explicit Generator(Device device = {});

  /// Any integer from -2^63 to 2^64-1; -1 is 2^64-1.
  template <std::integral Int>
  Generator& manual_seed(Int seed) {
    return reseed(static_cast<std::uint64_t>(seed));
  }
  /// Seeds from the system's entropy and returns the seed.
  std::uint64_t seed();
  std::uint64_t initial_seed() const;

  Device device() const;
  /// The blob torch.get_rng_state() returns, byte for byte.
  ByteVector state() const;
  /// Error(runtime) when the blob has another size or contradicts itself; the generator is then unchanged.
  void set_state(Bytes blob);
  /// An independent stream in the same state.
  Generator clone() const;

  /// True when both draw from the same stream.
  friend bool operator==(const Generator& a, const Generator& b) { return a.stream_ == b.stream_; }

  /// For the functions that fill buffers (random_stream.h).
  detail::RandomStream& stream() const { return *stream_; }

 private:
  Generator& reseed(std::uint64_t seed);

  std::shared_ptr<detail::RandomStream> stream_;
};

/// What calls without a generator draw from: one for the CPU, one for each CUDA device ("cuda" means the first).
/// In a thread inside a DefaultGeneratorScope, that scope's generator stands for the CPU's.
Generator default_generator(Device device = {});

/// Seeds the default generators of the CPU and of every CUDA device; returns the CPU's.
Generator manual_seed(std::uint64_t seed);
template <std::signed_integral Int>
Generator manual_seed(Int seed) {
  return manual_seed(static_cast<std::uint64_t>(seed));
}

/// Makes `generator` the CPU default of the calling thread while the object lives: a data worker's own stream.
class DefaultGeneratorScope {
 public:
  explicit DefaultGeneratorScope(Generator generator);
  ~DefaultGeneratorScope();
  DefaultGeneratorScope(const DefaultGeneratorScope&) = delete;
  DefaultGeneratorScope& operator=(const DefaultGeneratorScope&) = delete;

 private:
  std::optional<Generator> previous_;
};

}  // namespace core
