#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/format/native/layout.h"
#include "libckpt/format/native/value_codec.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using ::testing::Test;

class NativeDamage : public Test {
 protected:
  void SetUp() override {
    save(test::small_checkpoint(), path());
    content_ = test::read_file(path());
    header_ = detail::parse_header(core::as_bytes(content_).first(detail::kHeaderBytes));
  }
  std::filesystem::path path() const { return dir_.path() / "a.ckpt"; }
  std::string open_error() const {
    return test::error_of([&] { open(path()); });
  }
  void flip(std::uint64_t offset) const {
    test::overwrite(path(), offset, std::string(1, static_cast<char>(content_[offset] ^ 0x10)));
  }
  void restore(std::uint64_t offset) const { test::overwrite(path(), offset, content_.substr(offset, 1)); }
  void restore_user_block() const { test::overwrite(path(), 0, content_.substr(0, header_.user_block)); }
  /// File offset of the first payload byte.
  std::uint64_t payload() const { return header_.user_block + detail::kFirstPayload; }

  test::TempDir dir_;
  std::string content_;
  detail::NativeHeader header_;
};

/// Reads everything that an opened file offers, as a user would.
void read_everything(const std::filesystem::path& path) {
  for (const NamedEntry& named : list_entries(open(path).root)) {
    if (named.entry->bytes && named.entry->byte_size() < (1 << 20)) read_all(*named.entry->bytes);
  }
}

TEST_F(NativeDamage, CutAnywhereIsRefused) {
  std::filesystem::resize_file(path(), content_.size() - 1);
  EXPECT_EQ(open_error(), "corrupt: the file is cut: " + std::to_string(content_.size() - 1) + " bytes where " +
                              std::to_string(content_.size()) + " were written");
  for (std::size_t length = content_.size() - 1; length > 0; length -= std::min<std::size_t>(length, 29)) {
    std::filesystem::resize_file(path(), length);
    EXPECT_NE(open_error(), "") << "cut to " << length;
  }
}

TEST_F(NativeDamage, EveryFlippedByteOfHeaderAndIndexIsRefused) {
  for (std::uint64_t at = 8; at < detail::kHeaderBytes + header_.index_size; ++at) {
    flip(at);
    EXPECT_NE(open_error(), "") << "byte " << at;
    restore(at);
  }
  EXPECT_EQ(open_error(), "");
}

TEST_F(NativeDamage, VerifyFindsAFlippedByteAnywhereBehindTheIndex) {
  for (std::uint64_t at = detail::kHeaderBytes + header_.index_size; at < content_.size(); at += 61) {
    flip(at);
    std::string thrown;
    VerifyResult result;
    thrown = test::error_of([&] { result = verify(path()); });
    EXPECT_TRUE(!thrown.empty() || result.damage.size() == 1) << "byte " << at;
    restore(at);
  }
  VerifyResult whole = verify(path());
  EXPECT_TRUE(whole.damage.empty());
  EXPECT_EQ(whole.tensors_checked, 2U);
}

TEST_F(NativeDamage, VerifyNamesTheDamagedTensor) {
  flip(payload() + 5);
  VerifyResult result = verify(path());
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_EQ(result.damage[0].subject, "fc.weight");
  EXPECT_EQ(open_error(), "");  // a plain open does not read payloads
}

TEST_F(NativeDamage, CheckedLoadsRefuseDamagedTensorsAndOnlyThose) {
  flip(payload());
  Checkpoint lazy = open(path(), {.check_hashes = true});
  core::ByteVector buffer(4);
  std::string error = test::error_of([&] { lazy.root.find("fc.weight")->as_entry().bytes->read(8, buffer); });
  EXPECT_TRUE(error.starts_with("corrupt: the tensor's bytes are damaged: their hash is ")) << error;
  lazy.root.find("fc.bias")->as_entry().bytes->read(0, buffer);
}

TEST_F(NativeDamage, DamageIsCopiedOnlyLenientlyAndAsDamage) {
  flip(payload());
  EXPECT_THROW(save(open(path()), dir_.path() / "copy.ckpt"), core::Error);
  save(open(path(), {.lenient = true}), dir_.path() / "copy.ckpt");
  EXPECT_EQ(verify(dir_.path() / "copy.ckpt").damage.size(), 1U);
}

TEST_F(NativeDamage, EditOfTheHdf5PartMakesTheIndexStale) {
  std::uint64_t at = content_.size() - 100;  // the metadata of HDF5 stands last
  flip(at);
  EXPECT_TRUE(
      open_error().starts_with("corrupt: the index no longer describes the file: its HDF5 part was damaged or "
                               "changed by another program (bytes "))
      << open_error();
  restore(at);
  flip(header_.user_block + 40);  // the superblock
  EXPECT_TRUE(open_error().starts_with("corrupt: the index no longer describes the file:")) << open_error();
}

