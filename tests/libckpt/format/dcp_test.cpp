#include <gmock/gmock.h>

#include <random>

#include "libckpt/ckpt.h"
#include "libckpt/format/dcp/chunk_source.h"
#include "libckpt/format/dcp/nested.h"
#include "libckpt/format/dcp/tiling.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/zip_maker.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::detail::Box;
using ckpt::detail::SourceChunk;
using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Tiling, GridsAndEmptyChunksAreAccepted) {
  std::vector<Box> boxes = {{{0, 0}, {2, 3}}, {{0, 3}, {2, 1}}, {{2, 0}, {1, 3}}, {{2, 3}, {1, 1}}, {{3, 0}, {0, 4}}};
  EXPECT_NO_THROW(ckpt::detail::check_tiling({3, 4}, boxes));
  EXPECT_NO_THROW(ckpt::detail::check_tiling({}, std::vector<Box>{{{}, {}}}));
  EXPECT_NO_THROW(ckpt::detail::check_tiling({0, 3}, {}));
}

TEST(Tiling, OtherPartitionsAreAcceptedToo) {
  std::vector<Box> boxes = {{{0, 0}, {2, 1}}, {{0, 1}, {1, 2}}, {{2, 0}, {1, 2}}, {{1, 2}, {2, 1}}, {{1, 1}, {1, 1}}};
  EXPECT_NO_THROW(ckpt::detail::check_tiling({3, 3}, boxes));
}

TEST(Tiling, OverlapsGapsAndOverhangsAreNamed) {
  auto check = [](core::Shape shape, std::vector<Box> boxes) {
    return message_of([&] { ckpt::detail::check_tiling(shape, boxes); });
  };
  EXPECT_THAT(check({4}, {{{0}, {3}}, {{2}, {2}}}), HasSubstr("[3] at [0] and the chunk [2] at [2] overlap"));
  EXPECT_THAT(check({4}, {{{0}, {1}}, {{2}, {2}}}), HasSubstr("3 of 4 elements"));
  EXPECT_THAT(check({4}, {{{2}, {3}}}), HasSubstr("outside of the tensor [4]"));
  EXPECT_THAT(check({4}, {{{0, 0}, {4, 1}}}), HasSubstr("outside"));
  EXPECT_THAT(check({4}, {}), HasSubstr("0 of 4 elements"));
  EXPECT_THAT(check({4}, {{{0}, {2}}, {{0}, {2}}}), HasSubstr("overlap"));
}

TEST(Tiling, ManyChunksThatFormNoGridAreRefused) {
  std::vector<Box> boxes(5000, Box{{0}, {1}});
  EXPECT_THAT(message_of([&] { ckpt::detail::check_tiling({5000}, boxes); }), HasSubstr("do not form a grid"));
}

/// Cuts a box in two at random until there are `count`.
std::vector<Box> random_boxes(const core::Shape& shape, std::size_t count, std::mt19937& random) {
  core::Shape zero(shape.size(), 0);
  std::vector<Box> boxes = {{zero, shape}};
  while (boxes.size() < count) {
    std::size_t which = random() % boxes.size();
    std::size_t d = random() % shape.size();
    if (boxes[which].sizes[d] < 2) continue;
    std::int64_t cut = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(boxes[which].sizes[d] - 1));
    Box right = boxes[which];
    right.offsets[d] += cut;
    right.sizes[d] -= cut;
    boxes[which].sizes[d] = cut;
    boxes.push_back(right);
  }
  return boxes;
}

/// The bytes of one box of a tensor whose element i holds the number i.
core::ByteVector box_bytes(const core::Shape& shape, const Box& box) {
  core::ByteVector out;
  core::Shape at = box.offsets;
  std::uint64_t count = core::try_numel(box.sizes.span()).value();
  for (std::uint64_t n = 0; n < count; ++n) {
    std::uint32_t element = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      element = element * static_cast<std::uint32_t>(shape[d]) + static_cast<std::uint32_t>(at[d]);
    }
    core::append_le(out, element);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < box.offsets[d] + box.sizes[d]) break;
      at[d] = box.offsets[d];
    }
  }
  return out;
}

