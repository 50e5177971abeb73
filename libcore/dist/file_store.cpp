// FileStore's file is a log behind one line that says what it is. Each change is one record: the key, behind '/' (set)
// or '-' (deleted), and the value, both as a 64-bit length and bytes. Whoever reads or writes holds the lock of the
// file; a record that is cut off (its writer died within it) is taken away by the next writer.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "libcore/base/error.h"
#include "libcore/dist/store.h"

namespace core::distributed {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(10);
/// What the file begins with, so that no other file is taken for a store's and cut.
constexpr std::string_view kHead = "core file store\n";
/// The key of how many stores use the file.
constexpr char kHolders[] = "refcount/";
constexpr std::uint64_t kMaxRecordPart = std::uint64_t{1} << 30;

std::string packed(std::string_view text) {
  const std::uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out.append(text);
}

/// Takes a length and so many bytes off the front of `bytes`. False when they are not all there.
bool unpack(std::string_view& bytes, std::string& part) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) return false;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxRecordPart || bytes.size() - sizeof length < length) return false;
  part.assign(bytes.substr(sizeof length, length));
  bytes.remove_prefix(sizeof length + length);
  return true;
}

}  // namespace

/// The file, open and locked; its new records are in the table.
class FileStore::Locked {
 public:
  explicit Locked(FileStore& store) : store_(store), guard_(store.mutex_) {
    fd_ = ::open(store.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("cannot be opened");
    while (::flock(fd_, LOCK_EX) != 0) {
      if (errno != EINTR) fail("cannot be locked");
    }
    read_head();
    read_new();
  }
  ~Locked() {
    if (fd_ >= 0) ::close(fd_);  // which unlocks it
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  /// One record at the end.
  void write(char kind, const std::string& key, std::string_view value) {
    if (::ftruncate(fd_, store_.read_to_) != 0) fail("cannot be cut to its whole records");
    const std::string record = packed(kind + key) + packed(value);
    write_at(store_.read_to_, record);
    store_.read_to_ += static_cast<std::int64_t>(record.size());
  }

 private:
  void write_at(std::int64_t offset, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("cannot be written");
      bytes.remove_prefix(static_cast<std::size_t>(n));
      offset += n;
    }
  }

  std::string read_at(std::int64_t offset, std::int64_t count) {
    std::string bytes(static_cast<std::size_t>(count), '\0');
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n =
          ::pread(fd_, bytes.data() + done, bytes.size() - done, offset + static_cast<std::int64_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("cannot be read");
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    bytes.resize(done);
    return bytes;
  }

  std::int64_t size() {
    struct stat state {};
    if (::fstat(fd_, &state) != 0) fail("cannot be looked at");
    return state.st_size;
  }

  void read_head() {
    constexpr auto kHeadBytes = static_cast<std::int64_t>(kHead.size());
    if (size() < store_.read_to_) {  // another file of the same name
      store_.table_ = {};
      store_.read_to_ = 0;
    }
    if (store_.read_to_ > 0) return;
    const std::string head = read_at(0, std::min(size(), kHeadBytes));
    if (!kHead.starts_with(head)) {
      ::close(fd_);
      fd_ = -1;
      throw Error(ErrorCode::refused, store_.path_.string() + ": is no file of a store, and is left as it is");
    }
    if (head.size() < kHead.size()) write_at(0, kHead);
    store_.read_to_ = kHeadBytes;
  }

  [[noreturn]] void fail(const std::string& what) {
    const std::string why = std::strerror(errno);
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    throw Error(ErrorCode::io, store_.path_.string() + ": the file of the store " + what + ": " + why);
  }

  void read_new() { apply(read_at(store_.read_to_, size() - store_.read_to_)); }

  void apply(std::string_view bytes) {
    std::string key;
    std::string value;
    for (std::string_view rest = bytes; unpack(rest, key) && unpack(rest, value); bytes = rest) {
      store_.read_to_ += static_cast<std::int64_t>(bytes.size() - rest.size());
      if (key.empty()) continue;
      if (key[0] == '-') {
        store_.table_.erase(key.substr(1));
      } else {
        store_.table_.set(key.substr(1), value);
      }
    }
  }

  FileStore& store_;
  std::unique_lock<std::mutex> guard_;
  int fd_ = -1;
};

FileStore::FileStore(std::filesystem::path path, std::int64_t world_size, Milliseconds timeout)
    : Store(timeout), path_(std::move(path)), world_size_(world_size) {
  if (world_size_ > 0) {
    add(kHolders, 1);
  } else {
    const Locked file(*this);
  }
}

/// One that was killed never says that it is through: what it left in the file must not let the next ones take it from
/// each other. As PyTorch's, such a file stays.
FileStore::~FileStore() {
  if (world_size_ <= 0) return;
  try {
    const bool all_came = add("cleanup/", 1) >= world_size_;
    if (add(kHolders, -1) == 0 && all_came) ::unlink(path_.c_str());
  } catch (const std::exception&) {
    // A folder that went away took the file with it.
  }
}

void FileStore::set(const std::string& key, std::string_view value) {
  Locked file(*this);
  file.write('/', key, value);
  table_.set(key, std::string(value));
}

std::string FileStore::get(const std::string& key) {
  const Milliseconds limit = timeout();
  const auto deadline = Clock::now() + limit;
  while (true) {
    {
      const Locked file(*this);
      if (const std::string* value = table_.find(key)) return *value;
    }
    if (Clock::now() >= deadline) detail::throw_wait_timeout({key}, limit);
    std::this_thread::sleep_for(kPoll);
  }
}

std::int64_t FileStore::add(const std::string& key, std::int64_t amount) {
  Locked file(*this);
  const std::optional<std::int64_t> sum = table_.add(key, amount);
  if (!sum) throw Error(ErrorCode::value, "add: the key '" + key + "' holds no number that can be added to");
  file.write('/', key, std::to_string(*sum));
  return *sum;
}

std::string FileStore::compare_set(const std::string& key, std::string_view expected, std::string_view desired) {
  Locked file(*this);
  std::string value = table_.compare_set(key, expected, desired);
  if (table_.contains(key)) file.write('/', key, value);
  return value;
}

bool FileStore::check(const std::vector<std::string>& keys) {
  const Locked file(*this);
  return table_.contains_all(keys);
}

void FileStore::wait(const std::vector<std::string>& keys, Milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!check(keys)) {
    if (Clock::now() >= deadline) detail::throw_wait_timeout(keys, limit);
    std::this_thread::sleep_for(kPoll);
  }
}

bool FileStore::delete_key(const std::string& key) {
  Locked file(*this);
  if (!table_.erase(key)) return false;
  file.write('-', key, "");
  return true;
}

std::int64_t FileStore::num_keys() {
  const Locked file(*this);
  return static_cast<std::int64_t>(table_.size());
}

void FileStore::append(const std::string& key, std::string_view value) {
  Locked file(*this);
  table_.append(key, value);
  file.write('/', key, *table_.find(key));
}

}  // namespace core::distributed
