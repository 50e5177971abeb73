// Small files that claim much: every command ends within ten seconds and 512 MiB, with an answer or one sentence.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>

#include "tests/cli/files.h"
#include "tests/libckpt/format/deflated.h"
#include "tests/libckpt/format/zip_maker.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"

using testing::HasSubstr;
using namespace test;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kInstrumented = true;
#else
constexpr bool kInstrumented = false;
#endif

constexpr long kMostMemory = 512L << 10;  // in KiB, as the system counts it

/// Ten seconds of the processor; an output of at most a gigabyte.
RunOptions limited() {
  RunOptions options;
  options.in_child = [] {
    rlimit seconds{kInstrumented ? 100 : 10, 110};
    ::setrlimit(RLIMIT_CPU, &seconds);
    rlimit size{1ULL << 30, 1ULL << 30};
    ::setrlimit(RLIMIT_FSIZE, &size);
    // Threads reserve far more than they use; what is used is asked for behind the run.
    rlimit memory{4ULL << 30, 4ULL << 30};
    if (!kInstrumented) ::setrlimit(RLIMIT_AS, &memory);
  };
  return options;
}

/// The most that any program so far has used.
long most_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss;
}

Outcome run_limited(const TempDir& dir, std::vector<std::string> arguments) {
  long before = most_memory();
  Outcome outcome = run_ckpt(dir.path(), arguments, limited());
  std::string command;
  for (const std::string& argument : arguments) command += argument + " ";
  EXPECT_EQ(outcome.signal, 0) << command;
  EXPECT_TRUE(outcome.code >= 0 && outcome.code <= 4) << command << outcome.code << " " << outcome.err;
  if (!kInstrumented && before <= kMostMemory) {
    EXPECT_LE(most_memory(), kMostMemory) << command;
  }
  return outcome;
}

/// All that can be asked of one file, each within the limits.
void expect_cheap(const TempDir& dir, const std::string& name) {
  std::filesystem::copy_file(dir.path() / name, dir.path() / ("other." + name));
  std::vector<std::vector<std::string>> commands = {
      {"info", name},
      {"ls", name},
      {"stat", name},
      {"hash", name},
      {"verify", name},
      {"diff", name, "other." + name},
      {"why", name},
      {"why", name, "--for", "resnet18"},
      {"tree", name},
      {"plan", name},
      {"scan", name},
      {"align", name, "other." + name},
      {"rescue", "-f", name, "-o", "rescued.safetensors"},
      {"git", "textconv", name},
      {"convert", "-f", name, "out.safetensors"},
      {"convert", "-f", name, "out.ckpt"},
      {"publish", "-f", name, "-o", "small.pth"},
      {"avg", "-f", name, "other." + name, "-o", "mean.pth"},
  };
  for (const std::vector<std::string>& command : commands) run_limited(dir, command);
}

std::string in_batches(const std::string& item, int count) {
  std::string out = "]";
  for (int i = 0; i < count / 1000; ++i) {
    out += "(";
    for (int k = 0; k < 1000; ++k) out += item;
    out += "e";
  }
  return out;
}

/// Memo 1 is what makes tensors, memo 2 the arguments of one: five bytes make another.
std::string tensor_memos() {
  std::string arguments = tuple({storage("FloatStorage", "0", 1), number(0), numbers({1}), numbers({1}), "\x89",
                                 symbol("collections", "OrderedDict") + ")R"});
  return symbol("torch._utils", "_rebuild_tensor_v2") + "q\x01" + "0" + arguments + "q\x02" + "0";
}
constexpr const char* kAnotherTensor = "h\x01h\x02R";

std::string long_number(std::int64_t value) {
  return std::string("\x8a\x08") + raw(value);
}

/// A tensor of `sizes` over a storage of four bytes, by strides of 0.
std::string expanded(const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> size_texts, strides;
  for (std::int64_t size : sizes) {
    size_texts.push_back(long_number(size));
    strides.push_back(number(0));
  }
  return call(symbol("torch._utils", "_rebuild_tensor_v2"),
              {storage("FloatStorage", "0", 1), number(0), tuple(size_texts), tuple(strides), "\x89",
               symbol("collections", "OrderedDict") + ")R"});
}

