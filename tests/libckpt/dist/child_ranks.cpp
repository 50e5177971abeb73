#include "tests/libckpt/dist/child_ranks.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <stdexcept>

#include "libcore/base/error.h"

namespace test {
namespace {

bool send_all(int fd, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = ::send(fd, at, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool receive_all(int fd, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    ssize_t n = ::recv(fd, at, size, 0);
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool send_text(int fd, const std::string& text) {
  std::uint64_t size = text.size();
  return send_all(fd, &size, sizeof size) && send_all(fd, text.data(), text.size());
}

bool receive_text(int fd, std::string& text) {
  std::uint64_t size = 0;
  if (!receive_all(fd, &size, sizeof size) || size > (64U << 20)) return false;
  text.resize(size);
  return receive_all(fd, text.data(), size);
}

class ChildRanks final : public ckpt::dist::Ranks {
 public:
  ChildRanks(int fd, int rank, int size) : fd_(fd), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::string> exchange(const std::string& mine) override {
    std::vector<std::string> all(static_cast<std::size_t>(size_));
    bool good = send_text(fd_, "x" + mine);
    for (std::string& text : all) good = good && receive_text(fd_, text);
    if (!good) throw core::Error(core::ErrorCode::runtime, "a rank is gone");
    return all;
  }

 private:
  int fd_;
  int rank_;
  int size_;
};

[[noreturn]] void be_rank(int fd, int rank, int size, const std::function<void(ckpt::dist::Ranks&)>& body) {
  ChildRanks ranks(fd, rank, size);
  std::string error;
  int status = 0;
  try {
    body(ranks);
  } catch (const std::exception& thrown) {
    error = thrown.what();
    status = 1;
  }
  send_text(fd, "e" + error);
  ::_exit(status);
}

/// Passes exchanges on until every child has ended.
class Hub {
 public:
  Hub(std::vector<int> sockets, std::vector<ChildEnding>& endings) : sockets_(std::move(sockets)), endings_(endings) {
    texts_.resize(sockets_.size());
    has_.resize(sockets_.size());
  }

  void run() {
    for (std::size_t open = sockets_.size(); open > 0;) {
      std::vector<pollfd> polled;
      for (int fd : sockets_) polled.push_back({fd, POLLIN, 0});
      ::poll(polled.data(), polled.size(), -1);
      for (std::size_t i = 0; i < sockets_.size(); ++i) {
        if (sockets_[i] < 0 || polled[i].revents == 0) continue;
        if (!take(i)) {
          close_one(i);
          --open;
          lost_ = true;
        }
      }
      if (lost_) shut_all();
    }
  }

 private:
  bool take(std::size_t i) {
    std::string text;
    if (!receive_text(sockets_[i], text)) return false;
    if (text[0] == 'e') {
      endings_[i].error = text.substr(1);
      return false;
    }
    texts_[i] = text.substr(1);
    has_[i] = true;
    for (bool has : has_) {
      if (!has) return true;
    }
    for (std::size_t to = 0; to < sockets_.size(); ++to) {
      for (const std::string& one : texts_) send_text(sockets_[to], one);
    }
    has_.assign(has_.size(), false);
    return true;
  }
  void close_one(std::size_t i) {
    ::close(sockets_[i]);
    sockets_[i] = -1;
  }
  /// Whoever waits for the one that is gone hears of it; what was sent before is still read.
  void shut_all() {
    for (int fd : sockets_) {
      if (fd >= 0) ::shutdown(fd, SHUT_WR);
    }
  }

  std::vector<int> sockets_;
  std::vector<ChildEnding>& endings_;
  std::vector<std::string> texts_;
  std::vector<bool> has_;
  bool lost_ = false;
};

}  // namespace

std::vector<ChildEnding> run_child_ranks(int size, const std::function<void(ckpt::dist::Ranks&)>& body) {
  std::vector<int> here;
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("socketpair");
    pid_t child = ::fork();
    if (child == 0) {
      for (int fd : here) ::close(fd);
      ::close(pair[0]);
      be_rank(pair[1], rank, size, body);
    }
    ::close(pair[1]);
    here.push_back(pair[0]);
    children.push_back(child);
  }
  std::vector<ChildEnding> endings(children.size());
  Hub(here, endings).run();
  for (std::size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    ::waitpid(children[i], &status, 0);
    endings[i].status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  return endings;
}

}  // namespace test
