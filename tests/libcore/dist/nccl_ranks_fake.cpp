#include "tests/libcore/dist/nccl_ranks_fake.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "libcore/base/half.h"
#include "libcore/dist/reduce_op.h"

namespace test {
namespace {

using core::DType;
using core::distributed::ReduceOp;
using Bytes = std::vector<char>;

constexpr int kInvalidUsage = 5;
constexpr int kRemoteError = 6;
constexpr int kInProgress = core::gpu::kNcclInProgress;
constexpr int kFirstOwnOp = 100;

FakeNcclRanks* fake = nullptr;

DType dtype_of(int type) {
  constexpr DType kTypes[] = {DType::i8,  DType::u8,  DType::i32, DType::u32, DType::i64,
                              DType::u64, DType::f16, DType::f32, DType::f64, DType::bf16};
  return kTypes[type];
}
std::size_t width_of(int type) {
  return static_cast<std::size_t>(core::bit_width(dtype_of(type))) / 8;
}

/// f(value) for every element, computed as f64 and rounded.
template <class Change>
void change_all(Bytes& values, int type, Change change) {
  const auto each = [&](auto one, auto load, auto store) {
    using T = decltype(one);
    auto* typed = reinterpret_cast<T*>(values.data());
    for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) typed[i] = store(change(load(typed[i])));
  };
  const auto plain = [&](auto one) {
    using T = decltype(one);
    each(
        one, [](T v) { return static_cast<double>(v); }, [](double v) { return static_cast<T>(v); });
  };
  switch (dtype_of(type)) {
    case DType::f16:
      return each(std::uint16_t{}, core::f16_to_f32, core::f64_to_f16);
    case DType::bf16:
      return each(std::uint16_t{}, core::bf16_to_f32,
                  [](double v) { return core::f32_to_bf16(static_cast<float>(v)); });
    case DType::f32:
      return plain(float{});
    case DType::f64:
      return plain(double{});
    case DType::i8:
      return plain(std::int8_t{});
    case DType::u8:
      return plain(std::uint8_t{});
    case DType::i32:
      return plain(std::int32_t{});
    default:
      return plain(std::int64_t{});
  }
}

struct Header {
  int kind = 0;
  int type = 0;
  int op = 0;
  int root = 0;
  std::size_t count = 0;
  std::size_t payload = 0;
  bool fits(const Header& other) const {
    return kind == other.kind && type == other.type && op == other.op && root == other.root && count == other.count;
  }
};
struct Frame {
  Header header;
  Bytes bytes;
};

/// What the ranks of a communicator say of themselves when they meet.
struct Hello {
  int rank = 0;
  int bus = 0;
};

enum Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kMessage };

