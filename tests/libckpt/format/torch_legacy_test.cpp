#include <gmock/gmock.h>

#include <cstring>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/pickle_maker.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace std::string_literals;
using ckpt::Checkpoint;
using ckpt::Entry;
using ckpt::OpenOptions;
using ckpt::Report;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> values(const Entry& entry) {
  core::ByteVector bytes = ckpt::read_all(*entry.bytes);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

class TorchLegacy : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return dir_.path() / "a.pth"; }
  Checkpoint opened(const std::string& content, const OpenOptions& options = {}) {
    test::write_file(path(), content);
    return ckpt::open(path(), options);
  }
  core::Error error_of(const std::string& content, const OpenOptions& options = {}) {
    try {
      opened(content, options);
    } catch (const core::Error& error) {
      return error;
    }
    return {core::ErrorCode::internal, "it was read"};
  }

  test::TempDir dir_;
};

const Entry& at(const Checkpoint& checkpoint, std::string_view name) {
  return ckpt::value_at(checkpoint.root, name).as_entry();
}

std::string one_tensor() {
  return test::legacy_stream(
      test::pickled_dict({{test::text("w"), test::tensor(test::storage("FloatStorage", "17", 2), 0, {2}, {1})}}),
      {{"17", 2, test::floats({1, 2})}});
}

TEST_F(TorchLegacy, StoragesFollowInTheOrderOfTheKeys) {
  std::string object =
      test::pickled_dict({{test::text("a"), test::tensor(test::storage("FloatStorage", "9", 2), 0, {2}, {1})},
                          {test::text("b"), test::tensor(test::storage("FloatStorage", "10", 1), 0, {1}, {1})}});
  Checkpoint checkpoint =
      opened(test::legacy_stream(object, {{"10", 1, test::floats({5})}, {"9", 2, test::floats({1, 2})}}));
  EXPECT_EQ(checkpoint.format, "torch-legacy");
  EXPECT_THAT(values(at(checkpoint, "a")), ElementsAre(1, 2));
  EXPECT_THAT(values(at(checkpoint, "b")), ElementsAre(5));
}

TEST_F(TorchLegacy, AViewOfAStorageIsAWindowIntoTheWhole) {
  std::string view = test::tuple({test::text("view"), test::number(2), test::number(3)});
  std::string object = test::pickled_dict(
      {{test::text("all"), test::tensor(test::storage("FloatStorage", "1", 6, test::none()), 0, {6}, {1})},
       {test::text("part"), test::tensor(test::storage("FloatStorage", "1", 6, view), 1, {2}, {1})}});
  Checkpoint checkpoint = opened(test::legacy_stream(object, {{"1", 6, test::floats({0, 1, 2, 3, 4, 5})}}));
  EXPECT_THAT(values(at(checkpoint, "part")), ElementsAre(3, 4));
  EXPECT_EQ(ckpt::storage_identity(at(checkpoint, "all")), ckpt::storage_identity(at(checkpoint, "part")));
}

TEST_F(TorchLegacy, ATensorMayNotLeaveItsView) {
  std::string view = test::tuple({test::text("view"), test::number(2), test::number(3)});
  std::string object = test::pickled_dict(
      {{test::text("part"), test::tensor(test::storage("FloatStorage", "1", 6, view), 2, {2}, {1})}});
  core::Error error = error_of(test::legacy_stream(object, {{"1", 6, test::floats({0, 1, 2, 3, 4, 5})}}));
  EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
  EXPECT_THAT(error.what(), HasSubstr("reaches to element 3 of a view of 3"));
}

TEST_F(TorchLegacy, AViewMayNotLeaveItsStorage) {
  std::string view = test::tuple({test::text("view"), test::number(4), test::number(3)});
  std::string object = test::pickled_dict(
      {{test::text("part"), test::tensor(test::storage("FloatStorage", "1", 6, view), 0, {1}, {1})}});
  EXPECT_THAT(error_of(test::legacy_stream(object, {{"1", 6, test::floats({0, 1, 2, 3, 4, 5})}})).what(),
              HasSubstr("reaches outside of its storage of 6"));
}