TEST_F(NativeDamage, GrownFileIsStale) {
  test::write_file(path(), content_ + "more");
  EXPECT_EQ(open_error(), "corrupt: the file is longer than its index says, another program changed it: " +
                              std::to_string(content_.size() + 4) + " bytes where " + std::to_string(content_.size()) +
                              " were written");
}

TEST_F(NativeDamage, MissingSignatureIsNamed) {
  flip(header_.user_block);
  EXPECT_EQ(open_error(), "corrupt: the HDF5 part is damaged: no signature after the user block");
}

// With right checksums the parser itself has to hold.
TEST_F(NativeDamage, AnyByteInAConsistentIndexIsReadOrRefused) {
  for (std::uint64_t at = 0; at < header_.index_size; ++at) {
    for (int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      test::edit_index(path(), [&](core::ByteVector& index) { index[at] = static_cast<std::byte>(value); });
      test::error_of([&] { read_everything(path()); });  // anything but an Error ends the test program
      restore_user_block();
    }
  }
}

TEST_F(NativeDamage, AnyCutOfAConsistentIndexIsRefused) {
  constexpr std::uint64_t kOptional = 16;  // the record of wrappers, empty here
  for (std::uint64_t length = 0; length < header_.index_size; ++length) {
    if (length == header_.index_size - kOptional) continue;
    test::edit_index(path(), [&](core::ByteVector& index) { index.resize(length); });
    EXPECT_NE(open_error(), "") << length;
    restore_user_block();
  }
}

TEST_F(NativeDamage, NewerMajorVersionIsNamed) {
  detail::NativeHeader newer = header_;
  newer.major = 2;
  test::overwrite(path(), 0, core::as_text(detail::encode_header(newer)));
  EXPECT_EQ(open_error(),
            "unsupported: the file needs version 2 of the native format, and this library reads up to version 1; use "
            "a newer one");
}

void append_section(core::ByteVector& index, std::uint16_t flags) {
  core::append_le<std::uint16_t>(index, 99);
  core::append_le<std::uint16_t>(index, flags);
  core::append_le<std::uint16_t>(index, 1);
  core::append_le<std::uint16_t>(index, 4);
  core::append_le<std::uint64_t>(index, 3);
  core::append(index, core::as_bytes("new"));
}

TEST_F(NativeDamage, UnknownOptionalSectionIsSkipped) {
  test::edit_index(path(), [](core::ByteVector& index) { append_section(index, 0); });
  EXPECT_EQ(test::difference(open(path()).root, test::small_checkpoint().root), "");
}

TEST_F(NativeDamage, UnknownRequiredSectionNamesTheVersionNeeded) {
  test::edit_index(path(), [](core::ByteVector& index) { append_section(index, 1); });
  EXPECT_EQ(open_error(),
            "unsupported: the file needs version 1.4 of the native format (its index has section 99); this library "
            "knows version 1.5");
}

/// Section 9 with one name.
void append_file_name(core::ByteVector& index, std::string_view name) {
  core::append_le<std::uint16_t>(index, 9);
  core::append_le<std::uint16_t>(index, 1);
  core::append_le<std::uint16_t>(index, 1);
  core::append_le<std::uint16_t>(index, 5);
  core::append_le<std::uint64_t>(index, 1 + name.size());
  index.push_back(static_cast<std::byte>(name.size()));
  core::append(index, core::as_bytes(name));
}

TEST_F(NativeDamage, NamesOfOtherFilesLeadNowhereElse) {
  for (const char* name : {"../a.ckpt", "/etc/passwd", "b/a.ckpt", "..", ".", ""}) {
    std::string whole = test::read_file(path());
    test::edit_index(path(), [&](core::ByteVector& index) { append_file_name(index, name); });
    EXPECT_THAT(open_error(), testing::HasSubstr("which is no name in its folder")) << name;
    test::write_file(path(), whole);
  }
}

TEST_F(NativeDamage, TensorsInOtherFilesNeedOne) {
  constexpr std::size_t kCodec = 16 + 2 * 32 + 16 + 40;  // of the first payload, behind two ranges
  std::string whole = test::read_file(path());
  test::edit_index(path(), [&](core::ByteVector& index) { index[kCodec] = std::byte{4}; });
  EXPECT_THAT(open_error(), testing::HasSubstr("a tensor lies in a file that it does not name"));
  test::write_file(path(), whole);
  test::edit_index(path(), [&](core::ByteVector& index) {
    append_file_name(index, "b.ckpt");
    index[kCodec] = std::byte{4};
    core::store_le<std::uint64_t>(&index[kCodec - 40], 0);
  });
  EXPECT_THAT(open_error(), testing::HasSubstr("a tensor lies in another file and takes room in this one"));
  test::write_file(path(), whole);
  test::edit_index(path(), [&](core::ByteVector& index) {
    append_file_name(index, "b.ckpt");
    index[kCodec] = std::byte{4};
    core::store_le<std::uint64_t>(&index[kCodec - 40], 0);
    core::store_le<std::uint64_t>(&index[kCodec - 24], 0);
  });
  EXPECT_THAT(open_error(), testing::HasSubstr("tensors lie in 'b.ckpt', which is not beside it"));
}

