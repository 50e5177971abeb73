// MPI: the engine for machines whose network it knows better than TCP. Made of messages with tags, not of MPI's own
// collectives: those can neither be given up at a time-out nor notice that ranks call different things, and they sum in
// an order of their own. Here the order is Gloo's: at any number of ranks the bits are those of the backend gloo.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/dist/engine.h"
#include "libcore/dist/mpi_exchange.h"
#include "libcore/dist/mpi_library.h"
#include "libcore/dist/ring.h"

namespace core::distributed {
namespace {

/// Messages of the program's own have tags below it.
constexpr std::uint32_t kCollective = kLargestMpiTag + 1;
/// Up to here every rank gets the addends of all and sums them itself: one step in place of two for each rank.
constexpr std::int64_t kSmall = 4096;
/// Of a chunk on its way: what came is summed while the next piece comes.
constexpr std::int64_t kPiece = std::int64_t{1} << 20;

char* at(void* data, std::int64_t offset) {
  return static_cast<char*>(data) + offset;
}
const char* at(const void* data, std::int64_t offset) {
  return static_cast<const char*>(data) + offset;
}

/// Memory for messages. It stays when the call fails: MPI may still write there.
class Room {
 public:
  explicit Room(std::int64_t bytes) : data_(new char[static_cast<std::size_t>(bytes)]) {}
  ~Room() {
    if (std::uncaught_exceptions() > before_) static_cast<void>(data_.release());
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  char* at(std::int64_t offset) const { return data_.get() + offset; }

 private:
  int before_ = std::uncaught_exceptions();
  std::unique_ptr<char[]> data_;
};

/// What is to be summed.
struct RingAddends {
  void* data;
  std::int64_t bytes;
  std::int64_t element;
  ReduceFunction combine;
  Ring ring;

  /// `to` = a op b, `length` bytes of each.
  void sum(void* to, const void* a, const void* b, std::int64_t length) const {
    combine(to, a, b, static_cast<std::size_t>(length / element));
  }
};

class MpiEngine final : public Engine {
 public:
  explicit MpiEngine(const EngineOptions& options) : mpi_(mpi_plugin()), rank_(options.rank), size_(options.size) {
    const auto largest = static_cast<std::uint32_t>(start_mpi(options.timeout).largest_tag);
    if (largest < 2 * kCollective - 1) {
      throw Error(ErrorCode::unsupported, "this MPI has tags up to " + std::to_string(largest) +
                                              ", where the backend mpi needs " + std::to_string(2 * kCollective - 1));
    }
    open(options);
  }
  ~MpiEngine() override {
    if (!mpi_was_given_up()) mpi_.close_group(group_);
  }
  std::string name() const override { return "mpi"; }
  bool may_keep_memory() const override { return true; }
  void note_failure() override { give_up_mpi(); }

  void all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, const Call& call) override;
  void reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, int root, const Call& call) override;
  void broadcast(void* data, std::int64_t bytes, int root, const Call& call) override;
  void all_gather(const void* in, void* out, std::int64_t bytes, const Call& call) override;
  void gather(const void* in, void* out, std::int64_t bytes, int root, const Call& call) override;
  void scatter(const void* in, void* out, std::int64_t bytes, int root, const Call& call) override;
  void all_to_all(const void* in, std::span<const std::int64_t> in_bytes, void* out,
                  std::span<const std::int64_t> out_bytes, const Call& call) override;
  void barrier(const Call& call) override;
  void send(const void* data, std::int64_t bytes, int to, const Call& call) override {
    MpiExchange exchange(mpi_, group_, static_cast<int>(call.tag & kLargestMpiTag), call);
    exchange.send(data, bytes, to);
    exchange.wait();
  }
  void receive(void* data, std::int64_t bytes, int from, const Call& call) override {
    MpiExchange exchange(mpi_, group_, static_cast<int>(call.tag & kLargestMpiTag), call);
    exchange.receive(data, bytes, from);
    exchange.wait();
  }

 private:
  void open(const EngineOptions& options);
  int wrapped(int rank) const { return ((rank % size_) + size_) % size_; }
  int tag_of(const Call& call) const { return static_cast<int>(kCollective | (call.tag & (kCollective - 1))); }
  RingAddends addends(void* data, std::int64_t count, DType dtype, ReduceOp op) const {
    const auto element = static_cast<std::int64_t>(bit_width(dtype) / 8);
    return {data, count * element, element, reduce_function(dtype, op), Ring(count * element, element, size_)};
  }
  void sum_chunks(const RingAddends& all, const Call& call);
  void sum_small(const RingAddends& all, const Room& room);

