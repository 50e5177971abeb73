#pragma once
// TcpStore: a store in the process of rank 0, or in torchrun, reached over TCP in PyTorch's protocol (store_service.h):
// our ranks join a store of torch.distributed (2.15), and Python's ranks ours.
// Thread safety: all calls; one thread at a time is served, so a thread that waits long takes a connection of its own.
// Errors: Error(io) with PyTorch's texts: "The client socket has timed out after 2000ms while trying to connect to
// (127.0.0.1, 29500).", "Timed out after 3 seconds waiting for clients. 1/2 clients joined.".
// Use: core::distributed::TcpStore store({.host = "127.0.0.1", .port = 29500, .world_size = 2, .is_server = true});

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "libcore/dist/socket.h"
#include "libcore/dist/store.h"
#include "libcore/dist/store_service.h"

namespace core::distributed {

/// Serves a StoreService in a thread of its own until it is destroyed.
class TcpStoreServer {
 public:
  struct Options {
    std::uint16_t port = 0;  ///< 0: any that is free
    bool loopback_alone = false;
    StoreService::Limits limits = {};
  };
  explicit TcpStoreServer(const Options& options);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;
  std::uint16_t port() const { return port_; }
  /// Serves those that are connected, and leaves the port to others. From one thread.
  void stop_listening();

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
  std::uint16_t port_;
  std::thread thread_;
};

class TcpStore final : public Store {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 29500;
    std::optional<std::int64_t> world_size = {};  ///< the server waits for so many, itself among them
    bool is_server = false;
    bool wait_for_workers = true;
    Milliseconds timeout = kStoreTimeout;  ///< of connecting, and of every call
  };
  explicit TcpStore(const Options& options);

  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
  using Store::wait;
  bool delete_key(const std::string& key) override;
  std::int64_t num_keys() override;
  void append(const std::string& key, std::string_view value) override;

  /// Takes no more clients, where this store is the server: the next group may meet at the same port.
  void stop_listening() {
    if (server_) server_->stop_listening();
  }
  const std::string& host() const { return options_.host; }
  std::uint16_t port() const { return options_.port; }

 private:
  void connect();
  void join_workers();
  void exchange(std::string_view message, char* answer, std::size_t count, Milliseconds timeout);
  std::string receive_text(Milliseconds timeout);
  void wait_here(const std::vector<std::string>& keys, Milliseconds timeout);
  void cancel_wait();
  [[noreturn]] void fail(bool timed_out, Milliseconds timeout);

  Options options_;
  std::unique_ptr<TcpStoreServer> server_;
  std::mutex mutex_;
  Socket socket_;
};

}  // namespace core::distributed