TEST_F(NativeDamage, FilesWithoutTheRecordOfWrappersAreRead) {
  test::edit_index(path(),
                   [](core::ByteVector& index) { index.erase(index.end() - 16, index.end()); });  // an empty section 7
  EXPECT_EQ(test::difference(open(path()).root, test::small_checkpoint().root), "");
}

TEST(NativeWrappers, AreRecordedForEveryStateDict) {
  Checkpoint made = test::checkpoint({{"model", test::dict({{"module.fc.weight", test::tensor(core::DType::f32, {2})},
                                                            {"module.module", test::tensor(core::DType::f32, {2})},
                                                            {"_orig_mod.module.a", test::tensor(core::DType::f32, {2})},
                                                            {"plain", test::tensor(core::DType::f32, {2})}})}});
  std::vector<WrapperUse> expected = {{"model", "_orig_mod.module.", 1}, {"model", "module.", 2}};
  EXPECT_EQ(list_wrappers(made.root), expected);
  test::TempDir dir;
  save(made, dir.path() / "a.ckpt");
  std::string content = test::read_file(dir.path() / "a.ckpt");
  core::Bytes all = core::as_bytes(content);
  detail::NativeHeader header = detail::parse_header(all.first(detail::kHeaderBytes));
  core::Bytes packed = all.subspan(detail::kHeaderBytes, header.index_size);
  detail::NativeIndex index =
      detail::parse_index(detail::SharedBytes(core::ByteVector(packed.begin(), packed.end())), header, Limits());
  EXPECT_TRUE(index.has_wrappers);
  EXPECT_EQ(index.wrappers, expected);
}

TEST_F(NativeDamage, VerifyComparesTheRecordOfWrappersWithTheKeys) {
  save(test::checkpoint({{"module.w", test::tensor(core::DType::f32, {2})}}), path());
  test::edit_index(path(), [](core::ByteVector& index) { index.back() = std::byte{9}; });  // the number of keys
  VerifyResult result = verify(path());
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_EQ(result.damage[0].subject, "index");
}

TEST_F(NativeDamage, LimitsHold) {
  auto error_with = [&](const Limits& limits) { return test::error_of([&] { open(path(), {.limits = limits}); }); };
  EXPECT_EQ(error_with({.max_tensors = 2}), "");
  EXPECT_EQ(error_with({.max_tensors = 1}), "refused: the file holds more than 1 tensors, which is the limit");
  EXPECT_EQ(error_with({.max_rank = 2}), "");
  EXPECT_EQ(error_with({.max_rank = 1}), "refused: a tensor has 2 dimensions; the limit is 1");
  EXPECT_EQ(error_with({.max_name = 9}), "");
  EXPECT_EQ(error_with({.max_name = 8}), "refused: a tensor has a name of 9 bytes; the limit is 8");
  EXPECT_EQ(error_with({.max_depth = 2}), "");
  EXPECT_EQ(error_with({.max_depth = 1}), "refused: the tree is nested deeper than 1 levels");
  EXPECT_EQ(error_with({.max_index_bytes = header_.index_size}), "");
  EXPECT_TRUE(error_with({.max_index_bytes = header_.index_size - 1}).starts_with("refused: the index takes"));
}

TEST(NativeTree, ReferencesCannotStandForAnEndlessTree) {
  Value bomb = Value::list({Value::text("x")});
  for (int i = 0; i < 60; ++i) bomb = Value::list({bomb, bomb});
  auto no_records = [](const Entry&) -> const detail::EntryRecord& { throw std::logic_error("no tensors here"); };
  core::ByteVector tree = detail::encode_tree(bomb, no_records, 256);
  EXPECT_LT(tree.size(), 1000U);
  EXPECT_EQ(test::error_of([&] { detail::decode_tree(tree, [](const detail::EntryRecord&, Entry&) {}, {}); }),
            "refused: the tree stands for more than 64,000,000 values when its references are followed");
}

TEST(NativeTree, AsDeepAsTheLimitComesBack) {
  Value deep;
  for (int i = 0; i < 990; ++i) deep = Value::list({deep});
  test::TempDir dir;
  Checkpoint made;
  made.root = deep;
  save(made, dir.path() / "a.ckpt");
  EXPECT_TRUE(open(dir.path() / "a.ckpt").root == deep);
}

TEST(NativeTree, DeeperThanTheLimitIsNotWritten) {
  Value deep;
  for (int i = 0; i < 1100; ++i) deep = Value::list({deep});
  test::TempDir dir;
  Checkpoint made;
  made.root = deep;
  EXPECT_EQ(test::error_of([&] { save(made, dir.path() / "a.ckpt"); }),
            "unsupported: the checkpoint is nested deeper than 1000 levels");
  EXPECT_TRUE(test::list_folder(dir.path()).empty());
}

}  // namespace
}  // namespace ckpt