TEST(ChunkSource, AnyPartitionReadsAsTheWhole) {
  std::mt19937 random(7);
  for (const core::Shape& shape : {core::Shape{64}, core::Shape{9, 7}, core::Shape{4, 5, 6}, core::Shape{3, 1, 4, 5}}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<SourceChunk> chunks;
      for (const Box& box : random_boxes(shape, 1 + random() % 12, random)) {
        chunks.push_back({box, ckpt::memory_source(box_bytes(shape, box))});
      }
      core::ByteVector whole = box_bytes(shape, {core::Shape(shape.size(), 0), shape});
      ckpt::SourcePtr source = ckpt::detail::assemble_chunks(shape, 4, chunks);
      ASSERT_EQ(source->size(), whole.size());
      ASSERT_EQ(ckpt::read_all(*source), whole);
      for (int piece = 0; piece < 20; ++piece) {
        std::uint64_t begin = random() % whole.size();
        core::ByteVector part(random() % (whole.size() - begin + 1));
        source->read(begin, part);
        ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)));
      }
    }
  }
}

TEST(ChunkSource, ReadsPastTheEndAreRefused) {
  ckpt::SourcePtr half = ckpt::memory_source(core::ByteVector(4));
  ckpt::SourcePtr source = ckpt::detail::assemble_chunks({2}, 4, {{{{0}, {1}}, half}, {{{1}, {1}}, half}});
  core::ByteVector out(4);
  EXPECT_THROW(source->read(5, out), core::Error);
}

TEST(Nested, KeysMakeDictsAndIndexesMakeLists) {
  ckpt::Limits limits;
  ckpt::detail::NestedBuilder tree(limits);
  tree.add({"a", std::int64_t{2}}, ckpt::Value::integer(1));
  tree.add({"b", "c"}, ckpt::Value::integer(2));
  ckpt::Value root = tree.take();
  ASSERT_TRUE(root.find("a")->is(ckpt::Value::Kind::list));
  EXPECT_EQ(root.find("a")->as_list().size(), 3U);
  EXPECT_TRUE(root.find("a")->as_list()[0].is_null());
  EXPECT_EQ(root.find("b")->find("c")->as_integer(), 2);
}

TEST(Nested, PathsThatMeetAreRefused) {
  ckpt::Limits limits;
  ckpt::detail::NestedBuilder tree(limits);
  tree.add({"a"}, ckpt::Value::integer(1));
  EXPECT_THROW(tree.add({"a"}, ckpt::Value::integer(1)), core::Error);
  EXPECT_THROW(tree.add({"a", "b"}, ckpt::Value::integer(1)), core::Error);
  EXPECT_THROW(tree.add({}, ckpt::Value::integer(1)), core::Error);
}

TEST(Nested, AHugeIndexCostsNothing) {
  ckpt::Limits limits;
  ckpt::detail::NestedBuilder tree(limits);
  tree.add({"a", std::int64_t{1} << 40}, ckpt::Value::integer(1));
  EXPECT_THROW(tree.take(), core::Error);
}

// A whole folder, made by hand.

const char* const kModule = "torch.distributed.checkpoint.metadata";

std::string sizes(const std::vector<std::int32_t>& values) {
  return test::call(test::symbol("torch", "Size"), {test::numbers(values)});
}

struct HandmadeChunk {
  std::vector<std::int32_t> offsets;
  std::vector<std::int32_t> sizes;
  std::string archive;
  std::string file = "__0_0.distcp";
  std::string extra = {};  ///< more fields of the storage info
};

class Dcp : public ::testing::Test {
 protected:
  static std::string archive_of(const std::vector<float>& values, const std::vector<std::int32_t>& shape) {
    std::vector<std::int32_t> strides(shape.size(), 1);
    for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
    auto count = static_cast<std::int32_t>(values.size());
    std::string object = test::pickle(test::tensor(test::storage("FloatStorage", "0", count), 0, shape, strides));
    return test::torch_zip(object, {test::floats(values)}).bytes();
  }

