#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/format/folder.h"
#include "libckpt/scan.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/parts_folder.h"
#include "tests/libckpt/transform/trees.h"

namespace {

namespace fs = std::filesystem;
using ckpt::Value;
using core::ErrorCode;
using test::dict;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Items = std::vector<std::pair<std::string, Value>>;

const std::string kSharded = "torch.distributed._shard.sharded_tensor.";

Value numbers(const std::vector<std::int64_t>& numbers) {
  Value::List list;
  for (std::int64_t number : numbers) list.push_back(Value::integer(number));
  return Value::list(std::move(list));
}

Value instance(const std::string& symbol, Value state) {
  ckpt::Object object;
  object.symbol = symbol;
  object.form = ckpt::Object::Form::instance;
  object.args = Value::tuple({});
  object.state = std::move(state);
  object.has_state = true;
  return Value::object(std::move(object));
}

/// Some values of a vector of floats.
struct Piece {
  std::int64_t at = 0;
  std::vector<float> values;
};

Value place(std::int64_t at, std::int64_t size) {
  return instance("torch.distributed._shard.metadata.ShardMetadata",
                  dict({{"shard_offsets", numbers({at})}, {"shard_sizes", numbers({size})}}));
}

/// `all`: where the pieces of every rank begin, and how long they are.
Value sharded(std::int64_t size, const std::vector<std::pair<std::int64_t, std::int64_t>>& all,
              const std::vector<Piece>& local, int rank, int ranks = 2) {
  Value::List places;
  for (const auto& [at, length] : all) places.push_back(place(at, length));
  ckpt::Object dtype;
  dtype.symbol = "torch.float32";
  Value metadata = instance(kSharded + "metadata.ShardedTensorMetadata",
                            dict({{"shards_metadata", Value::list(std::move(places))},
                                  {"size", numbers({size})},
                                  {"tensor_properties", instance(kSharded + "metadata.TensorProperties",
                                                                 Value::tuple({Value::object(dtype)}))}}));
  Value::List shards;
  for (const Piece& piece : local) {
    const auto length = static_cast<std::int64_t>(piece.values.size());
    shards.push_back(instance(kSharded + "shard.Shard",
                              dict({{"tensor", test::tensor(piece.values)}, {"metadata", place(piece.at, length)}})));
  }
  Value group = instance(kSharded + "metadata.TensorProperties",
                         dict({{"global_rank", Value::integer(rank)}, {"global_world_size", Value::integer(ranks)}}));
  return instance(kSharded + "api.ShardedTensor",
                  Value::tuple({Value::list(std::move(shards)), std::move(metadata), std::move(group)}));
}

/// Two ranks of a vector of three, and a buffer that both have.
class Fsdp : public test::PartsFolder {
 protected:
  void SetUp() override {
    write(0, {{"w", sharded(3, {{0, 2}, {2, 1}}, {{0, {1, 2}}}, 0)}, {"mean", test::tensor({7})}});
    write(1, {{"w", sharded(3, {{0, 2}, {2, 1}}, {{2, {3}}}, 1)}, {"mean", test::tensor({8})}});
  }
  fs::path path(int rank) const { return dir_.path() / ("model_rank" + std::to_string(rank) + ".pth"); }
  void write(int rank, Items items) {
    ckpt::save(test::checkpoint(dict(std::move(items))), path(rank), {.format = "torch-zip", .durable = false});
  }
  /// Rank 1 with another piece.
  void write_piece(const std::vector<std::pair<std::int64_t, std::int64_t>>& all, const Piece& piece,
                   std::int64_t size = 3) {
    write(1, {{"w", sharded(size, all, {piece}, 1)}, {"mean", test::tensor({8})}});
  }
};

TEST_F(Fsdp, PartsAreJoined) {
  ckpt::Report report;
  ckpt::Checkpoint read = ckpt::open(dir_.path(), {.report = &report});
  EXPECT_EQ(read.format, "fsdp");
  EXPECT_EQ(test::names(read), (std::vector<std::string>{"w", "mean"}));
  EXPECT_THAT(values(read, "w"), ElementsAre(1, 2, 3));
  EXPECT_THAT(values(read, "mean"), ElementsAre(7)) << "what is not sharded is that of rank 0";
  EXPECT_THAT(report.warnings, testing::Contains(HasSubstr("the parts of 2 ranks are joined")));
  EXPECT_EQ(ckpt::named_file(dir_.path()), dir_.path()) << "the folder is the checkpoint, not one of its files";
  EXPECT_TRUE(ckpt::verify(dir_.path()).damage.empty());
}

TEST_F(Fsdp, AFileOfOneRankIsRefusedWithTheWayOut) {
  try {
    ckpt::open(path(1));
    FAIL() << "was read";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("name that folder to read them joined"));
  }
}

