#include <gtest/gtest.h>

#include "libckpt/format/native/layout.h"
#include "libckpt/format/shared_tensors.h"
#include "libckpt/tensor_row.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;
using detail::RowTensor;
using detail::TensorRow;

class NativeRow : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return dir_.path() / "a.ckpt"; }
  /// Saves these, and reads them as a row.
  Checkpoint row_of(const Checkpoint& given) {
    save(given, path(), {.durable = false});
    row_ = {};
    return detail::open_row(path(), {}, row_);
  }

  test::TempDir dir_;
  TensorRow row_;
};

/// The table of payloads of an index: section 2, behind that of ranges.
std::byte* payload_rows(core::ByteVector& index) {
  constexpr std::size_t kHead = 16;
  return index.data() + kHead + core::load_le<std::uint64_t>(index.data() + 8) + kHead;
}

/// What a reader of the row says of each tensor; shapes are valid until the next one only.
struct Read {
  RowTensor tensor;
  core::Shape shape;
};

std::vector<Read> read_row(const TensorRow& row) {
  std::vector<Read> all;
  detail::RowReader reader(row);
  while (const RowTensor* tensor = reader.next()) all.push_back({*tensor, core::Shape(tensor->shape)});
  return all;
}

/// The row says what the entries of the tree say. Ties are compared pair by pair.
void expect_same(const TensorRow& row, const Value& root) {
  const std::vector<NamedEntry> listed = list_entries(root);
  const std::vector<Read> read = read_row(row);
  ASSERT_EQ(read.size(), listed.size());
  EXPECT_EQ(row.count, listed.size());
  std::uint64_t elements = 0, bytes = 0, names = 0;
  bool tied = false;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const RowTensor& tensor = read[i].tensor;
    const Entry& entry = *listed[i].entry;
    EXPECT_EQ(tensor.name, listed[i].name);
    EXPECT_EQ(tensor.dtype, entry.dtype) << tensor.name;
    EXPECT_EQ(read[i].shape, entry.shape) << tensor.name;
    EXPECT_EQ(tensor.location, entry.location) << tensor.name;
    EXPECT_EQ(tensor.elements, entry.numel()) << tensor.name;
    EXPECT_EQ(tensor.bytes, entry.byte_size()) << tensor.name;
    EXPECT_EQ(tensor.parameter, entry.parameter) << tensor.name;
    EXPECT_EQ(tensor.requires_grad, entry.requires_grad) << tensor.name;
    EXPECT_EQ(tensor.conjugate, entry.conjugate) << tensor.name;
    EXPECT_EQ(tensor.negative, entry.negative) << tensor.name;
    elements += entry.numel();
    bytes += entry.byte_size();
    names += tensor.name.size();
    for (std::size_t j = 0; j < i; ++j) {
      const Entry& other = *listed[j].entry;
      const bool same_storage = storage_identity(entry) == storage_identity(other),
                 same_bytes = entry.bytes == other.bytes;
      EXPECT_EQ(tensor.storage == read[j].tensor.storage, same_storage) << tensor.name;
      EXPECT_EQ(tensor.source == read[j].tensor.source, same_bytes) << tensor.name;
      tied = tied || same_storage || same_bytes;
    }
  }
  EXPECT_EQ(row.elements, elements);
  EXPECT_EQ(row.bytes, bytes);
  EXPECT_EQ(row.name_bytes, names);
  EXPECT_FALSE(row.all_differ && tied);
}

TEST_F(NativeRow, SaysWhatTheTreeSays) {
  auto weight = test::entry(DType::bf16, {4, 5}, test::noise(40));
  weight->location = "cuda:1";
  weight->parameter = true;
  weight->requires_grad = true;
  auto wave = test::entry(DType::c64, {3}, test::noise(24, 2));
  wave->conjugate = true;
  wave->negative = true;
  auto tied = std::make_shared<Entry>(*weight);
  const Checkpoint given = test::checkpoint({{"weight", Value::tensor(weight)},
                                             {"epoch", Value::integer(3)},
                                             {"", test::tensor(DType::f64, {}, 3)},
                                             {"tied", Value::tensor(tied)},
                                             {"wave", Value::tensor(wave)},
                                             {"names", Value::list({Value::text("a"), Value::text("b")})},
                                             {"empty", test::tensor(DType::f32, {0, 3})}});
  const Checkpoint rest = row_of(given);
  expect_same(row_, open(path()).root);
  EXPECT_EQ(rest.root,
            test::dict({{"epoch", Value::integer(3)}, {"names", Value::list({Value::text("a"), Value::text("b")})}}));
  EXPECT_FALSE(row_.all_differ);
}

