// Gloo: the engine that PyTorch uses for tensors on the CPU, as Debian packages it. Its sums have PyTorch's bits.
// What has to be known of it: a message longer than who waits for it has room for ends the process (std::terminate in
// Gloo's thread), so tags hold what is sent, and lengths that differ never meet; a peer that is gone raises SIGPIPE in
// Gloo's threads, so these have it blocked.
#include "libcore/dist/engine.h"
#include "libcore/dist/mpi_library.h"

#ifdef CORE_WITH_GLOO
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/context.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/dist/detail/blocked_signal.h"
#include "libcore/dist/near_sum.h"
#include "libcore/dist/socket.h"

namespace core::distributed {

#ifdef CORE_WITH_GLOO
namespace {

using Byte = std::uint8_t;

/// One for each place, for the whole life of the process: its thread may not end while groups exist.
std::shared_ptr<gloo::transport::Device> device_at(const EngineOptions& options) {
  static auto& devices = *new std::map<std::string, std::shared_ptr<gloo::transport::Device>>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  auto& device = devices[options.interface.empty() ? options.address : "interface " + options.interface];
  if (device == nullptr) {
    const detail::BlockedSignal no_pipe(SIGPIPE);  // the device's thread inherits it
    gloo::transport::tcp::attr place;
    if (options.interface.empty()) {
      place.hostname = options.address;
    } else {
      place.iface = options.interface;
    }
    device = gloo::transport::tcp::CreateDevice(place);
  }
  return device;
}

/// Slots beside those of Gloo's own collectives, whose first byte is at most 8.
std::uint64_t slot_of(std::uint64_t kind, std::uint32_t tag, std::int64_t bytes) {
  const std::uint64_t mixed = static_cast<std::uint64_t>(bytes) * 0x9E3779B97F4A7C15U >> 40;
  return kind << 56 | std::uint64_t{tag} << 24 | mixed;
}
constexpr std::uint64_t kAllToAll = 0x40;
constexpr std::uint64_t kMessage = 0x41;

/// Connects to all others as gloo::rendezvous::Context does, but not for five time-outs where one does not come: a
/// thread beside looks whether it is in vain.
class Mesh final : public gloo::Context {
 public:
  explicit Mesh(const EngineOptions& options) : gloo::Context(options.rank, options.size) {
    setTimeout(options.timeout);
  }
  void connect(const EngineOptions& options, std::shared_ptr<gloo::transport::Device>& device) {
    const detail::BlockedSignal no_pipe(SIGPIPE);
    device_ = device;
    transportContext_ = device->createContext(rank, size);
    transportContext_->setTimeout(options.timeout);
    say_addresses(*options.store);
    const Guard guard(*this, options);
    for (int other = 0; other < size; ++other) {
      if (other == rank) continue;
      const std::string key = std::to_string(other);
      while (!options.store->check({key})) {
        guard.check();
        wait_a_while(*options.store, key);
      }
      guard.check();
      getPair(other)->connect(own_part(options.store->get(key), other));
      guard.check();
    }
  }