TEST_F(Fsdp, HalfAFolderIsRefused) {
  fs::remove(path(0));
  EXPECT_THAT(refusal(),
              HasSubstr("was written by 2 ranks, and a part of it is missing: 'model_rank0.pth'; copy that"));
  SetUp();
  fs::remove(path(1));
  EXPECT_THAT(refusal(), HasSubstr("'model_rank1.pth'"));
}

TEST_F(Fsdp, FilesOfAnotherRunAreRefused) {
  fs::copy(path(1), path(2));
  EXPECT_THAT(refusal(), HasSubstr("was written by 2 ranks, and the folder holds files of 3; an older checkpoint"));
  fs::remove(path(2));
  fs::remove(path(1));
  fs::copy(path(0), path(1));
  EXPECT_THAT(refusal(),
              HasSubstr("'model_rank1.pth': its name says rank 1 of 2, and what it holds is of rank 0 of 2"));
}

TEST_F(Fsdp, HolesAndOverlapsAreNamed) {
  write_piece({{0, 2}, {2, 1}, {1, 2}}, {1, {2, 3}});
  EXPECT_THAT(refusal(), HasSubstr("'w': the chunk [2] at [0] and the chunk [2] at [1] overlap"));
  write(1, {{"w", sharded(3, {{0, 2}, {2, 1}}, {}, 1)}, {"mean", test::tensor({8})}});
  EXPECT_THAT(refusal(), HasSubstr("'w': its chunks hold 2 of 3 elements"));
  write_piece({{0, 2}, {3, 1}}, {3, {3}});
  EXPECT_THAT(refusal(), HasSubstr("'w': the chunk [1] at [3] reaches outside of the tensor [3]"));
}

TEST_F(Fsdp, PiecesMustBeThoseThatAreListed) {
  write_piece({{0, 2}, {2, 1}}, {1, {3}});
  EXPECT_THAT(refusal(),
              HasSubstr("'w': 'model_rank1.pth': the piece [1] at [1] is none of those that the tensor lists"));
  write_piece({{0, 2}, {2, 2}}, {2, {3, 4}}, 4);
  EXPECT_THAT(refusal(), HasSubstr("it is [4] of float32 where rank 0 says [3] of float32"));
  Value shard = sharded(3, {{0, 2}, {2, 1}}, {{2, {3}}}, 1);
  write(1, {{"w", test::tensor({3})}, {"mean", test::tensor({8})}, {"v", shard}});
  EXPECT_THAT(refusal(), HasSubstr("'v': rank 1 has it, and rank 0 does not"));
  write(1, {{"w", shard}, {"mean", test::tensor({8, 9})}});
  EXPECT_THAT(refusal(), HasSubstr("'mean': it is not sharded, and has the shape [1] on rank 0 and [2] on rank 1"));
}

