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

/// A note, or place for one.
struct NearRanks::Slip {
  std::atomic<std::uint64_t> slot;  // 0: free
  std::atomic<std::uint64_t> value;
};

/// What the others write to a rank. Behind it lie the slips, a lane for each writer.
struct NearRanks::Board {
  std::atomic<std::uint64_t> mark;     // first; 0: its process has given up
  std::atomic<std::uint32_t> changes;  // counted for who waits
};

namespace {

using Clock = std::chrono::steady_clock;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
              "processes share them");

/// Two calls at once of three notes each; a rank may be some calls ahead of another one.
constexpr int kSlips = 32;
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
/// -1: it is no board with this mark. What another process has under that number must be neither opened nor written to.
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

NearRanks::NearRanks(int rank, int size) : rank_(rank), size_(size), boards_(static_cast<std::size_t>(size)) {
  if (size_ == 1 || !is_wanted()) return;
  const int file = make_file(board_bytes());
  if (file < 0) return;
  auto* board = static_cast<Board*>(map_file(file, board_bytes()));
  if (board == nullptr) {
    close_file(file);
    return;
  }
  std::random_device source;
  const std::uint64_t mark = std::uint64_t{source()} << 32 | source() | 1;
  board->mark.store(mark);
  boards_[static_cast<std::size_t>(rank_)] = board;
  card_ = {.process = own_process(), .board = reinterpret_cast<std::uintptr_t>(board), .mark = mark, .file = file};
}

NearRanks::~NearRanks() {
  give_up();
  end_meeting();
  for (Board* board : boards_) {
    if (board != nullptr) unmap(board, board_bytes());
  }
}

std::size_t NearRanks::board_bytes() const {
  return sizeof(Board) + sizeof(Slip) * kSlips * static_cast<std::size_t>(size_);
}

NearRanks::Slip* NearRanks::lane(Board* board, int from) const {
  return reinterpret_cast<Slip*>(board + 1) + static_cast<std::ptrdiff_t>(from) * kSlips;
}

/// Looks first whether it is the right process: the number may be that of another one on another machine.
bool NearRanks::open(int peer, const Card& card) {
  std::uint64_t mark = 0;
  if (card.process == 0 || read_process(card.process, card.board, &mark, sizeof mark) != 0) return false;
  if (mark != card.mark) return false;
  if (peer == rank_) return true;
  const int file = open_file_of(card.process, card.file, board_bytes(), card.mark);
  if (file < 0) return false;
  boards_[static_cast<std::size_t>(peer)] = static_cast<Board*>(map_file(file, board_bytes()));
  close_file(file);
  return boards_[static_cast<std::size_t>(peer)] != nullptr;
}

bool NearRanks::meet(const std::vector<Card>& cards) {
  cards_ = cards;
  for (int peer = 0; peer < size_; ++peer) {
    if (card_.process == 0 || !open(peer, cards_[static_cast<std::size_t>(peer)])) return false;
  }
  return true;
}

void NearRanks::end_meeting() {
  if (card_.file >= 0) close_file(static_cast<int>(card_.file));
  card_.file = -1;
}

void NearRanks::read(int peer, std::uint64_t from, void* to, std::int64_t bytes) const {
  const int error = read_process(cards_[static_cast<std::size_t>(peer)].process, from, to, bytes);
  if (error == 0) return;
  throw Error(ErrorCode::io, "the memory of rank " + std::to_string(peer) +
                                 " can no longer be read: " + std::string(std::strerror(error)));
}

void NearRanks::say(int peer, std::uint64_t slot, std::uint64_t value, const Call& call) {
  const std::lock_guard lock(saying_);
  Board* board = boards_[static_cast<std::size_t>(peer)];
  Slip* slips = lane(board, rank_);
  const Patience patience(call);
  Slip* place = nullptr;
  while (true) {
    for (int i = 0; i < kSlips && place == nullptr; ++i) {
      if (slips[i].slot.load(std::memory_order_acquire) == 0) place = &slips[i];
    }
    if (place != nullptr) break;
    patience.check();
    std::this_thread::sleep_for(Milliseconds(1));
  }
  place->value.store(value, std::memory_order_relaxed);
  place->slot.store(slot, std::memory_order_release);
  board->changes.fetch_add(1);
  wake(board->changes);
}

NearRanks::Note NearRanks::hear(std::uint64_t slot, const Call& call) {
  Board* board = boards_[static_cast<std::size_t>(rank_)];
  const Patience patience(call);
  while (true) {
    const std::uint32_t seen = board->changes.load();
    for (int from = 0; from < size_; ++from) {
      Slip* slips = lane(board, from);
      for (int i = 0; i < kSlips; ++i) {
        if (slips[i].slot.load(std::memory_order_acquire) != slot) continue;
        const Note note{from, slips[i].value.load(std::memory_order_relaxed)};
        slips[i].slot.store(0, std::memory_order_release);
        return note;
      }
    }
    patience.check();
    wait_for_change(board->changes, seen);
  }
}

void NearRanks::check(int peer) const {
  const Card& card = cards_[static_cast<std::size_t>(peer)];
  std::uint64_t mark = 0;
  // Not on the board that all share: there it outlives a process that was killed, whose number is another one's by now,
  // or that became another program.
  read(peer, card.board, &mark, sizeof mark);
  if (mark == card.mark) return;
  throw Error(ErrorCode::io, "rank " + std::to_string(peer) + " gave up while its memory was read");
}

void NearRanks::give_up() {
  // A child of the process has the same board, which is not its own.
  Board* board = boards_[static_cast<std::size_t>(rank_)];
  if (board != nullptr && own_process() == card_.process) board->mark.store(0);
}

}  // namespace core::distributed
