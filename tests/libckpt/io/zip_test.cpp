#include "libckpt/io/zip.h"

#include <gmock/gmock.h>

#include <map>

#include "libckpt/io/checksum.h"
#include "libckpt/io/codec.h"
#include "libcore/base/error.h"

namespace {

using ckpt::ZipArchive;
using ckpt::ZipItem;

core::ByteVector bytes_of(std::string_view text) {
  core::Bytes bytes = core::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

std::string make_zip(const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<ZipItem> items;
  for (const auto& [name, content] : files) items.push_back({name, ckpt::memory_source(bytes_of(content))});
  ckpt::ZipWriter writer(std::move(items));
  ckpt::MemorySink sink;
  writer.write(sink);
  EXPECT_EQ(sink.position(), writer.total_size());
  return std::string(core::as_text(sink.bytes()));
}

const std::vector<std::pair<std::string, std::string>> kFiles = {
    {"net/data.pkl", "the pickle"}, {"net/data/0", std::string(200, 'w')}, {"net/empty", ""}, {"net/version", "3\n"}};

ZipArchive open(std::string_view zip, const ckpt::ZipReadOptions& options = {}) {
  return ZipArchive::open(ckpt::memory_source(bytes_of(zip)), options);
}

std::string content(const ZipArchive& zip, std::string_view name) {
  return std::string(core::as_text(ckpt::read_all(*zip.payload(*zip.find(name)))));
}

core::Error error_of(std::string_view zip, const ckpt::ZipReadOptions& options = {}) {
  try {
    open(zip, options);
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, "accepted"};
}

/// The archive with `count` bytes at the last `what` replaced.
std::string patched(std::string zip, std::string_view what, std::size_t offset, std::string_view with) {
  std::size_t at = zip.rfind(what);
  EXPECT_NE(at, std::string::npos);
  return zip.replace(at + offset, with.size(), with);
}

constexpr std::string_view kCentral("PK\x01\x02", 4);
constexpr std::string_view kEnd("PK\x05\x06", 4);
constexpr std::string_view kEnd64("PK\x06\x06", 4);

TEST(ZipWriter, PayloadsAreAligned) {
  std::string zip = make_zip(kFiles);
  ZipArchive archive = open(zip);
  ASSERT_EQ(archive.members().size(), 4U);
  for (const ckpt::ZipMember& member : archive.members()) EXPECT_EQ(member.payload_offset % 64, 0U) << member.name;
  EXPECT_EQ(archive.members()[1].name, "net/data/0");
  EXPECT_EQ(archive.members()[1].crc32, ckpt::crc32(core::as_bytes(std::string(200, 'w'))));
  EXPECT_EQ(content(archive, "net/data.pkl"), "the pickle");
  EXPECT_EQ(content(archive, "net/empty"), "");
  EXPECT_EQ(archive.find("net/none"), nullptr);
}

TEST(ZipWriter, CopiedMemberKeepsItsRecordedChecksum) {
  std::string zip = make_zip(kFiles);
  zip[zip.find("wwww")] = 'x';  // damage that only the checksum shows
  ZipArchive archive = open(zip);
  std::vector<ZipItem> items;
  for (const auto& member : archive.members()) items.push_back({member.name, archive.payload(member)});
  ckpt::MemorySink sink;
  ckpt::ZipWriter(std::move(items)).write(sink);
  EXPECT_EQ(core::as_text(sink.bytes()), zip);
}

/// A source that claims a size and gives zeros, so that archives past 4 GiB can be planned.
class Zeros final : public ckpt::ByteSource {
 public:
  explicit Zeros(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const override { return size_; }
  void require_unchanged() const override {}
  void read(std::uint64_t, core::MutableBytes out) const override { std::fill(out.begin(), out.end(), std::byte{0}); }

 private:
  std::uint64_t size_;
};

TEST(ZipWriter, LargeArchivesUseZip64WhereNeeded) {
  auto zeros = [](std::uint64_t size) { return std::make_shared<Zeros>(size); };
  ckpt::ZipWriter writer({{"a/data/0", zeros(0xffffffff)}, {"a/data/1", zeros(5)}, {"a/version", zeros(2)}});
  // A 20-byte zip64 field before the padding, a 24-byte descriptor behind the payload; then the offset alone is large.
  EXPECT_EQ(writer.payload_offset(0), 64U);
  EXPECT_EQ(writer.payload_offset(1), 4'294'967'488U);
  EXPECT_EQ(writer.payload_offset(2), 4'294'967'616U);
  std::uint64_t directory = 4'294'967'616U + 2 + 24;
  EXPECT_EQ(writer.total_size(), directory + (46 + 8 + 20) + (46 + 8 + 12) + (46 + 9 + 12) + 56 + 20 + 22);
}

TEST(ZipReader, CutOffAnywhereIsSaid) {
  std::string zip = make_zip(kFiles);
  for (std::size_t size : {std::size_t{1}, std::size_t{30}, zip.size() / 2, zip.size() - 23, zip.size() - 1}) {
    core::Error error = error_of(zip.substr(0, size));
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt) << size;
    EXPECT_THAT(error.message(), testing::StartsWith("the file is cut off")) << size;
  }
}

TEST(ZipReader, BytesOutsideTheArchive) {
  std::string zip = make_zip(kFiles);
  EXPECT_EQ(error_of("junk" + zip).code(), core::ErrorCode::corrupt);
  EXPECT_THAT(error_of(zip + "junk").message(), testing::HasSubstr("4 bytes lie after the end"));
  EXPECT_EQ(open(zip + "junk", {.accept_trailing = true}).trailing_bytes(), 4U);
  // A comment belongs to the archive, unless it hides another end record.
  std::string commented = patched(zip, kEnd, 20, std::string("\x05\0", 2)) + "hello";
  EXPECT_EQ(open(commented).comment(), "hello");
  std::string hiding = patched(zip, kEnd, 20, std::string("\x04\0", 2)) + std::string(kEnd);
  EXPECT_EQ(error_of(hiding).code(), core::ErrorCode::corrupt);
}

TEST(ZipReader, HeaderAndDirectoryMustAgree) {
  std::string zip = make_zip(kFiles);
  EXPECT_THAT(error_of(patched(zip, "net/version", 0, "net/versioN")).message(), testing::HasSubstr("header names it"));
  EXPECT_THAT(error_of(patched(zip, kCentral, 16, "crc!")).message(), testing::HasSubstr("descriptor"));
  EXPECT_THAT(error_of(patched(zip, kCentral, 8, std::string("\x08\0", 2))).message(), testing::HasSubstr("flags"));
  EXPECT_EQ(error_of(patched(zip, kCentral, 42, "\xff\xff")).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of(patched(zip, kEnd, 8, std::string("\x05\0\x05\0", 4))).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of(patched(zip, kEnd, 8, std::string("\x03\0\x03\0", 4))).code(), core::ErrorCode::corrupt);
  EXPECT_EQ(error_of(patched(zip, kEnd, 16, std::string("\0\0\0\0", 4))).code(), core::ErrorCode::corrupt);
}

TEST(ZipReader, WhatIsNotSupportedIsSaid) {
  std::string zip = make_zip(kFiles);
  std::string encrypted(2, '\0');
  encrypted[0] = 0x09;
  encrypted[1] = 0x08;
  EXPECT_THAT(error_of(patched(zip, kCentral, 8, encrypted)).message(), testing::HasSubstr("encrypted"));
  EXPECT_THAT(error_of(patched(zip, kCentral, 10, std::string("\x0c\0", 2))).message(),
              testing::HasSubstr("method 12"));
  EXPECT_THAT(error_of(patched(zip, kEnd, 4, std::string("\x01\0", 2))).message(), testing::HasSubstr("several disks"));
}

TEST(ZipReader, DuplicateNames) {
  EXPECT_THAT(error_of(make_zip({{"a/x", "1"}, {"a/x", "1"}})).message(), testing::HasSubstr("'a/x' is there twice"));
}

TEST(ZipReader, NamesThatLeaveTheArchiveAreRefused) {
  for (const char* name : {"../x", "a/../x", "/x", "C:/x", "a\\x", ""}) {
    EXPECT_EQ(error_of(make_zip({{name, "1"}})).code(), core::ErrorCode::refused) << name;
  }
  EXPECT_EQ(error_of(make_zip({{std::string("a\0b", 3), "1"}})).code(), core::ErrorCode::refused);
  EXPECT_EQ(error_of(make_zip({{"a/\xff", "1"}})).code(), core::ErrorCode::refused);
}

TEST(ZipReader, MemberLimit) {
  EXPECT_EQ(error_of(make_zip(kFiles), {.max_members = 3}).code(), core::ErrorCode::refused);
}

/// `zip` with new records appended as an editor does that leaves the old directory in place: `live` names those of the
/// old records that stay.
std::string appended(const std::string& zip, const std::vector<std::string>& live, const std::string& name,
                     const std::string& payload) {
  std::string added = make_zip({{name, payload}});
  std::size_t added_directory = added.find(kCentral);
  std::string entry = added.substr(added_directory, added.find(kEnd64) - added_directory);
  std::uint32_t offset = static_cast<std::uint32_t>(zip.size());
  std::memcpy(entry.data() + 42, &offset, 4);
  std::string out = zip + added.substr(0, added_directory);
  std::string directory = entry;
  std::size_t old_end = zip.rfind(kEnd);
  std::uint32_t old_size = 0;
  std::uint32_t old_directory = 0;
  std::memcpy(&old_size, zip.data() + old_end + 12, 4);
  std::memcpy(&old_directory, zip.data() + old_end + 16, 4);
  for (std::size_t at = old_directory; at < old_directory + old_size;) {
    std::uint16_t name_size = 0;
    std::memcpy(&name_size, zip.data() + at + 28, 2);
    std::string old_name = zip.substr(at + 46, name_size);
    if (std::find(live.begin(), live.end(), old_name) != live.end()) directory += zip.substr(at, 46 + name_size);
    at += 46 + name_size;
  }
  std::string end(22, '\0');
  std::memcpy(end.data(), kEnd.data(), 4);
  auto count = static_cast<std::uint16_t>(live.size() + 1);
  auto size = static_cast<std::uint32_t>(directory.size());
  auto start = static_cast<std::uint32_t>(out.size());
  std::memcpy(end.data() + 8, &count, 2);
  std::memcpy(end.data() + 10, &count, 2);
  std::memcpy(end.data() + 12, &size, 4);
  std::memcpy(end.data() + 16, &start, 4);
  return out + directory + end;
}

const std::vector<std::string> kRest = {"net/data/0", "net/empty", "net/version"};

TEST(ZipReader, SupersededRecordsAreListed) {
  std::string once = appended(make_zip(kFiles), kRest, "net/data.pkl", "second pickle");
  std::string twice = appended(once, kRest, "net/data.pkl", "third");
  ZipArchive archive = open(once);
  EXPECT_EQ(content(archive, "net/data.pkl"), "second pickle");
  EXPECT_EQ(content(archive, "net/version"), "3\n");
  ASSERT_EQ(archive.dead_ranges().size(), 2U);
  EXPECT_EQ(archive.dead_ranges()[0].what, "replaced record 'net/data.pkl'");
  EXPECT_EQ(archive.dead_ranges()[1].what, "replaced directory");
  EXPECT_EQ(content(open(twice), "net/data.pkl"), "third");
  EXPECT_EQ(open(twice).dead_ranges().size(), 4U);
}

TEST(ZipReader, WhatIsNoWholeSupersededRecordIsRefused) {
  std::string zip = make_zip(kFiles);
  std::string edited = appended(zip, kRest, "net/data.pkl", "second pickle");
  std::string damaged = edited;
  damaged[damaged.find(kEnd) + 5] = 'x';  // the superseded end record
  EXPECT_THAT(error_of(damaged).message(), testing::HasSubstr("belong to no record"));
  // A record that is hidden rather than replaced.
  EXPECT_THAT(error_of(appended(zip, {"net/data/0", "net/empty"}, "net/data.pkl", "x")).message(),
              testing::HasSubstr("not in the directory"));
}

/// The archive with other content of that name, by an end behind its end.
std::string replaced(const std::string& zip, const std::string& name, std::string_view payload) {
  ZipArchive archive = open(zip);
  EXPECT_TRUE(ckpt::can_replace(archive, *archive.find(name)));
  core::ByteVector end = ckpt::replacement_end(archive, *archive.find(name), core::as_bytes(payload));
  return zip + std::string(core::as_text(end));
}

std::vector<std::string> names_of(const ZipArchive& archive) {
  std::vector<std::string> names;
  for (const ckpt::ZipMember& member : archive.members()) names.push_back(member.name);
  return names;
}

TEST(ZipReplacement, AnyMemberGetsOtherContentAndAllElseStays) {
  const std::string zip = make_zip(kFiles);
  const ZipArchive old = open(zip);
  for (const auto& [name, before] : kFiles) {
    for (const std::string& after : {std::string("other"), std::string(), std::string(70'000, 'x')}) {
      std::string edited = replaced(zip, name, after);
      ZipArchive archive = open(edited);
      EXPECT_EQ(names_of(archive), names_of(old));
      for (const auto& [other, kept] : kFiles) EXPECT_EQ(content(archive, other), other == name ? after : kept);
      EXPECT_EQ(archive.find(name)->payload_offset % 64, 0U);
      EXPECT_EQ(archive.find(name)->crc32, ckpt::crc32(core::as_bytes(after)));
      ASSERT_EQ(archive.dead_ranges().size(), 2U);
      EXPECT_EQ(archive.dead_ranges()[0].offset, old.find(name)->record_offset);
      EXPECT_EQ(archive.dead_ranges()[1].offset, old.directory_offset());
      EXPECT_EQ(archive.dead_ranges()[1].offset + archive.dead_ranges()[1].length, zip.size());
    }
  }
}

TEST(ZipReplacement, EntriesOfTheOthersStayByteForByte) {
  std::string zip = make_zip(kFiles);
  std::size_t entry = zip.rfind("net/empty") - 46;
  zip.replace(entry + 12, 4, "TIME");  // of the last change, which no header of PyTorch's writer has
  std::string edited = replaced(zip, "net/data.pkl", "other");
  ZipArchive archive = open(edited);
  core::ByteVector directory = archive.read_directory();
  core::ByteVector old = open(zip).read_directory();
  std::size_t rest = archive.members()[1].entry_offset;
  EXPECT_EQ(core::as_text(directory).substr(rest), core::as_text(old).substr(rest));
  EXPECT_THAT(core::as_text(directory), testing::HasSubstr("TIME"));
}

TEST(ZipReplacement, IsRepeatedWithoutEnd) {
  std::string zip = make_zip(kFiles);
  for (std::size_t edits = 1; edits <= 40; ++edits) {
    zip = replaced(zip, "net/data.pkl", "edit " + std::to_string(edits));
    ZipArchive archive = open(zip, {.max_members = kFiles.size() + edits});
    EXPECT_EQ(content(archive, "net/data.pkl"), "edit " + std::to_string(edits));
    EXPECT_EQ(archive.dead_ranges().size(), 2 * edits);
  }
  EXPECT_EQ(error_of(zip, {.max_members = kFiles.size() + 30}).code(), core::ErrorCode::refused);
}

TEST(ZipReplacement, HasNoPlaceBehindOtherBytesNorForNamesInAnUnknownEncoding) {
  std::string zip = make_zip(kFiles);
  auto can = [](std::string_view bytes, const ckpt::ZipReadOptions& options = {}) {
    ZipArchive archive = open(bytes, options);
    return ckpt::can_replace(archive, archive.members()[0]);
  };
  EXPECT_TRUE(can(zip));
  EXPECT_FALSE(can(zip + "junk", {.accept_trailing = true}));
  EXPECT_FALSE(can(patched(zip, kEnd, 20, std::string("\x05\0", 2)) + "hello"));
  auto without_utf8 = [](const std::string& name) {
    std::string made = make_zip({{name, ""}});
    for (std::string_view header : {std::string_view("PK\x03\x04", 4), kCentral}) {
      made = patched(made, header, header == kCentral ? 8 : 6, std::string(2, '\0'));
    }
    return made;
  };
  EXPECT_TRUE(can(without_utf8("net/a")));
  EXPECT_FALSE(can(without_utf8("n\xc3\xa9t/a")));
  EXPECT_TRUE(can(make_zip({{"n\xc3\xa9t/a", ""}})));
}

/// Bytes of which long runs of zeros are not kept, so that archives past 4 GiB fit into memory.
class SparseBytes final : public ckpt::ByteSink, public ckpt::ByteSource {
 public:
  void write(core::Bytes bytes) override {
    bool zeros = bytes.size() > 4096 && bytes[0] == std::byte{0} &&
                 std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
    if (!zeros) pieces_[size_] = {bytes.begin(), bytes.end()};
    size_ += bytes.size();
  }
  std::uint64_t position() const override { return size_; }
  std::uint64_t size() const override { return size_; }
  void require_unchanged() const override {}
  void read(std::uint64_t offset, core::MutableBytes out) const override {
    std::fill(out.begin(), out.end(), std::byte{0});
    for (const auto& [at, piece] : pieces_) {
      std::uint64_t begin = std::max(offset, at);
      std::uint64_t end = std::min(offset + out.size(), at + piece.size());
      if (begin >= end) continue;
      std::copy_n(piece.data() + (begin - at), end - begin, out.data() + (begin - offset));
    }
  }

 private:
  std::map<std::uint64_t, core::ByteVector> pieces_;
  std::uint64_t size_ = 0;
};

TEST(ZipReplacement, BehindFourGibibytesOffsetsAreZip64) {
  auto bytes = std::make_shared<SparseBytes>();
  ckpt::ZipWriter({{"a/data.pkl", ckpt::memory_source(bytes_of("old"))},
                   {"a/data/0", std::make_shared<Zeros>((4ULL << 30) + 1)},
                   {"a/version", ckpt::memory_source(bytes_of("3\n"))}})
      .write(*bytes);
  for (std::string_view text : {"second", "third"}) {
    ZipArchive archive = ZipArchive::open(bytes, {});
    std::uint64_t begin = bytes->size();
    bytes->write(ckpt::replacement_end(archive, *archive.find("a/data.pkl"), core::as_bytes(text)));
    ZipArchive edited = ZipArchive::open(bytes, {});
    EXPECT_EQ(content(edited, "a/data.pkl"), text);
    EXPECT_EQ(content(edited, "a/version"), "3\n");
    const ckpt::ZipMember& moved = *edited.find("a/data.pkl");
    EXPECT_EQ(moved.record_offset, begin);
    // As ZipWriter's: a zip64 field with the offset, a descriptor of 24 bytes.
    EXPECT_EQ(moved.record_end, moved.payload_offset + text.size() + 24);
    EXPECT_EQ(edited.members()[1].entry_offset, 46 + 10 + 12U);
  }
}

/// One deflated member, as zip tools write it: no descriptor, sizes in the header.
std::string deflated_zip(std::uint32_t size) {
  const unsigned char packed[] = {0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x27, 0x01};
  std::string data(reinterpret_cast<const char*>(packed), sizeof packed);
  std::uint32_t crc = ckpt::crc32(core::as_bytes("hello hello hello hello"));
  core::ByteVector common;
  for (std::uint16_t field : {20, 0, 8, 0, 0}) core::append_le<std::uint16_t>(common, field);
  core::append_le<std::uint32_t>(common, crc);
  core::append_le<std::uint32_t>(common, static_cast<std::uint32_t>(data.size()));
  core::append_le<std::uint32_t>(common, size);
  core::append_le<std::uint32_t>(common, 3);  // name length, no extra field
  std::string fields(core::as_text(common));
  std::string local = "PK\x03\x04" + fields + "a/x" + data;
  std::string central = std::string(kCentral) + std::string(2, '\0') + fields + std::string(14, '\0') + "a/x";
  core::ByteVector end = bytes_of(kEnd);
  for (std::uint16_t field : {0, 0, 1, 1}) core::append_le<std::uint16_t>(end, field);
  core::append_le<std::uint32_t>(end, static_cast<std::uint32_t>(central.size()));
  core::append_le<std::uint32_t>(end, static_cast<std::uint32_t>(local.size()));
  core::append_le<std::uint16_t>(end, 0);
  return local + central + std::string(core::as_text(end));
}

TEST(ZipReader, InflatesWithBounds) {
  ZipArchive archive = open(deflated_zip(23));
  EXPECT_EQ(archive.members()[0].method, ckpt::kZipDeflated);
  EXPECT_EQ(content(archive, "a/x"), "hello hello hello hello");
  ckpt::SourcePtr payload = archive.payload(archive.members()[0]);
  core::ByteVector part(5);
  payload->read(6, part);
  EXPECT_EQ(core::as_text(part), "hello");
  EXPECT_THROW(content(open(deflated_zip(22)), "a/x"), core::Error);
  ckpt::ZipReadOptions tight{.max_expansion = 100, .expansion_floor = 1000};
  EXPECT_EQ(error_of(deflated_zip(1'000'000), tight).code(), core::ErrorCode::refused);
}

TEST(ZipReader, NoByteThatIsWrongDoesHarm) {
  std::string zip = make_zip({{"n/a", "payload"}, {"n/b", ""}});
  for (std::size_t at = 0; at < zip.size(); ++at) {
    for (int change : {0x01, 0x80, 0xff}) {
      std::string damaged = zip;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      core::Error error = error_of(damaged);
      EXPECT_THAT(error.code(), testing::AnyOf(core::ErrorCode::corrupt, core::ErrorCode::refused,
                                               core::ErrorCode::unsupported, core::ErrorCode::internal));
    }
  }
}

TEST(ZipReader, SourcesOfStoredMembersKnowTheirChecksum) {
  ZipArchive archive = open(make_zip(kFiles));
  EXPECT_EQ(ckpt::recorded_crc32(*archive.payload(archive.members()[0])), archive.members()[0].crc32);
  EXPECT_EQ(ckpt::recorded_crc32(*ckpt::memory_source({})), std::nullopt);
}

}  // namespace
