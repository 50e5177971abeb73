#include "libcore/backend/graph_random.h"

#include <algorithm>

#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"

namespace core {
namespace {

constexpr std::size_t kMostGenerators = 16;
constexpr std::size_t kBytes = kMostGenerators * 2 * sizeof(std::uint64_t);

}  // namespace

GraphRandom::~GraphRandom() {
  if (state_ != nullptr) backend_.free(state_, kBytes);
}

GraphRandom::Place GraphRandom::draw(const std::shared_ptr<void>& generator, Take take, std::uint64_t used) {
  auto user = std::find_if(users_.begin(), users_.end(), [&](const User& u) { return u.generator == generator; });
  if (user == users_.end()) {
    if (users_.size() == kMostGenerators) {
      throw Error(ErrorCode::runtime, "a graph draws random numbers from at most 16 generators");
    }
    user = users_.insert(users_.end(), {generator, take, 0});
  }
  if (state_ == nullptr) state_ = static_cast<std::uint64_t*>(backend_.allocate(kBytes));
  const Place place{state_ + 2 * (user - users_.begin()), user->used};
  user->used += used;
  return place;
}

void GraphRandom::refresh() {
  for (std::size_t i = 0; i < users_.size(); ++i) {
    const Numbers now = users_[i].take(users_[i].generator.get(), users_[i].used);
    write(2 * i, now.seed);
    write(2 * i + 1, now.offset);
  }
}

/// The value goes along with a kernel, so that replays need not wait for each other.
void GraphRandom::write(std::size_t word, std::uint64_t value) {
  CopyParams params{state_ + word, &value, {}};
  params.loop.ndim = 1;
  params.loop.numel = params.loop.sizes[0] = 1;
  params.loop.strides[0][0] = params.loop.strides[1][0] = 1;
  backend_.ops().copy->fill[sizeof value](params);
}

}  // namespace core
