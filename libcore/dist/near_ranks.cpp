#include "libcore/dist/near_ranks.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>

#include "libcore/base/error.h"

#ifdef __linux__
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#endif

namespace core::distributed {

/// A message, or place for one.
struct NearRanks::Slot {
  std::atomic<std::uint64_t> tag;  // 0: free
  std::atomic<std::uint64_t> value;
};

/// What the others write to a rank. Behind it lie the slots, a lane for each writer.
struct NearRanks::Mailbox {
  std::atomic<std::uint64_t> mark;     // first; 0: its process has given up
  std::atomic<std::uint32_t> changes;  // counted for who waits
};

namespace {

using Clock = std::chrono::steady_clock;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
              "processes share them");

/// Two calls at once of three messages each; a rank may be some calls ahead of another one.
constexpr int kSlots = 32;
/// So often it is looked whether the call was ended by somebody else.
constexpr Milliseconds kLook(50);

#ifdef __linux__

/// 0, or the error's number.
int read_process(std::int64_t process, std::uint64_t from, void* to, std::int64_t bytes) {
  while (bytes > 0) {
    const iovec here{to, static_cast<std::size_t>(bytes)};
    const iovec there{reinterpret_cast<void*>(from), static_cast<std::size_t>(bytes)};
    const ssize_t count = ::process_vm_readv(static_cast<pid_t>(process), &here, 1, &there, 1, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EFAULT;
    to = static_cast<char*>(to) + count;
    from += static_cast<std::uint64_t>(count);
    bytes -= count;
  }
  return 0;
}

/// While it is `seen`, at most for kLook. std::atomic's own does not work between processes.
void wait_for_change(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const timespec longest{0, std::chrono::nanoseconds(kLook).count()};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &longest, nullptr, 0);
}
void wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

std::int64_t own_process() {
  return ::getpid();
}
void* map_file(int file, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
void unmap(void* memory, std::size_t bytes) {
  ::munmap(memory, bytes);
}
void close_file(int file) {
  ::close(file);
}
/// Its length stays: whoever touches what another process has cut off is ended (SIGBUS). -1: there is none.
int make_file(std::size_t bytes) {
  const int file = ::memfd_create("ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  const bool is_made = ::ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
                       ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  if (is_made) return file;
  ::close(file);
  return -1;
}
/// Whether it begins with this mark, in so many bytes that stay.
bool is_marked(int file, std::size_t bytes, std::uint64_t mark) {
  std::uint64_t found = 0;
  const int seals = ::fcntl(file, F_GET_SEALS);  // -1 for a file on a disk
  struct stat about {};
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(file, &about) == 0 &&
         static_cast<std::size_t>(about.st_size) == bytes &&
         ::pread(file, &found, sizeof found, 0) == static_cast<ssize_t>(sizeof found) && found == mark;
}
/// -1: it is no mailbox with this mark. What another process has under that number must be neither opened nor written
/// to.
int open_file_of(std::int64_t process, std::int64_t number, std::size_t bytes, std::uint64_t mark) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return -1;
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0 || is_marked(file, bytes, mark)) return file;
  ::close(file);
  return -1;
}

#else

int read_process(std::int64_t, std::uint64_t, void*, std::int64_t) {
  return ENOSYS;
}
void wait_for_change(std::atomic<std::uint32_t>&, std::uint32_t) {}
void wake(std::atomic<std::uint32_t>&) {}
std::int64_t own_process() {
  return 0;
}
void* map_file(int, std::size_t) {
  return nullptr;
}
void unmap(void*, std::size_t) {}
void close_file(int) {}
int make_file(std::size_t) {
  return -1;
}
int open_file_of(std::int64_t, std::int64_t, std::size_t, std::uint64_t) {
  return -1;
}

#endif

bool is_wanted() {
  const char* value = std::getenv("CORE_DIST_NEAR");
  return value == nullptr || std::string(value) != "0";
}

/// Throws when waiting makes no more sense.
class Patience {
 public:
  explicit Patience(const Call& call) : call_(call), deadline_(Clock::now() + call.timeout) {}
  void check() const {
    if (call_.has_ended && call_.has_ended()) throw Error(ErrorCode::io, "the call was ended");
    if (Clock::now() < deadline_) return;
    throw Error(ErrorCode::io, "Timed out waiting " + std::to_string(call_.timeout.count()) + "ms for a rank");
  }

 private:
  const Call& call_;
  Clock::time_point deadline_;
};

}  // namespace

NearRanks::NearRanks(int rank, int size) : rank_(rank), size_(size), mailboxes_(static_cast<std::size_t>(size)) {
  if (size_ == 1 || !is_wanted()) return;
  const int file = make_file(mailbox_bytes());
  if (file < 0) return;
  auto* mailbox = static_cast<Mailbox*>(map_file(file, mailbox_bytes()));
  if (mailbox == nullptr) {
    close_file(file);
    return;
  }
  std::random_device source;
  const std::uint64_t mark = std::uint64_t{source()} << 32 | source() | 1;
  mailbox->mark.store(mark);
  mailboxes_[static_cast<std::size_t>(rank_)] = mailbox;
  handle_ = {
      .process = own_process(), .mailbox = reinterpret_cast<std::uintptr_t>(mailbox), .mark = mark, .file = file};
}

