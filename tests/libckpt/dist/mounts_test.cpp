// Saves by ranks onto real disks that are full, and into a folder that one rank does not see: this program starts
// itself as the ranks, in a mount namespace of its own.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libckpt/ckpt.h"
#include "libckpt/dist.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/dist/ranks.h"
#include "tests/support/temp_dir.h"

namespace {

namespace dist = core::distributed;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// Mounts of this process and its children alone. Empty: they are; else why they cannot be.
std::string leave_common_mounts() {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return std::string("no mounts of its own: ") + std::strerror(errno);
  }
  return "";
}

/// This rank's rows of a matrix of `mib` MiB, all of one number; of a layout of whole tensors all rows.
core::StateDict rows_of(int mib, double number, const std::string& layout, ckpt::dist::Pieces& pieces) {
  const core::Shape whole{std::int64_t{mib} * 4096, 64};
  const ckpt::dist::Piece piece = ckpt::dist::shard(whole, 0, dist::get_rank(), dist::get_world_size());
  const bool has_pieces = layout != "safetensors";
  core::StateDict state;
  state.set("weight", core::full(has_pieces ? piece.sizes : whole, number));
  state.set("bias", core::full({16}, number));
  if (has_pieces) pieces.emplace("weight", piece);
  return state;
}

void save_rows(const fs::path& path, const std::string& layout, int mib, double number, bool in_background) {
  ckpt::dist::SaveOptions options;
  const core::StateDict state = rows_of(mib, number, layout, options.pieces);
  options.layout = layout;
  options.overwrite = true;
  if (!in_background) {
    ckpt::dist::save(state, path, options);
    return;
  }
  options.group = dist::new_group();
  ckpt::dist::save_async(state, path, options).wait();
}

void load_rows(const fs::path& path, const std::string& layout, int mib) {
  ckpt::dist::Pieces pieces;
  core::StateDict state = rows_of(mib, 0, layout, pieces);
  ckpt::dist::load_into(state, path, pieces);
}

/// What the call says when it fails.
void say_error(const std::function<void()>& call) {
  try {
    call();
    test::say("no error");
  } catch (const core::Error& error) {
    test::say(error.what());
  }
}

/// Rank 1 has an empty folder in the place of that of the others.
void take_another_folder(const fs::path& folder) {
  if (std::getenv("RANK") != std::string("1")) return;
  const std::string why = leave_common_mounts();
  if (!why.empty() || ::mount("none", folder.c_str(), "tmpfs", 0, nullptr) != 0) throw std::runtime_error("no mount");
}

int run_rank(int argc, char** argv) {
  const std::string role = test::rank_role(argc, argv);
  const fs::path path = test::rank_argument(argc, argv, 0);
  const std::string layout = test::rank_argument(argc, argv, 1);
  const int mib = std::atoi(test::rank_argument(argc, argv, 2).c_str());
  return dist::run_main([&] {
    if (role == "unseen") take_another_folder(path.parent_path());
    dist::init_process_group({.timeout = std::chrono::seconds(60)});
    if (role == "old") save_rows(path, layout, mib, 1, false);
    if (role == "new") say_error([&] { save_rows(path, layout, mib, 2, false); });
    if (role == "new behind") say_error([&] { save_rows(path, layout, mib, 2, true); });
    if (role == "unseen") {
      say_error([&] { save_rows(path, layout, mib, 2, false); });
      say_error([&] { save_rows(path, layout, mib, 2, true); });
      say_error([&] { load_rows(path, layout, mib); });
      dist::barrier();
      const auto there = fs::directory_iterator(path.parent_path());
      test::say(std::to_string(std::distance(begin(there), end(there))));
    }
    return 0;
  });
}

std::vector<test::Ending> run(const std::string& role, const fs::path& path, const std::string& layout, int mib) {
  return test::run_ranks({.role = role,
                          .arguments = {path.string(), layout, std::to_string(mib)},
                          .size = 3,
                          .limit = std::chrono::seconds(90),
                          .backend = "gloo"});
}

/// The first and the last number of what is there.
std::string numbers_in(const fs::path& path) {
  const ckpt::Checkpoint saved = ckpt::open(path);
  std::string text;
  for (const char* name : {"weight", "bias"}) {
    const core::ByteVector bytes = ckpt::read_all(*saved.root.find(name)->as_entry().bytes);
    float first = 0;
    float last = 0;
    std::memcpy(&first, bytes.data(), sizeof first);
    std::memcpy(&last, bytes.data() + bytes.size() - sizeof last, sizeof last);
    text += std::to_string(static_cast<int>(first)) + std::to_string(static_cast<int>(last));
  }
  return text;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != "lost+found") names.push_back(entry.path().filename().string());
  }
  return names;
}

