#include "libckpt/format/folder.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/zip_maker.h"
#include "tests/support/temp_dir.h"

namespace {

using ::testing::HasSubstr;

class Folder : public ::testing::Test {
 protected:
  core::Error open_error() {
    try {
      ckpt::open(dir_.path());
    } catch (const core::Error& error) {
      return error;
    }
    return {core::ErrorCode::internal, "it was read"};
  }
  void write(const std::string& name, const std::string& content = "") {
    test::write_file(dir_.path() / name, content);
  }
  static std::string shard(const std::vector<std::string>& keys) {
    std::vector<std::pair<std::string, std::string>> items;
    for (const std::string& key : keys) {
      items.emplace_back(test::text(key), test::tensor(test::storage("FloatStorage", "0", 1), 0, {1}, {1}));
    }
    return test::torch_zip(test::pickle(test::pickled_dict(items)), {test::floats({1})}).bytes();
  }

  test::TempDir dir_;
};

TEST_F(Folder, AnyOtherPathIsLeftAlone) {
  EXPECT_EQ(ckpt::resolve_folder(dir_.path() / "absent"), dir_.path() / "absent");
}

TEST_F(Folder, AFolderThatIsNoModelSaysWhatWasLookedFor) {
  EXPECT_THAT(open_error().what(), HasSubstr("neither an index (*.index.json) nor the .metadata"));
  write("a.safetensors");
  write("b.safetensors");
  EXPECT_EQ(open_error().code(), core::ErrorCode::unsupported);
  EXPECT_THAT(open_error().what(), HasSubstr("it holds 'a.safetensors', 'b.safetensors': name the file"));
}

TEST_F(Folder, SeveralModelsAreAllNamed) {
  write("a.safetensors.index.json");
  write("b.bin.index.json");
  EXPECT_EQ(open_error().code(), core::ErrorCode::usage);
  EXPECT_THAT(open_error().what(), HasSubstr("'a.safetensors.index.json', 'b.bin.index.json'"));
}

TEST_F(Folder, AnUnfinishedSaveIsNamed) {
  write("__0_0.distcp");
  EXPECT_EQ(open_error().code(), core::ErrorCode::corrupt);
  EXPECT_THAT(open_error().what(), HasSubstr("never finished"));
}

using Sharded = Folder;

TEST_F(Sharded, ShardsAreOneModelInTheOrderOfTheIndex) {
  write("pytorch_model.bin.index.json", R"({"weight_map": {"b": "2.bin", "a": "1.bin"}})");
  write("1.bin", shard({"a"}));
  write("2.bin", shard({"b"}));
  write("3.bin", "never looked at");
  ckpt::Checkpoint checkpoint = ckpt::open(dir_.path());
  EXPECT_EQ(checkpoint.format, "torch-sharded");
  auto entries = ckpt::list_entries(checkpoint.root);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "b");
  EXPECT_TRUE(ckpt::verify(dir_.path()).damage.empty());
}

TEST_F(Sharded, KeysThatTheIndexDoesNotPlaceThereAreReportedAndDamage) {
  write("x.bin.index.json", R"({"weight_map": {"a": "1.bin", "b": "2.bin"}})");
  write("1.bin", shard({"a", "b"}));
  write("2.bin", shard({"b", "c"}));
  ckpt::Report report;
  ckpt::open(dir_.path(), {.report = &report});
  EXPECT_EQ(report.warnings.size(), 2U);
  EXPECT_EQ(ckpt::verify(dir_.path()).damage.size(), 2U);
}

TEST_F(Sharded, WhatTheIndexPromisesMustBeThere) {
  write("x.bin.index.json", R"({"weight_map": {"a": "1.bin"}})");
  EXPECT_THAT(open_error().what(),
              HasSubstr("the shard '1.bin' is missing, although the index names it: 1 tensor lies in it"));
  write("1.bin", shard({"b"}));
  EXPECT_THAT(open_error().what(), HasSubstr("which does not hold it"));
  write("1.bin", test::torch_zip(test::pickle(test::list({}))).bytes());
  EXPECT_THAT(open_error().what(), HasSubstr("it is not a dict"));
}

TEST_F(Sharded, NamesStayBesideTheIndex) {
  for (const char* name : {"../1.bin", "/etc/1.bin", "a/1.bin", "1.exe", ".."}) {
    write("x.bin.index.json", R"({"weight_map": {"a": ")" + std::string(name) + R"(", "b": "2.bin"}})");
    EXPECT_EQ(open_error().code(), core::ErrorCode::refused) << name;
  }
}

TEST_F(Sharded, BlocksOfATensorAreNotTakenForTheWhole) {
  auto file = [](const std::string& offsets) {
    std::string header = R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"a\": {\"saved_offsets\": )" + offsets +
                         R"(}}"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    return test::raw(static_cast<std::uint64_t>(header.size())) + header + test::floats({1});
  };
  write("model.safetensors.index.json", R"({"weight_map": {"a": "1.safetensors"}})");
  write("1.safetensors", file("[0]"));
  EXPECT_NO_THROW(ckpt::open(dir_.path()));
  write("1.safetensors", file("[1]"));
  EXPECT_EQ(open_error().code(), core::ErrorCode::unsupported);
  EXPECT_THAT(open_error().what(), HasSubstr("only a block of tensor 'a'"));
}

TEST_F(Sharded, AnIndexIsNoShard) {
  std::string index = R"({"weight_map": {"a": "x.bin"}})";
  write("x.bin.index.json", index);
  write("x.bin", index);
  EXPECT_THAT(open_error().what(), HasSubstr("where a PyTorch file is needed"));
}

TEST_F(Folder, AReaderWhileShardsAreReplacedGetsOneModelWhole) {
  const std::string weights = shard({"a"});
  auto put = [&](int generation) {
    std::string name = "part-" + std::to_string(generation) + ".bin";
    write(name, weights);
    write("next", R"({"weight_map": {"a": ")" + name + R"("}})");
    std::filesystem::rename(dir_.path() / "next", dir_.path() / "model.bin.index.json");
    std::filesystem::remove(dir_.path() / ("part-" + std::to_string(generation - 1) + ".bin"));
  };
  put(0);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int generation = 1; !done; ++generation) {
      put(generation);
      // Some readings meet a replacement; without a pause a reader on a busy machine meets one every time and gives up.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int reading = 0; reading < 300; ++reading) {
    EXPECT_NO_THROW(ckpt::open(dir_.path() / "model.bin.index.json")) << reading;
  }
  done = true;
  writer.join();
}

}  // namespace
