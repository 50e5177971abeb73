#include "libcore/dist/tcp_store.h"

#include <unistd.h>

#include "libcore/base/error.h"

namespace core::distributed {
namespace {

std::string message(Operation operation) {
  return std::string(1, static_cast<char>(operation));
}
/// Every key has a slash in front of it on the way, as PyTorch's do.
void put_key(std::string& out, const std::string& key) {
  if (key.size() + 1 > kMaxStoreKey) {
    throw Error(ErrorCode::value, "a key of the store has " + std::to_string(key.size()) + " bytes, where " +
                                      std::to_string(kMaxStoreKey - 1) + " is the most");
  }
  wire::put<std::uint64_t>(out, key.size() + 1);
  out.append("/").append(key);
}
void put_value(std::string& out, const std::string& key, std::string_view value) {
  if (value.size() > kMaxStoreValue) {
    throw Error(ErrorCode::value, "the value of the store's key '" + key + "' has " + std::to_string(value.size()) +
                                      " bytes, where " + std::to_string(kMaxStoreValue) + " is the most");
  }
  wire::put_text(out, value);
}
std::string message(Operation operation, const std::string& key) {
  std::string out = message(operation);
  put_key(out, key);
  return out;
}
std::string message(Operation operation, const std::vector<std::string>& keys) {
  std::string out = message(operation);
  wire::put<std::uint64_t>(out, keys.size());
  for (const std::string& key : keys) put_key(out, key);
  return out;
}

}  // namespace

TcpStore::TcpStore(const Options& options) : Store(options.timeout), options_(options) {
  if (options.is_server) {
    server_ = std::make_unique<TcpStoreServer>(TcpStoreServer::Options{options.port, is_loopback(options.host)});
    options_.port = server_->port();
  }
  connect();
  if (options.world_size) join_workers();
}

void TcpStore::connect() {
  const Deadline deadline = deadline_after(options_.timeout);
  // The server of this process listens at every address; the name of this machine may mean another one.
  const std::string& host = server_ ? std::string("127.0.0.1") : options_.host;
  while (true) {
    socket_ = Socket::connect(host, options_.port, deadline);
    if (!socket_.is_open()) break;
    std::string hello = message(Operation::validate);
    wire::put(hello, kStoreMagic);
    hello += message(Operation::ping);
    const auto nonce = static_cast<std::uint32_t>(::getpid());
    wire::put(hello, nonce);
    char answer[4];
    // Whoever listens may be about to end: what is cut off is tried again.
    if (socket_.send_all(hello, deadline) && socket_.receive_all(answer, sizeof answer, deadline)) {
      if (wire::number_at<std::uint32_t>(answer) == nonce) return;
      throw Error(ErrorCode::io, "who listens at (" + options_.host + ", " + std::to_string(options_.port) +
                                     ") is no store of torch.distributed: it answered a ping with another number");
    }
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw Error(ErrorCode::io, "The client socket has timed out after " + std::to_string(options_.timeout.count()) +
                                 "ms while trying to connect to (" + options_.host + ", " +
                                 std::to_string(options_.port) + ").");
}

void TcpStore::join_workers() {
  const std::string key = "init/";
  std::int64_t joined = add(key, 1);
  if (!options_.is_server || !options_.wait_for_workers) return;
  const Deadline deadline = deadline_after(options_.timeout);
  while (joined < *options_.world_size) {
    if (std::chrono::steady_clock::now() >= deadline) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.timeout).count();
      throw Error(ErrorCode::io, "Timed out after " + std::to_string(seconds) + " seconds waiting for clients. " +
                                     std::to_string(joined) + "/" + std::to_string(*options_.world_size) +
                                     " clients joined.");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    joined = add(key, 0);
  }
}

void TcpStore::fail(bool timed_out, Milliseconds timeout) {
  const std::string place = "the store at (" + options_.host + ", " + std::to_string(options_.port) + ")";
  socket_.close();
  if (timed_out) {
    throw Error(ErrorCode::io, place + " did not answer within " + std::to_string(timeout.count()) + " ms");
  }
  throw LostStore(place + " is gone: its process has ended, or refused what it was sent");
}

void TcpStore::exchange(std::string_view bytes, char* answer, std::size_t count, Milliseconds timeout) {
  const Deadline deadline = deadline_after(timeout);
  if (!socket_.is_open()) fail(false, timeout);
  if (socket_.send_all(bytes, deadline) && socket_.receive_all(answer, count, deadline)) return;
  fail(socket_.is_timeout(), timeout);
}

std::string TcpStore::receive_text(Milliseconds timeout) {
  char length[8];
  exchange({}, length, sizeof length, timeout);
  const auto size = wire::number_at<std::uint64_t>(length);
  if (size > kMaxStoreValue) {
    socket_.close();
    throw Error(ErrorCode::corrupt, "the store at (" + options_.host + ", " + std::to_string(options_.port) +
                                        ") sent a value of " + std::to_string(size) + " bytes, where " +
                                        std::to_string(kMaxStoreValue) + " is the most");
  }
  std::string text(size, '\0');
  exchange({}, text.data(), text.size(), timeout);
  return text;
}

void TcpStore::set(const std::string& key, std::string_view value) {
  std::string out = message(Operation::set, key);
  put_value(out, key, value);
  const std::lock_guard lock(mutex_);
  exchange(out, nullptr, 0, timeout());
}

std::string TcpStore::get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  wait_here({key}, timeout());
  exchange(message(Operation::get, key), nullptr, 0, timeout());
  return receive_text(timeout());
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t amount) {
  std::string out = message(Operation::add, key);
  wire::put(out, amount);
  char sum[8];
  const std::lock_guard lock(mutex_);
  exchange(out, sum, sizeof sum, timeout());
  return wire::number_at<std::int64_t>(sum);
}

