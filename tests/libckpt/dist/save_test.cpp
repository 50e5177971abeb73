// Saves by many ranks, as threads that meet in memory: what is in the folder, who reads it, what stops it.
#include "libckpt/dist/save.h"

#include <gmock/gmock.h>

#include "libckpt/ckpt.h"
#include "libckpt/format/spread.h"
#include "tests/libckpt/dist/samples.h"
#include "tests/libckpt/dist/thread_ranks.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

ckpt::dist::SaveOptions options_for(int rank, int ranks) {
  ckpt::dist::SaveOptions options;
  options.pieces = test::sample_pieces(rank, ranks);
  options.overwrite = true;
  options.durable = false;
  return options;
}

/// Saves the sample as `ranks` ranks have it; what each threw.
std::vector<std::string> save_sample(const fs::path& path, int ranks, float version) {
  return test::run_ranks_as_threads(ranks, [&](ckpt::dist::Ranks& who) {
    ckpt::dist::save_by(who, test::sample_part(who.rank(), ranks, version), path, options_for(who.rank(), ranks));
  });
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(DistSave, AnyNumberOfRanksWritesWhatAnyNumberReads) {
  test::TempDir dir;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    fs::path path = dir.path() / ("from-" + std::to_string(ranks));
    ASSERT_THAT(save_sample(path, ranks, 1), Each("")) << ranks;
    ckpt::Checkpoint whole = ckpt::open(path);
    EXPECT_EQ(test::tree_difference(test::sample_whole(1), whole.root), "") << ranks;
    EXPECT_TRUE(ckpt::verify(path).damage.empty()) << ranks;
    for (int readers = 1; readers <= 5; ++readers) {
      for (int rank = 0; rank < readers; ++rank) {
        ckpt::Value mine = ckpt::dist::cut_to_pieces(whole.root, test::sample_pieces(rank, readers));
        EXPECT_EQ(test::tree_difference(test::sample_part(rank, readers, 1), mine), "")
            << ranks << " -> " << rank << " of " << readers;
      }
    }
  }
}