bool read_all(int socket, void* data, std::size_t size) {
  for (char* at = static_cast<char*>(data); size > 0;) {
    const ssize_t n = ::recv(socket, at, size, 0);
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}
bool write_all(int socket, const void* data, std::size_t size) {
  for (const char* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = ::send(socket, at, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

/// A name of a socket that no file has.
sockaddr_un place_of(const std::string& id, int rank, socklen_t& length) {
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  const std::string name = id + "." + std::to_string(rank);
  std::memcpy(place.sun_path + 1, name.data(), name.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return place;
}

}  // namespace

/// A communicator: one connection to each other rank, with a thread that reads it, and one thread for all work.
class FakeCommunicator {
 public:
  struct Op {
    Kind kind;
    const void* in;
    void* out;
    std::size_t count;
    int type;
    int op;
    int root;  // or the peer
    bool is_send = false;
  };

  FakeCommunicator(std::string id, int rank, int size, int bus)
      : id_(std::move(id)), rank_(rank), size_(size), bus_(bus), peers_(static_cast<std::size_t>(size), -1) {
    inboxes_.resize(static_cast<std::size_t>(size));
    socklen_t length = 0;
    const sockaddr_un place = place_of(id_, rank_, length);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&place), length) != 0 || ::listen(listener_, 64) != 0) {
      std::abort();
    }
    worker_ = std::thread([this] { work(); });
  }
  ~FakeCommunicator() {
    stop();
    worker_.join();
    for (const int peer : peers_) {
      if (peer >= 0) ::shutdown(peer, SHUT_RDWR);
    }
    for (std::thread& reader : readers_) reader.join();
    for (const int peer : peers_) {
      if (peer >= 0) ::close(peer);
    }
    ::close(listener_);
  }

  /// ncclCommGetAsyncError. What a group starts is on its stream from the second question on.
  int state() {
    std::function<void()> launch;
    {
      const std::lock_guard lock(mutex_);
      if (state_ != 0) return state_;
      launch = std::exchange(launch_, nullptr);
    }
    if (!launch) return 0;
    launch();
    return kInProgress;
  }
  void launch_later(std::function<void()> launch) {
    const std::lock_guard lock(mutex_);
    if (launch_) std::abort();  // the one before was not asked for
    launch_ = std::move(launch);
  }
  std::string error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }

  /// Begins a group; `done` becomes true when it is through, or was aborted.
  void begin(std::vector<Op> ops, std::shared_ptr<std::atomic<bool>> done) {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(ops), std::move(done)});
    changed_.notify_all();
  }

 private:
  struct Stopped {};
  struct Group {
    std::vector<Op> ops;
    std::shared_ptr<std::atomic<bool>> done;
  };

  void fail(int state, const std::string& text) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    error_ = text;
  }
  void work() {
    try {
      if (!meet()) return;
      {
        const std::lock_guard lock(mutex_);
        state_ = 0;
      }
      while (true) {
        Group group;
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return stops_ || !queue_.empty(); });
          if (stops_) break;
          group = std::move(queue_.front());
          queue_.pop_front();
        }
        running_ = group.done;
        for (const Op& op : group.ops) send_of(op);
        for (const Op& op : group.ops) finish(op);
        *group.done = true;
      }
    } catch (const Stopped&) {
    }
    const std::lock_guard lock(mutex_);
    if (running_) *running_ = true;
    for (const Group& group : queue_) *group.done = true;
  }

  // --- Meeting

  bool meet() {
    for (int peer = 0; peer < rank_; ++peer) connect_to(peer);
    for (int left = size_ - 1 - rank_; left > 0; --left) accept_one();
    const Hello own{rank_, bus_};
    std::map<int, int> rank_on{{bus_, rank_}};
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const int socket = peers_[static_cast<std::size_t>(peer)];
      Hello theirs;
      if (!write_all(socket, &own, sizeof own) || !read_all(socket, &theirs, sizeof theirs)) {
        fail(kRemoteError, "");
        return false;
      }
      const auto [known, is_first] = rank_on.try_emplace(theirs.bus, peer);
      if (is_first) continue;
      char bus[32];
      std::snprintf(bus, sizeof bus, "%x000", static_cast<unsigned>(theirs.bus));
      fail(kInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank_) + " and rank " +
                              std::to_string(rank_ == known->second ? peer : known->second) + " both on CUDA device " +
                              bus);
      return false;
    }
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) readers_.emplace_back([this, peer] { read_from(peer); });
    }
    return true;
  }
  void check_stopped() {
    const std::lock_guard lock(mutex_);
    if (stops_) throw Stopped();
  }
  void connect_to(int peer) {
    socklen_t length = 0;
    const sockaddr_un place = place_of(id_, peer, length);
    while (true) {
      check_stopped();
      const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(socket, reinterpret_cast<const sockaddr*>(&place), length) == 0) {
        write_all(socket, &rank_, sizeof rank_);
        peers_[static_cast<std::size_t>(peer)] = socket;
        return;
      }
      ::close(socket);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  void accept_one() {
    pollfd ready{listener_, POLLIN, 0};
    while (::poll(&ready, 1, 10) <= 0) check_stopped();
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    int peer = 0;
    if (socket < 0 || !read_all(socket, &peer, sizeof peer)) std::abort();
    peers_[static_cast<std::size_t>(peer)] = socket;
  }
  void read_from(int peer) {
    const int socket = peers_[static_cast<std::size_t>(peer)];
    for (Frame frame; read_all(socket, &frame.header, sizeof frame.header);) {
      frame.bytes.resize(frame.header.payload);
      if (!read_all(socket, frame.bytes.data(), frame.bytes.size())) break;
      const std::lock_guard lock(mutex_);
      inboxes_[static_cast<std::size_t>(peer)].push_back(std::move(frame));
      changed_.notify_all();
      frame = {};
    }
    if (!fake->sees_ends) return;  // as a GPU that waits for a flag in memory
    const std::lock_guard lock(mutex_);
    if (state_ == 0 && !stops_) {
      state_ = kRemoteError;
      error_ = "socket closed by remote peer";
    }
  }

  // --- Work

  static Header header_of(const Op& op) { return {op.kind, op.type, op.op, op.root, op.count, 0}; }
  std::size_t bytes_of(const Op& op) const { return op.count * width_of(op.type); }

  void send_frame(int peer, Header header, const void* data, std::size_t size) {
    header.payload = size;
    const int socket = peers_[static_cast<std::size_t>(peer)];
    if (write_all(socket, &header, sizeof header)) write_all(socket, data, size);
  }
  /// What this rank gives to `peer`.
  std::pair<const char*, std::size_t> part_for(const Op& op, int peer) const {
    const auto* in = static_cast<const char*>(op.in);
    if (op.kind == kReduceScatter) return {in + static_cast<std::size_t>(peer) * bytes_of(op), bytes_of(op)};
    return {in, op.kind == kBroadcast && op.root != rank_ ? 0 : bytes_of(op)};
  }
  void send_of(const Op& op) {
    if (op.kind == kMessage) {
      if (op.is_send) send_frame(op.root, {kMessage, op.type, 0, 0, op.count, 0}, op.in, bytes_of(op));
      return;
    }
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const auto [data, size] = part_for(op, peer);
      send_frame(peer, header_of(op), data, size);
    }
  }
  /// The next of `peer`. One that does not fit is waited for until this is stopped.
  Bytes receive(int peer, const Header& wanted) {
    std::unique_lock lock(mutex_);
    auto& inbox = inboxes_[static_cast<std::size_t>(peer)];
    changed_.wait(lock, [&] { return stops_ || (!inbox.empty() && inbox.front().header.fits(wanted)); });
    if (stops_) throw Stopped();
    Bytes bytes = std::move(inbox.front().bytes);
    inbox.pop_front();
    return bytes;
  }
  void finish(const Op& op) {
    const std::size_t size = bytes_of(op);
    if (op.kind == kMessage) {
      if (op.is_send) return;
      const Bytes bytes = receive(op.root, {kMessage, op.type, 0, 0, op.count, 0});
      std::memcpy(op.out, bytes.data(), size);
      return;
    }
    std::vector<Bytes> parts;
    for (int peer = 0; peer < size_; ++peer) {
      const auto [data, length] = part_for(op, rank_);
      parts.push_back(peer == rank_ ? Bytes(data, data + length) : receive(peer, header_of(op)));
    }
    if (op.kind == kAllGather) {
      for (std::size_t q = 0; q < parts.size(); ++q) {
        std::memcpy(static_cast<char*>(op.out) + q * size, parts[q].data(), size);
      }
      return;
    }
    if (op.kind == kBroadcast) {
      std::memcpy(op.out, parts[static_cast<std::size_t>(op.root)].data(), size);
      return;
    }
    if (op.kind == kReduce && op.root != rank_) return;
    const Bytes sum = combined(parts, op);
    std::memcpy(op.out, sum.data(), size);
  }
  Bytes combined(std::vector<Bytes>& parts, const Op& op) const;

  const std::string id_;
  const int rank_;
  const int size_;
  const int bus_;
  int listener_ = -1;
  std::vector<int> peers_;  // sockets
  std::thread worker_;
  std::vector<std::thread> readers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int state_ = kInProgress;
  std::string error_;
  std::function<void()> launch_;
  bool stops_ = false;
  std::deque<Group> queue_;
  std::shared_ptr<std::atomic<bool>> running_;
  std::vector<std::deque<Frame>> inboxes_;
};

