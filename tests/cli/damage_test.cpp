// One byte of a tensor is not what was written: no command may end with 0 and leave a file that verifies as good.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "libcore/base/text.h"
#include "tests/cli/damaged_files.h"
#include "tests/cli/files.h"
#include "tests/libckpt/format/pickle_maker.h"
#include "tests/libckpt/format/zip_maker.h"

using testing::HasSubstr;
using namespace test;

namespace {

/// A command that reads all bytes of 'module.b'. IN is the damaged file, GOOD one that is not, OUT what is written.
const std::vector<std::vector<std::string>> kLooking = {
    {"stat", "IN"},
    {"hash", "IN"},
    {"diff", "IN", "GOOD"},
    {"diff", "GOOD", "IN"},
    {"cat", "IN", "module.b"},
    {"align", "IN", "GOOD", "-o", "OUT.toml"},
};

const std::vector<std::vector<std::string>> kWriting = {
    {"convert", "IN", "OUT"},
    {"cast", "IN", "--to", "f64", "-o", "OUT"},
    {"publish", "IN", "-o", "OUT"},
    {"avg", "IN", "GOOD", "-o", "OUT"},
    {"avg", "GOOD", "IN", "-o", "OUT"},
    {"merge", "IN", "GOOD", "-o", "OUT"},
    {"merge", "--method", "ties", "--densities", "0.5", "--base", "GOOD", "IN", "-o", "OUT"},
    {"select", "IN", "--include=*b", "-o", "OUT"},
    {"join", "IN", "-o", "OUT"},
    {"rename", "IN", "--glob", "module.*=net.*", "-o", "OUT"},
    {"rename", "IN", "--rules", "transpose.toml", "-o", "OUT"},
    {"rename", "IN", "--rules", "split.toml", "-o", "OUT"},
    {"rename", "IN", "--rules", "fuse.toml", "-o", "OUT"},
    {"convert", "--rules", "transpose.toml", "IN", "OUT"},
    {"strip-prefix", "IN", "-o", "OUT"},
    {"add-prefix", "IN", "-o", "OUT"},
    {"remap", "--to", "cuda:0", "IN", "-o", "OUT"},
    {"compact", "IN", "-o", "OUT"},
    {"compact", "--dedupe", "IN", "-o", "OUT"},
    {"meta", "IN", "--set", "by=me", "-o", "out.ckpt"},
    {"split", "IN", "--shards", "2", "-o", "OUT"},
    {"reshard", "IN", "--ranks", "2", "-o", "out.dcp"},
    {"delta", "make", "IN", "GOOD", "-o", "out.ckpt"},
    {"delta", "make", "GOOD", "IN", "-o", "out.ckpt"},
};

/// Every other command, and why it is not in the tables.
const std::map<std::string, std::string> kOther = {
    {"ls", "reads no values"},
    {"quantize", "packs matrices of whole blocks, which the file has none of; reads them as cast does"},
    {"info", "reads no values"},
    {"tree", "reads no values"},
    {"plan", "reads no values"},
    {"view", "shows on a terminal what stat, cat and diff say, damage too, and writes as rename does"},
    {"scan", "looks for code; what it reads beside that is said by verify"},
    {"verify", "compares everything, and damage is its answer"},
    {"why", "the damage is a cause"},
    {"fix", "writes as rename does, after why found nothing else"},
    {"lora", "reads an adapter and its base as open does, and writes as avg does"},
    {"optim", "writes as select does, files with an optimizer alone"},
    {"set", "writes as rename does"},
    {"latest", "damage is a reason to skip a file"},
    {"gc", "a damaged file counts for nothing"},
    {"undo", "reads no values"},
    {"rescue", "keeps the other tensors"},
    {"reindex", "takes the values of an HDF5 file that was edited for new"},
    {"zoo",
     "reads no files, but verify, which is diff, info, which reads no values, and export, which loads as run does"},
    {"devices", "reads no files"},
    {"doctor", "reads no files"},
    {"help", "reads no files"},
    {"completion", "reads no files"},
    {"man", "reads no files"},
    {"git", "reads names and shapes"},
};

class Damage : public testing::TestWithParam<DamagedForm> {
 protected:
  void SetUp() override {
    GetParam().write(dir_.path());
    // The packed form has larger values, so that there is something to pack.
    ckpt::Checkpoint good = ckpt::open(dir_.path() / GetParam().name, {.lenient = true});
    write_checkpoint(dir_.path() / "good.pth",
                     good.root.find("module.b")->as_entry().byte_size() > 100 ? larger_model() : undamaged_model());
    write_file(dir_.path() / "transpose.toml", "[[rule]]\ntranspose = 'module.b'\n");
    write_file(dir_.path() / "split.toml", "[[rule]]\nsplit = 'module.b'\nto = ['x.b', 'y.b']\ndim = 0\n");
    write_file(dir_.path() / "fuse.toml", "[[rule]]\nfuse = ['module.b', 'module.c']\nto = 'x.b'\ndim = 1\n");
  }
  static ckpt::Value larger_model() {
    auto entry = std::make_shared<ckpt::Entry>(float_entry(std::vector<float>(20'000, 0.5F)));
    entry->shape = {2, 10'000};
    ckpt::Value large = ckpt::Value::tensor(entry);
    return dict({{"module.a", tensor({0, 1, 2})},
                 {"module.b", large},
                 {"module.c", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(*entry))}});
  }
  std::vector<std::string> filled(std::vector<std::string> words, const std::string& out) const {
    for (std::string& word : words) {
      if (word == "IN") word = GetParam().name;
      if (word == "GOOD") word = "good.pth";
      if (word == "OUT") word = out;
      if (word == "OUT.toml") word = "out.toml";
    }
    return words;
  }
  Outcome run(const std::vector<std::string>& words) const { return run_ckpt(dir_.path(), words); }
  /// Another form, by turns, and the same one, where the bytes could be carried along as they are.
  static std::vector<std::string> outputs_of(const std::vector<std::string>& command) {
    if (command.back() != "OUT") return {command.back()};
    static std::size_t turn = 0;
    const std::vector<std::string> all = {"out.pth", "out.npz", "out.ckpt", "out.safetensors"};
    std::vector<std::string> out = {all[turn++ % all.size()]};
    std::string_view name = GetParam().name;
    std::string same = name.ends_with(".npz") ? all[1] : name.ends_with(".ckpt") ? all[2] : all[0];
    if (out[0] != same) out.push_back(same);
    return out;
  }
  /// What an error of the command names: names without their prefix end with this.
  static std::string subject() {
    std::string_view name = GetParam().subject;
    return name == "module.b" ? "b'" : std::string(name);
  }

  TempDir dir_;
};

std::string line_of(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += word + " ";
  return line;
}

std::size_t count_in(const std::string& text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST_P(Damage, CommandsThatOnlyLookNameTheTensorAndTheFile) {
  for (const std::vector<std::string>& command : kLooking) {
    std::vector<std::string> words = filled(command, "");
    Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 3) << line_of(words) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(GetParam().subject)) << line_of(words);
    EXPECT_THAT(outcome.err, HasSubstr("damaged")) << line_of(words);
    EXPECT_THAT(outcome.err, HasSubstr(GetParam().name)) << line_of(words);
    EXPECT_FALSE(std::filesystem::exists(dir_.path() / "out.toml"));
  }
}

TEST_P(Damage, CommandsThatWriteNameTheTensorAndWriteNothing) {
  for (const std::vector<std::string>& command : kWriting) {
    for (const std::string& out : outputs_of(command)) {
      std::vector<std::string> words = filled(command, out);
      Outcome outcome = run(words);
      EXPECT_EQ(outcome.code, 3) << line_of(words) << outcome.out << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(subject())) << line_of(words);
      EXPECT_THAT(outcome.err, HasSubstr("damaged")) << line_of(words);
      EXPECT_THAT(outcome.err, HasSubstr(GetParam().name)) << line_of(words);
      EXPECT_FALSE(std::filesystem::exists(dir_.path() / out)) << line_of(words);
    }
  }
}

TEST_P(Damage, LenientCommandsThatOnlyLookWarnOnce) {
  for (const std::vector<std::string>& command : kLooking) {
    std::vector<std::string> words = filled(command, "");
    words.push_back("--lenient");
    Outcome outcome = run(words);
    if (!GetParam().decodes) {
      EXPECT_EQ(outcome.code, 3) << line_of(words);
      continue;
    }
    EXPECT_LE(outcome.code, 1) << line_of(words) << outcome.err;
    EXPECT_EQ(count_in(outcome.err, "damaged"), 1U) << line_of(words) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("'module.b'")) << line_of(words);
    std::filesystem::remove(dir_.path() / "out.toml");
  }
}

TEST_P(Damage, LenientCommandsThatWriteWarnOnceAndGiveNoGoodChecksum) {
  for (const std::vector<std::string>& command : kWriting) {
    for (const std::string& out : outputs_of(command)) {
      std::vector<std::string> words = filled(command, out);
      words.push_back("--lenient");
      Outcome outcome = run(words);
      if (!GetParam().decodes) {
        EXPECT_EQ(outcome.code, 3) << line_of(words);
        continue;
      }
      EXPECT_EQ(outcome.code, 0) << line_of(words) << outcome.err;
      EXPECT_EQ(count_in(outcome.err, "damaged"), 1U) << line_of(words) << outcome.err;
      bool has_none = command[0] == "split" || command[0] == "reshard" || out == "out.safetensors";
      EXPECT_EQ(count_in(outcome.err, "has no checksum to say so"), has_none ? 1U : 0U) << line_of(words);
      if (!has_none) {
        EXPECT_NE(run({"verify", out}).code, 0) << line_of(words);
      }
      std::filesystem::remove_all(dir_.path() / out);
    }
  }
}

TEST_P(Damage, IsFoundByVerifyOnce) {
  Outcome outcome = run({"verify", GetParam().name});
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  std::size_t count = 0;
  for (const char* text : {"its CRC-32 is not", "its bytes are damaged", "a chunk is damaged"}) {
    count += count_in(outcome.out, text);
  }
  EXPECT_EQ(count, 1U) << outcome.out;
  EXPECT_EQ(run({"verify", "--lenient", GetParam().name}).code, 1);
}

/// A command that is new belongs into one of the tables.
TEST(DamageTables, HoldEveryCommand) {
  std::set<std::string> known;
  for (const auto& [name, why] : kOther) known.insert(name);
  for (const std::vector<std::string>& command : kLooking) known.insert(command[0]);
  for (const std::vector<std::string>& command : kWriting) known.insert(command[0]);
  TempDir dir;
  std::istringstream help(run_ckpt(dir.path(), {"--help"}).out);
  std::set<std::string> found;
  bool commands = false;
  for (std::string line; std::getline(help, line);) {
    commands = commands || line.starts_with("Look at a checkpoint");
    bool entry = commands && line.size() > 3 && line.starts_with("  ") && line[2] != ' ';
    if (entry) found.insert(line.substr(2, line.find_first_of(" ,", 2) - 2));
  }
  EXPECT_GT(found.size(), 30U);
  for (const std::string& name : found) EXPECT_TRUE(known.contains(name)) << name;
}

/// NumPy does not read a size with leading zeros, nor PyTorch an archive without records.
TEST(HostileFile, WhatItsOwnLibraryRefusesIsRefused) {
  TempDir dir;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (002,), }";
  header += std::string(117 - header.size(), ' ') + "\n";
  write_file(dir.path() / "zeros.npy", std::string("\x93NUMPY\x01\0\x76\0", 10) + header + std::string(8, '\0'));
  expect_refused(dir, {"verify", "zeros.npy"}, 3, "zeros.npy", "leading zeros");
  std::string empty = std::string("PK\x05\x06") + std::string(18, '\0');
  write_file(dir.path() / "empty.pt", empty);
  expect_refused(dir, {"verify", "empty.pt"}, 3, "empty.pt", "empty zip archive");
  write_file(dir.path() / "empty.npz", empty);
  EXPECT_EQ(run_ckpt(dir.path(), {"verify", "empty.npz"}).code, 0);
}

