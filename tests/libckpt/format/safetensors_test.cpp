#include <gtest/gtest.h>

#include <fstream>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Checkpoint;
using ckpt::Value;
using core::DType;
using test::list_folder;
using test::read_file;
using test::write_file;
using Names = std::vector<std::string>;

/// The bytes of a file with this header.
std::string file_of(std::string_view header, std::string_view data) {
  core::ByteVector length;
  core::append_le<std::uint64_t>(length, header.size());
  return std::string(core::as_text(length)) + std::string(header) + std::string(data);
}

ckpt::EntryPtr entry_of(DType dtype, core::Shape shape, std::string_view bytes) {
  ckpt::Entry entry;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  core::Bytes raw = core::as_bytes(bytes);
  entry.bytes = ckpt::memory_source({raw.begin(), raw.end()});
  return std::make_shared<const ckpt::Entry>(std::move(entry));
}

Checkpoint checkpoint_of(const std::vector<std::pair<std::string, Value>>& items) {
  ckpt::Dict dict;
  for (const auto& [key, value] : items) dict.items.emplace_back(Value::text(key), value);
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(dict));
  return checkpoint;
}

Value tensor(DType dtype, core::Shape shape, std::string_view bytes) {
  return Value::tensor(entry_of(dtype, std::move(shape), bytes));
}

Names names_of(const Checkpoint& checkpoint) {
  Names names;
  for (const ckpt::NamedEntry& entry : ckpt::list_entries(checkpoint.root)) names.push_back(entry.name);
  return names;
}

std::string bytes_of(const Checkpoint& checkpoint, std::string_view name) {
  return std::string(core::as_text(ckpt::read_all(*checkpoint.root.find(name)->as_entry().bytes)));
}

core::Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, "nothing was thrown"};
}

/// The same checkpoint with every key put through `rename`.
Checkpoint renamed(const Checkpoint& checkpoint, const std::function<std::string(std::string)>& rename) {
  ckpt::Dict dict = checkpoint.root.as_dict();
  for (auto& [key, value] : dict.items) key = Value::text(rename(key.as_text()));
  Checkpoint out = checkpoint;
  out.root = Value::dict(std::move(dict));
  return out;
}

std::string without_module(const std::string& key) {
  return key.substr(7);
}

// Spelled as no writer spells it: white space, fields in another order, an unknown field, slack, data in another order.
const std::string kOddHeader =
    R"({ "module.w" : {"shape":[2], "note":"x","data_offsets":[2,6],"dtype":"F16"},)"
    R"( "__metadata__":{"k" : "v\u00fc\/"},"module.b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]} }     )";

TEST(Safetensors, SavingOverItselfChangesNoByte) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  std::string content = file_of(kOddHeader, "bbwwww");
  write_file(path, content);
  ckpt::save(ckpt::open(path), path);
  EXPECT_EQ(read_file(path), content);
  EXPECT_EQ(list_folder(dir.path()), Names{"a.safetensors"});
}

TEST(Safetensors, RenamingKeepsDataMetadataAndHeaderLength) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  std::string content = file_of(kOddHeader, "bbwwww");
  write_file(path, content);
  ckpt::save(renamed(ckpt::open(path), without_module), path);
  std::string expected = R"({"__metadata__":{"k" : "v\u00fc\/"},)"
                         R"("w":{"shape":[2], "note":"x","data_offsets":[2,6],"dtype":"F16"},)"
                         R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  expected.resize(kOddHeader.size(), ' ');
  EXPECT_EQ(read_file(path), file_of(expected, "bbwwww"));
}

TEST(Safetensors, LongerNamesGrowTheHeaderByWholeWords) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  write_file(path, file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"));
  ckpt::save(renamed(ckpt::open(path), [](const std::string& key) { return "module." + key; }), path, {.slack = 0});
  std::string content = read_file(path);
  EXPECT_EQ(content.size() % 8, 1U);
  EXPECT_EQ(bytes_of(ckpt::open(path), "module.a"), "x");
}