// What is like the tensor before is not read again; what differs in one thing is.
TEST_F(NativeRow, ReadsEveryTensorThatDiffersFromTheOneBefore) {
  test::Items items;
  const auto add = [&](DType dtype, core::Shape shape, const std::function<void(Entry&)>& change = {}) {
    const std::uint64_t elements = static_cast<std::uint64_t>(shape.numel());
    auto entry = test::entry(dtype, std::move(shape), test::noise(elements * core::byte_size(dtype, 1).value()));
    if (change) change(*entry);
    items.emplace_back("t" + std::to_string(items.size()), Value::tensor(entry));
  };
  for (int round = 0; round < 2; ++round) {
    add(DType::f32, {2, 300});
    add(DType::f32, {2, 300});
    add(DType::f32, {300, 2});
    add(DType::i32, {300, 2});
    add(DType::i32, {300, 2}, [](Entry& entry) { entry.parameter = true; });
    add(DType::i32, {300, 2}, [](Entry& entry) { entry.location = "cuda:0"; });
    add(DType::i32, {300, 2, 1});
    items.emplace_back("n" + std::to_string(round), Value::integer(round));
  }
  row_of(test::checkpoint(items));
  expect_same(row_, open(path()).root);
  EXPECT_EQ(row_.runs.size(), 2U);
  EXPECT_TRUE(row_.all_differ);
  const std::vector<Read> read = read_row(row_);
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i].tensor.as_before, i % 7 == 1) << i;
}

// However long what they have in common is, the last byte of it counts.
TEST_F(NativeRow, TellsDevicesApartByTheirLastDigit) {
  for (std::size_t rank = 0; rank < 12; ++rank) {
    test::Items items;
    for (const char* location : {"cuda:0", "cuda:1", "cuda:1"}) {
      auto entry = test::entry(DType::u8, core::Shape(rank, 1), test::noise(1));
      entry->location = location;
      items.emplace_back("t" + std::to_string(items.size()), Value::tensor(entry));
    }
    row_of(test::checkpoint(items));
    expect_same(row_, open(path()).root);
    const std::vector<Read> read = read_row(row_);
    ASSERT_EQ(read.size(), 3U);
    EXPECT_FALSE(read[1].tensor.as_before) << rank;
    EXPECT_TRUE(read[2].tensor.as_before) << rank;
  }
}

TEST_F(NativeRow, HasViewsOfWholeStorages) {
  auto whole = test::storage(DType::f32, test::noise(24));
  auto other = test::storage(DType::f32, test::noise(32, 2), "cuda:0");
  row_of(test::checkpoint({{"a", test::view(whole, DType::f32, {2, 3}, 0, {3, 1})},
                           {"same", test::view(whole, DType::f32, {2, 3}, 0, {3, 1})},
                           {"b", test::view(other, DType::f32, {8}, 0, {1})},
                           {"c", test::tensor(DType::i64, {2})}}));
  expect_same(row_, open(path()).root);
  EXPECT_FALSE(row_.all_differ);
}

TEST_F(NativeRow, IsOfTheTopAlone) {
  auto storage = test::storage(DType::f32, test::noise(24));
  auto meta = std::make_shared<Entry>();
  meta->shape = {2};
  auto subclass = test::entry(DType::f32, {2}, test::noise(8));
  subclass->python_class = "mylib.Tensor";
  const Value shared = test::tensor(DType::f32, {2});
  const std::vector<Value> others = {
      test::dict({{"weight", test::tensor(DType::f32, {2}, 5)}}),
      Value::list({test::tensor(DType::f32, {2}, 6)}),
      Value::tensor(meta),
      Value::tensor(subclass),
      test::view(storage, DType::f32, {3, 2}, 0, {1, 3}),
      Value::list({shared, shared}),
  };
  for (std::size_t i = 0; i < others.size(); ++i) {
    const Checkpoint given = test::checkpoint({{"first", test::tensor(DType::f32, {3})}, {"other", others[i]}});
    const Checkpoint read = row_of(given);
    EXPECT_TRUE(row_.empty() && row_.runs.empty()) << i;
    EXPECT_EQ(test::difference(read.root, given.root), "") << i;
  }
  row_of(test::checkpoint({{"first", test::view(storage, DType::f32, {3}, 0, {1})},
                           {"second", test::view(storage, DType::f32, {4}, 1, {1})}}));
  EXPECT_TRUE(row_.empty());
  Checkpoint lone;
  lone.root = test::tensor(DType::f32, {2});
  const Checkpoint read = row_of(lone);
  EXPECT_TRUE(row_.empty());
  EXPECT_TRUE(read.root.is(Value::Kind::tensor));
}

