#pragma once
// TCP sockets as the store and the watch need them: whole messages with a deadline, errors as sentences, never SIGPIPE.
// Internal to dist. Thread safety: a Socket is used by one thread at a time.
// Use: Socket s = Socket::connect("127.0.0.1", 29500, deadline); s.send_all(bytes, deadline);

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace core::distributed {

using Deadline = std::chrono::steady_clock::time_point;
/// Now and so much, without overflow.
Deadline deadline_after(std::chrono::milliseconds timeout);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Tries again until the deadline. An invalid socket when nobody answered by then; `why` is the last reason.
  static Socket connect(const std::string& host, std::uint16_t port, Deadline deadline, std::string* why = nullptr);
  /// The same, at each address of the host once.
  static Socket connect_once(const std::string& host, std::uint16_t port, Deadline deadline,
                             std::string* why = nullptr);
  /// Listens at every address of this machine, or at the loopback one alone. Error(io) with PyTorch's text "The server
  /// socket has failed to listen on any local network address. port: ...".
  static Socket listen(std::uint16_t port, bool loopback_alone);
  /// Listens at one numeric address, any port.
  static Socket listen_at(const std::string& address);

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  std::uint16_t local_port() const;
  /// The address of this end, as numbers: "10.0.0.3".
  std::string local_address() const;
  /// An invalid socket when there is nobody.
  Socket accept() const;
  void close();

  /// False: the other side is gone, or the deadline passed (then is_timeout()).
  bool send_all(std::string_view bytes, Deadline deadline);
  bool receive_all(char* bytes, std::size_t count, Deadline deadline);
  bool is_timeout() const { return timed_out_; }
  /// Until there is something to receive, also an end. False: the deadline passed.
  bool wait_for_input(Deadline deadline);
  /// Once, without waiting: bytes read, 0 when there are none, -1 when the connection has ended.
  std::ptrdiff_t receive_some(char* bytes, std::size_t count);
  /// Once, without waiting: bytes sent, 0 when there is no room, -1 when the connection has ended.
  std::ptrdiff_t send_some(std::string_view bytes);

 private:
  bool wait_for(short events, Deadline deadline);
  int fd_ = -1;
  bool timed_out_ = false;
};

/// "127.0.0.1", "::1" and "localhost".
bool is_loopback(const std::string& host);
/// The local address from which `host` is reached, as numbers. The name of this machine is no help: on Debian it means
/// 127.0.1.1. Empty when there is no way there.
std::string address_towards(const std::string& host, std::uint16_t port);

}  // namespace core::distributed
