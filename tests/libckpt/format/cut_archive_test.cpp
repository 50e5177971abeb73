// A file of torch.save that was cut: what it is opened with says how many tensors are whole, and just those are saved.

#include "libckpt/format/torch/cut_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "libckpt/analyze/digest.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/zip_salvage.h"
#include "libckpt/open_save.h"
#include "libckpt/rescue.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/libckpt/format/zip_maker.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::ZipArchive;
using ckpt::ZipMember;
using testing::HasSubstr;
using testing::StartsWith;
using namespace test;

/// Tensors of several sizes, one without elements, and one that two names share.
ckpt::Value model() {
  ckpt::Value shared = tensor({7, 8, 9});
  return dict({{"a", tensor({1, 2, 3})},
               {"none", tensor({})},
               {"b", tensor(std::vector<float>(100, 0.5F))},
               {"shared", shared},
               {"c", tensor({4})},
               {"tied", shared},
               {"d", tensor(std::vector<float>(33, 2.5F))}});
}

/// What PyTorch writes for records of 4 GiB and more: sizes of 8 bytes in an extra field and in the descriptor.
std::string with_long_sizes(const std::filesystem::path& path) {
  ZipArchive zip = ZipArchive::open(ckpt::open_file(path));
  std::string out;
  std::string directory;
  for (const ZipMember& member : zip.members()) {
    std::string content(core::as_text(ckpt::read_all(*zip.payload(member))));
    auto size = static_cast<std::uint64_t>(content.size());
    std::uint32_t crc = ckpt::crc32(core::as_bytes(content));
    auto name_size = static_cast<std::uint16_t>(member.name.size());
    std::string extra = raw(std::uint16_t{1}) + raw(std::uint16_t{16}) + std::string(16, '\0');
    std::string start = raw(std::uint32_t{0x14}) + raw(std::uint32_t{0});
    directory += "PK\x01\x02" + raw(std::uint32_t{0}) + raw(std::uint16_t{0x808}) + raw(std::uint16_t{0}) +
                 raw(std::uint32_t{0}) + raw(crc) + raw(static_cast<std::uint32_t>(size)) +
                 raw(static_cast<std::uint32_t>(size)) + raw(name_size) + std::string(12, '\0') +
                 raw(static_cast<std::uint32_t>(out.size())) + member.name;
    out += "PK\x03\x04" + raw(std::uint16_t{0}) + raw(std::uint16_t{0x808}) + raw(std::uint16_t{0}) +
           std::string(16, '\0') + raw(name_size) + raw(static_cast<std::uint16_t>(extra.size())) + member.name +
           extra + content + "PK\x07\x08" + raw(crc) + raw(size) + raw(size);
  }
  auto count = static_cast<std::uint16_t>(zip.members().size());
  return out + directory + "PK\x05\x06" + raw(std::uint32_t{0}) + raw(count) + raw(count) +
         raw(static_cast<std::uint32_t>(directory.size())) + raw(static_cast<std::uint32_t>(out.size())) +
         raw(std::uint16_t{0});
}

