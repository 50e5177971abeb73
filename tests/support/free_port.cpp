#include "tests/support/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <stdexcept>

namespace test {
namespace {

constexpr int kFirst = 10'000;

/// The first port that the system gives to those who ask for any.
int first_of_system() {
  int first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first > kFirst ? first : 32'768;
}

bool is_free(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool is_bound = fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) ::close(fd);
  return is_bound;
}

}  // namespace

int free_port() {
  std::random_device random;
  std::uniform_int_distribution ports(kFirst, first_of_system() - 1);
  for (int trial = 0; trial < 1000; ++trial) {
    const int port = ports(random);
    if (is_free(port)) return port;
  }
  throw std::runtime_error("no port of this machine is free");
}

}  // namespace test