NearRanks::~NearRanks() {
  give_up();
  end_meeting();
  for (Mailbox* mailbox : mailboxes_) {
    if (mailbox != nullptr) unmap(mailbox, mailbox_bytes());
  }
}

std::size_t NearRanks::mailbox_bytes() const {
  return sizeof(Mailbox) + sizeof(Slot) * kSlots * static_cast<std::size_t>(size_);
}

NearRanks::Slot* NearRanks::lane(Mailbox* mailbox, int from) const {
  return reinterpret_cast<Slot*>(mailbox + 1) + static_cast<std::ptrdiff_t>(from) * kSlots;
}

/// Looks first whether it is the right process: the number may be that of another one on another machine.
bool NearRanks::open(int peer, const Handle& handle) {
  std::uint64_t mark = 0;
  if (handle.process == 0 || read_process(handle.process, handle.mailbox, &mark, sizeof mark) != 0) return false;
  if (mark != handle.mark) return false;
  if (peer == rank_) return true;
  const int file = open_file_of(handle.process, handle.file, mailbox_bytes(), handle.mark);
  if (file < 0) return false;
  mailboxes_[static_cast<std::size_t>(peer)] = static_cast<Mailbox*>(map_file(file, mailbox_bytes()));
  close_file(file);
  return mailboxes_[static_cast<std::size_t>(peer)] != nullptr;
}

bool NearRanks::meet(const std::vector<Handle>& handles) {
  handles_ = handles;
  for (int peer = 0; peer < size_; ++peer) {
    if (handle_.process == 0 || !open(peer, handles_[static_cast<std::size_t>(peer)])) return false;
  }
  return true;
}

void NearRanks::end_meeting() {
  if (handle_.file >= 0) close_file(static_cast<int>(handle_.file));
  handle_.file = -1;
}

void NearRanks::read(int peer, std::uint64_t from, void* to, std::int64_t bytes) const {
  const int error = read_process(handles_[static_cast<std::size_t>(peer)].process, from, to, bytes);
  if (error == 0) return;
  throw Error(ErrorCode::io, "the memory of rank " + std::to_string(peer) +
                                 " can no longer be read: " + std::string(std::strerror(error)));
}

void NearRanks::send(int peer, std::uint64_t tag, std::uint64_t value, const Call& call) {
  const std::lock_guard lock(sending_);
  Mailbox* mailbox = mailboxes_[static_cast<std::size_t>(peer)];
  Slot* slots = lane(mailbox, rank_);
  const Patience patience(call);
  Slot* place = nullptr;
  while (true) {
    for (int i = 0; i < kSlots && place == nullptr; ++i) {
      if (slots[i].tag.load(std::memory_order_acquire) == 0) place = &slots[i];
    }
    if (place != nullptr) break;
    patience.check();
    std::this_thread::sleep_for(Milliseconds(1));
  }
  place->value.store(value, std::memory_order_relaxed);
  place->tag.store(tag, std::memory_order_release);
  mailbox->changes.fetch_add(1);
  wake(mailbox->changes);
}

NearRanks::Message NearRanks::receive(std::uint64_t tag, const Call& call) {
  Mailbox* mailbox = mailboxes_[static_cast<std::size_t>(rank_)];
  const Patience patience(call);
  while (true) {
    const std::uint32_t seen = mailbox->changes.load();
    for (int from = 0; from < size_; ++from) {
      Slot* slots = lane(mailbox, from);
      for (int i = 0; i < kSlots; ++i) {
        if (slots[i].tag.load(std::memory_order_acquire) != tag) continue;
        const Message message{from, slots[i].value.load(std::memory_order_relaxed)};
        slots[i].tag.store(0, std::memory_order_release);
        return message;
      }
    }
    patience.check();
    wait_for_change(mailbox->changes, seen);
  }
}

void NearRanks::check(int peer) const {
  const Handle& handle = handles_[static_cast<std::size_t>(peer)];
  std::uint64_t mark = 0;
  // Not on the mailbox that all share: there it outlives a process that was killed, whose number is another one's by
  // now, or that became another program.
  read(peer, handle.mailbox, &mark, sizeof mark);
  if (mark == handle.mark) return;
  throw Error(ErrorCode::io, "rank " + std::to_string(peer) + " gave up while its memory was read");
}

void NearRanks::give_up() {
  // A child of the process has the same mailbox, which is not its own.
  Mailbox* mailbox = mailboxes_[static_cast<std::size_t>(rank_)];
  if (mailbox != nullptr && own_process() == handle_.process) mailbox->mark.store(0);
}

}  // namespace core::distributed