std::string TcpStore::compare_set(const std::string& key, std::string_view expected, std::string_view desired) {
  std::string out = message(Operation::compare_set, key);
  put_value(out, key, expected);
  put_value(out, key, desired);
  const std::lock_guard lock(mutex_);
  exchange(out, nullptr, 0, timeout());
  return receive_text(timeout());
}

bool TcpStore::check(const std::vector<std::string>& keys) {
  char answer = 0;
  const std::lock_guard lock(mutex_);
  exchange(message(Operation::check, keys), &answer, 1, timeout());
  return answer == 0;
}

void TcpStore::wait(const std::vector<std::string>& keys, Milliseconds limit) {
  const std::lock_guard lock(mutex_);
  wait_here(keys, limit);
}

void TcpStore::wait_here(const std::vector<std::string>& keys, Milliseconds limit) {
  if (!socket_.is_open()) fail(false, limit);
  const Deadline deadline = deadline_after(limit);
  char answer = 0;
  if (!socket_.send_all(message(Operation::wait, keys), deadline_after(timeout()))) fail(socket_.is_timeout(), limit);
  if (socket_.receive_all(&answer, 1, deadline)) return;
  if (!socket_.is_timeout()) fail(false, limit);
  cancel_wait();
  detail::throw_wait_timeout(keys, limit);
}

void TcpStore::cancel_wait() {
  // The answer to the wait may have been on its way: it comes before the one to this.
  constexpr Milliseconds kAnswerTime = std::chrono::seconds(10);
  char answer = 0;
  exchange(message(Operation::cancel_wait), &answer, 1, kAnswerTime);
  if (answer == 0) exchange({}, &answer, 1, kAnswerTime);
}

bool TcpStore::delete_key(const std::string& key) {
  char count[8];
  const std::lock_guard lock(mutex_);
  exchange(message(Operation::delete_key, key), count, sizeof count, timeout());
  return wire::number_at<std::int64_t>(count) > 0;
}

std::int64_t TcpStore::num_keys() {
  char count[8];
  const std::lock_guard lock(mutex_);
  exchange(message(Operation::num_keys), count, sizeof count, timeout());
  return wire::number_at<std::int64_t>(count);
}

void TcpStore::append(const std::string& key, std::string_view value) {
  std::string out = message(Operation::append, key);
  put_value(out, key, value);
  const std::lock_guard lock(mutex_);
  exchange(out, nullptr, 0, timeout());
}

}  // namespace core::distributed
