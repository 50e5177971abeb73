// The view of native parts as one HDF5 file: what HDF5's own tools read in it, and that nothing of ours takes it for
// the checkpoint. The tools are Debian's hdf5-tools; without them what they would read is skipped.
#include <gmock/gmock.h>

#include <cstdlib>

#include "libckpt/ckpt.h"
#include "libckpt/dist/save.h"
#include "libckpt/format/parts/parts_index.h"
#include "tests/cli/program.h"
#include "tests/libckpt/dist/samples.h"
#include "tests/libckpt/dist/thread_ranks.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

ckpt::Value typed(core::DType dtype, const core::Shape& shape) {
  ckpt::Entry entry;
  entry.dtype = dtype;
  entry.shape = shape;
  core::ByteVector bytes(*core::byte_size(dtype, core::try_numel(shape.span()).value()));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 % 64);
  entry.bytes = ckpt::memory_source(std::move(bytes));
  return ckpt::Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry)));
}

/// The sample, and what HDF5 makes something else of: its own escapes in names, types that it has not.
ckpt::Value whole_sample() {
  ckpt::Dict root = test::sample_whole(1).as_dict();
  auto add = [&](const char* name, ckpt::Value value) {
    root.items.emplace_back(ckpt::Value::text(name), std::move(value));
  };
  add("of/slash%b.w", typed(core::DType::f32, {4, 2}));
  add("brain", typed(core::DType::bf16, {6, 2}));
  add("eight", typed(core::DType::f8_e4m3fn, {6, 2}));
  add("halves", typed(core::DType::c32, {6, 2}));
  add("count", typed(core::DType::i64, {6}));
  return ckpt::Value::dict(std::move(root));
}

ckpt::dist::Pieces pieces_of(int rank, int ranks) {
  ckpt::dist::Pieces pieces = test::sample_pieces(rank, ranks);
  pieces["of/slash%b.w"] = ckpt::dist::shard({4, 2}, 1, rank, ranks);
  pieces["brain"] = ckpt::dist::shard({6, 2}, 1, rank, ranks);
  pieces["eight"] = ckpt::dist::shard({6, 2}, 0, rank, ranks);
  pieces["halves"] = ckpt::dist::shard({6, 2}, 0, rank, ranks);
  pieces["count"] = ckpt::dist::shard({6}, 0, rank, ranks);
  return pieces;
}

void save(const fs::path& path, int ranks, const ckpt::dist::SaveOptions& wanted) {
  ASSERT_THAT(test::run_ranks_as_threads(
                  ranks,
                  [&](ckpt::dist::Ranks& who) {
                    ckpt::dist::SaveOptions options = wanted;
                    options.pieces = pieces_of(who.rank(), ranks);
                    options.durable = false;
                    ckpt::dist::save_by(who, ckpt::dist::cut_to_pieces(whole_sample(), options.pieces), path, options);
                  }),
              Each(""));
}

bool has_tools() {
  return std::system("command -v h5dump >/dev/null 2>&1") == 0;
}

/// The bytes of a dataset as h5dump reads them, from another folder than the file's.
std::string bytes_read_by_tools(const fs::path& file, const std::string& dataset) {
  test::TempDir out;
  const std::string to = (out.path() / "bytes").string();
  const std::string line =
      "cd / && h5dump -d '" + dataset + "' -b FILE -o '" + to + "' '" + file.string() + "' >/dev/null 2>&1";
  return std::system(line.c_str()) == 0 ? test::read_file(to) : "h5dump failed";
}

std::string bytes_of(const ckpt::Value& value) {
  core::ByteVector bytes = ckpt::read_all(*value.as_entry().bytes);
  return std::string(core::as_text(bytes));
}

class VirtualFile : public testing::Test {
 protected:
  void make(int ranks, const ckpt::dist::SaveOptions& options = {.layout = "native"}) {
    fs::create_directories(dir_.path() / "runs");
    save(dir_.path() / "runs/step-1", ranks, options);
  }
  test::Outcome convert(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"convert", "runs/step-1", "whole.h5", "--virtual"};
    words.insert(words.end(), more.begin(), more.end());
    return test::run_ckpt(dir_.path(), words);
  }
  void expect_refused(const test::Outcome& done, int code, const std::string& text) {
    EXPECT_EQ(done.code, code) << done.err;
    EXPECT_THAT(done.err, HasSubstr(text));
    EXPECT_FALSE(fs::exists(dir_.path() / "whole.h5"));
  }
  fs::path file() const { return dir_.path() / "whole.h5"; }
  test::TempDir dir_;
};

