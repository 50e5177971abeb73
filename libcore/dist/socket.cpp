#include "libcore/dist/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "libcore/base/error.h"

namespace core::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const std::string& host, std::uint16_t port, int type, std::string* why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0 && why != nullptr) *why = ::gai_strerror(error);
  return {error == 0 ? found : nullptr, &::freeaddrinfo};
}

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool is_connected_to_itself(int fd) {
  sockaddr_storage ours{};
  sockaddr_storage theirs{};
  socklen_t our_size = sizeof ours;
  socklen_t their_size = sizeof theirs;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&ours), &our_size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &their_size) == 0 && our_size == their_size &&
         std::memcmp(&ours, &theirs, our_size) == 0;
}

/// One attempt. -1 and the reason when it fails.
int try_connect(const addrinfo& to, Deadline deadline, std::string* why) {
  const int fd = ::socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to.ai_protocol);
  if (fd < 0) return -1;
  int error = ::connect(fd, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd waiting{fd, POLLOUT, 0};
    error = ETIMEDOUT;
    if (::poll(&waiting, 1, milliseconds_until(deadline)) == 1) {
      socklen_t size = sizeof error;
      ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  // Where nobody listens at a port that the system gives away, the caller itself may be given it, and meets itself.
  if (error == 0 && is_connected_to_itself(fd)) error = ECONNREFUSED;
  if (error == 0) {
    send_at_once(fd);
    return fd;
  }
  if (why != nullptr) *why = std::strerror(error);
  ::close(fd);
  return -1;
}

sockaddr_storage any_address(int family, std::uint16_t port, bool loopback) {
  sockaddr_storage storage{};
  if (family == AF_INET6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_addr = loopback ? in6addr_loopback : in6addr_any;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  }
  return storage;
}

/// -1 with errno set.
int try_listen(const sockaddr* address, socklen_t size) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd, address, size) == 0 && ::listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

std::string numeric(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  }
  return text;
}

std::string name_of_error(int error) {
  const char* name = ::strerrorname_np(error);
  return name == nullptr ? std::to_string(error) : name;
}

[[noreturn]] void throw_no_listening(std::uint16_t port, int error) {
  std::string reason = std::strerror(error);
  if (!reason.empty()) reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));
  throw Error(ErrorCode::io, "The server socket has failed to listen on any local network address. port: " +
                                 std::to_string(port) + ", useIpv6: false, code: -" + std::to_string(error) +
                                 ", name: " + name_of_error(error) + ", message: " + reason);
}

}  // namespace

Deadline deadline_after(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  return Clock::now() + std::clamp(timeout, std::chrono::milliseconds(0), kLongest);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  timed_out_ = other.timed_out_;
  return *this;
}

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Socket Socket::connect_once(const std::string& host, std::uint16_t port, Deadline deadline, std::string* why) {
  const Addresses found = resolve(host, port, SOCK_STREAM, why);
  for (const addrinfo* to = found.get(); to != nullptr; to = to->ai_next) {
    const int fd = try_connect(*to, deadline, why);
    if (fd >= 0) return Socket(fd);
  }
  return {};
}

Socket Socket::connect(const std::string& host, std::uint16_t port, Deadline deadline, std::string* why) {
  auto pause = std::chrono::milliseconds(10);
  while (true) {
    Socket connected = connect_once(host, port, deadline, why);
    if (connected.is_open()) return connected;
    if (Clock::now() + pause >= deadline) {
      std::this_thread::sleep_until(deadline);
      return {};
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(500));
  }
}

Socket Socket::listen(std::uint16_t port, bool loopback_alone) {
  if (!loopback_alone) {  // of both families at once, where the system has the newer one
    const sockaddr_storage v6 = any_address(AF_INET6, port, false);
    const int fd = try_listen(reinterpret_cast<const sockaddr*>(&v6), sizeof(sockaddr_in6));
    if (fd >= 0) return Socket(fd);
  }
  const sockaddr_storage v4 = any_address(AF_INET, port, loopback_alone);
  const int fd = try_listen(reinterpret_cast<const sockaddr*>(&v4), sizeof(sockaddr_in));
  if (fd < 0) throw_no_listening(port, errno);
  return Socket(fd);
}

Socket Socket::listen_at(const std::string& address) {
  const Addresses found = resolve(address, 0, SOCK_STREAM, nullptr);
  const int fd = found ? try_listen(found->ai_addr, found->ai_addrlen) : -1;
  if (fd < 0) throw Error(ErrorCode::io, "cannot listen at the address " + address + ": " + std::strerror(errno));
  return Socket(fd);
}

std::uint16_t Socket::local_port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

std::string Socket::local_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return numeric(address);
}

Socket Socket::accept() const {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) send_at_once(fd);
  return Socket(fd);
}

bool Socket::wait_for(short events, Deadline deadline) {
  while (true) {
    pollfd waiting{fd_, events, 0};
    const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (Clock::now() < deadline) continue;
    timed_out_ = true;
    return false;
  }
}

bool Socket::wait_for_input(Deadline deadline) {
  return wait_for(POLLIN, deadline);
}

std::ptrdiff_t Socket::receive_some(char* bytes, std::size_t count) {
  const ssize_t n = ::recv(fd_, bytes, count, MSG_DONTWAIT);
  if (n > 0) return n;
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : -1;
}

std::ptrdiff_t Socket::send_some(std::string_view bytes) {
  const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n >= 0) return n;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

bool Socket::send_all(std::string_view bytes, Deadline deadline) {
  timed_out_ = false;
  while (!bytes.empty()) {
    const std::ptrdiff_t n = send_some(bytes);
    if (n < 0 || (n == 0 && !wait_for(POLLOUT, deadline))) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool Socket::receive_all(char* bytes, std::size_t count, Deadline deadline) {
  timed_out_ = false;
  while (count > 0) {
    const std::ptrdiff_t n = receive_some(bytes, count);
    if (n < 0 || (n == 0 && !wait_for(POLLIN, deadline))) return false;
    bytes += n;
    count -= static_cast<std::size_t>(n);
  }
  return true;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string address_towards(const std::string& host, std::uint16_t port) {
  const Addresses found = resolve(host, port, SOCK_DGRAM, nullptr);
  for (const addrinfo* to = found.get(); to != nullptr; to = to->ai_next) {
    const Socket probe(::socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // Nothing is sent: connecting a datagram socket only chooses the way.
    if (probe.is_open() && ::connect(probe.fd(), to->ai_addr, to->ai_addrlen) == 0) return probe.local_address();
  }
  return {};
}

}  // namespace core::distributed
