#pragma once
// Store: the small table of keys and values through which the processes of a distributed training find each other.
// HashStore lies in this process, FileStore in a file that all see, TcpStore in the process of rank 0 (tcp_store.h),
// PrefixStore gives the keys of another one a prefix. As torch.distributed's stores.
// Thread safety: all calls, from any thread. Errors: Error(io) with PyTorch's texts where it has one.
// Use: core::distributed::HashStore store; store.set("k", "v"); std::string v = store.get("k");

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/dist/key_table.h"

namespace core::distributed {

using Milliseconds = std::chrono::milliseconds;
/// How long get() and wait() wait for a key.
inline constexpr Milliseconds kStoreTimeout = std::chrono::minutes(5);

class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  virtual void set(const std::string& key, std::string_view value) = 0;
  /// Waits for the key. Error(io) "wait timeout after 2000ms, keys: /k".
  virtual std::string get(const std::string& key) = 0;
  /// Adds to the number that the key holds (0 when there is none) and gives the sum. Error(value) when it holds text.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Sets the key to `desired` if it holds `expected`, or if there is none and `expected` is empty. The value
  /// afterwards; `expected` when there is no key and it is not empty.
  virtual std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) = 0;
  /// Whether all keys are there. Does not wait.
  virtual bool check(const std::vector<std::string>& keys) = 0;
  /// Error(io) as get().
  virtual void wait(const std::vector<std::string>& keys, Milliseconds timeout) = 0;
  void wait(const std::vector<std::string>& keys) { wait(keys, timeout()); }
  /// Whether there was such a key.
  virtual bool delete_key(const std::string& key) = 0;
  virtual std::int64_t num_keys() = 0;
  /// Adds text behind the value of the key.
  virtual void append(const std::string& key, std::string_view value) = 0;

  virtual Milliseconds timeout() const { return timeout_; }
  virtual void set_timeout(Milliseconds timeout) { timeout_ = timeout; }

 protected:
  explicit Store(Milliseconds timeout = kStoreTimeout) : timeout_(timeout) {}

 private:
  std::atomic<Milliseconds> timeout_;
};

/// For the threads of one process.
class HashStore final : public Store {
 public:
  explicit HashStore(Milliseconds timeout = kStoreTimeout) : Store(timeout) {}
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

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  KeyTable table_;
};

/// A file that every process sees, for example on a shared file system: a log of what was set, under a lock.
class FileStore final : public Store {
 public:
  /// The file is made when it is not there. It goes away with the last of `world_size` stores (-1: it stays).
  explicit FileStore(std::filesystem::path path, std::int64_t world_size = -1, Milliseconds timeout = kStoreTimeout);
  ~FileStore() override;
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

 private:
  class Locked;
  std::filesystem::path path_;
  std::int64_t world_size_;
  std::mutex mutex_;
  KeyTable table_;
  std::int64_t read_to_ = 0;  // bytes of the file that the table holds
};

/// The keys of `store` that begin with `prefix` and a slash.
class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {}
  void set(const std::string& key, std::string_view value) override { store_->set(prefix_ + key, value); }
  std::string get(const std::string& key) override { return store_->get(prefix_ + key); }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return store_->add(prefix_ + key, amount); }
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override {
    return store_->compare_set(prefix_ + key, expected, desired);
  }
  bool check(const std::vector<std::string>& keys) override { return store_->check(with_prefix(keys)); }
  void wait(const std::vector<std::string>& keys, Milliseconds timeout) override {
    store_->wait(with_prefix(keys), timeout);
  }
  using Store::wait;
  bool delete_key(const std::string& key) override { return store_->delete_key(prefix_ + key); }
  /// Of the whole store behind it.
  std::int64_t num_keys() override { return store_->num_keys(); }
  void append(const std::string& key, std::string_view value) override { store_->append(prefix_ + key, value); }
  Milliseconds timeout() const override { return store_->timeout(); }
  void set_timeout(Milliseconds timeout) override { store_->set_timeout(timeout); }

 private:
  std::vector<std::string> with_prefix(const std::vector<std::string>& keys) const;
  std::string prefix_;
  std::shared_ptr<Store> store_;
};

/// Error(io) of a store whose server hung up.
class LostStore : public Error {
 public:
  explicit LostStore(const std::string& text) : Error(ErrorCode::io, text) {}
};

namespace detail {
/// Error(io) "wait timeout after 2000ms, keys: /a, /b".
[[noreturn]] void throw_wait_timeout(const std::vector<std::string>& keys, Milliseconds timeout);
}  // namespace detail

}  // namespace core::distributed