TEST(Safetensors, ANewFileIsWhatTheReferenceLibraryWrites) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  std::string zeros(8, '\0');
  Checkpoint checkpoint = checkpoint_of({{"b", tensor(DType::u8, {2}, zeros.substr(0, 2))},
                                         {"a", tensor(DType::boolean, {1}, "\x01")},
                                         {"z", tensor(DType::f32, {2, 1}, zeros)},
                                         {"e", tensor(DType::i64, {0, 3}, "")},
                                         {"s", tensor(DType::bf16, {}, "\xc0\x3f")}});
  ckpt::save(checkpoint, path, {.slack = 0});
  EXPECT_EQ(read_file(path),
            file_of(R"({"__metadata__":{"format":"pt"},"e":{"dtype":"I64","shape":[0,3],"data_offsets":[0,0]},)"
                    R"("z":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                    R"("s":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[10,12]},)"
                    R"("a":{"dtype":"BOOL","shape":[1],"data_offsets":[12,13]}}      )",
                    zeros + "\xc0\x3f" + zeros.substr(0, 2) + "\x01"));
}

TEST(Safetensors, NarrowTypesCountAsPyTorchDoes) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  std::string content = file_of(R"({"f4":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]},)"
                                R"("f6":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[4,7]},)"
                                R"("f8":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[7,8]}})",
                                "44446668");
  write_file(path, content);
  Checkpoint checkpoint = ckpt::open(path);
  EXPECT_EQ(checkpoint.root.find("f4")->as_entry().shape, (core::Shape{2, 2}));
  EXPECT_EQ(checkpoint.root.find("f6")->as_entry().dtype, DType::f6_e2m3);
  EXPECT_EQ(checkpoint.root.find("f8")->as_entry().dtype, DType::f8_e8m0fnu);
  checkpoint.detail = nullptr;
  ckpt::save(checkpoint, dir.path() / "b.safetensors");
  EXPECT_EQ(ckpt::open(dir.path() / "b.safetensors").root.find("f4")->as_entry().shape, (core::Shape{2, 2}));
  write_file(path, file_of(R"({"f4":{"dtype":"F4","shape":[2,1],"data_offsets":[0,1]}})", "4"));
  EXPECT_EQ(error_of([&] { ckpt::open(path); }).code(), core::ErrorCode::unsupported);
}

TEST(Safetensors, TiesAndVersionsComeBack) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  Value shared = tensor(DType::u8, {3}, "xyz");
  Checkpoint checkpoint =
      checkpoint_of({{"wte", shared}, {"bn.weight", tensor(DType::u8, {1}, "n")}, {"head", shared}});
  ckpt::Dict root = checkpoint.root.as_dict();
  ckpt::Dict version;
  version.items = {{Value::text("version"), Value::integer(2)}};
  ckpt::Dict modules;
  modules.items = {{Value::text("bn"), Value::dict(version)}};
  ckpt::Dict attributes;
  attributes.items = {{Value::text("_metadata"), Value::dict(modules)}};
  root.attributes = Value::dict(attributes);
  checkpoint.root = Value::dict(root);
  ckpt::save(checkpoint, path);

  Checkpoint back = ckpt::open(path);
  EXPECT_EQ(names_of(back), (Names{"bn.weight", "head", "wte"}));
  EXPECT_TRUE(ckpt::same_view(back.root.find("wte")->as_entry(), back.root.find("head")->as_entry()));
  EXPECT_EQ(ckpt::module_versions(back.root.as_dict()), (std::vector<std::pair<std::string, std::int64_t>>{{"bn", 2}}));
  // The hint that the reference library's load_model() understands.
  std::string content = read_file(path);
  EXPECT_NE(content.find(R"("wte":"head")"), std::string::npos);
  ckpt::save(back, path);
  EXPECT_EQ(read_file(path), content);
  // A renamed tie leaves no stale note.
  ckpt::save(renamed(back, [](const std::string& key) { return "m." + key; }), path);
  EXPECT_EQ(names_of(ckpt::open(path)), (Names{"m.bn.weight", "m.head", "m.wte"}));
  EXPECT_EQ(read_file(path).find("\"wte\""), std::string::npos);
}

TEST(Safetensors, WhatItCannotHoldIsListedBeforeAByteIsWritten) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  Checkpoint checkpoint = checkpoint_of({{"w", tensor(DType::u8, {1}, "w")},
                                         {"z", tensor(DType::c128, {1}, std::string(16, 'z'))},
                                         {"epoch", Value::integer(3)},
                                         {"__metadata__", tensor(DType::u8, {1}, "m")},
                                         {"meta", Value::tensor(std::make_shared<const ckpt::Entry>())},
                                         {"opt", checkpoint_of({{"m", tensor(DType::u8, {1}, "o")}}).root}});
  core::Error error = error_of([&] { ckpt::save(checkpoint, path); });
  EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
  for (const char* part : {"5 items", "'z' (dtype complex128)", "'epoch' (a value of type int)", "'__metadata__'",
                           "'meta' (a tensor without data", "'opt' (a nested dict"}) {
    EXPECT_THAT(error.message(), testing::HasSubstr(part));
  }
  EXPECT_EQ(list_folder(dir.path()), Names{});
  ckpt::Report report;
  ckpt::save(checkpoint, path, {.drop_inexpressible = true, .report = &report});
  EXPECT_EQ(report.dropped.size(), 5U);
  EXPECT_EQ(names_of(ckpt::open(path)), (Names{"opt.m", "w"}));
}

