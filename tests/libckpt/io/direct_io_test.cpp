// Reads and writes past the page cache: the same bytes as through it, whatever the offsets, lengths and failures.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>
#include <thread>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/file_source.h"
#include "libckpt/io/mapped_file.h"
#include "libcore/base/error.h"
#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace test::fault;
using ckpt::AtomicFile;
using ckpt::Io;
using test::read_file;
using test::write_file;

constexpr AtomicFile::Options kDirect = {.io = Io::direct};

std::string random_text(std::size_t size, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(random() >> 32);
  return text;
}

/// Writes that went past the cache, by their flags; the calls are real.
std::atomic<int> direct_writes = 0;
ssize_t counting_pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  direct_writes += (::fcntl(fd, F_GETFL) & O_DIRECT) != 0;
  return ::pwrite(fd, data, size, offset);
}
ssize_t short_pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  return ::pwrite(fd, data, std::min<std::size_t>(size, 4095), offset);
}
ssize_t refusing_pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  if ((::fcntl(fd, F_GETFL) & O_DIRECT) == 0) return ::pwrite(fd, data, size, offset);
  errno = EINVAL;
  return -1;
}
ssize_t full_pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  if (offset < (9 << 20)) return ::pwrite(fd, data, size, offset);
  errno = ENOSPC;
  return -1;
}

