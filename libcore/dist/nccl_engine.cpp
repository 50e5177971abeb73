// NCCL: the engine for GPUs, one a rank. What has to be known of it: it neither notices that ranks call different
// things nor that one is gone, and then waits for ever, on the GPU. So before each collective the ranks give each other
// their tags, by NCCL itself and without waiting for them; whoever sees another tag behind its collective waits for
// the watch to say who is to blame. No call here blocks: what takes too long, or was given up, is aborted.
// Messages between two ranks have a communicator for each direction: so two ranks may send before they receive.
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "libcore/backend/nccl_rank.h"
#include "libcore/base/error.h"
#include "libcore/dist/engine.h"
#include "libcore/dist/fingerprint.h"

namespace core::distributed {
namespace {

using Rank = core::detail::NcclRank;
using Clock = std::chrono::steady_clock;

std::size_t size_of(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}
char* at(void* data, std::int64_t offset) {
  return static_cast<char*>(data) + offset;
}
const char* at(const void* data, std::int64_t offset) {
  return static_cast<const char*>(data) + offset;
}

Rank::Op op_of(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::sum:
      return dtype == DType::boolean ? Rank::Op::max : Rank::Op::sum;  // of bytes 0 and 1: or
    case ReduceOp::avg:
      return Rank::Op::average;
    case ReduceOp::product:
      return Rank::Op::product;
    case ReduceOp::min:
      return Rank::Op::min;
    case ReduceOp::premul_sum:
      return Rank::Op::scaled_sum;
    default:
      return Rank::Op::max;
  }
}

/// How long one call may go on, and how it waits.
class Patience {
 public:
  explicit Patience(const Call& call) : call_(call), until_(Clock::now() + call.timeout) {}
  void pause() {
    if (call_.has_ended && call_.has_ended()) throw std::runtime_error("it was given up");
    if (Clock::now() >= until_) throw std::runtime_error("timed out");
    constexpr int kEager = 100;
    if (++pauses_ < kEager) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  const Call& call_;
  Clock::time_point until_;
  int pauses_ = 0;
};

class NcclEngine final : public Engine {
 public:
  explicit NcclEngine(const EngineOptions& options) : rank_(options.rank), size_(options.size), store_(options.store) {}
  std::string name() const override { return "nccl"; }
  bool may_keep_memory() const override { return true; }

  void all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, const Call& call) override {
    collective(call, [&](Rank& rank) {
      if (count > 0) rank.all_reduce(data, data, reduction(count, dtype, op, call));
    });
  }
  void reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, int root, const Call& call) override {
    collective(call, [&](Rank& rank) {
      if (count > 0) rank.reduce(data, data, reduction(count, dtype, op, call), root);
    });
  }
  bool reduce_scatter(const void* in, void* out, std::int64_t count, DType dtype, ReduceOp op,
                      const Call& call) override {
    collective(call, [&](Rank& rank) {
      if (count > 0) rank.reduce_scatter(in, out, reduction(count, dtype, op, call));
    });
    return true;
  }
  void broadcast(void* data, std::int64_t bytes, int root, const Call& call) override {
    collective(call, [&](Rank& rank) {
      if (bytes > 0) rank.broadcast(data, size_of(bytes), root);
    });
  }
  void all_gather(const void* in, void* out, std::int64_t bytes, const Call& call) override {
    collective(call, [&](Rank& rank) {
      if (bytes > 0) rank.all_gather(in, out, size_of(bytes));
    });
  }
  void gather(const void* in, void* out, std::int64_t bytes, int root, const Call& call) override {
    collective(call, [&](Rank& rank) {
      if (bytes == 0) return;
      if (rank_ != root) return rank.send(in, size_of(bytes), root);
      for (int q = 0; q < size_; ++q) {
        if (q == rank_) {
          rank.copy(at(out, q * bytes), in, size_of(bytes));
        } else {
          rank.receive(at(out, q * bytes), size_of(bytes), q);
        }
      }
    });
  }
  void scatter(const void* in, void* out, std::int64_t bytes, int root, const Call& call) override {
    collective(call, [&](Rank& rank) {
      if (bytes == 0) return;
      if (rank_ != root) return rank.receive(out, size_of(bytes), root);
      for (int q = 0; q < size_; ++q) {
        if (q == rank_) {
          rank.copy(out, at(in, q * bytes), size_of(bytes));
        } else {
          rank.send(at(in, q * bytes), size_of(bytes), q);
        }
      }
    });
  }
  void all_to_all(const void* in, std::span<const std::int64_t> in_bytes, void* out,
                  std::span<const std::int64_t> out_bytes, const Call& call) override {
    collective(call, [&](Rank& rank) { exchange(rank, in, in_bytes, out, out_bytes); });
  }
  /// That the tags have come says that all ranks have.
  void barrier(const Call& call) override {
    collective(call, [](Rank&) {});
  }
  void send(const void* data, std::int64_t bytes, int to, const Call& call) override {
    message(rank_, to, bytes, call, [&](Rank& rank) { rank.send(data, size_of(bytes), 1); });
  }
  void receive(void* data, std::int64_t bytes, int from, const Call& call) override {
    message(from, rank_, bytes, call, [&](Rank& rank) { rank.receive(data, size_of(bytes), 0); });
  }