TEST(Safetensors, NamesThatWouldBecomeOneAreRefused) {
  test::TempDir dir;
  Value nested = checkpoint_of({{"b", tensor(DType::u8, {1}, "1")}}).root;
  Checkpoint checkpoint = checkpoint_of({{"a.b", tensor(DType::u8, {1}, "2")}, {"a", nested}});
  core::Error error =
      error_of([&] { ckpt::save(checkpoint, dir.path() / "a.safetensors", {.drop_inexpressible = true}); });
  EXPECT_EQ(error.code(), core::ErrorCode::collision);
  EXPECT_EQ(list_folder(dir.path()), Names{});
}

TEST(Safetensors, LenientReadingListsWhatItLetPass) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  write_file(path, file_of(R"( {"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})"
                           "\t",
                           "xabyy"));
  EXPECT_EQ(error_of([&] { ckpt::open(path); }).code(), core::ErrorCode::corrupt);
  ckpt::Report report;
  Checkpoint checkpoint = ckpt::open(path, {.lenient = true, .report = &report});
  EXPECT_EQ(bytes_of(checkpoint, "a"), "ab");
  EXPECT_EQ(report.relaxations.size(), 4U);  // before, behind, a hole, a rest
  write_file(path, file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "x"));
  EXPECT_THAT(error_of([&] { ckpt::open(path, {.lenient = true}); }).message(), testing::HasSubstr("cut off"));
}

TEST(Safetensors, NoByteThatIsWrongDoesHarm) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  std::string content = file_of(kOddHeader, "bbwwww");
  for (std::size_t at = 0; at < content.size(); ++at) {
    for (int change : {0x01, 0x10, 0x80}) {
      std::string damaged = content;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      write_file(path, damaged);
      core::Error error = error_of([&] { ckpt::read_all(*ckpt::list_entries(ckpt::open(path).root)[0].entry->bytes); });
      EXPECT_NE(error.code(), core::ErrorCode::io) << at;
    }
  }
}

TEST(Safetensors, LimitsAreTheCallers) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  std::string header = R"({"abc":{"dtype":"U8","shape":[1,1],"data_offsets":[0,1]}})";
  write_file(path, file_of(header, "x"));
  auto code_with = [&](const ckpt::Limits& limits) {
    return error_of([&] { ckpt::open(path, {.limits = limits}); }).code();
  };
  EXPECT_EQ(code_with({.max_safetensors_header = header.size()}), core::ErrorCode::internal);
  EXPECT_EQ(code_with({.max_safetensors_header = header.size() - 1}), core::ErrorCode::refused);
  EXPECT_EQ(code_with({.max_tensors = 0}), core::ErrorCode::internal);  // __metadata__ may be the one member
  EXPECT_EQ(code_with({.max_name = 2}), core::ErrorCode::refused);
  EXPECT_EQ(code_with({.max_rank = 1}), core::ErrorCode::refused);
}

TEST(Safetensors, VerifyReadsEveryByte) {
  test::TempDir dir;
  auto path = dir.path() / "a.safetensors";
  write_file(path, file_of(kOddHeader, "bbwwww"));
  ckpt::VerifyResult result = ckpt::verify(path);
  EXPECT_TRUE(result.damage.empty());
  EXPECT_EQ(result.tensors_checked, 2U);
  EXPECT_EQ(result.bytes_checked, 6U);
}

/// Three tensors of 4, 4 and 2 bytes in files of at most 6.
std::filesystem::path save_sharded(const std::filesystem::path& dir) {
  Checkpoint checkpoint = checkpoint_of({{"module.b", tensor(DType::u8, {4}, "bbbb")},
                                         {"module.a", tensor(DType::u8, {4}, "aaaa")},
                                         {"module.c", tensor(DType::u8, {2}, "cc")}});
  ckpt::save(checkpoint, dir / "m.safetensors", {.max_shard_size = 6});
  return dir / "m.safetensors.index.json";
}