TEST_F(NativeRow, IsNotOfTensorsInOtherFiles) {
  const Checkpoint given = test::checkpoint({{"w", test::tensor(DType::f32, {4096})}});
  save(given, dir_.path() / "first.ckpt", {.durable = false});
  row_of(sharing(given, {dir_.path() / "first.ckpt"}));
  EXPECT_TRUE(row_.empty());
  std::filesystem::remove(dir_.path() / "first.ckpt");
  EXPECT_EQ(test::error_of([&] { detail::open_row(path(), {}, row_); }), test::error_of([&] { open(path()); }));
}

TEST_F(NativeRow, CountsAsTheTreeDoes) {
  save(test::small_checkpoint(), path(), {.durable = false});
  for (const std::uint64_t most : {0, 1, 2}) {
    for (const auto limit : {&Limits::max_tensors, &Limits::max_rank, &Limits::max_depth, &Limits::max_name,
                             &Limits::max_pickle_opcodes}) {
      OpenOptions options;
      options.limits.*limit = most;
      EXPECT_EQ(test::error_of([&] { detail::open_row(path(), options, row_); }),
                test::error_of([&] { open(path(), options); }));
    }
  }
}

// What the index says is read or refused as the tree is, and in the same words.
TEST_F(NativeRow, RefusesWhatTheTreeRefuses) {
  auto storage = test::storage(DType::f32, test::noise(24));
  save(test::checkpoint({{"fc.weight", test::view(storage, DType::f32, {2, 3}, 0, {3, 1})},
                         {"epoch", Value::integer(3)},
                         {"fc.bias", test::tensor(DType::f32, {2}, 2)}}),
       path(), {.durable = false});
  const std::string content = test::read_file(path());
  const detail::NativeHeader header = detail::parse_header(core::as_bytes(content).first(detail::kHeaderBytes));
  int rows = 0;
  for (std::uint64_t at = 0; at < header.index_size; ++at) {
    for (const int value : {0x00, 0x01, 0x04, 0x0f, 0x20, 0x21, 0x7f, 0x80, 0xff}) {
      test::edit_index(path(), [&](core::ByteVector& index) { index[at] = static_cast<std::byte>(value); });
      Checkpoint tree;
      const std::string expected = test::error_of([&] { tree = open(path()); });
      TensorRow row;
      EXPECT_EQ(test::error_of([&] { detail::open_row(path(), {}, row); }), expected) << at << " " << value;
      if (expected.empty() && !row.empty()) {
        expect_same(row, tree.root);
        ++rows;
      }
      test::overwrite(path(), 0, content.substr(0, header.user_block));
    }
  }
  EXPECT_GT(rows, 100);
}

// What takes no room lies nowhere; what takes some lies behind what comes before it, and ends within 64 bits.
TEST_F(NativeRow, RefusesImpossiblePlacesOfWhatTakesRoom) {
  constexpr std::uint64_t kPlaces[] = {0, 1, 1ULL << 40, UINT64_MAX - 8, UINT64_MAX};
  const auto place_second = [&](const Value& second, std::uint64_t at) {
    save(test::checkpoint({{"first", test::tensor(DType::f32, {6})}, {"second", second}}), path(), {.durable = false});
    test::edit_index(path(), [&](core::ByteVector& index) { core::store_le(payload_rows(index) + 48, at); });
    const std::string expected = test::error_of([&] { open(path()); });
    row_ = {};
    EXPECT_EQ(test::error_of([&] { detail::open_row(path(), {}, row_); }), expected) << at;
    return expected;
  };
  for (const std::uint64_t at : kPlaces) {
    EXPECT_EQ(place_second(test::tensor(DType::f32, {0, 3}), at), "");
    EXPECT_EQ(row_.count, 2U) << at;
    EXPECT_NE(place_second(test::tensor(DType::f32, {3}), at), "");
  }
}

}  // namespace
}  // namespace ckpt
