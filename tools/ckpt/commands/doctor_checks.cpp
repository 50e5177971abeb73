#include "tools/ckpt/commands/doctor_checks.h"

#include <fcntl.h>
#include <sched.h>
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
#include "tools/ckpt/commands/process.h"
#include "tools/ckpt/commands/runtime_program.h"

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

/// What holds the helper while it reads a file of others. `refused`: one sentence of the reader for each layer that the
/// system refuses; nullopt where the helper could not be tried.
std::vector<DoctorLine> sandbox(const std::optional<std::vector<std::string>>& refused) {
  std::vector<DoctorLine> lines;
  for (const char* layer : {"Landlock", "seccomp", "setrlimit"}) {
    DoctorLine line{"sandbox", layer, "holds while HDF5 files are read"};
    if (!refused) {
      line = {"sandbox", layer, "not tried: there is no HDF5 helper", State::note};
    } else {
      for (const std::string& text : *refused) {
        if (text.find(layer) == std::string::npos) continue;
        line = {"sandbox", layer, "refused by this system", State::note,
                "HDF5 files of other programs are read with --unsandboxed alone"};
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

/// Writes a small plain HDF5 file and reads it back, which only works when the helper does. Returns what confines it.
std::optional<std::vector<std::string>> try_helper(const std::string& file) {
  ckpt::Dict dict;
  auto entry = std::make_shared<ckpt::Entry>();
  entry->shape = {1};
  entry->bytes = ckpt::memory_source(core::ByteVector(4));
  dict.items.emplace_back(ckpt::Value::text("a"), ckpt::Value::tensor(std::move(entry)));
  ckpt::Checkpoint checkpoint;
  checkpoint.root = ckpt::Value::dict(std::move(dict));
  ckpt::save(checkpoint, file, {.format = "hdf5", .durable = false});
  ckpt::Report report;
  ckpt::open(file, {.unsandboxed = true, .report = &report});
  return report.warnings;
}

std::vector<DoctorLine> hdf5_helper() {
  DoctorLine line{"helpers", "ckpt-hdf5", "", State::missing, "writes .ckpt and .h5, reads .h5 and Keras files"};
  std::optional<std::vector<std::string>> refused;
  const ckpt::Format* format = ckpt::find_format("hdf5");
  TryFolder folder;
  if (format == nullptr || format->write == nullptr) {
    line.value = "not part of this build";
    line.state = State::note;
  } else if (!folder.is_made()) {
    line.value = "not tried: no temporary folder";
    line.state = State::note;
  } else {
    try {
      refused = try_helper(folder.file());
      line.value = refused->empty() ? "found and working, confined" : "found and working, not confined";
      line.state = refused->empty() ? State::good : State::note;
    } catch (const core::Error& error) {
      line.value = error.message();
      line.advice =
          "install it beside ckpt, or set CKPT_HDF5_HELPER; without it .ckpt and .h5 files cannot be written, nor .h5 "
          "files read";
    }
  }
  std::vector<DoctorLine> lines = {std::move(line)};
  for (DoctorLine& layer : sandbox(refused)) lines.push_back(std::move(layer));
  return lines;
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
  std::vector<DoctorLine> lines = {runtime(), program("git", {"git", "--version"}, "only 'ckpt git' needs it")};
  std::vector<DoctorLine> hdf5 = hdf5_helper();
  lines.insert(lines.begin(), hdf5.front());
  lines.insert(lines.end(), hdf5.begin() + 1, hdf5.end());
  return lines;
}

std::vector<DoctorLine> examine_machine() {
  return {memory(), cores()};
}

std::vector<DoctorLine> examine_defaults() {
  ckpt::SaveOptions save;
  return {
      {"defaults", "threads (-j)", "one per core", State::good,
       "for hashing, statistics, comparing and compressing; a copy takes one"},
      {"defaults", "--max-memory", core::format_size(save.max_memory), State::good,
       "for tensors on their way between files, of any format; a plain copy needs a few MiB"},
      {"defaults", "--codec", "the format's own choice", State::good,
       ".ckpt packs with zstd where it pays, others are written plain"},
      {"defaults", "durability", "fsync of file and folder", State::good,
       "a save survives a power cut where the disk keeps what it has synced"},
      {"defaults", "existing output", "refused without -f", State::good, "a checkpoint cannot be had again"},
  };
}

}  // namespace cli