TEST_F(TorchLegacy, TextOfPython2IsText) {
  std::string id = test::persistent(test::tuple({test::old_text("storage"), test::symbol("torch", "FloatStorage"),
                                                 test::old_text("7"), test::old_text("cuda:0"), test::number(1)}));
  std::string object = test::pickled_dict({{test::old_text("w"), test::tensor(id, 0, {1}, {1})}});
  std::string stream = test::legacy_head() + test::pickle(object) + test::pickle(test::list({test::old_text("7")})) +
                       test::raw(std::int64_t{1}) + test::floats({3});
  Checkpoint checkpoint = opened(stream);
  EXPECT_EQ(at(checkpoint, "w").location, "cuda:0");
  EXPECT_THAT(values(at(checkpoint, "w")), ElementsAre(3));
}

TEST_F(TorchLegacy, EmptyStoragesOfOneKeyStayApart) {
  std::string object =
      test::pickled_dict({{test::text("f"), test::tensor(test::storage("FloatStorage", "0", 0), 0, {0}, {1})},
                          {test::text("i"), test::tensor(test::storage("LongStorage", "0", 0), 0, {0}, {1})}});
  Checkpoint checkpoint = opened(test::legacy_stream(object, {{"0", 0, ""}}));
  EXPECT_EQ(at(checkpoint, "f").dtype, core::DType::f32);
  EXPECT_EQ(at(checkpoint, "i").dtype, core::DType::i64);
}

TEST_F(TorchLegacy, OneKeyIsOneTypeOnOneDevice) {
  std::string two_types =
      test::pickled_dict({{test::text("f"), test::tensor(test::storage("FloatStorage", "1", 1), 0, {1}, {1})},
                          {test::text("i"), test::tensor(test::storage("IntStorage", "1", 1), 0, {1}, {1})}});
  EXPECT_EQ(error_of(test::legacy_stream(two_types, {{"1", 1, test::floats({1})}})).code(),
            core::ErrorCode::unsupported);
  std::string two_places = test::pickled_dict(
      {{test::text("a"), test::tensor(test::storage("FloatStorage", "1", 1), 0, {1}, {1})},
       {test::text("b"), test::tensor(test::storage("FloatStorage", "1", 1, "", "cuda:0"), 0, {1}, {1})}});
  EXPECT_THAT(error_of(test::legacy_stream(two_places, {{"1", 1, test::floats({1})}})).what(),
              HasSubstr("'cpu' and on 'cuda:0'"));
}

TEST_F(TorchLegacy, KeysAndStoragesMustBeTheSame) {
  std::string object =
      test::pickled_dict({{test::text("w"), test::tensor(test::storage("FloatStorage", "1", 1), 0, {1}, {1})}});
  EXPECT_THAT(error_of(test::legacy_stream(object, {})).what(), HasSubstr("'1' is not in the stream"));
  EXPECT_THAT(error_of(test::legacy_stream(object, {{"1", 1, test::floats({1})}, {"2", 0, ""}})).what(),
              HasSubstr("'2' that no tensor uses"));
  EXPECT_THAT(error_of(test::legacy_stream(object, {{"1", 1, test::floats({1})}, {"1", 1, test::floats({1})}})).what(),
              HasSubstr("'1' is listed twice"));
}

TEST_F(TorchLegacy, CountsMustBeThoseOfTheTensors) {
  std::string object =
      test::pickled_dict({{test::text("w"), test::tensor(test::storage("FloatStorage", "1", 2), 0, {2}, {1})}});
  EXPECT_THAT(error_of(test::legacy_stream(object, {{"1", 3, test::floats({1, 2, 3})}})).what(),
              HasSubstr("3 elements where its tensors say 2"));
}

TEST_F(TorchLegacy, BytesBehindTheLastStorageNeedLenience) {
  EXPECT_THAT(error_of(one_tensor() + "12345").what(), HasSubstr("5 B after the last storage"));
  Report report;
  opened(one_tensor() + "12345", {.lenient = true, .report = &report});
  EXPECT_THAT(report.relaxations, ElementsAre(HasSubstr("5 B after the last storage")));
}

