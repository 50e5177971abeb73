#include "libcore/tensorboard/event_file.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/tensorboard/wire.h"

namespace core::tensorboard {
namespace {

/// More than isa-l's length can say at once.
constexpr std::size_t kMaxPiece = std::size_t{1} << 30;

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kMaxPiece);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(piece.data()));
    crc = crc32_iscsi(data, static_cast<int>(piece.size()), crc);
    bytes.remove_prefix(piece.size());
  }
  return ~crc;
}

std::string file_name(const std::string& suffix) {
  static std::atomic<std::uint64_t> count = 0;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%010lld", static_cast<long long>(now()));
  return std::string("events.out.tfevents.") + seconds + "." + host_name() + "." + std::to_string(::getpid()) + "." +
         std::to_string(count++) + suffix;
}

std::string header_fields() {
  std::string source, fields;
  wire::bytes(source, 1, "tensorboard.summary.writer.event_file_writer");
  wire::bytes(fields, 3, "brain.Event:2");
  wire::bytes(fields, 10, source);
  return fields;
}

}  // namespace

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string record_of(std::string_view bytes) {
  std::string record;
  wire::fixed(record, std::uint64_t{bytes.size()});
  wire::fixed(record, masked_crc(record));
  record += bytes;
  wire::fixed(record, masked_crc(bytes));
  return record;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

EventFile::EventFile(const std::string& folder, std::int64_t max_queue, double flush_secs, const std::string& suffix)
    : max_queue_(max_queue), interval_(flush_secs) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(ErrorCode::io, folder + ": the folder cannot be made: " + error.message());
  // Another machine of the same name may have made this one just now, in a folder that they share.
  do {
    path_ = (std::filesystem::path(folder) / file_name(suffix)).string();
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) fail("cannot be made");
  add(header_fields(), {}, {});
  flush();
}

EventFile::~EventFile() {
  try {
    close();
  } catch (const std::exception& error) {
    warn(error.what());
  }
  if (fd_ >= 0) ::close(fd_);
}

void EventFile::fail(const char* what) const {
  throw Error(ErrorCode::io, path_ + ": " + what + ": " + std::system_category().message(errno));
}

void EventFile::add(std::string_view fields, std::optional<std::int64_t> step, std::optional<double> walltime) {
  std::string event;
  wire::real(event, 1, walltime.value_or(now()));
  if (step) wire::integer(event, 2, *step);
  event += fields;
  waiting_ += record_of(event);
  if (++count_ >= max_queue_ || Clock::now() - written_at_ >= interval_) flush();
}

void EventFile::flush() {
  std::size_t done = 0;
  while (done < waiting_.size()) {
    const ssize_t n = ::write(fd_, waiting_.data() + done, waiting_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      waiting_.erase(0, done);
      fail("cannot be written");
    }
    done += static_cast<std::size_t>(n);
  }
  waiting_.clear();
  count_ = 0;
  written_at_ = Clock::now();
}

void EventFile::close() {
  if (fd_ < 0) return;
  flush();
  if (::close(std::exchange(fd_, -1)) != 0) fail("cannot be closed");
}

}  // namespace core::tensorboard