  /// Once all are connected: those of large groups would fill the store, which holds 32 MiB, with 60 groups of 64.
  static void forget_addresses(const EngineOptions& options) {
    try {
      options.store->delete_key(std::to_string(options.rank));
    } catch (const Error&) {  // rank 0, which serves it, may be through by now
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Milliseconds kPause{50};

  /// Closes all connections, over and over, once there is no more to wait for: that ends a wait in Gloo.
  class Guard {
   public:
    Guard(Mesh& mesh, const EngineOptions& options) : options_(options), until_(deadline_after(options.timeout)) {
      const detail::BlockedSignal none;  // they are for the program's own threads
      thread_ = std::thread([this, &mesh] { watch_over(mesh); });
    }
    ~Guard() {
      {
        const std::lock_guard lock(mutex_);
        is_done_ = true;
      }
      changed_.notify_all();
      thread_.join();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    void check() const {
      if (options_.is_in_vain()) throw std::runtime_error("one of them is gone");
      if (given_up_ || Clock::now() >= until_)
        throw std::runtime_error("Timed out waiting " + std::to_string(options_.timeout.count()) +
                                 "ms for one of them");
    }

   private:
    void watch_over(Mesh& mesh) {
      std::unique_lock lock(mutex_);
      while (!changed_.wait_for(lock, kPause, [this] { return is_done_; })) {
        if (!options_.is_in_vain() && Clock::now() < until_) continue;
        given_up_ = true;
        mesh.closeConnections();
      }
    }
    const EngineOptions& options_;
    Deadline until_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_done_ = false;
    std::atomic<bool> given_up_ = false;
    std::thread thread_;
  };

  void say_addresses(Store& store) {
    std::string addresses;
    for (int other = 0; other < size; ++other) {
      if (other == rank) continue;
      const std::vector<char> bytes = transportContext_->createPair(other)->address().bytes();
      addresses.append(bytes.begin(), bytes.end());
    }
    store.set(std::to_string(rank), addresses);
  }
  /// Of what another one said, which has no address for itself.
  std::vector<char> own_part(const std::string& addresses, int other) const {
    const std::size_t bytes = addresses.size() / static_cast<std::size_t>(size - 1);
    const auto place = static_cast<std::size_t>(rank > other ? rank - 1 : rank);
    const std::string part = addresses.substr(place * bytes, bytes);
    return {part.begin(), part.end()};
  }
  static void wait_a_while(Store& store, const std::string& key) {
    try {
      store.wait({key}, kPause);
    } catch (const LostStore&) {
      throw;
    } catch (const Error&) {  // not there yet
    }
  }
};

class GlooEngine final : public Engine {
 public:
  explicit GlooEngine(const EngineOptions& options)
      : rank_(options.rank), size_(options.size), near_(options.rank, options.size) {
    std::shared_ptr<gloo::transport::Device> device = device_at(options);
    auto mesh = std::make_shared<Mesh>(options);
    context_ = mesh;
    try {
      mesh->connect(options, device);
      // Whoever is done early may end, and must not cut off one that is still connecting.
      barrier({kConnected, options.timeout});
      Mesh::forget_addresses(options);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(ErrorCode::io, "rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                                     " could not connect to all others: " + error.what());
    }
  }
  std::string name() const override { return "gloo"; }
  void note_failure() override {
    near_.give_up();  // the caller has its memory again, although a sum that the watch ended may be in it still
    give_up_mpi();    // by which they may have met
  }

  void all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, const Call& call) override {
    if (size_ > 1 && all_are_near(call)) {
      const auto element = static_cast<std::int64_t>(bit_width(dtype) / 8);
      return sum_nearby(near_, {data, count * element, element, reduce_function(dtype, op)}, call);
    }
    gloo::AllreduceOptions options(context_);
    set_typed(
        dtype, [&](auto* typed) { options.setOutput(typed, static_cast<std::size_t>(count)); }, data);
    options.setReduceFunction(reduce_function(dtype, op));
    begin(options, call);
    gloo::allreduce(options);
  }
  void reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, int root, const Call& call) override {
    gloo::ReduceOptions options(context_);
    set_typed(
        dtype, [&](auto* typed) { options.setOutput(typed, static_cast<std::size_t>(count)); }, data);
    options.setReduceFunction(reduce_function(dtype, op));
    options.setRoot(root);
    begin(options, call);
    gloo::reduce(options);
  }
  void broadcast(void* data, std::int64_t bytes, int root, const Call& call) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<Byte*>(data), static_cast<std::size_t>(bytes));
    options.setRoot(root);
    begin(options, call);
    gloo::broadcast(options);
  }
  void all_gather(const void* in, void* out, std::int64_t bytes, const Call& call) override {
    gloo::AllgatherOptions options(context_);
    options.setInput(input(in), static_cast<std::size_t>(bytes));
    options.setOutput(static_cast<Byte*>(out), static_cast<std::size_t>(bytes) * static_cast<std::size_t>(size_));
    begin(options, call);
    gloo::allgather(options);
  }
  void gather(const void* in, void* out, std::int64_t bytes, int root, const Call& call) override {
    gloo::GatherOptions options(context_);
    options.setInput(input(in), static_cast<std::size_t>(bytes));
    if (rank_ == root) {
      options.setOutput(static_cast<Byte*>(out), static_cast<std::size_t>(bytes) * static_cast<std::size_t>(size_));
    }
    options.setRoot(root);
    begin(options, call);
    gloo::gather(options);
  }
  void scatter(const void* in, void* out, std::int64_t bytes, int root, const Call& call) override {
    gloo::ScatterOptions options(context_);
    if (rank_ == root) {
      std::vector<Byte*> parts;
      for (int q = 0; q < size_; ++q) parts.push_back(input(in) + q * bytes);
      options.setInputs(parts, static_cast<std::size_t>(bytes));
    }
    options.setOutput(static_cast<Byte*>(out), static_cast<std::size_t>(bytes));
    options.setRoot(root);
    begin(options, call);
    gloo::scatter(options);
  }
  void all_to_all(const void* in, std::span<const std::int64_t> in_bytes, void* out,
                  std::span<const std::int64_t> out_bytes, const Call& call) override;
  void barrier(const Call& call) override {
    gloo::BarrierOptions options(context_);
    begin(options, call);
    gloo::barrier(options);
  }
  void send(const void* data, std::int64_t bytes, int to, const Call& call) override {
    auto buffer = context_->createUnboundBuffer(input(data), static_cast<std::size_t>(bytes));
    buffer->send(to, slot_of(kMessage, call.tag, bytes));
    buffer->waitSend(call.timeout);
  }
  void receive(void* data, std::int64_t bytes, int from, const Call& call) override {
    auto buffer = context_->createUnboundBuffer(data, static_cast<std::size_t>(bytes));
    buffer->recv(from, slot_of(kMessage, call.tag, bytes));
    buffer->waitRecv(call.timeout);
  }