 private:
  /// A communicator, or what is to become one. Used by one thread.
  struct Link {
    std::unique_ptr<Rank> rank;
    bool is_broken = false;
  };
  struct Channel {
    std::string name;  // "" of the whole group; "2:0" from rank 2 to rank 0
    int rank = 0;      // in the communicator
    int size = 1;
  };

  static Rank::Reduction reduction(std::int64_t count, DType dtype, ReduceOp op, const Call& call) {
    return {size_of(count), dtype == DType::boolean ? DType::u8 : dtype, op_of(op, dtype), call.factor};
  }

  void exchange(Rank& rank, const void* in, std::span<const std::int64_t> in_bytes, void* out,
                std::span<const std::int64_t> out_bytes) const {
    std::int64_t in_at = 0;
    std::int64_t out_at = 0;
    for (int q = 0; q < size_; ++q) {
      const std::int64_t in_count = in_bytes[static_cast<std::size_t>(q)];
      const std::int64_t out_count = out_bytes[static_cast<std::size_t>(q)];
      if (q == rank_) {
        if (in_count > 0) rank.copy(at(out, out_at), at(in, in_at), size_of(in_count));
      } else {
        if (in_count > 0) rank.send(at(in, in_at), size_of(in_count), q);
        if (out_count > 0) rank.receive(at(out, out_at), size_of(out_count), q);
      }
      in_at += in_count;
      out_at += out_count;
    }
  }

  template <class Start>
  void collective(const Call& call, Start start) {
    run({"", rank_, size_}, call.tag, call, start);
  }
  /// Tags of the program's own are not NCCL's, as PyTorch says; what both sides must agree on is the length.
  template <class Start>
  void message(int from, int to, std::int64_t bytes, const Call& call, Start start) {
    const Channel channel{std::to_string(from) + ":" + std::to_string(to), rank_ == from ? 0 : 1, 2};
    run(channel, static_cast<std::uint64_t>(bytes), call, [&](Rank& rank) {
      if (bytes > 0) start(rank);
    });
  }