/// PyTorch can be told to write no checksums; what stands in their place is not compared.
TEST(WithoutChecksums, AFileIsReadableAndNotDamaged) {
  TempDir dir;
  ZipSpec zip = torch_zip("}.", {"abcd"});
  for (ZipSpecMember& member : zip.members) member.crc_xor = 1;
  write_file(dir.path() / "a.pth", zip.bytes());
  Outcome outcome = run_ckpt(dir.path(), {"verify", "a.pth"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("a.pth: readable; the file was written without checksums"));
  EXPECT_EQ(count_in(outcome.out, "finding"), 0U) << outcome.out;
}

/// Another file before or behind one, records that overlap and names that stand twice: one sentence, and exit 3.
class Appended : public testing::Test {
 protected:
  void SetUp() override {
    write_checkpoint(dir_.path() / "good.pth", undamaged_model());
    write_checkpoint(dir_.path() / "good.npz", undamaged_model());
    write_checkpoint(dir_.path() / "good.h5", undamaged_model());
    zip_ = read_file(dir_.path() / "good.pth");
    hdf5_ = read_file(dir_.path() / "good.h5");
  }
  void expect_one_sentence(const std::string& content, const std::string& name, const std::string& sentence) {
    write_file(dir_.path() / name, content);
    Outcome outcome = run_ckpt(dir_.path(), {"verify", name});
    EXPECT_EQ(outcome.code, 3) << sentence << outcome.out << outcome.err;
    EXPECT_EQ(count_in(outcome.out, "finding: ") + count_in(outcome.err, "\n"), 1U) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr(sentence));
  }
  TempDir dir_;
  std::string zip_;
  std::string hdf5_;
};