TEST(DistSave, TheFolderSaysHowItIsSpread) {
  test::TempDir dir;
  fs::path path = dir.path() / "run.dcp";
  ASSERT_THAT(save_sample(path, 3, 1), Each(""));
  EXPECT_EQ(names_in(path),
            (std::vector<std::string>{".ckpt-parts", ".metadata", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp"}));
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"run.dcp"}) << "something else was left";
  ckpt::Checkpoint checkpoint = ckpt::open(path);
  std::optional<ckpt::Spread> spread = ckpt::spread_of(checkpoint);
  ASSERT_TRUE(spread.has_value());
  EXPECT_EQ(spread->ranks, 3U);
  EXPECT_EQ(spread->replicated_pieces, 3U);  // norm.weight, scalar, empty
  EXPECT_EQ(spread->bytes_saved, 2U * (9 + 1) * 4);
  const ckpt::Entry& rows = checkpoint.root.find("model")->find("rows")->as_entry();
  ASSERT_EQ(spread->of(rows).size(), 3U);
  EXPECT_EQ(spread->of(rows)[2].offsets, (core::Shape{6, 0}));
}

TEST(DistSave, AnExistingFolderIsRefusedOnEveryRankAndStays) {
  test::TempDir dir;
  fs::path path = dir.path() / "run";
  ASSERT_THAT(save_sample(path, 2, 1), Each(""));
  std::vector<std::string> errors = test::run_ranks_as_threads(3, [&](ckpt::dist::Ranks& who) {
    ckpt::dist::SaveOptions options = options_for(who.rank(), 3);
    options.overwrite = false;
    ckpt::dist::save_by(who, test::sample_part(who.rank(), 3, 2), path, options);
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 0: ")));
  EXPECT_THAT(errors, Each(HasSubstr("it already exists")));
  EXPECT_THAT(errors, Each(errors[0]));
  EXPECT_EQ(test::tree_difference(test::sample_whole(1), ckpt::open(path).root), "");
  ASSERT_THAT(save_sample(path, 3, 2), Each(""));
  EXPECT_EQ(test::tree_difference(test::sample_whole(2), ckpt::open(path).root), "");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"run"});
}

TEST(DistSave, AFolderOfSomethingElseIsNeverReplaced) {
  test::TempDir dir;
  fs::path path = dir.path() / "run";
  fs::create_directories(path);
  test::write_file(path / "thesis.txt", "years of work");
  std::vector<std::string> errors = save_sample(path, 2, 1);
  EXPECT_THAT(errors, Each(HasSubstr("the folder holds 'thesis.txt', which is no part of a checkpoint")));
  EXPECT_EQ(test::read_file(path / "thesis.txt"), "years of work");
}

TEST(DistSave, TheErrorOfOneRankIsThatOfAll) {
  test::TempDir dir;
  fs::path path = dir.path() / "run";
  ASSERT_THAT(save_sample(path, 3, 1), Each(""));
  std::vector<std::string> errors = test::run_ranks_as_threads(3, [&](ckpt::dist::Ranks& who) {
    ckpt::Value mine = test::sample_part(who.rank(), 3, 2);
    if (who.rank() == 1)
      mine = test::dict({{"model", ckpt::Value::list({ckpt::Value::dict({{ckpt::Value("rows"), ckpt::Value(1)}})})}});
    ckpt::dist::save_by(who, mine, path, options_for(who.rank(), 3));
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 1: a piece is named for which there is no tensor")));
  EXPECT_EQ(test::tree_difference(test::sample_whole(1), ckpt::open(path).root), "");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"run"});
}

TEST(DistSave, ASecondSaveOfTheSamePlanExchangesAHashAlone) {
  test::TempDir dir;
  static int round = 0;  // a repeated test must not find the plan that it has made before
  const std::string fresh = "round-" + std::to_string(++round);
  std::vector<std::string> errors = test::run_ranks_as_threads(7, [&](ckpt::dist::Ranks& who) {
    ckpt::Dict tree = test::sample_part(who.rank(), 7, 1).as_dict();
    tree.items.emplace_back(ckpt::Value(fresh), ckpt::Value(round));
    ckpt::Value mine = ckpt::Value::dict(std::move(tree));
    ckpt::dist::SaveOptions options = options_for(who.rank(), 7);
    ckpt::dist::SaveFacts first = ckpt::dist::save_by(who, mine, dir.path() / "a", options);
    ckpt::dist::SaveFacts second = ckpt::dist::save_by(who, mine, dir.path() / "b", options);
    EXPECT_GT(first.exchanged, 100U);
    EXPECT_LE(second.exchanged, 64U);
    EXPECT_EQ(first.bytes, second.bytes);
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(test::tree_difference(test::sample_whole(1), ckpt::open(dir.path() / "b").root), "");
}

TEST(DistSave, APlanThatChangedOnOneRankIsMadeAnew) {
  test::TempDir dir;
  std::vector<std::string> errors = test::run_ranks_as_threads(2, [&](ckpt::dist::Ranks& who) {
    ckpt::dist::SaveOptions options;
    options.durable = false;
    ckpt::Value one = test::dict({{"a", test::matrix(1, {4})}});
    ckpt::dist::save_by(who, one, dir.path() / "a", options);
    ckpt::Value more = who.rank() == 0 ? one : test::dict({{"a", test::matrix(1, {4})}, {"b", test::matrix(9, {2})}});
    ckpt::dist::save_by(who, more, dir.path() / "b", options);
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(ckpt::list_entries(ckpt::open(dir.path() / "b").root).size(), 2U);
}

TEST(DistSave, RanksThatSaveOtherLayoutsAreNamed) {
  test::TempDir dir;
  std::vector<std::string> errors = test::run_ranks_as_threads(3, [&](ckpt::dist::Ranks& who) {
    ckpt::dist::SaveOptions options = options_for(who.rank(), 3);
    if (who.rank() == 2) options.layout = "native";
    ckpt::dist::save_by(who, test::sample_part(who.rank(), 3, 1), dir.path() / "run", options);
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 2 saves with the layout 'native' where rank 0 saves with 'dcp'")));
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(DistSave, SafetensorsShardsAreThoseOfHuggingFace) {
  test::TempDir dir;
  ckpt::Value state = test::dict({{"a.weight", test::matrix(0, {64})},
                                  {"b.weight", test::matrix(64, {32})},
                                  {"c.weight", test::matrix(96, {16})}});
  std::vector<std::string> errors = test::run_ranks_as_threads(2, [&](ckpt::dist::Ranks& who) {
    ckpt::dist::SaveOptions options;
    options.layout = "safetensors";
    ckpt::dist::save_by(who, state, dir.path() / "model", options);
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(names_in(dir.path() / "model"),
            (std::vector<std::string>{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json"}));
  EXPECT_EQ(test::tree_difference(state, ckpt::open(dir.path() / "model").root), "");
  errors = test::run_ranks_as_threads(2, [&](ckpt::dist::Ranks& who) {
    ckpt::dist::SaveOptions options = options_for(who.rank(), 2);
    options.layout = "safetensors";
    ckpt::dist::save_by(who, test::dict({{"model", *test::sample_part(who.rank(), 2, 1).find("model")}}),
                        dir.path() / "pieces", options);
  });
  EXPECT_THAT(errors, Each(HasSubstr("'model.rows' is in 2 pieces, and safetensors hold whole tensors")));
}

/// Saves the sample in native parts by so many ranks.
fs::path save_native(const fs::path& path, int ranks, float version) {
  std::vector<std::string> errors = test::run_ranks_as_threads(ranks, [&](ckpt::dist::Ranks& who) {
    ckpt::dist::SaveOptions options = options_for(who.rank(), ranks);
    options.layout = "native";
    ckpt::dist::save_by(who, test::sample_part(who.rank(), ranks, version), path, options);
  });
  EXPECT_THAT(errors, Each(""));
  return path;
}

TEST(DistNative, EachPartIsAnOrdinaryCheckpointAndAllAreOne) {
  test::TempDir dir;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    fs::path path = save_native(dir.path() / std::to_string(ranks), ranks, 1);
    ckpt::Checkpoint whole = ckpt::open(path);
    EXPECT_EQ(whole.format, "parts");
    EXPECT_EQ(test::tree_difference(test::sample_whole(1), whole.root), "") << ranks;
    EXPECT_TRUE(ckpt::verify(path).damage.empty()) << ranks;
    EXPECT_EQ(ckpt::open(path / "part-00000.ckpt").format, "native");
    for (int rank = 0; rank < 3; ++rank) {
      ckpt::Value mine = ckpt::dist::cut_to_pieces(whole.root, test::sample_pieces(rank, 3));
      EXPECT_EQ(test::tree_difference(test::sample_part(rank, 3, 1), mine), "") << ranks << " -> " << rank;
    }
  }
}

TEST(DistNative, PartsThatAreMissingCutOrOfAnotherSaveAreNamed) {
  test::TempDir dir;
  fs::path path = save_native(dir.path() / "a", 2, 1);
  fs::path other = save_native(dir.path() / "b", 2, 1);
  auto error_of = [&] {
    return test::said_by([&] {
      for (const ckpt::NamedEntry& tensor : ckpt::list_entries(ckpt::open(path).root)) {
        ckpt::read_all(*tensor.entry->bytes);
      }
    });
  };
  std::string good = test::read_file(path / "part-00001.ckpt");
  ASSERT_EQ(fs::file_size(other / "part-00001.ckpt"), good.size());
  test::write_file(path / "part-00001.ckpt", test::read_file(other / "part-00001.ckpt"));
  EXPECT_THAT(error_of(), HasSubstr("part 'part-00001.ckpt': it is a part of another save than the index"));
  test::write_file(path / "part-00001.ckpt", good.substr(1));
  EXPECT_THAT(error_of(), HasSubstr("'part-00001.ckpt' has"));
  fs::remove(path / "part-00001.ckpt");
  EXPECT_THAT(error_of(), HasSubstr("'part-00001.ckpt' is missing"));
  test::write_file(path / "part-00001.ckpt", good);
  std::string index = test::read_file(path / "index.ckpt-parts");
  auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = index;
    std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    test::write_file(path / "index.ckpt-parts", text.replace(at, from.size(), to));
    return error_of();
  };
  EXPECT_THAT(replaced("part-00001.ckpt", "../art-001.ckpt"), HasSubstr("which is no .ckpt file beside it"));
  EXPECT_THAT(replaced("part-00001.ckpt", "part-00000.ckpt"), HasSubstr("names 'part-00000.ckpt' twice"));
  EXPECT_THAT(replaced("\"part\": 1", "\"part\": 9"), HasSubstr("part 9 of 2"));
  EXPECT_THAT(replaced("\"float32\"", "\"float33\""), HasSubstr("it is of dtype 'float33'"));
  EXPECT_EQ(test::read_file(path / "part-00001.ckpt"), good);
  test::write_file(path / "index.ckpt-parts", index);
  fs::rename(path / "part-00001.ckpt", dir.path() / "elsewhere.ckpt");
  fs::create_symlink(dir.path() / "elsewhere.ckpt", path / "part-00001.ckpt");
  EXPECT_THAT(error_of(), HasSubstr("leads out of its folder"));
  EXPECT_THAT(test::said_by([&] { ckpt::verify(path); }), HasSubstr("leads out of its folder"));
}

TEST(DistSave, UnknownLayoutsAreNamed) {
  test::TempDir dir;
  ckpt::dist::SaveOptions options;
  options.layout = "zarr";
  EXPECT_THAT(test::said_by([&] { ckpt::dist::save(test::sample_whole(1), dir.path() / "a", options); }),
              HasSubstr("no layout is named 'zarr'"));
}

// What is read of a part: a piece of a rank asks for its own bytes.

/// Counts what is read of the data of a tensor.
class CountingSource final : public ckpt::ByteSource {
 public:
  explicit CountingSource(ckpt::SourcePtr inner) : inner_(std::move(inner)) {}
  std::uint64_t size() const override { return inner_->size(); }
  void read(std::uint64_t offset, ckpt::MutableBytes out) const override {
    bytes_ += out.size();
    inner_->read(offset, out);
  }
  void require_unchanged() const override {}
  std::uint64_t bytes() const { return bytes_; }

 private:
  ckpt::SourcePtr inner_;
  mutable std::uint64_t bytes_ = 0;
};

TEST(DistLoad, ARankReadsTheBytesOfItsRowsAndNoOthers) {
  constexpr std::int64_t kRows = 4096;
  ckpt::Entry entry = test::float_entry(test::numbers_from(0, kRows * 256));
  auto counting = std::make_shared<CountingSource>(entry.bytes);
  entry.shape = {kRows, 256};
  entry.bytes = counting;
  ckpt::Value root = test::dict({{"w", ckpt::Value::tensor(std::make_shared<ckpt::Entry>(entry))}});
  ckpt::Value mine = ckpt::dist::cut_to_pieces(root, {{"w", ckpt::dist::shard({kRows, 256}, 0, 2, 3)}});
  std::uint64_t needed = mine.find("w")->as_entry().byte_size();
  ckpt::read_all(*mine.find("w")->as_entry().bytes);
  EXPECT_LE(static_cast<double>(counting->bytes()), 1.02 * static_cast<double>(needed));
}

TEST(DistLoad, PiecesThatDoNotFitAreNamed) {
  ckpt::Value root = test::sample_whole(1);
  auto error_of = [&](const ckpt::dist::Pieces& pieces) {
    return test::said_by([&] { ckpt::dist::cut_to_pieces(root, pieces); });
  };
  EXPECT_THAT(error_of({{"model.rowz", ckpt::dist::shard({7, 3}, 0, 0, 2)}}),
              HasSubstr("no tensor 'model.rowz' is in it"));
  EXPECT_THAT(error_of({{"model.rows", ckpt::dist::shard({8, 3}, 0, 0, 2)}}),
              HasSubstr("'model.rows': it has the shape [7, 3] where [8, 3] is expected"));
  EXPECT_THAT(error_of({{"model.rows", {{7, 3}, {6, 0}, {2, 3}}}}), HasSubstr("reaches outside of the tensor [7, 3]"));
}

}  // namespace