TEST_F(Fsdp, ListsOfPiecesHaveOneLengthOnAllRanks) {
  auto write_lists = [&](std::size_t on_second) {
    const Value first = sharded(3, {{0, 2}, {2, 1}}, {{0, {1, 2}}}, 0);
    const Value second = sharded(3, {{0, 2}, {2, 1}}, {{2, {3}}}, 1);
    write(0, {{"l", Value::list({first})}});
    write(1, {{"l", Value::list(Value::List(on_second, second))}});
  };
  write_lists(1);
  EXPECT_EQ(test::names(ckpt::open(dir_.path())), (std::vector<std::string>{"l.0"}));
  write_lists(2);
  EXPECT_THAT(refusal(), HasSubstr("'l': it is a list with sharded tensors on rank 0, and not every rank has one of "
                                   "that length"));
}

TEST_F(Fsdp, FlatParametersAreRefused) {
  for (int rank : {0, 1}) write(rank, {{"block._flat_param", sharded(1, {{0, 1}}, {{0, {1}}}, rank)}});
  EXPECT_THAT(refusal(ErrorCode::unsupported), HasSubstr("'block._flat_param' is a flat parameter of FSDP"));
}

/// In the form that PyTorch had before 2.9: the mesh keeps a tensor.
Value mesh_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& at, std::int64_t ranks) {
  std::vector<std::int64_t> all;
  std::vector<float> values;
  for (std::int64_t i = 0; i < ranks; ++i) {
    all.push_back(i);
    values.push_back(static_cast<float>(i));
  }
  ckpt::Entry mesh = test::float_entry(values);
  mesh.shape = shape;
  return instance("torch.distributed.device_mesh.DeviceMesh",
                  dict({{"mesh", Value::tensor(std::make_shared<ckpt::Entry>(std::move(mesh)))},
                        {"_flatten_mesh_list", numbers(all)},
                        {"_coordinate_on_dim", numbers(at)}}));
}

const std::string kTensorModule = "torch.distributed.tensor.";

Value dtensor_of(std::int64_t size, Value spec, const std::vector<float>& local) {
  ckpt::Object type, dtype, call;
  type.symbol = kTensorModule + "DTensor";
  dtype.symbol = "torch.float32";
  call.symbol = "torch._tensor._rebuild_from_type_v2";
  call.form = ckpt::Object::Form::call;
  call.args = Value::tuple(
      {Value::object(type), Value::object(type),
       Value::tuple({Value::object(type), Value::object(dtype), Value::tuple({Value::integer(size)})}),
       Value::tuple({Value(), dict({{"_local_tensor", test::tensor(local)}, {"_spec", std::move(spec)}})})});
  return Value::object(std::move(call));
}

Value placement_of(const std::string& placement) {
  return instance(kTensorModule + "placement_types." + placement, dict({{"dim", Value::integer(0)}}));
}

/// Rank 1 or 0 of two with its rows of a vector.
Value dtensor(std::int64_t size, const std::string& placement, const std::vector<float>& local, std::int64_t rank) {
  return dtensor_of(
      size,
      instance(kTensorModule + "_dtensor_spec.DTensorSpec",
               dict({{"mesh", mesh_of({2}, {rank}, 2)}, {"placements", Value::tuple({placement_of(placement)})}})),
      local);
}

/// A vector of four, cut by both dimensions of a mesh of 2 x 2 in an order that the tensor says.
Value cut_twice(const std::vector<std::int64_t>& order, float local, std::int64_t rank) {
  ckpt::Object entry;
  entry.symbol = kTensorModule + "_dtensor_spec.ShardOrderEntry";
  entry.form = ckpt::Object::Form::instance;
  Value::List dims;
  for (std::int64_t dim : order) dims.push_back(Value::integer(dim));
  entry.args = Value::tuple({Value::integer(0), Value::tuple(std::move(dims))});
  return dtensor_of(4,
                    instance(kTensorModule + "_dtensor_spec.DTensorSpec",
                             dict({{"mesh", mesh_of({2, 2}, {rank / 2, rank % 2}, 4)},
                                   {"placements", Value::tuple({placement_of("Shard"), placement_of("Shard")})},
                                   {"shard_order", Value::tuple({Value::object(std::move(entry))})}})),
                    {local});
}