TEST_F(Appended, BytesBehindAnArchive) {
  std::string count = core::format_count(hdf5_.size()) + " bytes lie after the end of the zip archive";
  expect_one_sentence(zip_ + hdf5_, "a.pth", count);
  expect_one_sentence(zip_ + "hello", "a.pth", "5 bytes lie after the end of the zip archive");
  expect_one_sentence(read_file(dir_.path() / "good.npz") + "hello", "a.npz",
                      "5 bytes lie after the end of the zip archive");
}

TEST_F(Appended, BytesBehindAnHdf5File) {
  std::string count = core::format_count(zip_.size()) + " bytes follow the end of the HDF5 part";
  expect_one_sentence(hdf5_ + zip_, "a.h5", count);
  expect_one_sentence(hdf5_ + zip_, "a.pth", count);
}

TEST_F(Appended, BytesBeforeAnArchive) {
  expect_one_sentence("xx" + zip_, "a.pth", "no known checkpoint format begins like this file");
  expect_one_sentence(zip_ + zip_, "a.pth", "the zip64 locator points to a wrong place");
}

TEST_F(Appended, NamesThatStandTwiceAndRecordsThatOverlap) {
  ZipSpec twice = torch_zip("}.");
  twice.add("x/data.pkl", "}.");
  expect_one_sentence(twice.bytes(), "a.pth", "zip record 'x/data.pkl' is there twice");
  // The second record of the directory lies in the payload of the first.
  ZipSpec inner;
  inner.add("x/version", "3\n");
  std::string record = inner.bytes();
  record.resize(record.find("PK\x01\x02"));
  ZipSpec outer;
  outer.add("x/data.pkl", "}." + record);
  outer.add("x/version", "3\n");
  std::string bytes = outer.bytes();
  std::size_t entry = bytes.rfind("PK\x01\x02");
  auto place = static_cast<std::uint32_t>(bytes.find(record));
  bytes.replace(entry + 42, 4, raw(place));
  expect_one_sentence(bytes, "a.pth", "overlap");
}

