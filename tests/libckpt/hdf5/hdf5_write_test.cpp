// What goes wrong in libhdf5 while a file is written: it happens in the helper program and is a sentence.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "libckpt/hdf5/described_file.h"
#include "libckpt/hdf5/describer.h"
#include "libckpt/hdf5/find_helper.h"
#include "libckpt/hdf5/wire.h"
#include "libckpt/io/packed.h"
#include "libckpt/open_save.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A greeting that a shell's printf makes, and the end of all that comes in.
const std::string kGreet =
    "printf '\\001\\005\\000\\000\\000\\00" + std::to_string(detail::kHelperProtocol) + "\\000\\000\\000\\007'";
static_assert(detail::kHelperProtocol < 8, "one octal digit");

class Hdf5Write : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("CKPT_HDF5_HELPER"); }
  std::filesystem::path file(const std::string& name) const { return dir_.path() / name; }
  /// A helper that is a script, in a folder of its own.
  void use_script(const std::string& body) const {
    std::filesystem::create_directories(file("bin"));
    test::write_file(file("bin/helper"), "#!/bin/sh\nPATH=/usr/bin:/bin\n" + body + "\n");
    ::chmod(file("bin/helper").c_str(), 0755);
    ::setenv("CKPT_HDF5_HELPER", file("bin/helper").c_str(), 1);
  }
  std::string save_error(const std::string& name) const {
    return test::error_of([&] { save(test::small_checkpoint(), file(name)); });
  }
  /// Everything in the folder but the helper.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& item : std::filesystem::directory_iterator(dir_.path())) {
      if (item.path().filename() != "bin") names.push_back(item.path().filename().string());
    }
    return names;
  }
  test::TempDir dir_;
};

