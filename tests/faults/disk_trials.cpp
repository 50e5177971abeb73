// Real disks: small ones that are full at every page, and file systems in an image that is copied at every call.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "libcore/base/error.h"
#include "tests/faults/failing_calls.h"
#include "tests/faults/trials.h"
#include "tests/faults/verdict.h"

namespace test::faults {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;

/// Something mounted as long as this lives.
class Mount {
 public:
  explicit Mount(fs::path at) : at_(std::move(at)) {}
  ~Mount() {
    if (::umount2(at_.c_str(), 0) != 0) ::umount2(at_.c_str(), MNT_DETACH);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  const fs::path& at() const { return at_; }

 private:
  fs::path at_;
};

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

bool mount_small(const fs::path& at, const std::string& limits) {
  fs::create_directories(at);
  return ::mount("tmpfs", at.c_str(), "tmpfs", 0, limits.c_str()) == 0;
}

std::size_t pages_of(const Folder& folder) {
  std::size_t pages = 0;
  for (const auto& [name, content] : folder) pages += (content->size() + kPage - 1) / kPage;
  return pages;
}

/// One save on a disk of so many pages or files. False when the files before do not fit or disks cannot be mounted.
bool try_small_disk(const Setup& setup, Judge& judge, const std::string& limits, Tally& tally) {
  const Operation& operation = judge.operation();
  if (!mount_small(setup.scratch / "small", limits)) return false;
  Mount disk(setup.scratch / "small");
  try {
    write_folder(disk.at(), start_of(operation));
  } catch (const std::runtime_error&) {
    return true;
  }
  Claim claim = Claim::success;
  std::string said;
  try {
    operation.run(disk.at());
  } catch (const core::Error& error) {
    claim = Claim::failure;
    said = error.what();
  }
  tally.add_point(operation.group, "full disk");
  Folder state = read_folder(disk.at());
  std::string wrong = judge.verdict(state, claim);
  for (const std::string& name : judge.leftovers(state)) {
    // A recovery that failed leaves the record from which the next one recovers.
    bool still_needed = claim == Claim::failure && operation.left_over.count(name) > 0;
    if (wrong.empty() && !still_needed) wrong = "left behind: " + name;
  }
  if (!said.empty() && said.find("no space left") == std::string::npos) wrong = "it said: " + said;
  if (!wrong.empty()) tally.add_violation(operation.group, "full disk", operation.name + ", " + limits + ": " + wrong);
  return true;
}

struct FileSystem {
  const char* name;
  const char* size;
  const char* make;
};

constexpr FileSystem kFileSystems[] = {
    {"ext4", "32M", "mkfs.ext4 -q -F"},
    {"xfs", "300M", "mkfs.xfs -q"},
    {"btrfs", "128M", "mkfs.btrfs -q"},
};

/// Mounts the image; false when that cannot be done here.
bool mount_image(const fs::path& image, const fs::path& at) {
  fs::create_directories(at);
  return runs("mount -o loop " + image.string() + " " + at.string());
}

/// The operation in a child that stops before each of its calls; `at_stop` runs then, and once more after its end.
/// Returns whether the operation ended by itself with success.
bool run_in_steps(const Operation& operation, const fs::path& folder, const std::function<void()>& at_stop) {
  pid_t child = ::fork();
  if (child == 0) {
    try {
      FailingCalls calls({.before_each = [](const Call&) { ::raise(SIGSTOP); }});
      operation.run(folder);
    } catch (...) {
      ::_exit(9);
    }
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status)) {
    at_stop();
    ::kill(child, SIGCONT);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct ImageTrial {
  const Setup& setup;
  const FileSystem& file_system;
  Tally& tally;
  Judge judge;
  fs::path image = setup.scratch / "disk.image";
  unsigned copies = 0;

  fs::path copy_path(unsigned number) const { return setup.scratch / ("copy" + std::to_string(number) + ".image"); }

  void copy() {
    std::string to = copy_path(copies++).string();
    if (!runs("cp --sparse=always " + image.string() + " " + to)) throw std::runtime_error("cannot copy an image");
  }

  /// Copies the image before each call, and once the operation has reported success. False when such images cannot be
  /// made or mounted here.
  bool take_copies() {
    const Operation& operation = judge.operation();
    std::string made = "rm -f " + image.string() + " && truncate -s " + file_system.size + " " + image.string() +
                       " && " + file_system.make + " " + image.string();
    if (!runs(made) || !mount_image(image, setup.scratch / "mounted")) return false;
    Mount mounted(setup.scratch / "mounted");
    write_folder(mounted.at() / "work", start_of(operation));
    ::sync();
    if (!run_in_steps(operation, mounted.at() / "work", [&] { copy(); })) {
      throw std::runtime_error(operation.name + ": fails on " + file_system.name);
    }
    copy();
    return true;
  }

  /// Once the image is no longer mounted: no two file systems of one identity at a time.
  void look_at_copies() {
    const Operation& operation = judge.operation();
    const std::string faults = "image copy on " + std::string(file_system.name);
    for (unsigned i = 0; i < copies; ++i) {
      tally.add_point(operation.group, faults);
      std::string wrong = "the copy cannot be mounted";
      if (mount_image(copy_path(i), setup.scratch / "after_cut")) {
        Mount mounted(setup.scratch / "after_cut");
        wrong = judge.verdict(read_folder(mounted.at() / "work"), i + 1 == copies ? Claim::success : Claim::none);
      }
      if (!wrong.empty()) {
        std::string place = operation.name + ", moment " + std::to_string(i) + " of " + std::to_string(copies - 1);
        tally.add_violation(operation.group, faults, place + ": " + wrong);
      }
      fs::remove(copy_path(i));
    }
  }
};

}  // namespace

void try_small_disks(const Setup& setup, const Operation& operation, Tally& tally) {
  Judge judge(operation, setup.scratch / "judged");
  std::size_t first = pages_of(operation.before);
  std::size_t last = first + 2 * pages_of(judge.after()) + 8;
  for (std::size_t pages = std::max<std::size_t>(first, 1); pages <= last; ++pages) {
    if (!try_small_disk(setup, judge, "size=" + std::to_string(pages * kPage), tally)) {
      return tally.note("full disk: not run, small disks cannot be mounted here (it needs root)");
    }
  }
  for (std::size_t files = operation.before.size() + 1; files <= operation.before.size() + 16; ++files) {
    try_small_disk(setup, judge, "nr_inodes=" + std::to_string(files), tally);
  }
}

void try_image_cuts(const Setup& setup, const Operation& operation, Tally& tally) {
  for (const FileSystem& file_system : kFileSystems) {
    ImageTrial trial{setup, file_system, tally, Judge(operation, setup.scratch / "judged")};
    if (trial.take_copies()) {
      trial.look_at_copies();
    } else {
      tally.note("image copy on " + std::string(file_system.name) +
                 ": not run, no such image can be made and mounted here (it needs root, loop devices, " +
                 file_system.make + ")");
    }
  }
}

}  // namespace test::faults
