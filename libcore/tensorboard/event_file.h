#pragma once
// One event file: records of a length, the bytes and their checksums (TFRecord). Internal to tensorboard.
// Thread safety: one thread at a time.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace core::tensorboard {

/// CRC-32C as TFRecord has it: rotated, and with a number added, since what it protects may hold checksums itself.
std::uint32_t masked_crc(std::string_view bytes);
/// The record of `bytes`: 12 bytes before them, 4 behind.
std::string record_of(std::string_view bytes);
/// Seconds since 1970.
double now();
std::string host_name();

class EventFile {
 public:
  /// Makes the folder and, in it, events.out.tfevents.SECONDS.HOST.PROCESS.COUNTSUFFIX, with the event that says what
  /// it is. Error(io) when that cannot be done.
  EventFile(const std::string& folder, std::int64_t max_queue, double flush_secs, const std::string& suffix);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// An event with `fields`, encoded fields of Event without time and step.
  void add(std::string_view fields, std::optional<std::int64_t> step, std::optional<double> walltime);
  /// Writes what waits. Error(io); what could not be written still waits.
  void flush();
  /// flush(), then closes; nothing when it is closed.
  void close();
  const std::string& path() const { return path_; }

 private:
  using Clock = std::chrono::steady_clock;
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  int fd_ = -1;
  std::string waiting_;
  std::int64_t count_ = 0;
  std::int64_t max_queue_;
  std::chrono::duration<double> interval_;
  Clock::time_point written_at_ = Clock::now();
};

}  // namespace core::tensorboard