class CutArchive : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ckpt::save(checkpoint(model()), path("whole.pth"), {.durable = false});
    if (std::string_view(GetParam()) == "long") write_file(path("whole.pth"), with_long_sizes(path("whole.pth")));
    content_ = read_file(path("whole.pth"));
    whole_ = ckpt::open(path("whole.pth"));
    for (const ckpt::DigestResult::Tensor& t : ckpt::digest(whole_.root).tensors) digests_[t.name] = t.digest;
    note_records();
  }

  /// Where each record begins, where its payload does, and where both and its descriptor end.
  void note_records() {
    ZipArchive zip = ZipArchive::open(ckpt::open_file(path("whole.pth")));
    for (const ZipMember& member : zip.members()) {
      for (std::uint64_t border : {member.record_offset, member.payload_offset,
                                   member.payload_offset + member.stored_size, member.record_end}) {
        for (std::uint64_t at : {border - 1, border, border + 1}) cuts_.insert(at);
      }
      for (std::uint64_t at = member.payload_offset + member.size; at < member.record_end; at += 3) cuts_.insert(at);
      ends_[member.payload_offset] = member.record_end;
      if (member.name.ends_with("data.pkl")) pickle_end_ = member.record_end;
    }
    for (std::uint64_t at = 70; at < pickle_end_; at += 101) cuts_.insert(at);
    for (std::uint64_t at = zip.directory_offset(); at < content_.size(); at += 41) cuts_.insert(at);
    std::erase_if(cuts_, [&](std::uint64_t at) { return at < 70 || at >= content_.size(); });
  }

  /// The names whose records lie before `cut`.
  std::set<std::string> names_before(std::uint64_t cut) const {
    std::set<std::string> out;
    for (const ckpt::NamedEntry& named : ckpt::list_entries(whole_.root)) {
      const ckpt::SourcePtr& storage = named.entry->view->storage->bytes;
      bool whole = storage->size() == 0 || ends_.at(storage->file_range()->offset) <= cut;
      if (whole) out.insert(named.name);
    }
    return out;
  }

  std::filesystem::path path(const std::string& name) const { return dir_.path() / name; }

  TempDir dir_;
  std::string content_;
  ckpt::Checkpoint whole_;
  std::map<std::string, ckpt::Hash128> digests_;
  std::map<std::uint64_t, std::uint64_t> ends_;  ///< of records, by where their payloads begin
  std::uint64_t pickle_end_ = 0;
  std::set<std::uint64_t> cuts_;
};

TEST_P(CutArchive, SaysHowManyTensorsAreWholeWhereverItWasCut) {
  ASSERT_GT(cuts_.size(), 90U);
  for (std::uint64_t cut : cuts_) {
    write_file(path("cut.pth"), content_.substr(0, cut));
    std::string opened = message_of([&] { ckpt::open(path("cut.pth")); });
    std::string verified = message_of([&] { ckpt::verify(path("cut.pth")); });
    EXPECT_EQ(opened, verified);
    EXPECT_THAT(opened, HasSubstr("the file is cut off after " + core::format_count(cut))) << cut;
    std::string found = cut < pickle_end_ ? "no tensor can be saved"
                                          : std::to_string(names_before(cut).size()) + " of 7 tensors are whole";
    EXPECT_THAT(opened, HasSubstr(found)) << cut;
  }
}

TEST_P(CutArchive, RescueSavesTheWholeTensorsAsTheyWere) {
  for (std::uint64_t cut : cuts_) {
    write_file(path("cut.pth"), content_.substr(0, cut));
    if (cut < pickle_end_) {
      EXPECT_THAT(message_of([&] { ckpt::rescue(path("cut.pth"), path("saved.pth"), {.durable = false}); }),
                  HasSubstr("'data.pkl'"));
      continue;
    }
    ckpt::RescueReport report = ckpt::rescue(path("cut.pth"), path("saved.pth"), {.overwrite = true, .durable = false});
    std::set<std::string> kept;
    for (const ckpt::DigestResult::Tensor& t : ckpt::digest(ckpt::open(path("saved.pth")).root).tensors) {
      EXPECT_EQ(t.digest, digests_.at(t.name)) << t.name << " " << cut;
      kept.insert(t.name);
    }
    EXPECT_EQ(kept, names_before(cut)) << cut;
    EXPECT_EQ(report.lost.size(), 7 - kept.size());
    EXPECT_TRUE(report.damaged);
  }
}

/// A record that is there to its end may still hold other bytes than were written.
TEST_P(CutArchive, RescueLeavesOutWhatHasAnotherChecksum) {
  std::string damaged = content_.substr(0, content_.size() - 30);
  std::uint64_t place = whole_.root.find("b")->as_entry().bytes->file_range()->offset;
  damaged[place + 5] ^= 1;
  write_file(path("cut.pth"), damaged);
  ckpt::RescueReport report = ckpt::rescue(path("cut.pth"), path("saved.pth"), {.durable = false});
  ASSERT_EQ(report.lost.size(), 1U);
  EXPECT_EQ(report.lost[0].subject, "b");
  EXPECT_THAT(report.lost[0].text, HasSubstr("CRC-32"));
}