TEST_F(VirtualFile, ToolsReadWholeTensorsOverAnyNumberOfParts) {
  if (!has_tools()) GTEST_SKIP() << "h5dump is not installed (package hdf5-tools)";
  for (int ranks = 1; ranks <= 4; ++ranks) {
    make(ranks, {.layout = "native", .overwrite = true});
    test::Outcome done = convert({"-f"});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_THAT(done.out, HasSubstr("12 tensors shown as virtual datasets over " + std::to_string(ranks) + " part"));
    const ckpt::Value root = whole_sample();
    for (const char* name : {"rows", "columns", "cube", "one", "scalar"}) {
      EXPECT_EQ(bytes_read_by_tools(file(), std::string("/model/") + name), bytes_of(*root.find("model")->find(name)))
          << name << " of " << ranks;
    }
    EXPECT_EQ(bytes_read_by_tools(file(), "/model/norm/weight"), bytes_of(*root.find("model")->find("norm.weight")));
    EXPECT_EQ(bytes_read_by_tools(file(), "/of%2Fslash%25b/w"), bytes_of(*root.find("of/slash%b.w")));
    for (const char* name : {"brain", "eight", "halves", "count"}) {
      EXPECT_EQ(bytes_read_by_tools(file(), std::string("/") + name), bytes_of(*root.find(name))) << name << ranks;
    }
  }
}

TEST_F(VirtualFile, TheFolderMayMoveWithTheFile) {
  if (!has_tools()) GTEST_SKIP() << "h5dump is not installed (package hdf5-tools)";
  make(2);
  ASSERT_EQ(convert().code, 0);
  fs::create_directory(dir_.path() / "other");
  fs::rename(dir_.path() / "runs", dir_.path() / "other/runs");
  fs::rename(file(), dir_.path() / "other/whole.h5");
  EXPECT_EQ(bytes_read_by_tools(dir_.path() / "other/whole.h5", "/model/rows"),
            bytes_of(*whole_sample().find("model")->find("rows")));
}

TEST_F(VirtualFile, BehindALinkThePartsAreFoundFromWhereItLeads) {
  if (!has_tools()) GTEST_SKIP() << "h5dump is not installed (package hdf5-tools)";
  make(2);
  fs::create_directory(dir_.path() / "views");
  fs::create_symlink("views/new.h5", file());
  ASSERT_EQ(convert({"-f"}).code, 0);
  EXPECT_EQ(bytes_read_by_tools(dir_.path() / "views/new.h5", "/model/rows"),
            bytes_of(*whole_sample().find("model")->find("rows")));
}

TEST_F(VirtualFile, AMissingPartShowsAsNaNWhereNumbersHaveIt) {
  if (!has_tools()) GTEST_SKIP() << "h5dump is not installed (package hdf5-tools)";
  make(2);
  ASSERT_EQ(convert().code, 0);
  fs::remove(dir_.path() / "runs/step-1/part-00001.ckpt");
  const std::string rows = bytes_of(*whole_sample().find("model")->find("rows"));
  EXPECT_EQ(bytes_read_by_tools(file(), "/model/rows"), rows.substr(0, 4 * 12) + std::string(3 * 12, '\xFF'));
  EXPECT_EQ(bytes_read_by_tools(file(), "/eight").substr(6), std::string(6, '\xFF'));
  EXPECT_EQ(bytes_read_by_tools(file(), "/count").substr(24), std::string(24, '\0'));
}

TEST_F(VirtualFile, IsNeverTakenForTheCheckpoint) {
  make(2);
  ASSERT_EQ(convert().code, 0);
  for (const char* command : {"ls", "info", "why", "verify", "hash", "tree"}) {
    test::Outcome done = test::run_ckpt(dir_.path(), {command, "whole.h5"});
    EXPECT_EQ(done.code, 3) << command << done.out << done.err;
    EXPECT_THAT(done.out + done.err, HasSubstr("it is a view of the checkpoint in the folder 'runs/step-1'"))
        << command;
    EXPECT_THAT(done.out + done.err, HasSubstr("open that folder itself")) << command;
  }
  test::Outcome copied = test::run_ckpt(dir_.path(), {"convert", "whole.h5", "copy.pth"});
  EXPECT_EQ(copied.code, 3);
  EXPECT_FALSE(fs::exists(dir_.path() / "copy.pth"));
}