TEST_F(Hdf5Write, NamesOfFourKilobytesAndMoreComeBack) {
  test::Items items;
  for (int i = 0; i < 40; ++i) {
    items.emplace_back(std::to_string(i) + std::string(4096, 'a'), test::tensor(core::DType::f32, {2}, i));
  }
  items.emplace_back(std::string(65'535, 'b'), test::tensor(core::DType::i64, {3}));
  Checkpoint saved = test::checkpoint(items);
  for (const char* name : {"a.ckpt", "a.h5"}) {
    save(saved, file(name));
    VerifyResult result = verify(file(name));
    EXPECT_TRUE(result.damage.empty() && result.notes.empty()) << name;
    Checkpoint opened = open(file(name));
    EXPECT_EQ(list_entries(opened.root).size(), items.size()) << name;
    for (const auto& [key, value] : items) {
      const Value* read = opened.root.find(key);
      ASSERT_NE(read, nullptr) << key.size();
      EXPECT_EQ(read_all(*read->as_entry().bytes), read_all(*value.as_entry().bytes));
    }
  }
}

TEST_F(Hdf5Write, LongestNameWhoseEveryByteIsEscapedComesBackFromANativeFile) {
  std::string name(65'535, '%');
  Checkpoint saved = test::checkpoint({{name, test::tensor(core::DType::f32, {2})}});
  save(saved, file("a.ckpt"));
  EXPECT_EQ(test::difference(open(file("a.ckpt")).root, saved.root), "");
  VerifyResult result = verify(file("a.ckpt"));
  EXPECT_TRUE(result.damage.empty() && result.notes.empty());
  // A plain file has no index beside it that would say the name.
  EXPECT_THAT(save_error("a.h5"), "");
  EXPECT_THAT(test::error_of([&] { save(saved, file("b.h5")); }),
              HasSubstr("(a name of 65535 bytes that HDF5 would have to change)"));
  EXPECT_FALSE(std::filesystem::exists(file("b.h5")));
}

TEST_F(Hdf5Write, ManyLongTextsBecomeAttributes) {
  test::Items items = {{"x", test::tensor(core::DType::f32, {2})}};
  for (int i = 0; i < 12; ++i) items.emplace_back("text" + std::to_string(i), Value::text(std::string(5000, 't')));
  save(test::checkpoint(items), file("a.h5"));
  EXPECT_EQ(open(file("a.h5")).metadata.size(), 12U);
}

TEST_F(Hdf5Write, MissingHelperIsSaidBeforeAFileIsMade) {
  ::setenv("CKPT_HDF5_HELPER", file("absent").c_str(), 1);
  for (const char* name : {"a.ckpt", "a.h5"}) {
    EXPECT_THAT(save_error(name), StartsWith("unsupported: HDF5 (.ckpt, .h5, Keras) needs the helper program"));
  }
  EXPECT_THAT(files(), ::testing::IsEmpty());
}

TEST_F(Hdf5Write, HelperOfAnotherVersionIsSaidBeforeAFileIsMade) {
  use_script("printf '\\001\\004\\000\\000\\000\\001\\000\\000\\000'");
  EXPECT_EQ(save_error("a.ckpt"),
            "unsupported: the HDF5 helper is of another version than this library; reinstall both");
  EXPECT_THAT(files(), ::testing::IsEmpty());
}

TEST_F(Hdf5Write, DeathOfTheHelperLeavesTheOldFileAsItWas) {
  save(test::small_checkpoint(), file("a.ckpt"));
  std::string before = test::read_file(file("a.ckpt"));
  use_script(kGreet + "; head -c 8 >/dev/null; kill -SEGV $$");
  EXPECT_EQ(save_error("a.ckpt"),
            "io: the HDF5 helper, which describes the tensors to other programs, was ended by signal 11; nothing was "
            "written: save again, or in a format that needs no helper, such as .safetensors");
  EXPECT_EQ(test::read_file(file("a.ckpt")), before);
  EXPECT_EQ(files(), std::vector<std::string>{"a.ckpt"});
}

TEST_F(Hdf5Write, HelperThatDiedWhileTensorsWereWrittenIsStartedOnceMore) {
  std::string real = find_hdf5_helper().string();
  use_script("if [ -e " + file("bin/tried").string() + " ]; then exec " + real + " \"$@\"; fi; touch " +
             file("bin/tried").string() + "; " + kGreet);
  EXPECT_EQ(save_error("a.ckpt"), "");
  EXPECT_TRUE(verify(file("a.ckpt")).damage.empty());
}

// A training saves the same names and sizes again and again.
TEST_F(Hdf5Write, WhatTheHelperSaidOfAFileIsKeptForTheNextOfItsForm) {
  const std::string real = find_hdf5_helper().string();
  const auto model = [](int seed, const std::string& name, std::int64_t rows = 3) {
    return test::checkpoint({{name, test::tensor(core::DType::f32, {rows, 2}, seed)},
                             {"fc.bias", test::tensor(core::DType::f32, {2}, seed + 1)}});
  };
  const auto asked = [&] { return test::read_file(file("bin/asked")).size(); };
  use_script("printf x >> " + file("bin/asked").string() + "; exec " + real + " \"$@\"");
  save(model(1, "fc.weight"), file("a.ckpt"));
  save(model(7, "fc.weight"), file("b.ckpt"));
  save(model(7, "fc.weight"), file("a.ckpt"), {.overwrite = true});
  EXPECT_EQ(asked(), 1U);
  save(model(7, "fc.kernel"), file("c.ckpt"));
  EXPECT_EQ(asked(), 2U);
  save(model(7, "fc.weight", 3000), file("d.ckpt"));
  EXPECT_EQ(asked(), 3U);
  save(model(7, "fc.weight", 3000), file("e.ckpt"), {.codec = Codec::zstd});
  EXPECT_EQ(asked(), 4U);
  ::unsetenv("CKPT_HDF5_HELPER");
  save(model(7, "fc.weight"), file("by_another.ckpt"));
  for (const char* name : {"a.ckpt", "b.ckpt"}) {
    EXPECT_EQ(test::read_file(file(name)), test::read_file(file("by_another.ckpt"))) << name;
  }
  for (const char* name : {"a.ckpt", "c.ckpt", "d.ckpt", "e.ckpt"}) {
    const VerifyResult result = verify(file(name));
    EXPECT_TRUE(result.damage.empty() && result.notes.empty()) << name;
  }
}

TEST_F(Hdf5Write, AnErrorOfAHelperThatIsStartedLateLeavesTheOldFile) {
  const std::string real = find_hdf5_helper().string();
  use_script("if [ -e " + file("bin/tried").string() + " ]; then " + kGreet + "; kill -SEGV $$; fi; touch " +
             file("bin/tried").string() + "; exec " + real + " \"$@\"");
  save(test::checkpoint({{"w", test::tensor(core::DType::f32, {2})}}), file("a.ckpt"));
  const std::string before = test::read_file(file("a.ckpt"));
  EXPECT_THAT(
      test::error_of([&] {
        save(test::checkpoint({{"v", test::tensor(core::DType::f32, {2})}}), file("a.ckpt"), {.overwrite = true});
      }),
      HasSubstr("was ended by signal 11; nothing was written"));
  EXPECT_EQ(test::read_file(file("a.ckpt")), before);
  EXPECT_EQ(files(), std::vector<std::string>{"a.ckpt"});
}

TEST_F(Hdf5Write, NonsenseFromTheHelperIsNotWritten) {
  use_script(kGreet +
             "; head -c 8 >/dev/null; printf '\\010\\003\\000\\000\\000abc\\007\\002\\000\\000\\000\\002\\000'");
  EXPECT_THAT(save_error("a.ckpt"),
              HasSubstr("the HDF5 helper's description of the file contradicts itself: another superblock"));
  EXPECT_THAT(files(), ::testing::IsEmpty());
}

TEST_F(Hdf5Write, SignalsOfATerminalDoNotEndASave) {
  use_script(kGreet + "; head -c 8 >/dev/null; ps -o pgid= $$ >" + file("bin/group").string());
  save_error("a.ckpt");
  EXPECT_NE(std::stol(test::read_file(file("bin/group"))), static_cast<long>(::getpgrp()));
}

// The answer is a file like any other: whatever is wrong with it ends as an Error or as an image of the right form.
TEST_F(Hdf5Write, AnyByteOfADescribedFileIsCheckedOrHarmless) {
  core::ByteVector bytes;
  detail::put_count(bytes, 4096);   // user block
  detail::put_count(bytes, 8192);   // metadata
  bytes.push_back(std::byte{0});    // in the order of names
  detail::put_text(bytes, "data");  // top group
  detail::put_count(bytes, 0);      // attributes
  detail::put_count(bytes, 0);      // datasets
  detail::Hdf5Describer helper;
  helper.require_ready();
  detail::DescribedPlan plan{4096, 8192, 0};
  core::ByteVector answer = *helper.describe(bytes, plan).answer;
  EXPECT_EQ(test::error_of([&] { detail::parse_described(answer, plan); }), "");
  for (std::size_t at = 0; at < std::min<std::size_t>(answer.size(), 140); ++at) {
    for (int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      core::ByteVector changed = answer;
      changed[at] = static_cast<std::byte>(value);
      test::error_of([&] { detail::parse_described(changed, plan); });
    }
  }
  for (std::size_t length = 0; length < answer.size(); length += 7) {
    core::ByteVector cut(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_NE(test::error_of([&] { detail::parse_described(cut, plan); }), "");
  }
  EXPECT_NE(test::error_of([&] { detail::parse_described(answer, {8192, 8192, 0}); }), "");
  EXPECT_NE(test::error_of([&] { detail::parse_described(answer, {4096, 4096, 0}); }), "");
  EXPECT_NE(test::error_of([&] { detail::parse_described(answer, {4096, 8192, 1}); }), "");
}

// The other direction: whatever the helper is told, it answers with a frame and not with its death.
TEST_F(Hdf5Write, AnyByteOfADescriptionIsDescribedOrRefused) {
  core::ByteVector bytes;
  detail::put_count(bytes, 0);
  detail::put_count(bytes, 8192);
  bytes.push_back(std::byte{1});
  detail::put_text(bytes, "");
  detail::put_count(bytes, 0);
  detail::put_count(bytes, 1);
  detail::put_count(bytes, 0);
  detail::put_count(bytes, 1);
  detail::put_text(bytes, "x");
  bytes.push_back(std::byte{detail::kDescribedRaw});
  detail::put_text(bytes, "float32");
  for (std::uint64_t number : {1, 2, 4096, 8, 0}) detail::put_count(bytes, number);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int value : {0x00, 0x7f, 0xff}) {
      core::ByteVector changed = bytes;
      changed[at] = static_cast<std::byte>(value);
      detail::Hdf5Describer helper;
      std::string error = test::error_of([&] { helper.describe(changed, {0, 8192, 1}); });
      EXPECT_THAT(error, ::testing::Not(HasSubstr("signal")));
    }
  }
}

}  // namespace
}  // namespace ckpt