  const MpiPlugin& mpi_;
  int rank_;
  int size_;
  void* group_ = nullptr;
};

void MpiEngine::open(const EngineOptions& options) {
  // MPI makes a group only together with all its ranks, and cannot be asked to give that up.
  std::vector<std::string> keys;
  for (int rank = 0; rank < size_; ++rank) keys.push_back("opens/" + std::to_string(rank));
  options.store->set(keys[static_cast<std::size_t>(rank_)], "");
  options.store->wait(keys, options.timeout);
  const auto made = std::make_shared<void*>(nullptr);
  within(options.timeout, "MPI_Comm_create_group", [made, ranks = options.ranks, &mpi = mpi_] {
    char error[kMpiErrorRoom] = "";
    *made = mpi.open_group(ranks.data(), static_cast<int>(ranks.size()), error);
    if (*made == nullptr) throw Error(ErrorCode::runtime, error);
  });
  group_ = *made;
}

/// Afterwards rank r has the sum of chunk r. Chunks go to the left, and each rank adds its own values to what came.
void MpiEngine::sum_chunks(const RingAddends& all, const Call& call) {
  const Room room(all.ring.length(0));
  MpiExchange exchange(mpi_, group_, tag_of(call), call);
  for (int step = 0; step + 1 < size_; ++step) {
    const int out = wrapped(rank_ + 1 + step);
    const int in = wrapped(rank_ + 2 + step);
    const std::int64_t length = all.ring.length(in);
    const std::size_t first = exchange.count();
    for (std::int64_t from = 0; from < length; from += kPiece) {
      exchange.receive(room.at(from), std::min(kPiece, length - from), wrapped(rank_ + 1));
    }
    for (std::int64_t from = 0; from < all.ring.length(out); from += kPiece) {
      exchange.send(at(all.data, all.ring.begin(out) + from), std::min(kPiece, all.ring.length(out) - from),
                    wrapped(rank_ - 1));
    }
    std::size_t arrived = first;
    for (std::int64_t from = 0; from < length; from += kPiece) {
      exchange.wait_for(++arrived);
      char* own = at(all.data, all.ring.begin(in) + from);
      all.sum(own, own, room.at(from), std::min(kPiece, length - from));
    }
    exchange.wait();
  }
}

/// The same sums from the addends of all ranks, which lie one after the other in the room.
void MpiEngine::sum_small(const RingAddends& all, const Room& room) {
  for (int chunk = 0; chunk < size_; ++chunk) {
    const std::int64_t begin = all.ring.begin(chunk);
    const std::int64_t length = all.ring.length(chunk);
    const auto of = [&](int rank) { return room.at(wrapped(rank) * all.bytes + begin); };
    char* sum = at(all.data, begin);
    all.sum(sum, of(chunk - 2), of(chunk - 1), length);
    for (int back = 3; back <= size_; ++back) all.sum(sum, of(chunk - back), sum, length);
  }
}

void MpiEngine::all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, const Call& call) {
  const RingAddends all = addends(data, count, dtype, op);
  if (size_ == 1) return;
  if (all.bytes <= kSmall) {
    const Room room(all.bytes * size_);
    all_gather(data, room.at(0), all.bytes, call);
    return sum_small(all, room);
  }
  sum_chunks(all, call);
  MpiExchange exchange(mpi_, group_, tag_of(call), call);
  for (int step = 0; step + 1 < size_; ++step) {  // the sums go round, too
    const int out = wrapped(rank_ + step);
    const int in = wrapped(rank_ + 1 + step);
    exchange.receive(at(data, all.ring.begin(in)), all.ring.length(in), wrapped(rank_ + 1));
    exchange.send(at(data, all.ring.begin(out)), all.ring.length(out), wrapped(rank_ - 1));
    exchange.wait();
  }
}

