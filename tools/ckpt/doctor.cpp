#include "tools/ckpt/doctor.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>

#include "libckpt/format/format.h"
#include "libckpt/io/pending_files.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/process.h"
#include "tools/ckpt/runtime_program.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using State = DoctorLine::State;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// A bound that a container sets, where it sets one.
std::string memory_bound() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::optional<std::uint64_t> bytes = core::try_parse_size(first_line(path));
    if (bytes && *bytes < (1ULL << 60)) return core::format_size(*bytes);
  }
  return "";
}

DoctorLine memory() {
  struct sysinfo info = {};
  ::sysinfo(&info);
  std::uint64_t total = static_cast<std::uint64_t>(info.totalram) * info.mem_unit;
  std::ifstream file("/proc/meminfo");
  std::uint64_t available = 0;
  for (std::string word; file >> word;) {
    if (word == "MemAvailable:") file >> available;
  }
  std::string text = core::format_size(available * 1024) + " available of " + core::format_size(total);
  std::string bound = memory_bound();
  return {"machine", "memory", bound.empty() ? text : text + ", bounded to " + bound + " here"};
}

DoctorLine cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int usable = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  std::string text = std::to_string(usable) + " usable of " + std::to_string(std::thread::hardware_concurrency());
  std::string quota = first_line("/sys/fs/cgroup/cpu.max");
  bool bounded = !quota.empty() && !quota.starts_with("max");
  return {"machine", "cores", bounded ? text + ", quota " + quota + " us" : text};
}

/// Version of the kernel's Landlock, 0 for none.
long landlock_version() {
#ifdef SYS_landlock_create_ruleset
  long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
#else
  long version = ::syscall(444, nullptr, 0, 1);
#endif
  return std::max(version, 0L);
}

std::vector<DoctorLine> sandbox() {
  long landlock = landlock_version();
  bool seccomp = !first_line("/proc/sys/kernel/seccomp/actions_avail").empty();
  std::string why = "one layer less around the helper that parses HDF5 files of others";
  return {{"sandbox", "Landlock", landlock > 0 ? "version " + std::to_string(landlock) : "not in this kernel",
           landlock > 0 ? State::good : State::note, landlock > 0 ? "" : why},
          {"sandbox", "seccomp", seccomp ? "available" : "not in this kernel", seccomp ? State::good : State::note,
           seccomp ? "" : why}};
}

/// A folder for one temporary file, until it goes.
class TryFolder {
 public:
  TryFolder() {
    ckpt::detail::Step step;
    if (::mkdtemp(name_.data()) == nullptr) return;
    folder_.emplace(AT_FDCWD, name_);
    file_.emplace(AT_FDCWD, file());
  }
  ~TryFolder() {
    if (is_made()) fs::remove_all(name_, ignored_);
  }
  TryFolder(const TryFolder&) = delete;
  TryFolder& operator=(const TryFolder&) = delete;
  bool is_made() const { return folder_.has_value(); }
  std::string file() const { return name_ + "/try.h5"; }

 private:
  std::error_code ignored_;
  std::string name_ = (fs::temp_directory_path(ignored_) / "ckpt-doctor-XXXXXX").string();
  std::optional<ckpt::detail::PendingFolder> folder_;
  std::optional<ckpt::detail::PendingFile> file_;
};

/// Writes a small plain HDF5 file and reads it back, which only works when the helper does; says what confines it.
DoctorLine hdf5_helper() {
  DoctorLine line{"helpers", "ckpt-hdf5", "", State::missing, "writes .ckpt and .h5, reads .h5 and Keras files"};
  const ckpt::Format* format = ckpt::find_format("hdf5");
  if (format == nullptr || format->write == nullptr) {
    line.value = "not part of this build";
    line.state = State::note;
    return line;
  }
  TryFolder folder;
  if (!folder.is_made()) {
    line.value = "not tried: no temporary folder";
    line.state = State::note;
    return line;
  }
  try {
    ckpt::Dict dict;
    auto entry = std::make_shared<ckpt::Entry>();
    entry->shape = {1};
    entry->bytes = ckpt::memory_source(core::ByteVector(4));
    dict.items.emplace_back(ckpt::Value::text("a"), ckpt::Value::tensor(std::move(entry)));
    ckpt::Checkpoint checkpoint;
    checkpoint.root = ckpt::Value::dict(std::move(dict));
    ckpt::save(checkpoint, folder.file(), {.format = "hdf5", .durable = false});
    ckpt::Report report;
    ckpt::open(folder.file(), {.unsandboxed = true, .report = &report});
    line.value = report.warnings.empty() ? "found and working, confined" : "found and working, not confined";
    line.state = report.warnings.empty() ? State::good : State::note;
    if (!report.warnings.empty()) line.advice = core::join(report.warnings, "; ") + "; --unsandboxed is needed";
  } catch (const core::Error& error) {
    line.value = error.message();
    line.advice =
        "install it beside ckpt, or set CKPT_HDF5_HELPER; without it .ckpt and .h5 files cannot be written, nor .h5 "
        "files read";
  }
  return line;
}

DoctorLine program(const std::string& name, const std::vector<std::string>& words, const std::string& purpose) {
  ProcessResult result = run_process(words);
  std::string said = result.out.substr(0, result.out.find('\n'));
  bool good = result.code == 0;
  return {"helpers", name, good ? (said.empty() ? "found" : said) : "not found", good ? State::good : State::note,
          good ? "" : purpose};
}

DoctorLine runtime() {
  const std::string purpose = "runs models: 'ckpt zoo run' and 'ckpt devices' need it";
  try {
    return program("ckpt-run", {find_runtime_program().string(), "--version"}, purpose);
  } catch (const core::Error&) {
    return {"helpers", "ckpt-run", "not found", State::note, purpose};
  }
}

}  // namespace

std::string_view name(DoctorLine::State state) {
  static constexpr std::string_view kNames[] = {"good", "note", "missing"};
  return kNames[static_cast<std::size_t>(state)];
}

std::vector<DoctorLine> examine_formats() {
  std::vector<DoctorLine> lines;
  for (const ckpt::Format* format : ckpt::formats()) {
    std::string can = format->read != nullptr ? "read" : "";
    if (format->write != nullptr) can += can.empty() ? "write" : ", write";
    std::string extensions;
    for (std::string_view extension : format->extensions) extensions += " " + std::string(extension);
    lines.push_back({"formats", std::string(format->name), can, State::good,
                     std::string(format->title) + (extensions.empty() ? "" : ":" + extensions)});
  }
  return lines;
}

std::vector<DoctorLine> examine_helpers() {
  return {hdf5_helper(), runtime(), program("git", {"git", "--version"}, "only 'ckpt git' needs it")};
}

std::vector<DoctorLine> examine_machine() {
  std::vector<DoctorLine> lines = {memory(), cores()};
  for (DoctorLine& line : sandbox()) lines.push_back(std::move(line));
  return lines;
}

std::vector<DoctorLine> examine_defaults() {
  ckpt::SaveOptions save;
  return {
      {"defaults", "threads (-j)", "one per core", State::good,
       "copying and hashing scale until the disk is the limit"},
      {"defaults", "--max-memory", core::format_size(save.max_memory), State::good,
       "bound of the buffers while writing; larger gains nothing measurable"},
      {"defaults", "--codec", "the format's own choice", State::good,
       ".ckpt packs with zstd where it pays, others are written plain"},
      {"defaults", "durability", "fsync of file and folder", State::good, "a save survives a power cut"},
      {"defaults", "existing output", "refused without -f", State::good, "a checkpoint cannot be had again"},
  };
}

}  // namespace cli
