// A file that is written to while it is read must never become an output or an answer that mixes old and new bytes.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "libckpt/analyze/diff.h"
#include "libckpt/analyze/digest.h"
#include "libckpt/analyze/stats.h"
#include "libckpt/format/format.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/compact.h"
#include "libckpt/transform/publish.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

using ckpt::Checkpoint;
using ckpt::SourcePtr;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

/// Zeros that count as changed as soon as they were read: only who asks afterwards hears of it.
class ChangingSource final : public ckpt::ByteSource {
 public:
  explicit ChangingSource(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t /*offset*/, ckpt::MutableBytes out) const override {
    std::fill(out.begin(), out.end(), std::byte{0});
    read_ = true;
  }
  void require_unchanged() const override {
    if (read_) throw core::Error(core::ErrorCode::io, "the file was changed by another program");
  }

 private:
  std::uint64_t size_;
  mutable std::atomic<bool> read_ = false;
};

ckpt::Value changing_tensor(std::int64_t count, bool negative = false) {
  ckpt::Entry entry;
  entry.shape = core::Shape{count};
  entry.bytes = std::make_shared<ChangingSource>(static_cast<std::uint64_t>(count) * 4);
  entry.negative = negative;
  return ckpt::Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

/// Every way in which readers and writers go about a tensor: at once, in pieces.
const std::vector<std::int64_t> kCounts = {5, 40'000, 3'000'000};
const std::vector<std::string> kTargets = {"out.ckpt", "out.h5", "out.pth", "out.safetensors", "out.npz", "out.gguf"};

void expect_changed(const std::function<void()>& work, const std::string& what) {
  try {
    work();
    ADD_FAILURE() << what << " took what was changed while it was read";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::io) << what << ": " << error.what();
    EXPECT_THAT(error.what(), HasSubstr("was changed by another program")) << what;
  }
}

constexpr std::int64_t kElements = 2'500'000;  // several pieces of every reader

/// Three tensors of ten megabytes.
void write_three(const std::filesystem::path& path, float value) {
  std::vector<float> values(kElements, value);
  ckpt::save(checkpoint(dict({{"a", tensor(values)}, {"b", tensor(values)}, {"c", tensor(values)}})), path,
             {.durable = false, .codec = ckpt::Codec::none});
  // The clock of file times moves in steps of a few milliseconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

/// Changes one byte in the middle of a file when it is called first, as a training program that saves in place would.
class Writer {
 public:
  explicit Writer(std::filesystem::path path) : path_(std::move(path)) {}
  void operator()() {
    if (done_.exchange(true)) return;
    int fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    auto middle = static_cast<off_t>(std::filesystem::file_size(path_) / 2);
    ASSERT_EQ(::pwrite(fd, "\x7f", 1, middle), 1);
    ::close(fd);
  }

 private:
  std::filesystem::path path_;
  std::atomic<bool> done_ = false;
};

ckpt::Progress on_progress(Writer& writer) {
  return [&writer](std::uint64_t, std::uint64_t) { writer(); };
}

}  // namespace

TEST(ChangedSource, NoFormatIsWrittenFromATensorThatChangedMeanwhile) {
  for (const std::string& target : kTargets) {
    for (std::int64_t count : kCounts) {
      for (ckpt::Codec codec : {ckpt::Codec::none, ckpt::Codec::automatic}) {
        TempDir dir;
        Checkpoint c = checkpoint(dict({{"w", changing_tensor(count)}}));
        ckpt::SaveOptions options{.durable = false, .codec = codec, .threads = 2};
        expect_changed([&] { ckpt::save(c, dir.path() / target, options); }, target + " " + std::to_string(count));
        EXPECT_THAT(list_folder(dir.path()), ElementsAre()) << target;
      }
    }
  }
}

TEST(ChangedSource, NoAnswerIsGivenOfATensorThatChangedMeanwhile) {
  for (std::int64_t count : kCounts) {
    for (bool negative : {false, true}) {
      auto fresh = [&] { return checkpoint(dict({{"w", changing_tensor(count, negative)}})); };
      std::vector<float> zeros(static_cast<std::size_t>(count));
      Checkpoint still = checkpoint(dict({{"w", tensor(zeros)}}));
      std::string size = " of " + std::to_string(count);
      expect_changed([&] { ckpt::stats(ckpt::list_entries(fresh().root)); }, "stats" + size);
      expect_changed([&] { ckpt::digest(fresh().root); }, "digest" + size);
      expect_changed([&] { ckpt::diff(fresh(), still); }, "diff, first side" + size);
      expect_changed([&] { ckpt::diff(still, fresh()); }, "diff, second side" + size);
      Checkpoint twins = checkpoint(dict({{"v", changing_tensor(count)}, {"w", changing_tensor(count)}}));
      expect_changed([&] { ckpt::compact(twins, {.dedupe = true}); }, "dedupe" + size);
      ckpt::Publication publication;
      publication.checkpoint = publication.uncast = fresh();
      expect_changed([&] { ckpt::find_non_finite(publication); }, "publish" + size);
    }
  }
}

TEST(ChangedSource, AFileThatIsWrittenToDuringAConversionGivesNoOutput) {
  for (const char* source : {"in.pth", "in.safetensors", "in.ckpt"}) {
    for (const std::string& target : kTargets) {
      // All data lie as they lay: one copy inside the system, behind which nothing is read any more.
      if (std::string(source) == "in.safetensors" && target == "out.safetensors") continue;
      TempDir dir;
      write_three(dir.path() / source, 1);
      Writer writer(dir.path() / source);
      Checkpoint c = ckpt::open(dir.path() / source);
      ckpt::SaveOptions options{.durable = false, .threads = 1, .progress = on_progress(writer)};
      expect_changed([&] { ckpt::save(c, dir.path() / target, options); }, std::string(source) + " to " + target);
      EXPECT_THAT(list_folder(dir.path()), ElementsAre(source)) << target;
    }
  }
}

TEST(ChangedSource, AFileThatIsWrittenToWhileItIsLookedAtGivesNoAnswer) {
  for (const char* name : {"in.pth", "in.safetensors", "in.ckpt", "in.h5"}) {
    TempDir dir;
    auto each = [&](const std::string& what, const std::function<void(const Checkpoint&, ckpt::Progress)>& look) {
      write_three(dir.path() / name, 1);
      Writer writer(dir.path() / name);
      Checkpoint c = ckpt::open(dir.path() / name);
      expect_changed([&] { look(c, on_progress(writer)); }, what + " of " + name);
    };
    each("stats", [](const Checkpoint& c, ckpt::Progress progress) {
      ckpt::stats(ckpt::list_entries(c.root), {.threads = 1, .progress = std::move(progress)});
    });
    each("digest", [](const Checkpoint& c, ckpt::Progress progress) {
      ckpt::digest(c.root, {.threads = 1, .progress = std::move(progress)});
    });
    std::vector<float> ones(kElements, 1);
    Checkpoint still = checkpoint(dict({{"a", tensor(ones)}, {"b", tensor(ones)}, {"c", tensor(ones)}}));
    each("diff", [&](const Checkpoint& c, ckpt::Progress progress) {
      ckpt::diff(still, c, {.threads = 1, .progress = std::move(progress)});
    });
    each("verify", [&](const Checkpoint& c, ckpt::Progress progress) {
      ckpt::verify(c.path, {.threads = 1}, std::move(progress));
    });
  }
}

TEST(ChangedSource, AFileThatIsReplacedOrMovedWhileItIsOpenIsReadAsItWas) {
  TempDir dir;
  write_three(dir.path() / "in.pth", 1);
  write_three(dir.path() / "new.pth", 2);
  Checkpoint c = ckpt::open(dir.path() / "in.pth");
  std::string before = ckpt::to_hex(ckpt::digest(c.root).model);
  std::filesystem::rename(dir.path() / "new.pth", dir.path() / "in.pth");
  EXPECT_EQ(ckpt::to_hex(ckpt::digest(c.root).model), before);
  Checkpoint second = ckpt::open(dir.path() / "in.pth");
  std::filesystem::rename(dir.path() / "in.pth", dir.path() / "best.pth");
  std::filesystem::permissions(dir.path() / "best.pth", std::filesystem::perms::owner_read);
  EXPECT_NE(ckpt::to_hex(ckpt::digest(second.root).model), before);
}