/// The same of DTensors.
class FsdpOfDTensors : public Fsdp {
 protected:
  void SetUp() override { write_both("Shard", {1, 2}, {3}); }
  void write_both(const std::string& placement, const std::vector<float>& first, const std::vector<float>& second) {
    write_part(0, dtensor(3, placement, first, 0), 7);
    write_part(1, dtensor(3, placement, second, 1), 8);
  }
  void write_part(int rank, Value tensor, float mean) {
    ckpt::save(test::checkpoint(dict({{"w", std::move(tensor)}, {"mean", test::tensor({mean})}})), path(rank),
               {.format = "torch-zip", .durable = false});
  }
};

TEST_F(FsdpOfDTensors, AreJoined) {
  ckpt::Report report;
  ckpt::Checkpoint read = ckpt::open(dir_.path(), {.report = &report});
  EXPECT_EQ(read.format, "fsdp");
  EXPECT_EQ(test::names(read), (std::vector<std::string>{"w", "mean"}));
  EXPECT_THAT(values(read, "w"), ElementsAre(1, 2, 3));
  EXPECT_THAT(values(read, "mean"), ElementsAre(7));
  write_both("Replicate", {4, 5, 6}, {4, 5, 6});
  EXPECT_THAT(values(ckpt::open(dir_.path()), "w"), ElementsAre(4, 5, 6));
}

TEST_F(FsdpOfDTensors, AreRefusedWhereTheyDoNotFit) {
  write_both("Shard", {1}, {3});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'w'"), HasSubstr("the piece [2] at [0] has values of the shape [1]")));
  write_both("Partial", {1, 2, 3}, {1, 2, 3});
  EXPECT_THAT(refusal(ErrorCode::unsupported),
              AllOf(HasSubstr("placement 'Partial'"), HasSubstr("only 'Shard' and 'Replicate' are joined here")));
  SetUp();
  write_part(1, dtensor(3, "Shard", {3}, 2), 8);
  EXPECT_THAT(refusal(), HasSubstr("lies outside of it"));
  SetUp();
  fs::remove(path(0));
  EXPECT_THAT(refusal(), HasSubstr("a part of it is missing: 'model_rank0.pth'"));
  SetUp();
  fs::rename(path(0), path(2));
  fs::rename(path(1), path(0));
  fs::rename(path(2), path(1));
  EXPECT_THAT(refusal(), HasSubstr("its name says rank 0 of 2, and what it holds is of rank 1 of 2"));
}

TEST_F(FsdpOfDTensors, AreCutInTheOrderThatTheySay) {
  auto write_all = [&](const std::vector<std::int64_t>& order) {
    for (int rank = 0; rank < 4; ++rank) write_part(rank, cut_twice(order, static_cast<float>(rank), rank), 7);
  };
  write_all({0, 1});
  EXPECT_THAT(values(ckpt::open(dir_.path()), "w"), ElementsAre(0, 1, 2, 3));
  write_all({1, 0});
  EXPECT_THAT(values(ckpt::open(dir_.path()), "w"), ElementsAre(0, 2, 1, 3));
  const std::vector<std::vector<std::int64_t>> wrong = {{0}, {}, {0, 0}, {0, 1, 1}, {0, 2}, {1, 0, 2}};
  for (const std::vector<std::int64_t>& order : wrong) {
    write_all(order);
    EXPECT_THAT(refusal(), HasSubstr("a DTensor's order of cuts is not that of its placements"));
  }
}

TEST_F(Fsdp, SeveralModelsInAFolderAreNamed) {
  fs::copy(path(0), dir_.path() / "critic_rank0.pth");
  EXPECT_THAT(refusal(ErrorCode::unsupported),
              HasSubstr("several FSDP models ('critic_rank0.pth', 'model_rank0.pth')"));
}

TEST_F(Fsdp, NumberedFilesOfOtherKindsStayThemselves) {
  for (int rank : {0, 1}) write(rank, {{"w", test::tensor({1})}});
  EXPECT_THAT(refusal(ErrorCode::unsupported), HasSubstr("name the file that is meant"));
}

}  // namespace
