#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/hint.h"
#include "libckpt/io/zip.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using testing::HasSubstr;

/// An .npy file of version 1.0 around a header text and data.
std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string out = "\x93NUMPY";
  out += std::string{major, '\0'};
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  if (major > 1) out += std::string(2, '\0');
  return out + header + data;
}

std::string f4(const std::string& shape, bool fortran = false) {
  return "{'descr': '<f4', 'fortran_order': " + std::string(fortran ? "True" : "False") + ", 'shape': " + shape +
         ", }\n";
}

std::string floats(std::initializer_list<float> values) {
  std::string out(values.size() * sizeof(float), '\0');
  std::memcpy(out.data(), values.begin(), out.size());
  return out;
}

class NpyFile : public testing::Test {
 protected:
  ckpt::Checkpoint open(const std::string& bytes, const ckpt::OpenOptions& options = {}) {
    test::write_file(path_, bytes);
    return ckpt::open(path_, options);
  }
  /// Code and message of the refusal.
  std::string refusal(const std::string& bytes, ErrorCode code) {
    try {
      open(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "was read";
    return "";
  }
  std::vector<float> values(const ckpt::Value& tensor) {
    core::ByteVector raw = ckpt::read_all(*tensor.as_entry().bytes);
    std::vector<float> out(raw.size() / sizeof(float));
    std::memcpy(out.data(), raw.data(), raw.size());
    return out;
  }

  test::TempDir dir_;
  std::filesystem::path path_ = dir_.path() / "a.npy";
};

TEST_F(NpyFile, IsOneTensor) {
  ckpt::Checkpoint checkpoint = open(npy(f4("(2,)"), floats({1, 2})));
  EXPECT_EQ(checkpoint.format, "npy");
  ASSERT_TRUE(checkpoint.root.is(ckpt::Value::Kind::tensor));
  EXPECT_EQ(checkpoint.root.as_entry().shape, core::Shape{2});
  EXPECT_THAT(values(checkpoint.root), testing::ElementsAre(1, 2));
}

TEST_F(NpyFile, FortranOrderIsTurned) {
  EXPECT_THAT(values(open(npy(f4("(2, 3)", true), floats({1, 4, 2, 5, 3, 6}))).root),
              testing::ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(NpyFile, BigEndianIsTurned) {
  std::string header = "{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }";
  ckpt::Checkpoint checkpoint = open(npy(header, std::string("\x01\x02\x03\x04", 4)));
  core::ByteVector raw = ckpt::read_all(*checkpoint.root.as_entry().bytes);
  EXPECT_EQ(core::load_le<std::int16_t>(raw.data()), 0x0102);
}

TEST_F(NpyFile, AllVersionsAndOldSpellings) {
  EXPECT_THAT(values(open(npy(f4("(1,)"), floats({7}), 2)).root), testing::ElementsAre(7));
  EXPECT_THAT(values(open(npy(f4("(1,)"), floats({7}), 3)).root), testing::ElementsAre(7));
  EXPECT_THAT(values(open(npy(f4("(1L, 1L)"), floats({7}))).root), testing::ElementsAre(7));
  EXPECT_THAT(values(open(npy(f4("()"), floats({7}))).root), testing::ElementsAre(7));
  EXPECT_THAT(refusal(npy(f4("(1,)"), floats({7}), 4), ErrorCode::unsupported), HasSubstr("version 4.0"));
}

TEST_F(NpyFile, WhatIsNoTensorIsNamed) {
  auto with = [](const std::string& descr) {
    return npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }", std::string(32, 'x'));
  };
  EXPECT_THAT(refusal(with("'|O'"), ErrorCode::refused), HasSubstr("Python pickle"));
  EXPECT_THAT(refusal(with("[('a', '<f4')]"), ErrorCode::unsupported), HasSubstr("structured"));
  EXPECT_THAT(refusal(with("'<U8'"), ErrorCode::unsupported), HasSubstr("text"));
  EXPECT_THAT(refusal(with("'<M8[ns]'"), ErrorCode::unsupported), HasSubstr("dates"));
  EXPECT_THAT(refusal(with("'<f16'"), ErrorCode::unsupported), HasSubstr("extended precision"));
  EXPECT_THAT(refusal(with("'<q4'"), ErrorCode::corrupt), HasSubstr("unknown descr"));
}

TEST_F(NpyFile, HeadersThatAreNoneAreRefused) {
  const std::string data = floats({1, 2});
  EXPECT_THAT(refusal(npy(f4("(2)"), data), ErrorCode::corrupt), HasSubstr("not a tuple"));
  EXPECT_THAT(refusal(npy(f4("(-2,)"), data), ErrorCode::corrupt), HasSubstr("negative size -2"));
  EXPECT_THAT(refusal(npy(f4("(99999999999999999999,)"), data), ErrorCode::corrupt), HasSubstr("64 bits"));
  EXPECT_THAT(refusal(npy(f4("(4294967296, 4294967296)"), data), ErrorCode::corrupt), HasSubstr("impossible shape"));
  EXPECT_THAT(refusal(npy(f4("(2,)") + "x", data), ErrorCode::corrupt), HasSubstr("other text"));
  EXPECT_THAT(refusal(npy("{'descr': '<f4', 'shape': (2,), }", data), ErrorCode::corrupt), HasSubstr("fortran_order"));
  EXPECT_THAT(refusal(npy("{'descr': '<f4', 'descr': '<f4'}", data), ErrorCode::corrupt), HasSubstr("'descr'"));
  EXPECT_THAT(refusal(npy(f4("__import__('os')"), data), ErrorCode::corrupt), HasSubstr("lacks a '('"));
  EXPECT_THAT(refusal(npy(std::string(20'000, ' '), data), ErrorCode::refused), HasSubstr("20,000 bytes"));
  std::string rank = "(" + std::string(300, '1');
  for (std::size_t i = 2; i < rank.size(); i += 2) rank[i] = ',';
  EXPECT_THAT(refusal(npy(f4(rank + ")"), data), ErrorCode::refused), HasSubstr("more than 64 dimensions"));
}

TEST_F(NpyFile, DataAreExactlyThere) {
  EXPECT_THAT(refusal(npy(f4("(2,)"), "1234567"), ErrorCode::corrupt), HasSubstr("7 of 8 bytes"));
  EXPECT_THAT(refusal(npy(f4("(2,)"), "123456789"), ErrorCode::corrupt), HasSubstr("1 bytes after"));
  ckpt::Report report;
  EXPECT_NO_THROW(open(npy(f4("(2,)"), "123456789"), {.lenient = true, .report = &report}));
  EXPECT_EQ(report.relaxations.size(), 1U);
  EXPECT_THAT(refusal("\x93NUMPY\x01", ErrorCode::corrupt), HasSubstr("ends at byte 7"));
}

TEST_F(NpyFile, IsWrittenAsNumpyWritesIt) {
  ckpt::save(test::checkpoint(test::dict({{"w", test::tensor({1, 2})}})), path_);
  std::string expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  expected.resize(117, ' ');
  EXPECT_EQ(test::read_file(path_), npy(expected + "\n", floats({1, 2})));
}

TEST_F(NpyFile, HoldsOneTensorOnly) {
  ckpt::Checkpoint two = test::checkpoint(test::state_dict({"a", "b"}));
  EXPECT_THROW(ckpt::save(two, path_), Error);
  EXPECT_TRUE(test::list_folder(dir_.path()).empty());
}

class NpzFile : public NpyFile {
 protected:
  NpzFile() { path_ = dir_.path() / "a.npz"; }
  std::string zip(std::vector<std::pair<std::string, std::string>> members) {
    std::vector<ckpt::ZipItem> items;
    for (auto& [name, content] : members) {
      core::Bytes bytes = core::as_bytes(content);
      items.push_back({name, ckpt::memory_source({bytes.begin(), bytes.end()})});
    }
    ckpt::MemorySink sink;
    ckpt::ZipWriter(std::move(items)).write(sink);
    return std::string(core::as_text(sink.bytes()));
  }
};

TEST_F(NpzFile, KeepsNamesAndOrder) {
  std::string one = npy(f4("(1,)"), floats({1}));
  ckpt::Checkpoint checkpoint = open(zip({{"z.npy", one}, {"a/b.npy", one}, {"c.npy.npy", one}}));
  EXPECT_THAT(test::names(checkpoint), testing::ElementsAre("z", "a/b", "c.npy"));
}

TEST_F(NpzFile, WhatIsNoArrayIsListed) {
  std::string one = npy(f4("(1,)"), floats({1}));
  std::string object = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "pickle");
  std::string bytes = zip({{"good.npy", one}, {"bad.npy", object}, {"notes.txt", "hello"}});
  std::string text = refusal(bytes, ErrorCode::refused);
  EXPECT_THAT(text, HasSubstr("2 members are not tensors: 'bad' (an object array"));
  EXPECT_THAT(text, HasSubstr("'notes.txt' (not a .npy array)"));
  ckpt::Report report;
  EXPECT_THAT(test::names(open(bytes, {.lenient = true, .report = &report})), testing::ElementsAre("good"));
  EXPECT_EQ(report.relaxations.size(), 2U);
}

TEST_F(NpzFile, DamageIsFoundAndStaysVisible) {
  std::string bytes = zip({{"w.npy", npy(f4("(2,)"), floats({1, 2}))}});
  bytes[bytes.find(floats({1, 2}))] ^= 1;
  test::write_file(path_, bytes);
  EXPECT_FALSE(ckpt::verify(path_).damage.empty());
  ckpt::Checkpoint checked = ckpt::open(path_, {.check_hashes = true});
  EXPECT_THROW(ckpt::read_all(*ckpt::list_entries(checked.root)[0].entry->bytes), Error);
  std::filesystem::path copy = dir_.path() / "copy.npz";
  EXPECT_THROW(ckpt::save(ckpt::open(path_), copy), Error);
  ckpt::save(ckpt::open(path_, {.lenient = true}), copy);
  EXPECT_FALSE(ckpt::verify(copy).damage.empty()) << "a copy must not get a fresh checksum";
}

TEST_F(NpzFile, SaysThatMetadataAreLeftOut) {
  ckpt::Checkpoint checkpoint = test::checkpoint(test::state_dict({"a"}));
  for (const char* name : {"a.npz", "a.npy"}) {
    ckpt::Report report;
    checkpoint.metadata = {{"format", "pt"}};
    ckpt::save(checkpoint, dir_.path() / name, {.report = &report});
    EXPECT_THAT(report.warnings, testing::Not(testing::Contains(HasSubstr("metadata"))));
    checkpoint.metadata = {{"license", "MIT"}};
    ckpt::save(checkpoint, dir_.path() / name, {.report = &report});
    EXPECT_THAT(report.warnings, testing::Contains(HasSubstr("metadata has no place in a NumPy file"))) << name;
  }
}

TEST_F(NpzFile, SaysWhatItCannotHold) {
  ckpt::Entry entry = test::float_entry({1, 2});
  entry.dtype = DType::bf16;
  entry.shape = core::Shape{4};
  ckpt::Checkpoint checkpoint =
      test::checkpoint(test::dict({{"w", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(entry))},
                                   {"../x", test::tensor({1})},
                                   {"epoch", ckpt::Value::integer(3)},
                                   {"ok", test::tensor({5})}}));
  try {
    ckpt::save(checkpoint, path_);
    FAIL() << "was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("'w' (dtype bfloat16)"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("--")));
    std::optional<ckpt::Hint> hint = ckpt::hint_of(error);
    ASSERT_TRUE(hint);
    ASSERT_EQ(hint->options.size(), 2U);
    EXPECT_EQ(hint->options[0].option, ckpt::Hint::Option::drop_inexpressible);
    EXPECT_EQ(hint->options[1].option, ckpt::Hint::Option::retype);
    EXPECT_EQ(hint->options[1].from, DType::bf16);
    EXPECT_EQ(hint->options[1].to, DType::f32);
    EXPECT_THAT(error.what(), HasSubstr("'epoch' (a value of type int)"));
    EXPECT_THAT(error.what(), HasSubstr("path out of the archive"));
  }
  EXPECT_TRUE(test::list_folder(dir_.path()).empty());
  ckpt::save(checkpoint, path_, {.drop_inexpressible = true, .retype = {{DType::bf16, DType::f32}}});
  EXPECT_THAT(test::names(ckpt::open(path_)), testing::ElementsAre("w", "ok"));
}

TEST_F(NpzFile, SavedBytesDependOnTheContentAlone) {
  ckpt::Checkpoint checkpoint = test::checkpoint(test::state_dict({"a", "b"}));
  ckpt::save(checkpoint, path_);
  std::string first = test::read_file(path_);
  ckpt::save(ckpt::open(path_), path_);
  EXPECT_EQ(test::read_file(path_), first);
}

TEST(NpzName, IsToldByTheFirstMemberHoweverLongItsName) {
  test::TempDir dir;
  const std::string name(5000, 'n');
  ckpt::save(test::checkpoint(test::dict({{name, test::tensor({1, 2})}})), dir.path() / "long.npz");
  ckpt::Checkpoint read = ckpt::open(dir.path() / "long.npz");
  EXPECT_EQ(read.format, "npz");
  EXPECT_EQ(ckpt::list_entries(read.root).at(0).name, name);
}

}  // namespace