/// The first write past the cache is refused while a second is under way, which the system takes once the first has
/// gone through the cache.
std::atomic<int> cached_writes = 0;
ssize_t pwrite_refused_midway(int fd, const void* data, std::size_t size, off_t offset) {
  auto wait_for = [](const std::atomic<int>& count, int least) {
    for (int i = 0; i < 2000 && count < least; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  if ((::fcntl(fd, F_GETFL) & O_DIRECT) == 0) {
    const ssize_t n = ::pwrite(fd, data, size, offset);
    ++cached_writes;
    return n;
  }
  if (direct_writes++ == 0) {
    wait_for(direct_writes, 2);
    errno = EINVAL;
    return -1;
  }
  wait_for(cached_writes, 1);
  return ::pwrite(fd, data, size, offset);
}

ckpt::detail::FileOps with_pwrite(ssize_t (*pwrite)(int, const void*, std::size_t, off_t)) {
  ckpt::detail::FileOps ops = ckpt::detail::system_file_ops();
  ops.pwrite = pwrite;
  return ops;
}

class Ops {
 public:
  explicit Ops(const ckpt::detail::FileOps& ops) : ops_(ops) { ckpt::detail::set_file_ops(ops_); }
  ~Ops() { ckpt::detail::set_file_ops(ckpt::detail::system_file_ops()); }
  Ops(const Ops&) = delete;
  Ops& operator=(const Ops&) = delete;

 private:
  ckpt::detail::FileOps ops_;
};

/// As a writer of a format does: pieces of all sizes, with gaps between some.
void write_like_a_format(const std::filesystem::path& path, const AtomicFile::Options& options, std::size_t size) {
  const std::string text = random_text(size);
  AtomicFile file(path, options);
  std::mt19937 random(7);
  for (std::size_t at = 0; at < size;) {
    const std::size_t most = random() % 3 == 0 ? 9'000'000 : 900;
    const std::size_t step = std::min<std::size_t>(size - at, random() % most);
    file.write(core::as_bytes(text).subspan(at, step));
    at += step;
    if (random() % 50 == 0) file.skip_to(file.position() + random() % 6000);
  }
  file.commit();
}

/// With a thread that writes, and without.
class Direct : public testing::TestWithParam<unsigned> {
 protected:
  static AtomicFile::Options options() { return {.io = Io::direct, .threads = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Threads, Direct, testing::Values(0U, 1U));

TEST_P(Direct, WritesTheBytesThatABufferedFileHas) {
  test::TempDir dir;
  for (std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{4097}, std::size_t{40'000'001}}) {
    write_like_a_format(dir.path() / "plain", {.io = Io::buffered}, size);
    write_like_a_format(dir.path() / "direct", options(), size);
    EXPECT_EQ(read_file(dir.path() / "direct") == read_file(dir.path() / "plain"), true) << size;
  }
}

TEST_P(Direct, GoesPastTheCache) {
  test::TempDir dir;
  const Ops ops(with_pwrite(counting_pwrite));
  direct_writes = 0;
  write_like_a_format(dir.path() / "a", options(), 20'000'000);
  EXPECT_GE(direct_writes, 4);
}

TEST_P(Direct, ShortWritesAndRefusalsEndInTheSameFile) {
  test::TempDir dir;
  write_like_a_format(dir.path() / "plain", {.io = Io::buffered}, 12'000'001);
  for (auto* pwrite : {short_pwrite, refusing_pwrite}) {
    const Ops ops(with_pwrite(pwrite));
    write_like_a_format(dir.path() / "a", options(), 12'000'001);
    EXPECT_EQ(read_file(dir.path() / "a") == read_file(dir.path() / "plain"), true);
  }
}

TEST(DirectWrites, ARefusalIsForGoodWhateverTheOtherThreadWrites) {
  test::TempDir dir;
  const Ops ops(with_pwrite(pwrite_refused_midway));
  direct_writes = 0;
  cached_writes = 0;
  const std::string text = random_text(24 << 20);
  AtomicFile file(dir.path() / "a", kDirect);
  file.write(core::as_bytes(text));
  file.commit();
  EXPECT_LE(direct_writes, 2);
  EXPECT_TRUE(read_file(dir.path() / "a") == text);
}

TEST_P(Direct, AFullDiskIsSaidAndTheOldFileStays) {
  test::TempDir dir;
  write_file(dir.path() / "a", "old");
  const Ops ops(with_pwrite(full_pwrite));
  const std::string error = error_of([&] { write_like_a_format(dir.path() / "a", options(), 40'000'000); });
  EXPECT_NE(error.find("no space left on the device"), std::string::npos) << error;
  EXPECT_EQ(read_file(dir.path() / "a"), "old");
  EXPECT_EQ(test::list_folder(dir.path()), std::vector<std::string>{"a"});
}

TEST_P(Direct, WhatIsWrittenAtAnOffsetOrReadBackIsThere) {
  test::TempDir dir;
  std::string text = random_text(9'000'000);
  AtomicFile file(dir.path() / "a", options());
  file.write(core::as_bytes(text));
  file.write_at(5'000'001, core::as_bytes("patched"));
  core::ByteVector back(3000);
  file.read_at(8'999'000 - 2000, back);
  file.write(core::as_bytes("end"));
  file.commit();
  EXPECT_EQ(core::as_text(back), std::string_view(text).substr(8'997'000, 3000));
  text.replace(5'000'001, 7, "patched");
  EXPECT_EQ(read_file(dir.path() / "a") == text + "end", true);
}

TEST_P(Direct, CopiesFromAFile) {
  test::TempDir dir;
  const std::string text = random_text(30'000'000);
  write_file(dir.path() / "in", text);
  const ckpt::SourcePtr source = ckpt::slice(ckpt::open_file(dir.path() / "in"), 77, 29'999'000);
  AtomicFile file(dir.path() / "out", options());
  file.write(core::as_bytes("head"));
  file.write_from(*source);
  file.commit();
  EXPECT_EQ(read_file(dir.path() / "out") == "head" + text.substr(77, 29'999'000), true);
}

TEST(DirectReads, AreTheBytesOfTheFile) {
  test::TempDir dir;
  const std::string text = random_text(10'000'003);
  write_file(dir.path() / "a", text);
  const ckpt::SourcePtr file = ckpt::open_file(dir.path() / "a");
  ckpt::detail::read_as(*file, Io::direct);
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const std::size_t offset = random() % text.size();
    const std::size_t size = i % 3 == 0 ? text.size() - offset : random() % (text.size() - offset);
    std::string out(size + 1, '?');
    file->read(offset, {reinterpret_cast<std::byte*>(out.data()) + i % 2, size});
    EXPECT_EQ(out.compare(static_cast<std::size_t>(i % 2), size, text, offset, size), 0) << offset << "+" << size;
  }
  ::truncate((dir.path() / "a").c_str(), 5000);
  core::ByteVector rest(20'000);
  EXPECT_NE(error_of([&] { file->read(0, rest); }).find("became shorter"), std::string::npos);
}

TEST(DirectReads, ReachMemoryThatIsAlignedInAnyWay) {
  test::TempDir dir;
  const std::string text = random_text(9'000'001);
  write_file(dir.path() / "a", text);
  const ckpt::SourcePtr file = ckpt::open_file(dir.path() / "a");
  ckpt::detail::read_as(*file, Io::direct);
  constexpr std::size_t kAround = 64;
  std::string memory(text.size() + 20'000, '?');
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const std::size_t longest = std::size_t{1} << (12 + i % 12);  // 4 KiB to 8 MiB
    const std::size_t offset = i % 5 == 0 ? random() % 9 * 4096 : random() % (text.size() - longest);
    const std::size_t size = longest - random() % 4000;
    const std::size_t at = kAround + (i % 7 == 0 ? offset % 4096 : random() % 5000);
    std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(at - kAround), size + 2 * kAround, '?');
    file->read(offset, {reinterpret_cast<std::byte*>(memory.data()) + at, size});
    ASSERT_EQ(memory.compare(at, size, text, offset, size), 0) << offset << "+" << size << " to " << at;
    ASSERT_EQ(memory.substr(at - kAround, kAround), std::string(kAround, '?'));
    ASSERT_EQ(memory.substr(at + size, kAround), std::string(kAround, '?'));
  }
}

/// On others, such as tmpfs, a file may be nowhere but in memory.
bool is_past_the_cache(const std::filesystem::path& folder) {
  const ckpt::detail::Fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return ckpt::detail::gains_from_direct(opened.get());
}

/// What of a file is in memory, in pages.
std::size_t pages_in_memory(const std::filesystem::path& path) {
  const std::size_t size = std::filesystem::file_size(path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages((size + 4095) / 4096);
  EXPECT_EQ(::mincore(memory, size, pages.data()), 0);
  ::munmap(memory, size);
  ::close(fd);
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(DirectReads, LeaveTheCacheAlone) {
  test::TempDir dir;
  if (!is_past_the_cache(dir.path())) GTEST_SKIP() << "temporary files lie neither on ext4 nor on XFS or F2FS";
  AtomicFile file(dir.path() / "a", kDirect);
  file.write(core::as_bytes(random_text(8 << 20)));
  file.commit();
  const ckpt::SourcePtr source = ckpt::open_file(dir.path() / "a");
  ckpt::detail::read_as(*source, Io::direct);
  ckpt::read_all(*source);
  EXPECT_LT(pages_in_memory(dir.path() / "a"), 100U);
  ckpt::detail::read_as(*source, Io::buffered);
  ckpt::read_all(*source);
  EXPECT_GT(pages_in_memory(dir.path() / "a"), 2000U);
}

/// Linux 6.5 and later say how much of a file is in memory (cachestat(2)); Valgrind does not.
bool system_knows_cold_files() {
  return ::syscall(451, -1, nullptr, nullptr, 0) == 0 || errno != ENOSYS;
}

TEST(WaitsForDisk, AsLittleOfTheFileIsInMemory) {
  test::TempDir dir;
  if (!system_knows_cold_files()) GTEST_SKIP() << "the system does not say what is in memory";
  if (!is_past_the_cache(dir.path())) GTEST_SKIP() << "temporary files lie neither on ext4 nor on XFS or F2FS";
  const auto path = dir.path() / "a";
  write_file(path, "");
  std::filesystem::resize_file(path, ckpt::detail::kDirectFrom);
  const ckpt::SourcePtr cold = ckpt::open_file(path);
  EXPECT_TRUE(ckpt::detail::was_on_disk(*cold));
  EXPECT_TRUE(ckpt::detail::waits_for_disk(*ckpt::slice(cold, 5, 1'000'000)));
  ckpt::detail::read_as(*cold, Io::buffered);
  EXPECT_FALSE(ckpt::detail::waits_for_disk(*cold));
  ckpt::read_all(*cold);
  EXPECT_TRUE(ckpt::detail::was_on_disk(*cold)) << "what was read since is of no account";
  EXPECT_FALSE(ckpt::detail::was_on_disk(*ckpt::open_file(path)));
  EXPECT_FALSE(ckpt::detail::waits_for_disk(*ckpt::memory_source(core::ByteVector(8))));
}

TEST(WaitsForDisk, OfWhatIsMadeOfAFileToo) {
  test::TempDir dir;
  write_file(dir.path() / "a", random_text(100'000));
  const ckpt::SourcePtr file = ckpt::open_file(dir.path() / "a");
  const auto checked = ckpt::checked(ckpt::slice(file, 100, 50'000), std::uint32_t{0}, {.subject = "it is damaged"});
  EXPECT_FALSE(ckpt::detail::waits_for_disk(*checked)) << "a small file";
  ckpt::detail::read_as(*file, Io::direct);
  EXPECT_TRUE(ckpt::detail::waits_for_disk(*checked));
}

/// Where the first bytes of a large file are in memory, those behind them are read past the cache all the same.
TEST(DirectReads, GoOnPastTheCacheWhereTheFileBegan) {
  test::TempDir dir;
  if (!system_knows_cold_files()) GTEST_SKIP() << "the system does not say what is in memory";
  if (!is_past_the_cache(dir.path())) GTEST_SKIP() << "temporary files lie neither on ext4 nor on XFS or F2FS";
  const auto path = dir.path() / "a";
  write_file(path, "");
  std::filesystem::resize_file(path, ckpt::detail::kDirectFrom);
  core::ByteVector bytes(1 << 20);
  const ckpt::SourcePtr before = ckpt::open_file(path);
  ckpt::detail::read_as(*before, Io::buffered);
  before->read(0, bytes);
  const ckpt::SourcePtr file = ckpt::open_file(path);
  const std::size_t pages = pages_in_memory(path);
  for (std::uint64_t at = 0; at < ckpt::detail::kDirectFrom; at += bytes.size()) file->read(at, bytes);
  EXPECT_LT(pages_in_memory(path), pages + 100);
}

TEST(Mapped, HasTheBytesInMemoryAndReadsLikeAnyFile) {
  test::TempDir dir;
  write_file(dir.path() / "a", "0123456789");
  write_file(dir.path() / "empty", "");
  for (auto residency : {ckpt::Residency::mapped, ckpt::Residency::resident}) {
    const auto file = ckpt::detail::reached(ckpt::open_file(dir.path() / "a"), Io::automatic, residency);
    EXPECT_EQ(core::as_text(file->memory()), "0123456789");
    EXPECT_EQ(core::as_text(ckpt::slice(file, 3, 4)->memory()), "3456");
    EXPECT_EQ(core::as_text(ckpt::read_all(*file)), "0123456789");
    EXPECT_EQ(file->file_range()->length, 10U);
    EXPECT_EQ(ckpt::detail::reached(ckpt::open_file(dir.path() / "empty"), Io::automatic, residency)->size(), 0U);
  }
}

TEST(CheckedInSteps, FindDamageWhereverItIs) {
  std::string text = random_text(3'000'000);
  const std::uint32_t crc = ckpt::crc32(core::as_bytes(text));
  auto source_of = [&] {
    return ckpt::checked(ckpt::memory_source({core::as_bytes(text).begin(), core::as_bytes(text).end()}), crc,
                         {.subject = "it is damaged"});
  };
  core::ByteVector out(text.size());
  source_of()->read(0, out);
  EXPECT_EQ(core::as_text(out) == text, true);
  text[2'999'999] ^= 1;
  EXPECT_THROW(source_of()->read(0, out), core::Error);
  EXPECT_THROW(
      {
        const ckpt::SourcePtr late = source_of();
        late->read(1'000'000, core::MutableBytes(out).subspan(1'000'000));
        late->read(0, core::MutableBytes(out).first(1'000'000));
        late->require_unchanged();
      },
      core::Error);
}

}  // namespace