/// A disk of 16 MiB.
class Disk {
 public:
  Disk(const std::string& kind, const fs::path& folder) : folder_(folder / "disk") {
    fs::create_directory(folder_);
    if (kind == "tmpfs") {
      is_mounted_ = ::mount("none", folder_.c_str(), "tmpfs", 0, "size=16m") == 0;
      return;
    }
    const std::string image = folder / "image";
    is_mounted_ = std::system(("truncate -s 16M " + image + " && mkfs.ext4 -q -m 0 " + image + " && mount -o loop " +
                               image + " " + folder_.string() + " 2>/dev/null")
                                  .c_str()) == 0;
  }
  ~Disk() {
    if (is_mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  bool is_mounted() const { return is_mounted_; }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
  bool is_mounted_ = false;
};

class Mounts : public testing::Test {
 protected:
  void SetUp() override {
    if (!dist::is_gloo_available()) GTEST_SKIP() << "no Gloo";
    static const std::string why = leave_common_mounts();
    if (!why.empty()) GTEST_SKIP() << why;
  }
};
class FullDisk : public Mounts, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, FullDisk, testing::Values("tmpfs", "ext4"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(FullDisk, IsTheSameErrorOnAllRanksAndTheOldFolderStays) {
  for (const char* layout : {"dcp", "native", "safetensors"}) {
    const test::TempDir dir;
    const Disk disk(GetParam(), dir.path());
    if (!disk.is_mounted()) GTEST_SKIP() << "no disk of this kind can be mounted";
    const fs::path path = disk.folder() / "run";
    for (const test::Ending& ending : run("old", path, layout, 2)) EXPECT_EQ(ending.status, 0) << ending.errors;
    for (const char* role : {"new", "new behind"}) {
      const std::vector<test::Ending> endings = run(role, path, layout, 24);
      for (const test::Ending& ending : endings) {
        EXPECT_EQ(ending.status, 0) << ending.errors;
        EXPECT_EQ(ending.report, endings[0].report) << layout << " " << role;
        EXPECT_THAT(ending.report,
                    AllOf(HasSubstr(path.string() + ": rank "), HasSubstr("no space left on the device")));
      }
      EXPECT_EQ(names_in(disk.folder()), std::vector<std::string>{"run"}) << layout << " " << role;
      EXPECT_EQ(numbers_in(path), "1111") << layout << " " << role;
    }
    for (const test::Ending& ending : run("new", path, layout, 3)) EXPECT_EQ(ending.report, "no error\n");
    EXPECT_EQ(names_in(disk.folder()), std::vector<std::string>{"run"});
    EXPECT_EQ(numbers_in(path), "2222") << layout;
  }
}

/// Takes all but `kib` KiB.
void fill(const fs::path& disk, std::int64_t kib) {
  fs::remove(disk / "filler");
  struct statvfs facts {};
  ::statvfs(disk.c_str(), &facts);
  const auto free = static_cast<std::int64_t>(facts.f_bavail * facts.f_bsize) - kib * 1024;
  const int file = ::open((disk / "filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::posix_fallocate(file, 0, free) != 0) throw std::runtime_error("cannot fill the disk");
  ::close(file);
}

/// There is room for some files of a save, and not for others: at last for all.
TEST_F(Mounts, ADiskThatIsFullAtAnyPlaceOfASaveIsTheSameErrorOnAll) {
  constexpr std::int64_t kData = 3072;
  constexpr std::int64_t kTooLittle = 900;  // for the part of any rank
  for (const char* layout : {"dcp", "native", "safetensors"}) {
    const test::TempDir dir;
    const Disk disk("tmpfs", dir.path());
    if (!disk.is_mounted()) GTEST_SKIP() << "no tmpfs can be mounted";
    const fs::path path = disk.folder() / "run";
    for (const test::Ending& ending : run("old", path, layout, 1)) EXPECT_EQ(ending.status, 0) << ending.errors;
    int errors = 0;
    // A rank may be through with its file, which is smaller then than what was reserved for it, before another begins.
    for (std::int64_t kib = kTooLittle; kib < kData + 200; kib = std::max(kib + 4, kData - 8)) {
      fill(disk.folder(), kib);
      const std::vector<test::Ending> endings = run("new", path, layout, kData / 1024);
      for (const test::Ending& ending : endings) EXPECT_EQ(ending.report, endings[0].report) << layout << " " << kib;
      EXPECT_THAT(names_in(disk.folder()), testing::UnorderedElementsAre("run", "filler")) << layout << " " << kib;
      const bool is_saved = endings[0].report == "no error\n";
      EXPECT_EQ(numbers_in(path), is_saved ? "2222" : "1111") << layout << " " << kib;
      if (is_saved) break;
      EXPECT_THAT(endings[0].report, HasSubstr("no space left on the device")) << layout << " " << kib;
      ++errors;
    }
    EXPECT_GE(errors, 1) << layout;
    EXPECT_EQ(numbers_in(path), "2222") << layout;
  }
}

TEST_F(Mounts, AFolderThatOneRankDoesNotSeeIsTheSameErrorOnAll) {
  for (const char* layout : {"dcp", "native", "safetensors"}) {
    const test::TempDir dir;
    const fs::path path = dir.path() / "shared" / "run";
    fs::create_directory(path.parent_path());
    for (const test::Ending& ending : run("old", path, layout, 1)) EXPECT_EQ(ending.status, 0) << ending.errors;
    const std::vector<test::Ending> endings = run("unseen", path, layout, 1);
    const std::string pattern =
        path.string() +
        ": rank 1: does not see [^\n]*/shared/\\.?run[^\n]* on [^\n]*, which rank 0 has made: is "
        "it on a shared file system\\?\n";
    for (std::size_t rank = 0; rank < endings.size(); ++rank) {
      EXPECT_EQ(endings[rank].status, 0) << endings[rank].errors;
      const std::string ours = rank == 1 ? "0\n" : "1\n";  // what is in the folder that this rank sees
      EXPECT_THAT(endings[rank].report, testing::MatchesRegex(pattern + pattern + "[^\n]*rank 1: [^\n]*\n" + ours));
      EXPECT_EQ(endings[rank].report.substr(0, endings[rank].report.size() - 2),
                endings[0].report.substr(0, endings[0].report.size() - 2));
    }
    EXPECT_EQ(names_in(path.parent_path()), std::vector<std::string>{"run"});
    EXPECT_EQ(numbers_in(path), "1111");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!test::rank_role(argc, argv).empty()) return run_rank(argc, argv);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