 private:
  // No tags of calls.
  static constexpr std::uint32_t kConnected = 0xffffffff;
  static constexpr std::uint32_t kHandles = 0xfffffffe;
  static constexpr std::uint32_t kMet = 0xfffffffd;

  template <class Options>
  static void begin(Options& options, const Call& call) {
    options.setTag(call.tag);
    options.setTimeout(call.timeout);
  }
  static Byte* input(const void* in) { return const_cast<Byte*>(static_cast<const Byte*>(in)); }
  /// Gloo takes the size of an element from a pointer's type.
  template <class Set>
  static void set_typed(DType dtype, Set set, void* data) {
    switch (bit_width(dtype)) {
      case 8:
        return set(static_cast<std::uint8_t*>(data));
      case 16:
        return set(static_cast<std::uint16_t*>(data));
      case 32:
        return set(static_cast<std::uint32_t*>(data));
      default:
        return set(static_cast<std::uint64_t*>(data));
    }
  }

  bool all_are_near(const Call& call);

  int rank_;
  int size_;
  std::shared_ptr<gloo::Context> context_;
  NearRanks near_;
  std::mutex meeting_;
  std::optional<bool> are_near_;  ///< once a sum has asked
};

/// All ranks find the same.
bool GlooEngine::all_are_near(const Call& call) {
  const std::lock_guard lock(meeting_);
  if (are_near_) return *are_near_;
  // Calls of their own: on another rank it may be another sum that asks first.
  const NearRanks::Handle own = near_.handle();
  std::vector<NearRanks::Handle> handles(static_cast<std::size_t>(size_));
  all_gather(&own, handles.data(), sizeof own, {kHandles, call.timeout});
  const char has_met = near_.meet(handles) ? 1 : 0;
  std::vector<char> all(static_cast<std::size_t>(size_));
  all_gather(&has_met, all.data(), 1, {kMet, call.timeout});
  near_.end_meeting();
  are_near_ = std::count(all.begin(), all.end(), 1) == size_;
  return *are_near_;
}

void GlooEngine::all_to_all(const void* in, std::span<const std::int64_t> in_bytes, void* out,
                            std::span<const std::int64_t> out_bytes, const Call& call) {
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> sent;
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> received;
  std::int64_t in_at = 0;
  std::int64_t out_at = 0;
  for (int q = 0; q < size_; ++q) {
    const std::int64_t out_count = out_bytes[static_cast<std::size_t>(q)];
    const std::int64_t in_count = in_bytes[static_cast<std::size_t>(q)];
    Byte* to = static_cast<Byte*>(out) + out_at;
    Byte* from = input(in) + in_at;
    if (q == rank_) {
      if (out_count > 0) std::memcpy(to, from, static_cast<std::size_t>(out_count));
    } else {
      if (out_count > 0) {
        received.push_back(context_->createUnboundBuffer(to, static_cast<std::size_t>(out_count)));
        received.back()->recv(q, slot_of(kAllToAll, call.tag, out_count));
      }
      if (in_count > 0) {
        sent.push_back(context_->createUnboundBuffer(from, static_cast<std::size_t>(in_count)));
        sent.back()->send(q, slot_of(kAllToAll, call.tag, in_count));
      }
    }
    in_at += in_count;
    out_at += out_count;
  }
  for (auto& buffer : received) buffer->waitRecv(call.timeout);
  for (auto& buffer : sent) buffer->waitSend(call.timeout);
}

}  // namespace

bool has_gloo() {
  return true;
}

std::unique_ptr<Engine> make_gloo_engine(const EngineOptions& options) {
  return std::make_unique<GlooEngine>(options);
}

#else

bool has_gloo() {
  return false;
}

std::unique_ptr<Engine> make_gloo_engine(const EngineOptions&) {
  throw Error(ErrorCode::unsupported,
              "the backend gloo is not in this build: install the package libgloo-dev, then configure and build again");
}

#endif

}  // namespace core::distributed