  /// One tensor `w` of `shape` with these chunks.
  void write(const std::vector<std::int32_t>& shape, const std::vector<HandmadeChunk>& chunks) {
    std::string data;
    std::vector<std::string> boxes;
    std::vector<std::pair<std::string, std::string>> places;
    for (const HandmadeChunk& chunk : chunks) {
      boxes.push_back(test::instance(test::symbol(kModule, "ChunkStorageMetadata"),
                                     test::pickled_dict({{test::text("offsets"), sizes(chunk.offsets)},
                                                         {test::text("sizes"), sizes(chunk.sizes)}})));
      std::string index = test::instance(test::symbol(kModule, "MetadataIndex"),
                                         test::pickled_dict({{test::text("fqn"), test::text("w")},
                                                             {test::text("offset"), sizes(chunk.offsets)},
                                                             {test::text("index"), test::none()}}));
      std::string fields = "}(" + test::text("relative_path") + test::text(chunk.file) + test::text("offset") +
                           test::number(static_cast<std::int32_t>(data.size())) + test::text("length") +
                           test::number(static_cast<std::int32_t>(chunk.archive.size())) + chunk.extra + "u";
      places.emplace_back(
          index, test::instance(test::symbol("torch.distributed.checkpoint.filesystem", "_StorageInfo"), fields));
      data += chunk.archive;
    }
    std::string properties = test::instance(test::symbol(kModule, "TensorProperties"),
                                            test::tuple({test::symbol("torch", "float32"), test::none(), "\x89"}));
    std::string item = test::instance(test::symbol(kModule, "TensorStorageMetadata"),
                                      test::pickled_dict({{test::text("properties"), properties},
                                                          {test::text("size"), sizes(shape)},
                                                          {test::text("chunks"), test::list(boxes)}}));
    std::string root = test::instance(
        test::symbol(kModule, "Metadata"),
        test::pickled_dict({{test::text("state_dict_metadata"), test::pickled_dict({{test::text("w"), item}})},
                            {test::text("storage_data"), test::pickled_dict(places)}}));
    test::write_file(dir_.path() / ".metadata", test::pickle(root));
    test::write_file(dir_.path() / "__0_0.distcp", data);
  }
  std::string open_error() {
    return message_of([&] { ckpt::open(dir_.path()); });
  }

  test::TempDir dir_;
};

TEST_F(Dcp, ChunksAreReadAsOneTensor) {
  write({2, 2}, {{{0, 1}, {2, 1}, archive_of({2, 4}, {2, 1})}, {{0, 0}, {2, 1}, archive_of({1, 3}, {2, 1})}});
  ckpt::Checkpoint checkpoint = ckpt::open(dir_.path());
  EXPECT_EQ(checkpoint.format, "dcp");
  core::ByteVector bytes = ckpt::read_all(*checkpoint.root.find("w")->as_entry().bytes);
  EXPECT_EQ(core::as_text(bytes), test::floats({1, 2, 3, 4}));
  EXPECT_TRUE(ckpt::verify(dir_.path()).damage.empty());
  EXPECT_TRUE(ckpt::scan(dir_.path()).clean());
}

TEST_F(Dcp, MissingAndOverlappingChunksAreNamed) {
  write({2, 2}, {{{0, 0}, {2, 1}, archive_of({1, 3}, {2, 1})}});
  EXPECT_THAT(open_error(), HasSubstr("'w': its chunks hold 2 of 4 elements"));
  write({2, 1}, {{{0, 0}, {2, 1}, archive_of({1, 3}, {2, 1})}, {{1, 0}, {1, 1}, archive_of({1}, {1, 1})}});
  EXPECT_THAT(open_error(), HasSubstr("overlap"));
}

TEST_F(Dcp, AChunkMustBeWhatTheMetadataSays) {
  write({2}, {{{0}, {2}, archive_of({1}, {1})}});
  EXPECT_THAT(open_error(), HasSubstr("it holds float32 [1] where float32 [2] is expected"));
}

TEST_F(Dcp, FilesLieInTheFolder) {
  for (const char* name : {"../__0_0.distcp", "/tmp/x.distcp", "sub/__0_0.distcp", "__0_0.bin", ""}) {
    write({1}, {{{0}, {1}, archive_of({1}, {1}), name}});
    EXPECT_THAT(open_error(), HasSubstr("names the file")) << name;
  }
  write({1}, {{{0}, {1}, archive_of({1}, {1}), "__9_0.distcp"}});
  EXPECT_THAT(open_error(), HasSubstr("'__9_0.distcp': it is missing"));
}

TEST_F(Dcp, TransformedDataAreRefusedByName) {
  write({1}, {{{0},
               {1},
               archive_of({1}, {1}),
               "__0_0.distcp",
               test::text("transform_descriptors") + test::list({test::text("zstd")})}});
  EXPECT_THAT(open_error(), HasSubstr("transformed by the text 'zstd'"));
}

TEST_F(Dcp, BytesThatNoItemHasAreDamage) {
  write({1}, {{{0}, {1}, archive_of({1}, {1})}});
  std::filesystem::path data = dir_.path() / "__0_0.distcp";
  test::write_file(data, test::read_file(data) + "more");
  EXPECT_NO_THROW(ckpt::open(dir_.path()));
  EXPECT_FALSE(ckpt::verify(dir_.path()).damage.empty());
}

TEST_F(Dcp, EveryCutOfTheMetadataIsNoticed) {
  write({1}, {{{0}, {1}, archive_of({1}, {1})}});
  std::string whole = test::read_file(dir_.path() / ".metadata");
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    test::write_file(dir_.path() / ".metadata", whole.substr(0, size));
    EXPECT_NE(open_error(), "") << size;
  }
}

}  // namespace