/// torch.load unpacks exactly five; None as the sixth means nothing to old streams, and is one too many here.
TEST(HostileFile, APersistentIdOfSixPartsWasAcceptedInAZipFile) {
  TempDir dir;
  auto file = [](const std::string& view) {
    std::string weight = tensor(storage("FloatStorage", "0", 2, view), 0, {2}, {1});
    return torch_zip(pickle(pickled_dict({{text("w"), weight}})), {std::string(8, '\0')}).bytes();
  };
  write_file(dir.path() / "five.pth", file(""));
  EXPECT_EQ(run_ckpt(dir.path(), {"verify", "five.pth"}).code, 0);
  for (const std::string& sixth : {none(), tuple({text("view"), number(0), number(2)})}) {
    write_file(dir.path() / "six.pth", file(sixth));
    for (const char* command : {"ls", "verify", "stat"}) {
      expect_refused(dir, {command, "six.pth"}, 3, "six.pth", "has six parts where zip files have five");
    }
  }
}

/// It was converted into a pickle that nobody could read.
TEST(HostileFile, ANameOfGgufThatIsNotUtf8IsRefused) {
  TempDir dir;
  write_checkpoint(dir.path() / "name.gguf", dict({{"fc.weight", tensor({1, 2})}}));
  std::string bytes = read_file(dir.path() / "name.gguf");
  std::size_t at = bytes.find("fc.weight");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 4] = '\xff';
  write_file(dir.path() / "name.gguf", bytes);
  expect_refused(dir, {"ls", "name.gguf"}, 3, "name.gguf", "a tensor's name is not valid UTF-8: 'fc.w\\xffight'");
  expect_refused(dir, {"convert", "name.gguf", "new.pth"}, 3, "name.gguf", "is not valid UTF-8");
}

INSTANTIATE_TEST_SUITE_P(Forms, Damage, testing::ValuesIn(damaged_forms()), [](const auto& form) {
  std::string name = form.param.name;
  std::erase(name, '.');
  return name;
});

}  // namespace