TEST(ShardedSafetensors, FilesAreFilledInOrder) {
  test::TempDir dir;
  auto index = save_sharded(dir.path());
  EXPECT_EQ(list_folder(dir.path()),
            (Names{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "m.safetensors.index.json"}));
  EXPECT_EQ(read_file(index),
            "{\n  \"metadata\": {\n    \"total_size\": 10\n  },\n  \"weight_map\": {\n"
            "    \"module.b\": \"m-00001-of-00002.safetensors\",\n"
            "    \"module.a\": \"m-00002-of-00002.safetensors\",\n"
            "    \"module.c\": \"m-00002-of-00002.safetensors\"\n  }\n}\n");
  Checkpoint checkpoint = ckpt::open(index);
  EXPECT_EQ(checkpoint.format, "safetensors-sharded");
  EXPECT_EQ(names_of(checkpoint), (Names{"module.b", "module.a", "module.c"}));
  EXPECT_EQ(bytes_of(checkpoint, "module.a"), "aaaa");
  EXPECT_TRUE(ckpt::verify(index).damage.empty());
}

TEST(ShardedSafetensors, SavingOverItselfChangesNoByte) {
  test::TempDir dir;
  auto index = save_sharded(dir.path());
  std::map<std::string, std::string> before;
  for (const std::string& name : list_folder(dir.path())) before[name] = read_file(dir.path() / name);
  ckpt::save(ckpt::open(index), index);
  EXPECT_EQ(list_folder(dir.path()).size(), before.size());
  for (const auto& [name, content] : before) EXPECT_EQ(read_file(dir.path() / name), content) << name;
}

/// The old files stay whole until the new index stands, so the new ones need names of their own.
TEST(ShardedSafetensors, RenamingMakesANewGenerationAndRemovesTheOld) {
  test::TempDir dir;
  auto index = save_sharded(dir.path());
  ckpt::save(renamed(ckpt::open(index), without_module), index);
  EXPECT_EQ(list_folder(dir.path()),
            (Names{"m-g2-00001-of-00002.safetensors", "m-g2-00002-of-00002.safetensors", "m.safetensors.index.json"}));
  Checkpoint checkpoint = ckpt::open(index);
  EXPECT_EQ(names_of(checkpoint), (Names{"b", "a", "c"}));
  EXPECT_EQ(bytes_of(checkpoint, "c"), "cc");
  ckpt::save(renamed(std::move(checkpoint), [](const std::string& key) { return "x." + key; }), index);
  EXPECT_EQ(list_folder(dir.path()),
            (Names{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "m.safetensors.index.json"}));
}

TEST(ShardedSafetensors, OnlyFilesThatChangeAreWritten) {
  test::TempDir dir;
  auto index = save_sharded(dir.path());
  std::string kept = read_file(dir.path() / "m-00001-of-00002.safetensors");
  auto only_c = [](const std::string& key) { return key == "module.c" ? "c" : key; };
  ckpt::save(renamed(ckpt::open(index), only_c), index);
  EXPECT_EQ(list_folder(dir.path()),
            (Names{"m-00001-of-00002.safetensors", "m-g2-00002-of-00002.safetensors", "m.safetensors.index.json"}));
  EXPECT_EQ(read_file(dir.path() / "m-00001-of-00002.safetensors"), kept);
  EXPECT_EQ(names_of(ckpt::open(index)), (Names{"module.b", "module.a", "c"}));
}

TEST(ShardedSafetensors, ANumberOfFilesIsBalanced) {
  test::TempDir dir;
  Checkpoint checkpoint = ckpt::open(save_sharded(dir.path()));
  ckpt::save(checkpoint, dir.path() / "n.safetensors", {.shards = 2});
  Checkpoint opened = ckpt::open(dir.path() / "n.safetensors.index.json");
  EXPECT_EQ(names_of(opened), (Names{"module.b", "module.a", "module.c"}));
  EXPECT_EQ(names_of(ckpt::open(dir.path() / "n-00001-of-00002.safetensors")), Names{"module.b"});
  EXPECT_EQ(names_of(ckpt::open(dir.path() / "n-00002-of-00002.safetensors")), (Names{"module.a", "module.c"}));
  core::Error error = error_of([&] { ckpt::save(checkpoint, dir.path() / "x.safetensors", {.shards = 4}); });
  EXPECT_THAT(error.message(), testing::HasSubstr("cannot spread 3 tensors over 4 files"));
  error = error_of([&] { ckpt::save(checkpoint, dir.path() / "x.safetensors", {.max_shard_size = 4, .shards = 2}); });
  EXPECT_EQ(error.code(), core::ErrorCode::usage);
}