/// Of a file that was cut, the size that it had is known as far as PyTorch lays its records out as it does today.
TEST(CutArchiveError, NamesTheSizeThatTheFileHad) {
  TempDir dir;
  std::filesystem::path path = dir.path() / "a.pth";
  ckpt::save(checkpoint(model()), path, {.durable = false});
  std::string content = read_file(path);
  write_file(path, content.substr(0, content.size() - 2000));
  std::optional<ckpt::HintedError> error = ckpt::cut_archive_error(ckpt::open_file(path), {});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(),
              StartsWith("the file is cut off after " + core::format_count(content.size() - 2000) + " of about "));
  EXPECT_EQ(error->hint().value().text, "{} saves those whose checksums match");
}

/// Its code comes last and is lost first; PyTorch writes the tensors before their pickle there.
TEST(CutTorchScript, KeepsTheTensorsUnderTheirNames) {
  TempDir dir;
  std::string inner = instance(symbol("__torch__", "Inner"),
                               pickled_dict({{text("w"), tensor(storage("FloatStorage", "0", 2), 0, {2}, {1})}}));
  std::string object = pickle(instance(symbol("__torch__", "Outer"), pickled_dict({{text("inner"), inner}})));
  ZipSpec zip;
  zip.add("x/data/0", floats({1, 2}));
  zip.add("x/data.pkl", object);
  zip.add("x/code/__torch__.py", "class Outer(Module):\n");
  std::string content = zip.bytes();
  write_file(dir.path() / "cut.pt", content.substr(0, content.find("class Outer")));
  EXPECT_THAT(message_of([&] { ckpt::open(dir.path() / "cut.pt"); }), HasSubstr(" bytes: 1 of 1 tensors are whole"));
  ckpt::rescue(dir.path() / "cut.pt", dir.path() / "saved.pth", {.durable = false});
  EXPECT_EQ(names(ckpt::open(dir.path() / "saved.pth")), std::vector<std::string>{"inner.w"});
}

TEST(CutArchiveError, IsNoneForWhatIsNotCut) {
  TempDir dir;
  std::filesystem::path path = dir.path() / "a.pth";
  ckpt::save(checkpoint(model()), path, {.durable = false});
  EXPECT_FALSE(ckpt::cut_archive_error(ckpt::open_file(path), {}));
}

/// Arrays have names with folders, too.
TEST(CutArchiveError, IsNoneForAnArchiveOfArrays) {
  TempDir dir;
  ckpt::save(checkpoint(dict({{"x/a", tensor({1, 2})}, {"x/b", tensor({3})}})), dir.path() / "a.npz",
             {.durable = false});
  std::string content = read_file(dir.path() / "a.npz");
  write_file(dir.path() / "cut.npz", content.substr(0, content.size() - 10));
  EXPECT_FALSE(ckpt::cut_archive_error(ckpt::open_file(dir.path() / "cut.npz"), {}));
  ckpt::RescueReport report = ckpt::rescue(dir.path() / "cut.npz", dir.path() / "saved.npz", {.durable = false});
  EXPECT_EQ(report.tensors, 2U);
}

/// Counts what is read of it.
class Counted final : public ckpt::ByteSource {
 public:
  explicit Counted(const std::string& content) : content_(content) {}
  std::uint64_t size() const override { return content_.size(); }
  void read(std::uint64_t offset, ckpt::MutableBytes out) const override {
    read_ += out.size();
    std::memcpy(out.data(), content_.data() + offset, out.size());
  }
  void require_unchanged() const override {}
  std::uint64_t bytes_read() const { return read_; }

 private:
  const std::string& content_;
  mutable std::uint64_t read_ = 0;
};

/// Each claims that its end stands somewhere behind it.
TEST(CutArchiveSearch, OfRecordsWithoutAnEndReadsTheFileAFewTimes) {
  std::string header = "PK\x03\x04" + raw(std::uint16_t{0}) + raw(std::uint16_t{8}) + std::string(18, '\0') +
                       raw(std::uint16_t{10}) + raw(std::uint16_t{0}) + "x/data.pkl";
  std::string content;
  for (int i = 0; i < 20'000; ++i) content += header;
  Counted file(content);
  EXPECT_EQ(ckpt::find_zip_records(file, {}).size(), 1U);
  EXPECT_LT(file.bytes_read(), 40 * content.size());
}

INSTANTIATE_TEST_SUITE_P(Sizes, CutArchive, testing::Values("short", "long"));

}  // namespace
