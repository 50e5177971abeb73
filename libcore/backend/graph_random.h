#pragma once
// Random numbers in a captured graph. A kernel of a graph cannot be told where a generator stands, as that changes from
// replay to replay: it reads seed and offset from device memory, which is written before each replay, and the generator
// moves on by what one replay uses. So replays draw the numbers that the same calls would draw without a graph.
// Thread safety: none; a graph is captured and replayed by one thread at a time.
// Use: if (GraphRandom* random = capturing_random(device)) place = random->draw(generator, take, step);

#include <cstdint>
#include <memory>
#include <vector>

#include "libcore/backend/backend.h"

namespace core {

class GraphRandom {
 public:
  struct Numbers {
    std::uint64_t seed;
    std::uint64_t offset;
  };
  /// Where a generator stands; it then moves on by `used`.
  using Take = Numbers (*)(void* generator, std::uint64_t used);
  /// What a kernel is given (random_table.h).
  struct Place {
    const std::uint64_t* state;
    std::uint64_t offset;
  };

  explicit GraphRandom(Backend& backend) : backend_(backend) {}
  ~GraphRandom();
  GraphRandom(const GraphRandom&) = delete;
  GraphRandom& operator=(const GraphRandom&) = delete;

  /// While capturing: the place of the next `used` numbers of `generator`, which the graph keeps. Error(runtime) for
  /// more than 16 generators in one graph.
  Place draw(const std::shared_ptr<void>& generator, Take take, std::uint64_t used);
  /// Before a replay, on the current stream: tells the kernels where the generators stand, and moves these on.
  void refresh();

 private:
  struct User {
    std::shared_ptr<void> generator;
    Take take;
    std::uint64_t used;
  };
  void write(std::size_t word, std::uint64_t value);

  Backend& backend_;
  std::uint64_t* state_ = nullptr;  // on the device, from the graph's memory: {seed, offset} of each user
  std::vector<User> users_;
};

/// Of the capture that the calling thread's current stream on `device` is in; null outside of captures.
GraphRandom* capturing_random(Device device);

}  // namespace core