TEST(ShardedSafetensors, PrefixesGetFilesOfTheirOwn) {
  test::TempDir dir;
  Checkpoint checkpoint = checkpoint_of({{"head.w", tensor(DType::u8, {1}, "h")},
                                         {"enc.0.w", tensor(DType::u8, {1}, "0")},
                                         {"encoder.w", tensor(DType::u8, {1}, "x")},
                                         {"enc.1.w", tensor(DType::u8, {1}, "1")}});
  ckpt::save(checkpoint, dir.path() / "p.safetensors.index.json", {.shard_prefixes = {"enc"}});
  EXPECT_EQ(names_of(ckpt::open(dir.path() / "p-00001-of-00002.safetensors")), (Names{"enc.0.w", "enc.1.w"}));
  EXPECT_EQ(names_of(ckpt::open(dir.path() / "p-00002-of-00002.safetensors")), (Names{"encoder.w", "head.w"}));
  core::Error error =
      error_of([&] { ckpt::save(checkpoint, dir.path() / "q.safetensors", {.shard_prefixes = {"decoder."}}); });
  EXPECT_EQ(error.code(), core::ErrorCode::key);
}

TEST(ShardedSafetensors, KilledAtAnyCallAReaderFindsTheOldOrTheNewModel) {
  using namespace test::fault;
  bool seen_new = false;
  for (int at = 0;; ++at) {
    test::TempDir dir;
    auto index = save_sharded(dir.path());
    int status = run_child([&] {
      Checkpoint changed = renamed(ckpt::open(index), without_module);
      Injection injection(at, 0);
      ckpt::save(changed, index);
    });
    Checkpoint left = ckpt::open(index);
    bool is_new = names_of(left) == Names{"b", "a", "c"};
    EXPECT_TRUE(is_new || (!seen_new && names_of(left) == Names{"module.b", "module.a", "module.c"})) << at;
    EXPECT_EQ(bytes_of(left, is_new ? "c" : "module.c"), "cc") << at;
    EXPECT_TRUE(ckpt::verify(index).damage.empty()) << at;
    seen_new |= is_new;
    if (WIFEXITED(status)) break;
    // The same save again finds what the killed one had done; nothing of it is left over.
    if (is_new) {
      ckpt::save(ckpt::open(index), index, {.shards = 1});
    } else {
      ckpt::save(renamed(ckpt::open(index), without_module), index);
      EXPECT_EQ(list_folder(dir.path()).size(), 3U) << at;
    }
    EXPECT_NE(list_folder(dir.path()).front()[0], '.') << at;
  }
  EXPECT_TRUE(seen_new);
}

TEST(ShardedSafetensors, ASecondIndexBesideTheFirstGetsFilesOfItsOwn) {
  test::TempDir dir;
  auto index = save_sharded(dir.path());
  std::string shard = read_file(dir.path() / "m-00001-of-00002.safetensors");
  ckpt::save(renamed(ckpt::open(index), without_module), dir.path() / "n.safetensors.index.json");
  EXPECT_EQ(read_file(dir.path() / "m-00001-of-00002.safetensors"), shard);
  EXPECT_EQ(names_of(ckpt::open(dir.path() / "n.safetensors.index.json")), (Names{"b", "a", "c"}));
  EXPECT_EQ(list_folder(dir.path()).size(), 6U);
}

