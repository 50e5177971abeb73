#include "libcore/dist/near_sum.h"

#include <algorithm>
#include <vector>

#include "libcore/dist/ring.h"

namespace core::distributed {
namespace {

/// Of a chunk, so that what was read is added while it is in the cache.
constexpr std::int64_t kInCache = std::int64_t{128} << 10;

enum class Phase : std::uint64_t { place = 1, summed = 2, read = 3 };

/// One sum. Each rank adds up its chunk from the memory of all, then the others read it there: every byte moves once
/// where a socket moves it twice.
class NearSum {
 public:
  NearSum(NearRanks& near, const Addends& addends, const Call& call)
      : near_(near),
        addends_(addends),
        call_(call),
        ring_(addends.bytes, addends.element, near.size()),
        places_(static_cast<std::size_t>(near.size())) {}

  void run() {
    send(Phase::place, reinterpret_cast<std::uintptr_t>(addends_.data));
    for (int i = 1; i < near_.size(); ++i) {
      const NearRanks::Message message = receive(Phase::place);
      places_[static_cast<std::size_t>(message.rank)] = message.value;
    }
    sum_own_chunk();
    send(Phase::summed, 0);
    for (int i = 1; i < near_.size(); ++i) {  // who has its sum has read the addends that are overwritten here
      const int rank = receive(Phase::summed).rank;
      near_.read(rank, there(rank, ring_.begin(rank)), here(ring_.begin(rank)), ring_.length(rank));
    }
    for (int rank = 0; rank < near_.size(); ++rank) near_.check(rank);
    send(Phase::read, 0);
    for (int i = 1; i < near_.size(); ++i) receive(Phase::read);  // before it the memory is not the caller's again
  }

 private:
  std::uint64_t tag(Phase phase) const { return std::uint64_t{call_.tag} << 32 | static_cast<std::uint64_t>(phase); }
  void send(Phase phase, std::uint64_t value) {
    for (int rank = 0; rank < near_.size(); ++rank) {
      if (rank != near_.rank()) near_.send(rank, tag(phase), value, call_);
    }
  }
  NearRanks::Message receive(Phase phase) { return near_.receive(tag(phase), call_); }
  char* here(std::int64_t at) const { return static_cast<char*>(addends_.data) + at; }
  std::uint64_t there(int rank, std::int64_t at) const {
    return places_[static_cast<std::size_t>(rank)] + static_cast<std::uint64_t>(at);
  }
  void sum_own_chunk() const;
  void sum_piece(std::int64_t at, std::int64_t length, char* sum, char* next) const;

  NearRanks& near_;
  const Addends& addends_;
  const Call& call_;
  Ring ring_;
  std::vector<std::uint64_t> places_;  // of the addends, in each process
};

void NearSum::sum_own_chunk() const {
  const std::int64_t length = ring_.length(near_.rank());
  std::vector<char> sum(static_cast<std::size_t>(std::min(kInCache, length)));
  std::vector<char> next(near_.size() > 2 ? sum.size() : 0);
  for (std::int64_t from = 0; from < length; from += kInCache) {
    sum_piece(ring_.begin(near_.rank()) + from, std::min(kInCache, length - from), sum.data(), next.data());
  }
}

void NearSum::sum_piece(std::int64_t at, std::int64_t length, char* sum, char* next) const {
  const auto count = static_cast<std::size_t>(length / addends_.element);
  const auto read = [&](int back, char* to) {
    const int rank = (near_.rank() - back + near_.size()) % near_.size();
    near_.read(rank, there(rank, at), to, length);
  };
  read(1, sum);
  for (int back = 2; back < near_.size(); ++back) {
    read(back, next);
    addends_.combine(sum, next, sum, count);
  }
  addends_.combine(here(at), here(at), sum, count);
}

}  // namespace

void sum_nearby(NearRanks& near, const Addends& addends, const Call& call) {
  try {
    NearSum(near, addends, call).run();
  } catch (...) {
    near.give_up();
    throw;
  }
}

}  // namespace core::distributed