void write_torch(const std::filesystem::path& path, const std::string& object, const std::string& data = floats({2})) {
  write_file(path, torch_zip(pickle(object), {data}).bytes());
}

void write_deflated(const std::filesystem::path& path, const std::string& object) {
  ZipSpec zip = torch_zip(pickle(object), {floats({2})});
  zip.members.front().deflated = deflated(zip.members.front().content, DeflateForm::zip);
  write_file(path, zip.bytes());
}

constexpr std::int64_t kTera = std::int64_t{1} << 40;

}  // namespace

TEST(SmallClaims, APickleThatInflatesToMillionsOfObjectsIsRefused) {
  TempDir dir;
  write_deflated(dir.path() / "lists.pth", in_batches("]", 4'000'000));
  expect_cheap(dir, "lists.pth");
  expect_refused(dir, {"ls", "lists.pth"}, 3, "lists.pth", "data.pkl would inflate to more than");
  write_deflated(dir.path() / "tensors.pth", tensor_memos() + in_batches(kAnotherTensor, 1'000'000));
  expect_cheap(dir, "tensors.pth");
  expect_refused(dir, {"ls", "tensors.pth"}, 3, "tensors.pth", "data.pkl would inflate to more than");
}

TEST(SmallClaims, AMegabyteOfObjectsIsRead) {
  TempDir dir;
  write_torch(dir.path() / "lists.pth", pickled_dict({{text("w"), tensor(storage("FloatStorage", "0", 1), 0, {1}, {1})},
                                                      {text("v"), in_batches("N", 900'000)}}));
  expect_cheap(dir, "lists.pth");
  EXPECT_EQ(run_limited(dir, {"ls", "lists.pth"}).code, 0);
  write_torch(dir.path() / "dicts.pth", in_batches("}", 900'000));
  expect_cheap(dir, "dicts.pth");
  write_torch(dir.path() / "tensors.pth", tensor_memos() + in_batches(kAnotherTensor, 150'000));
  expect_cheap(dir, "tensors.pth");
}

TEST(SmallClaims, TensorsThatAreListedManyTimesOverAreRefused) {
  TempDir dir;
  std::string thousand = tensor_memos() + in_batches(kAnotherTensor, 1000) + "q\x03" + "0";
  write_torch(dir.path() / "million.pth", thousand + in_batches("h\x03", 1000));
  expect_cheap(dir, "million.pth");
  std::vector<std::string> hundred(100, "h\x03");
  hundred.push_back(in_batches("N", 20'000));  // a larger pickle may unfold to more
  write_torch(dir.path() / "many.pth", thousand + list(hundred));
  expect_cheap(dir, "many.pth");
  expect_refused(dir, {"stat", "many.pth"}, 3, "many.pth", "it lists more than");
  expect_refused(dir, {"verify", "many.pth"}, 3, "many.pth", "it lists more than");
  // The memo is no claim by itself: what is there twice counts twice, and no more.
  write_torch(dir.path() / "some.pth", thousand + list({"h\x03", "h\x03"}));
  EXPECT_EQ(run_limited(dir, {"stat", "some.pth"}).code, 0);
}

TEST(SmallClaims, LongNamesAboveManyTensorsAreRefused) {
  TempDir dir;
  std::string object = tensor_memos() + in_batches(kAnotherTensor, 50'000);
  // The outer dicts come first in a pickle.
  std::string head, tail;
  for (int i = 0; i < 10; ++i) {
    head += "}" + text(std::string(50'000, static_cast<char>('a' + i)));
    tail += "s";
  }
  write_torch(dir.path() / "names.pth", tensor_memos() + head + in_batches(kAnotherTensor, 50'000) + tail);
  expect_cheap(dir, "names.pth");
  expect_refused(dir, {"ls", "names.pth"}, 3, "names.pth",
                 "the full names and the texts of its values would take more than");
}

TEST(SmallClaims, AnExpandedTensorOfTerabytesIsNeverLoopedOver) {
  TempDir dir;
  write_torch(dir.path() / "wide.pth", pickled_dict({{text("w"), expanded({kTera})}}));
  expect_cheap(dir, "wide.pth");
  for (std::vector<std::string> command :
       {std::vector<std::string>{"hash"}, {"cat"}, {"cat", "--raw"}, {"diff", "other.wide.pth"}}) {
    command.emplace_back("wide.pth");
    if (command.front() == "cat") command.emplace_back("w");
    Outcome outcome = run_limited(dir, command);
    if (command.front() == "cat" && command.size() == 3) continue;  // shows a few corners
    EXPECT_EQ(outcome.code, 3) << command.front();
    EXPECT_THAT(outcome.err, HasSubstr("the values of tensor 'w' would be 4.0 TiB where the file has only"));
    EXPECT_THAT(outcome.err, HasSubstr("--max-expansion"));
  }
  for (const char* target : {"new.safetensors", "new.npz", "new.gguf", "new.h5"}) {
    Outcome outcome = run_limited(dir, {"convert", "wide.pth", target});
    EXPECT_EQ(outcome.code, 3) << target << " " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("wide.pth: ")) << target;
    EXPECT_FALSE(std::filesystem::exists(dir.path() / target)) << target;
  }
  // A format that has views keeps this one.
  EXPECT_EQ(run_limited(dir, {"convert", "wide.pth", "again.pth"}).code, 0);
  EXPECT_EQ(ckpt::value_at(ckpt::open(dir.path() / "again.pth").root, "w").as_entry().numel(), 1ULL << 40);
}

TEST(SmallClaims, StatisticsOfAnExpandedTensorComeFromItsStorage) {
  TempDir dir;
  write_torch(dir.path() / "wide.pth", pickled_dict({{text("w"), expanded({kTera / 1024, 1024})}}));
  Outcome outcome = run_limited(dir, {"stat", "--json", "wide.pth"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1099511627776"));
  EXPECT_THAT(outcome.out, HasSubstr("2097152"));  // 2 * sqrt(2^40)
}

TEST(SmallClaims, ManyExpandedTensorsShareOneBudget) {
  TempDir dir;
  std::vector<std::pair<std::string, std::string>> items;
  for (int i = 0; i < 1000; ++i) items.emplace_back(text("w" + std::to_string(i)), expanded({50'000'000 + i}));
  write_torch(dir.path() / "many.pth", pickled_dict(items));
  expect_cheap(dir, "many.pth");
  expect_refused(dir, {"hash", "many.pth"}, 3, "many.pth", "where the file has only");
}

TEST(SmallClaims, AnExpandedTensorOfModestSizeIsConverted) {
  TempDir dir;
  write_torch(dir.path() / "mask.pth", pickled_dict({{text("w"), expanded({300, 500})}}));
  for (const char* target : {"new.safetensors", "new.npz", "new.gguf", "new.h5", "new.ckpt"}) {
    EXPECT_EQ(run_limited(dir, {"convert", "mask.pth", target}).code, 0) << target;
    ckpt::Checkpoint c = ckpt::open(dir.path() / target);
    EXPECT_EQ(ckpt::list_entries(c.root).front().entry->byte_size(), 600'000U) << target;
  }
  Outcome outcome = run_limited(dir, {"diff", "mask.pth", "new.safetensors"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

TEST(SmallClaims, WindowsThatOverlapCountAsWhatTheyUnfoldTo) {
  TempDir dir;
  std::string data(400'000, '\0');
  std::string windows = tensor(storage("FloatStorage", "0", 100'000), 0, {50'000, 50'000}, {1, 1});
  write_torch(dir.path() / "windows.pth", pickled_dict({{text("w"), windows}}), data);
  expect_cheap(dir, "windows.pth");
  expect_refused(dir, {"stat", "windows.pth"}, 3, "windows.pth", "would be 9.3 GiB where the file has only");
}

TEST(SmallClaims, FillValuesOfHdf5AreListedAndNotUnfolded) {
  TempDir dir;
  {
    Hdf5Maker maker(dir.path() / "fill.h5");
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    std::vector<hsize_t> chunk = {1 << 20};
    H5Pset_chunk(list, 1, chunk.data());
    for (int i = 0; i < 100; ++i) maker.empty("w" + std::to_string(i), {(1ULL << 28) + static_cast<unsigned>(i)}, list);
    H5Pclose(list);
    maker.close();
  }
  expect_cheap(dir, "fill.h5");
  EXPECT_EQ(run_limited(dir, {"ls", "fill.h5"}).code, 0);
  expect_refused(dir, {"verify", "fill.h5"}, 3, "fill.h5", "where the file has only");
  expect_refused(dir, {"hash", "fill.h5"}, 3, "fill.h5", "where the file has only");
}

TEST(SmallClaims, AChunkOfHdf5ThatInflatesToHundredsOfMegabytesIsNotDecoded) {
  TempDir dir;
  {
    std::string stored = deflated(std::string(200 << 20, '\0'), DeflateForm::zlib);
    Hdf5Maker maker(dir.path() / "chunk.h5");
    maker.raw_chunk("w", {200 << 18}, {H5Z_FILTER_DEFLATE}, {stored.begin(), stored.end()});
    maker.close();
  }
  expect_cheap(dir, "chunk.h5");
  expect_refused(dir, {"hash", "chunk.h5"}, 3, "chunk.h5", "its chunks are 200 MiB each when decoded");
}

TEST(SmallClaims, ArraysThatInflateToHundredsOfMegabytesShareOneBudget) {
  TempDir dir;
  {
    std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (52428800,), }";
    header.resize(117, ' ');
    std::string array = std::string("\x93NUMPY\x01\x00", 8) + raw(std::uint16_t{118}) + header + "\n";
    array.resize(array.size() + (50 << 20), '\0');
    std::string packed = deflated(array, DeflateForm::zip);
    ZipSpec zip;
    zip.add("w.npy", array).deflated = packed;
    write_file(dir.path() / "one.npz", zip.bytes());
    for (int i = 0; i < 5; ++i) zip.add("w" + std::to_string(i) + ".npy", array).deflated = packed;
    write_file(dir.path() / "six.npz", zip.bytes());
  }
  expect_cheap(dir, "six.npz");
  expect_refused(dir, {"ls", "six.npz"}, 3, "six.npz", "would inflate to 300 MiB from");
  expect_cheap(dir, "one.npz");
  Outcome outcome = run_limited(dir, {"hash", "one.npz"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

/// libhdf5 numbers the attributes of an object in 16 bits, and its refusal was called a bug of ckpt.
TEST(SmallClaims, AHundredThousandEntriesOfMetadataAreMoreThanHdf5Holds) {
  TempDir dir;
  std::string header = R"({"__metadata__":{)";
  for (int i = 0; i < 100'000; ++i) header += "\"k" + std::to_string(i) + "\":\"v\",";
  header += R"("l":""},"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})";
  write_file(dir.path() / "texts.safetensors", raw(std::uint64_t{header.size()}) + header);
  expect_cheap(dir, "texts.safetensors");
  Outcome outcome = run_limited(dir, {"convert", "texts.safetensors", "out.h5"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("does not fit an HDF5 attribute and is left out"));
  EXPECT_THAT(outcome.err, HasSubstr("… and 34,996 more of this kind"));
}

/// `ckpt ls --json` wrote 900 GB for two megabytes, and `ckpt diff` compared as much.
TEST(SmallClaims, ALongTextThatIsNamedAMillionTimesIsRefused) {
  TempDir dir;
  std::string object = pickled_dict(
      {{text("k"), text(std::string(1'000'000, 'a')) + "q\x05"}, {text("l"), in_batches("h\x05", 900'000)}});
  write_torch(dir.path() / "texts.pth", object);
  expect_cheap(dir, "texts.pth");
  expect_refused(dir, {"ls", "texts.pth"}, 3, "texts.pth", "the texts of its values would take more than");
  expect_refused(dir, {"diff", "texts.pth", "other.texts.pth"}, 3, "texts.pth", "the texts of its values would take");
}

/// `ckpt why` and `ckpt rescue` parsed what `ckpt ls` refused, in 1.3 GB.
TEST(SmallClaims, AHeaderOfManyValuesIsRefusedBeforeItIsParsed) {
  auto many = [](const std::string& head, const std::string& item, int count, const std::string& tail) {
    std::string out = head;
    for (int i = 0; i < count; ++i) out += item;
    return out + tail;
  };
  const std::string tensor = R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"odd":)";
  const std::vector<std::pair<std::string, std::string>> headers = {
      {"lists", many(tensor + "[", "[],", 20'000'000, "[]]}}")},
      {"objects", many(tensor + "[", "{},", 20'000'000, "{}]}}")},
      {"texts", many(tensor + "[", "\"\",", 20'000'000, "\"\"]}}")},
      {"metadata", many(R"({"__metadata__":{)", R"("k":"",)", 8'000'000, R"("l":""}})")},
      {"tensors", many("{", R"("k":0,)", 8'000'000, R"("l":0})")},
  };
  for (const auto& [kind, header] : headers) {
    TempDir dir;
    std::string name = kind + ".safetensors";
    write_file(dir.path() / name, raw(std::uint64_t{header.size()}) + header);
    for (std::vector<std::string> command :
         std::vector<std::vector<std::string>>{{"ls", name},
                                               {"why", name},
                                               {"why", name, "--for", "resnet18"},
                                               {"scan", name},
                                               {"rescue", name, "-o", "rescued.safetensors"}}) {
      EXPECT_EQ(run_limited(dir, command).code, 3) << kind << " " << command[0];
    }
  }
}

TEST(SmallClaims, AHeaderOfOneShapeOfMillionsIsRefusedBeforeItIsParsed) {
  TempDir dir;
  std::string header = R"({"w":{"dtype":"F32","shape":[)";
  for (int i = 0; i < 8'000'000; ++i) header += "0,";
  header += R"(0],"data_offsets":[0,0]}})";
  write_file(dir.path() / "shape.safetensors", raw(std::uint64_t{header.size()}) + header);
  expect_cheap(dir, "shape.safetensors");
  expect_refused(dir, {"ls", "shape.safetensors"}, 3, "shape.safetensors", "no tensor has so many dimensions");
}

TEST(SmallClaims, APackedFileThatUnpacksToMillionsOfValuesIsRefused) {
  TempDir dir;
  const std::string array = std::string("\xc7\x15\x01\x93\x91\x02\xa7") + "float32" + "\xc4\x08" + "abcdefgh";
  const std::string nils = "\x82\xa1w" + array + "\xa1n\xdd" + std::string("\x03\x93\x87\0", 4);  // 60,000,000 of them
  write_file(dir.path() / "a.msgpack", nils + std::string(60'000'000, '\xc0'));
  ASSERT_EQ(run_program("/usr/bin/gzip", dir.path(), {"a.msgpack"}).code, 0);
  EXPECT_THAT(run_limited(dir, {"info", "a.msgpack.gz"}).err, HasSubstr("its lists and dicts unfold to more than"));
}

TEST(SmallClaims, APackedPickleOfMillionsOfValuesIsRefused) {
  TempDir dir;
  std::string nones = "](";
  for (int i = 0; i < 60'000; ++i) nones += std::string(1000, 'N') + "e(";
  write_file(dir.path() / "a.pth", torch_zip(pickle(nones + "e")).bytes());
  ASSERT_EQ(run_program("/usr/bin/gzip", dir.path(), {"a.pth"}).code, 0);
  EXPECT_THAT(run_limited(dir, {"info", "a.pth.gz"}).err, HasSubstr("opcodes"));
  EXPECT_NE(run_limited(dir, {"verify", "a.pth.gz"}).code, 0);
  EXPECT_NE(run_limited(dir, {"scan", "a.pth.gz"}).code, 0);
}

TEST(SmallClaims, DamageOfAnInputIsSaidOfTheInput) {
  TempDir dir;
  ZipSpec zip = torch_zip(pickle(pickled_dict({{text("w"), tensor(storage("FloatStorage", "0", 1), 0, {1}, {1})}})));
  zip.add("x/data/0", floats({2})).deflated = std::string("\x07garbage", 8);
  write_file(dir.path() / "damaged.pth", zip.bytes());
  for (const char* target : {"new.safetensors", "new.npz", "new.gguf", "new.h5", "new.ckpt", "new.pth"}) {
    Outcome outcome = run_ckpt(dir.path(), {"convert", "damaged.pth", target});
    EXPECT_EQ(outcome.code, 3) << target << " " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("ckpt: damaged.pth: ")) << target;
    EXPECT_EQ(outcome.err.find(target), std::string::npos) << outcome.err;
  }
}