TEST(ShardedSafetensors, BecomesOneFileAndBack) {
  test::TempDir dir;
  auto index = save_sharded(dir.path());
  auto one = dir.path() / "one.safetensors";
  ckpt::save(ckpt::open(index), one);
  EXPECT_EQ(names_of(ckpt::open(one)), (Names{"module.a", "module.b", "module.c"}));
  EXPECT_EQ(ckpt::open(one).metadata, (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
}

TEST(ShardedSafetensors, IndexAndShardsMustFit) {
  test::TempDir dir;
  auto index = save_sharded(dir.path());
  std::string good = read_file(index);
  auto with = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    text.replace(text.find(what), what.size(), by);
    write_file(index, text);
    return error_of([&] { ckpt::open(index); });
  };
  EXPECT_THAT(with("m-00001-of", "x-00001-of").message(), testing::HasSubstr("missing"));
  EXPECT_THAT(with("module.a\": \"m-00002", "module.a\": \"m-00001").message(), testing::HasSubstr("does not hold it"));
  EXPECT_EQ(with("m-00001-of-00002.safetensors", "../m-00001-of-00002.safetensors").code(), core::ErrorCode::refused);
  EXPECT_EQ(with("m-00001-of-00002.safetensors", "m-00001-of-00002.bin").code(), core::ErrorCode::refused);
}

TEST(ShardedSafetensors, TensorsThatTheIndexForgotAreFindings) {
  test::TempDir dir;
  auto index = save_sharded(dir.path());
  std::string text = read_file(index);
  std::string line = "\"module.a\": \"m-00002-of-00002.safetensors\",\n    ";
  text.replace(text.find(line), line.size(), "");
  write_file(index, text);
  ckpt::Report report;
  EXPECT_EQ(names_of(ckpt::open(index, {.report = &report})), (Names{"module.b", "module.c"}));
  EXPECT_EQ(report.warnings.size(), 1U);
  ckpt::VerifyResult result = ckpt::verify(index);
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_EQ(result.damage[0].subject, "module.a");
}

}  // namespace

namespace {

/// One tensor of two numbers under `name`, with this metadata.
std::string file_with_metadata(const std::string& name, const std::string& metadata) {
  return file_of(
      R"({"__metadata__":)" + metadata + R"(,")" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
      "12345678");
}

}  // namespace

TEST(Safetensors, NamesThatSaveModelDroppedComeBack) {
  test::TempDir dir;
  auto path = dir.path() / "net.safetensors";
  const std::string bytes = file_with_metadata("lm_head.weight", R"({"wte.weight":"lm_head.weight","format":"pt"})");
  write_file(path, bytes);
  Checkpoint checkpoint = ckpt::open(path);
  EXPECT_EQ(names_of(checkpoint), (Names{"lm_head.weight", "wte.weight"}));
  EXPECT_EQ(checkpoint.root.find("wte.weight")->as_entry().bytes,
            checkpoint.root.find("lm_head.weight")->as_entry().bytes);
  ckpt::save(checkpoint, path, {.overwrite = true});
  EXPECT_EQ(read_file(path), bytes) << "nothing changed, so no byte does";
}

TEST(Safetensors, TheNameThatSaveModelKeptStays) {
  test::TempDir dir;
  auto path = dir.path() / "net.safetensors";
  const std::string bytes = file_with_metadata("z", R"({"a":"z","format":"pt"})");
  write_file(path, bytes);
  ckpt::save(ckpt::open(path), path, {.overwrite = true});
  EXPECT_EQ(read_file(path), bytes);
}

TEST(Safetensors, HintsFollowNewNames) {
  test::TempDir dir;
  auto path = dir.path() / "net.safetensors";
  write_file(path, file_with_metadata("module.a", R"({"module.b":"module.a","format":"pt"})"));
  ckpt::save(renamed(ckpt::open(path), without_module), path, {.overwrite = true});
  Checkpoint back = ckpt::open(path);
  EXPECT_EQ(names_of(back), (Names{"a", "b"}));
  EXPECT_EQ(read_file(path).find("module."), std::string::npos);
}

TEST(Safetensors, MetadataOfOtherMeaningMakesNoTensor) {
  test::TempDir dir;
  auto path = dir.path() / "net.safetensors";
  const std::string bytes =
      file_with_metadata("pt", R"({"format":"pt","gone":"nowhere","chain":"gone","self":"self","pt":"pt"})");
  write_file(path, bytes);
  Checkpoint checkpoint = ckpt::open(path);
  EXPECT_EQ(names_of(checkpoint), Names{"pt"});
  ckpt::save(checkpoint, path, {.overwrite = true});
  EXPECT_EQ(read_file(path), bytes);
}

TEST(Safetensors, SayingThatTiedNamesAreLeftOut) {
  test::TempDir dir;
  Value shared = tensor(DType::f32, {2}, "12345678");
  ckpt::Report report;
  ckpt::save(checkpoint_of({{"a", shared}, {"b", shared}}), dir.path() / "net.safetensors", {.report = &report});
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("'b' (tied to 'a')"), std::string::npos) << report.warnings[0];
}