namespace {

/// The factors of ncclRedOpCreatePreMulSum, by their ops.
std::mutex factors_mutex;
std::map<int, double> factors;

double number_at(const void* data, int type) {
  Bytes one(static_cast<const char*>(data), static_cast<const char*>(data) + width_of(type));
  double found = 0;
  change_all(one, type, [&](double value) { return found = value; });
  return found;
}

struct Call {
  FakeCommunicator* communicator;
  void* stream;
  FakeCommunicator::Op op;
};
thread_local std::vector<Call> group;
thread_local int depth = 0;

FakeCommunicator* communicator_at(void* communicator) {
  return static_cast<FakeCommunicator*>(communicator);
}

int add(void* communicator, void* stream, const FakeCommunicator::Op& op) {
  if (depth == 0) std::abort();  // one call alone is no group here
  group.push_back({communicator_at(communicator), stream, op});
  return kInProgress;
}

}  // namespace

Bytes FakeCommunicator::combined(std::vector<Bytes>& parts, const Op& op) const {
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min, ReduceOp::sum};
  constexpr int kAverage = 4;
  const bool is_scaled = op.op >= kFirstOwnOp;
  if (is_scaled) {
    const std::lock_guard lock(factors_mutex);
    for (Bytes& part : parts) change_all(part, op.type, [&](double v) { return v * factors.at(op.op); });
  }
  const auto combine = core::distributed::reduce_function(dtype_of(op.type), is_scaled ? ReduceOp::sum : kOps[op.op]);
  Bytes sum = parts[0];
  for (std::size_t q = 1; q < parts.size(); ++q) combine(sum.data(), sum.data(), parts[q].data(), op.count);
  if (op.op == kAverage) change_all(sum, op.type, [&](double v) { return v / size_; });
  return sum;
}