  template <class Start>
  void run(const Channel& channel, std::uint64_t tag, const Call& call, Start start) {
    Patience patience(call);
    Link& link = link_of(channel, call.device);
    if (link.is_broken) throw std::runtime_error("its communicator was aborted after an error");
    try {
      if (!link.rank) connect(link, channel, call, patience);
      Rank& rank = *link.rank;
      const cuda::Event* after = call.after ? &*call.after : nullptr;
      if (channel.size > 1) {
        rank.start(std::exchange(after, nullptr), [&] { rank.share(tag); });
        settle(rank, patience);
        rank.fetch_shared();
        if (!channel.name.empty()) require_same_length(rank, patience);
      }
      rank.start(after, [&] { start(rank); });
      settle(rank, patience);
      rank.mark();
      while (!rank.is_done()) patience.pause();
      while (channel.size > 1 && !all_gave(rank, channel.size, tag)) patience.pause();
    } catch (...) {
      link.is_broken = true;
      if (link.rank) link.rank->abort();
      throw;
    }
  }
  static void settle(Rank& rank, Patience& patience) {
    while (!rank.is_settled()) patience.pause();
  }
  /// Before any of a message moves: NCCL would write what comes, or wait for ever.
  static void require_same_length(Rank& rank, Patience& patience) {
    rank.mark();
    while (!rank.is_done()) patience.pause();
    if (rank.shared(0) == rank.shared(1)) return;
    throw std::runtime_error("the message has " + std::to_string(rank.shared(0)) + " bytes where it is sent and " +
                             std::to_string(rank.shared(1)) + " where it is received");
  }
  static bool all_gave(const Rank& rank, int size, std::uint64_t tag) {
    for (int q = 0; q < size; ++q) {
      if (rank.shared(q) != tag) return false;
    }
    return true;
  }

  Link& link_of(const Channel& channel, Device device) {
    const std::lock_guard lock(mutex_);
    return links_[{channel.name, device.index()}];
  }
  /// The key under which the id of a new communicator lies in the store: PyTorch's number, or both ranks of a message.
  std::string key_of(const Channel& channel) {
    const std::lock_guard lock(mutex_);
    const int number = made_[channel.name]++;
    if (channel.name.empty()) return std::to_string(number);
    return channel.name + (number == 0 ? "" : "/" + std::to_string(number));
  }
  void connect(Link& link, const Channel& channel, const Call& call, Patience& patience) {
    const std::string key = key_of(channel);
    std::string id;
    if (channel.rank == 0) {
      id = Rank::make_id();
      store_->set(key, id);
    } else {
      while (!store_->check({key})) patience.pause();
      id = store_->get(key);
    }
    link.rank = std::make_unique<Rank>(call.device, channel.rank, channel.size, id);
    settle(*link.rank, patience);
  }

  int rank_;
  int size_;
  std::shared_ptr<Store> store_;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, Link> links_;
  std::map<std::string, int> made_;
};

}  // namespace

std::unique_ptr<Engine> make_nccl_engine(const EngineOptions& options) {
  return std::make_unique<NcclEngine>(options);
}

void check_nccl_dtype(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::c64:
    case DType::c128:
    case DType::f8_e4m3fn:
    case DType::f8_e5m2:
    case DType::f8_e4m3fnuz:
    case DType::f8_e5m2fnuz:
    case DType::i8:
    case DType::u8:
    case DType::i32:
    case DType::i64:
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64:
      return;
    default:
      throw Error(ErrorCode::type,
                  "Input tensor data type is not supported for NCCL process group: " + scalar_name(dtype));
  }
}

void check_nccl_reduction(DType dtype, ReduceOp op) {
  check_nccl_dtype(dtype);
  if (op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor) {
    throw Error(ErrorCode::value, "Cannot use ReduceOp." + std::string(name(op)) + " with NCCL");
  }
  if (dtype == DType::boolean && op == ReduceOp::avg) {
    throw Error(ErrorCode::type, "Cannot use ReduceOp.AVG with Boolean inputs");
  }
  const bool is_scalable =
      dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64 || is_complex(dtype);
  if (op == ReduceOp::premul_sum && !is_scalable) {
    throw Error(ErrorCode::value, "PreMulSum Data type must be half, float, bfloat16 or double");
  }
  const bool is_plain = dtype == DType::boolean || is_complex(dtype);
  if (!is_plain && nccl::reduction_type(dtype) < 0) {
    throw Error(ErrorCode::runtime, "Unsupported Float8 type for NCCL reduction");
  }
}

}  // namespace core::distributed