TEST_F(TorchLegacy, EveryCutIsNoticed) {
  std::string whole = one_tensor();
  for (std::size_t size = 4; size < whole.size(); ++size) {
    core::Error error = error_of(whole.substr(0, size));
    EXPECT_NE(error.code(), core::ErrorCode::internal) << size;
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt) << size << ": " << error.what();
  }
}

TEST_F(TorchLegacy, TheMagicNumberOfAnyProtocolIsKnown) {
  std::string rest = one_tensor().substr(15);
  std::string number("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
  for (const std::string& magic : {"L119547037146038801333356L\n."s, "\x80\x04\x8a\x0a"s + number + ".",
                                   "\x80\x02\x8b"s + test::raw(std::int32_t{10}) + number + "."}) {
    EXPECT_THAT(values(at(opened(magic + rest), "w")), ElementsAre(1, 2));
  }
}

TEST_F(TorchLegacy, AMagicNumberThatIsComputedIsNone) {
  std::string magic = test::pickle(test::call(test::symbol("builtins", "int"), {test::text("0x1950a86a20f9469cfc6c")}));
  EXPECT_EQ(error_of(magic + one_tensor().substr(15)).code(), core::ErrorCode::unsupported);
}

TEST_F(TorchLegacy, AModuleIsItsClassAndItsSourceIsIgnored) {
  std::string module = test::persistent(test::tuple(
      {test::text("module"), test::symbol("my.nets", "Net"), test::text("net.py"), test::text("import os")}));
  std::string parameters =
      test::pickled_dict({{test::text("weight"), test::tensor(test::storage("FloatStorage", "1", 1), 0, {1}, {1})}});
  std::string object = test::instance(module, test::pickled_dict({{test::text("_parameters"), parameters},
                                                                  {test::text("_buffers"), test::pickled_dict({})},
                                                                  {test::text("_modules"), test::pickled_dict({})}}));
  std::string stream = test::legacy_stream(object, {{"1", 1, test::floats({4})}});
  EXPECT_THAT(error_of(stream).what(), HasSubstr("'my.nets.Net'"));
  Checkpoint checkpoint = opened(stream, {.foreign_objects = true});
  EXPECT_THAT(values(at(checkpoint, "weight")), ElementsAre(4));
}

TEST_F(TorchLegacy, VerifyFindsWhatReadingLetsPass) {
  test::write_file(path(), one_tensor());
  EXPECT_TRUE(ckpt::verify(path()).damage.empty());
  test::write_file(path(), one_tensor() + "x");
  EXPECT_FALSE(ckpt::verify(path()).damage.empty());
}

TEST_F(TorchLegacy, ItIsWrittenAsAZipFileOnly) {
  Checkpoint checkpoint = opened(one_tensor());
  ckpt::save(checkpoint, path(), {.format = "torch-zip", .durable = false});
  EXPECT_EQ(ckpt::open(path()).format, "torch-zip");
  EXPECT_THAT(values(at(ckpt::open(path()), "w")), ElementsAre(1, 2));
  EXPECT_THROW(ckpt::save(checkpoint, path(), {.format = "torch-legacy", .durable = false}), core::Error);
}

// A tar archive of PyTorch 0.1.

std::string tar_member(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  auto put = [&](std::size_t offset, const std::string& value) { header.replace(offset, value.size(), value); };
  auto octal = [](std::uint64_t value, int width) {
    std::string out(static_cast<std::size_t>(width), '0');
    for (std::size_t i = out.size(); i-- > 0; value /= 8) out[i] = static_cast<char>('0' + value % 8);
    return out;
  };
  put(0, name);
  put(124, octal(content.size(), 11));
  put(156, "0");
  put(257, "ustar\0"s + "00");
  put(148, std::string(8, ' '));
  std::uint64_t sum = 0;
  for (unsigned char c : header) sum += c;
  put(148, octal(sum, 6) + "\0 "s);
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

struct TarParts {
  std::string storages;
  std::string tensors;
  std::string object;
  std::string bytes() const {
    return tar_member("sys_info", test::pickle(test::pickled_dict({}))) + tar_member("pickle", object) +
           tar_member("tensors", tensors) + tar_member("storages", storages) + std::string(1024, '\0');
  }
};

/// Two tensors over one storage of four floats, one of them through a view of it.
TarParts tar_parts() {
  TarParts parts;
  parts.storages =
      test::pickle(test::number(1)) +
      test::pickle(test::tuple({test::number(1), test::text("cuda:1"), test::symbol("torch", "FloatStorage")})) +
      test::raw(std::int64_t{4}) + test::floats({1, 2, 3, 4}) + test::pickle(test::list({test::numbers({2, 1, 1, 3})}));
  auto tensor = [](int key, int storage, std::int64_t size, std::int64_t offset) {
    return test::pickle(test::tuple({test::number(key), test::number(storage), test::symbol("torch", "FloatTensor")})) +
           test::raw(std::int32_t{1}) + test::raw(std::int32_t{0}) + test::raw(size) + test::raw(std::int64_t{1}) +
           test::raw(offset);
  };
  parts.tensors = test::pickle(test::number(2)) + tensor(11, 1, 4, 0) + tensor(12, 2, 2, 1);
  parts.object = test::pickle(test::pickled_dict({{test::text("all"), test::persistent(test::number(11))},
                                                  {test::text("part"), test::persistent(test::text("12"))}}));
  return parts;
}

using TorchTar = TorchLegacy;

TEST_F(TorchTar, TensorsStoragesViewsAndTagsComeBack) {
  Checkpoint checkpoint = opened(tar_parts().bytes());
  EXPECT_EQ(checkpoint.format, "torch-tar");
  EXPECT_THAT(values(at(checkpoint, "all")), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(at(checkpoint, "part")), ElementsAre(3, 4));
  EXPECT_EQ(at(checkpoint, "part").location, "cuda:1");
  EXPECT_EQ(ckpt::storage_identity(at(checkpoint, "all")), ckpt::storage_identity(at(checkpoint, "part")));
  EXPECT_TRUE(ckpt::verify(path()).damage.empty());
}

TEST_F(TorchTar, ATensorThatIsNotThereIsNamed) {
  TarParts parts = tar_parts();
  parts.object = test::pickle(test::persistent(test::number(99)));
  EXPECT_THAT(error_of(parts.bytes()).what(), HasSubstr("refers to tensor 99"));
}

TEST_F(TorchTar, HostilePicklesAreRefusedHereToo) {
  TarParts parts = tar_parts();
  parts.object = test::pickle(test::call(test::symbol("posix", "system"), {test::text("true")}));
  core::Error error = error_of(parts.bytes());
  EXPECT_EQ(error.code(), core::ErrorCode::refused);
  EXPECT_THAT(error.what(), HasSubstr("'posix.system'"));
}

TEST_F(TorchTar, OtherTarsAreNamed) {
  core::Error error = error_of(tar_member("README", "hello") + std::string(1024, '\0'));
  EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("tar archive, but not a PyTorch checkpoint"));
}

TEST_F(TorchTar, EveryCutIsNoticed) {
  std::string whole = tar_parts().bytes();
  for (std::size_t size = 300; size < whole.size(); size += 37) {
    core::Error error = error_of(whole.substr(0, size));
    EXPECT_TRUE(error.code() == core::ErrorCode::corrupt) << size << ": " << error.what();
  }
}

TEST_F(TorchTar, LyingHeadersAreRefused) {
  std::string whole = tar_parts().bytes();
  whole[130] = '7';  // the size of the first member, without its checksum
  EXPECT_THAT(error_of(whole).what(), HasSubstr("checksum"));
  EXPECT_THAT(error_of(tar_parts().bytes() + "x").what(), HasSubstr("after its end"));
}

}  // namespace