/// The functions of the table.
struct FakeNcclRanksCalls {
  static void add_communicators(core::gpu::NcclApi& api) {
    api.version = [](int* version) { return (*version = 22809, 0); };
    api.error_text = [](int error) {
      return error == kInvalidUsage ? "invalid usage (run with NCCL_DEBUG=WARN for details)"
                                    : "remote process exited or there was a network error";
    };
    api.unique_id = [](core::gpu::NcclId* id) {
      static std::atomic<int> made{0};
      std::snprintf(id->bytes, sizeof id->bytes, "ckpt-nccl-%d-%d", static_cast<int>(::getpid()), made++);
      return 0;
    };
    api.init_rank = [](void** communicator, int size, core::gpu::NcclId id, int rank, core::gpu::NcclConfig* config) {
      if (config->magic != 0xcafebeef || config->blocking != 0) return kInvalidUsage;
      *communicator = new FakeCommunicator(id.bytes, rank, size, FakeDriver::current_gpu());
      ++fake->made;
      ++fake->alive;
      return kInProgress;
    };
    api.async_error = [](void* communicator, int* state) {
      *state = communicator_at(communicator)->state();
      return 0;
    };
    api.last_error = [](void* communicator) {
      static thread_local std::string text;
      text = communicator_at(communicator)->error();
      return text.c_str();
    };
    api.finalize = [](void*) { return 0; };
    api.destroy = [](void* communicator) {
      --fake->alive;
      delete communicator_at(communicator);
      return 0;
    };
    api.abort = [](void* communicator) {
      --fake->alive;
      ++fake->aborted;
      communicator_at(communicator)->stop();  // it stays: its work may still be on a stream
      return 0;
    };
  }
  static void add_groups(core::gpu::NcclApi& api) {
    api.group_start = [] { return (++depth, 0); };
    api.group_end = [] {
      if (--depth > 0) return 0;
      const std::vector<Call> calls = std::exchange(group, {});
      if (calls.empty()) return 0;
      std::vector<FakeCommunicator::Op> ops;
      for (const Call& call : calls) ops.push_back(call.op);
      ++fake->started;
      FakeCommunicator* communicator = calls[0].communicator;
      communicator->launch_later([communicator, ops, stream = calls[0].stream] {
        const auto done = std::make_shared<std::atomic<bool>>(false);
        fake->driver_.launch_until(stream, [communicator, ops, done, begun = false]() mutable {
          if (!std::exchange(begun, true)) communicator->begin(ops, done);
          return done->load();
        });
      });
      return kInProgress;
    };
    api.make_premul = [](int* op, void* factor, int type, int residence, void*) {
      static int next = kFirstOwnOp;
      if (residence != 1) return kInvalidUsage;
      const std::lock_guard lock(factors_mutex);
      factors[*op = next++] = number_at(factor, type);
      return 0;
    };
    api.destroy_op = [](int, void*) { return 0; };
  }
  static void add_collectives(core::gpu::NcclApi& api) {
    api.all_reduce = [](const void* in, void* out, std::size_t count, int type, int op, void* communicator,
                        void* stream) {
      return add(communicator, stream, {kAllReduce, in, out, count, type, op, 0});
    };
    api.reduce = [](const void* in, void* out, std::size_t count, int type, int op, int root, void* communicator,
                    void* stream) {
      return add(communicator, stream, {kReduce, in, out, count, type, op, root});
    };
    api.reduce_scatter = [](const void* in, void* out, std::size_t count, int type, int op, void* communicator,
                            void* stream) {
      return add(communicator, stream, {kReduceScatter, in, out, count, type, op, 0});
    };
    api.broadcast = [](const void* in, void* out, std::size_t count, int type, int root, void* communicator,
                       void* stream) {
      return add(communicator, stream, {kBroadcast, in, out, count, type, 0, root});
    };
    api.all_gather = [](const void* in, void* out, std::size_t count, int type, void* communicator, void* stream) {
      return add(communicator, stream, {kAllGather, in, out, count, type, 0, 0});
    };
    api.send = [](const void* data, std::size_t count, int type, int peer, void* communicator, void* stream) {
      return add(communicator, stream, {kMessage, data, nullptr, count, type, 0, peer, true});
    };
    api.receive = [](void* data, std::size_t count, int type, int peer, void* communicator, void* stream) {
      return add(communicator, stream, {kMessage, nullptr, data, count, type, 0, peer});
    };
  }
  static core::gpu::NcclApi api() {
    core::gpu::NcclApi made{};
    add_communicators(made);
    add_groups(made);
    add_collectives(made);
    return made;
  }
};

FakeNcclRanks::FakeNcclRanks(FakeDriver& driver) : driver_(driver), nccl_(FakeNcclRanksCalls::api()) {
  fake = this;
}

FakeNcclRanks::~FakeNcclRanks() = default;

}  // namespace test