void MpiEngine::reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, int root, const Call& call) {
  const RingAddends all = addends(data, count, dtype, op);
  if (size_ == 1) return;
  if (all.bytes <= kSmall) {
    const Room room(all.bytes * size_);
    gather(data, room.at(0), all.bytes, root, call);
    if (rank_ == root) sum_small(all, room);
    return;
  }
  sum_chunks(all, call);
  MpiExchange exchange(mpi_, group_, tag_of(call), call);
  if (rank_ != root) exchange.send(at(data, all.ring.begin(rank_)), all.ring.length(rank_), root);
  for (int rank = 0; rank_ == root && rank < size_; ++rank) {
    if (rank != root) exchange.receive(at(data, all.ring.begin(rank)), all.ring.length(rank), rank);
  }
  exchange.wait();
}

/// A tree: who has it gives it to the rank that is half of the rest away.
void MpiEngine::broadcast(void* data, std::int64_t bytes, int root, const Call& call) {
  const int place = wrapped(rank_ - root);
  int step = 1;
  while (step < size_ && (place & step) == 0) step <<= 1;
  MpiExchange exchange(mpi_, group_, tag_of(call), call);
  if (place != 0) {
    exchange.receive(data, bytes, wrapped(rank_ - step));
    exchange.wait();
  }
  for (step >>= 1; step > 0; step >>= 1) {
    if (place + step < size_) exchange.send(data, bytes, wrapped(rank_ + step));
  }
  exchange.wait();
}

void MpiEngine::all_gather(const void* in, void* out, std::int64_t bytes, const Call& call) {
  MpiExchange exchange(mpi_, group_, tag_of(call), call);
  for (int away = 1; away < size_; ++away) {
    const int from = wrapped(rank_ - away);
    exchange.receive(at(out, from * bytes), bytes, from);
  }
  for (int away = 1; away < size_; ++away) exchange.send(in, bytes, wrapped(rank_ + away));
  if (bytes > 0) std::memmove(at(out, rank_ * bytes), in, static_cast<std::size_t>(bytes));
  exchange.wait();
}

void MpiEngine::gather(const void* in, void* out, std::int64_t bytes, int root, const Call& call) {
  MpiExchange exchange(mpi_, group_, tag_of(call), call);
  if (rank_ != root) {
    exchange.send(in, bytes, root);
    return exchange.wait();
  }
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != root) exchange.receive(at(out, rank * bytes), bytes, rank);
  }
  if (bytes > 0) std::memmove(at(out, root * bytes), in, static_cast<std::size_t>(bytes));
  exchange.wait();
}

void MpiEngine::scatter(const void* in, void* out, std::int64_t bytes, int root, const Call& call) {
  MpiExchange exchange(mpi_, group_, tag_of(call), call);
  if (rank_ != root) {
    exchange.receive(out, bytes, root);
    return exchange.wait();
  }
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != root) exchange.send(at(in, rank * bytes), bytes, rank);
  }
  if (bytes > 0) std::memmove(out, at(in, root * bytes), static_cast<std::size_t>(bytes));
  exchange.wait();
}

void MpiEngine::all_to_all(const void* in, std::span<const std::int64_t> in_bytes, void* out,
                           std::span<const std::int64_t> out_bytes, const Call& call) {
  MpiExchange exchange(mpi_, group_, tag_of(call), call);
  std::int64_t in_at = 0;
  std::int64_t out_at = 0;
  for (int rank = 0; rank < size_; ++rank) {
    const std::int64_t in_count = in_bytes[static_cast<std::size_t>(rank)];
    const std::int64_t out_count = out_bytes[static_cast<std::size_t>(rank)];
    if (rank != rank_) {
      exchange.receive(at(out, out_at), out_count, rank);
      exchange.send(at(in, in_at), in_count, rank);
    } else if (out_count > 0) {
      std::memcpy(at(out, out_at), at(in, in_at), static_cast<std::size_t>(out_count));
    }
    in_at += in_count;
    out_at += out_count;
  }
  exchange.wait();
}

/// After step k each knows of the 2^k ranks before it that they have come.
void MpiEngine::barrier(const Call& call) {
  const Room room(2);
  *room.at(0) = 0;
  MpiExchange exchange(mpi_, group_, tag_of(call), call);
  for (int step = 1; step < size_; step <<= 1) {
    exchange.receive(room.at(1), 1, wrapped(rank_ - step));
    exchange.send(room.at(0), 1, wrapped(rank_ + step));
    exchange.wait();
  }
}

}  // namespace

std::unique_ptr<Engine> make_mpi_engine(const EngineOptions& options) {
  return std::make_unique<MpiEngine>(options);
}

}  // namespace core::distributed