TEST_F(VirtualFile, SaysWhatStaysInThePartsAndWritesTheSameBytesAgain) {
  make(3);
  test::Outcome dry = convert({"--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_FALSE(fs::exists(file()));
  test::Outcome done = convert();
  EXPECT_THAT(done.err, HasSubstr("a part that is missing reads as NaN"));
  EXPECT_THAT(done.err, HasSubstr("3 values that are no tensors stay in the parts alone"));
  EXPECT_THAT(done.err, Not(HasSubstr("hdf5plugin")));
  const std::string before = test::read_file(file());
  EXPECT_LT(before.size(), 64U * 1024);
  EXPECT_EQ(convert().code, 4) << "an existing file is replaced unasked";
  EXPECT_EQ(convert({"-f"}).code, 0);
  EXPECT_EQ(test::read_file(file()), before);
}

TEST_F(VirtualFile, WhatCannotBeIsOneSentence) {
  make(2, {.layout = "dcp"});
  expect_refused(convert(), 3, "virtual datasets are made over the parts of a native checkpoint");
  ckpt::save(test::checkpoint(whole_sample()), dir_.path() / "one.ckpt", {.durable = false});
  expect_refused(test::run_ckpt(dir_.path(), {"convert", "one.ckpt", "whole.h5", "--virtual"}), 3,
                 "and this is a native checkpoint");
  fs::remove_all(dir_.path() / "runs/step-1");
  make(2);
  expect_refused(convert({"--codec", "zstd"}), 2, "--virtual writes no values");
  expect_refused(convert({"--dequantize"}), 2, "--virtual writes no values");
  expect_refused(test::run_ckpt(dir_.path(), {"convert", "runs/step-1::model", "whole.h5", "--virtual"}), 2,
                 "name it without '::'");
  test::Outcome named = test::run_ckpt(dir_.path(), {"convert", "runs/step-1", "whole.pth", "--virtual"});
  EXPECT_EQ(named.code, 2);
  EXPECT_THAT(named.err, HasSubstr("name it OUT.h5"));
}

TEST_F(VirtualFile, PartsThatAreDamagedOrNotThereAreNamed) {
  make(2);
  const fs::path part = dir_.path() / "runs/step-1/part-00001.ckpt";
  const std::string good = test::read_file(part);
  fs::remove(part);
  expect_refused(convert(), 3, "the part 'part-00001.ckpt' is missing");
  test::write_file(part, good.substr(0, good.size() - 1));
  expect_refused(convert(), 3, "it is cut off, or a part of another save");
  std::string index = good;
  index[200] = static_cast<char>(index[200] ^ 1);
  test::write_file(part, index);
  expect_refused(convert(), 3, "part-00001.ckpt");
  save(dir_.path() / "other", 2, {.layout = "native"});
  fs::copy_file(dir_.path() / "other/part-00001.ckpt", part, fs::copy_options::overwrite_existing);
  expect_refused(convert(), 3, "part of another save");
}

/// One tensor in one part, packed.
void write_packed_parts(const fs::path& folder, ckpt::Codec codec, core::DType claimed = core::DType::f32) {
  const core::Shape shape{64, 4096};
  ckpt::Checkpoint part = test::checkpoint(test::dict({{"w", test::matrix(1, shape)}}));
  part.metadata = {{std::string(ckpt::detail::kSaveIdKey), "id"}};
  fs::create_directories(folder);
  const std::string name = ckpt::detail::native_part_name(0);
  ckpt::save(part, folder / name, {.durable = false, .codec = codec});
  ckpt::detail::PartsIndex index;
  index.save_id = "id";
  index.parts.push_back({name, fs::file_size(folder / name), {}});
  ckpt::detail::IndexedItem item;
  item.name = "w";
  item.is_tensor = true;
  item.dtype = claimed;
  item.shape = shape;
  item.boxes.push_back({{{0, 0}, shape}, 0});
  index.items.push_back(std::move(item));
  test::write_file(folder / ckpt::detail::kPartsIndex, ckpt::detail::encode_parts_index(index));
}

TEST_F(VirtualFile, APartOfAnotherDtypeIsNotCastInSilence) {
  write_packed_parts(dir_.path() / "runs/step-1", ckpt::Codec::gzip, core::DType::i32);
  expect_refused(convert(), 3,
                 "'w': its part 'part-00000.ckpt' holds float32 [64, 4096] where int32 [64, 4096] is expected");
}

TEST_F(VirtualFile, WhatHdf5CannotReadIsRefusedAndAPluginIsNamed) {
  write_packed_parts(dir_.path() / "runs/step-1", ckpt::Codec::fast);
  expect_refused(convert(), 3, "'w': its part 'part-00000.ckpt' is packed by the codec 'fast', which HDF5 cannot read");
  write_packed_parts(dir_.path() / "runs/step-1", ckpt::Codec::zstd);
  test::Outcome done = convert();
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("for which h5py needs hdf5plugin"));
  fs::remove(file());
  write_packed_parts(dir_.path() / "runs/step-1", ckpt::Codec::gzip);
  done = convert();
  EXPECT_THAT(done.err, Not(HasSubstr("hdf5plugin")));
  if (!has_tools()) return;
  EXPECT_EQ(bytes_read_by_tools(file(), "/w"), bytes_of(test::matrix(1, {64, 4096})));
}

}  // namespace
