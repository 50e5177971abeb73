#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "libckpt/ckpt.h"
#include "libckpt/format/format.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

// Every pair of formats that are written: what both can hold goes from one to the other and comes back bit for bit, for
// every type and for shapes and kinds of sharing that formats like to lose. The lists are those of the registry, so a
// new format or type is tested by being there.

namespace {

using ckpt::Checkpoint;
using ckpt::Format;
using core::ByteVector;
using core::DType;

/// Bytes that are no pattern; bools are 0 or 1.
ByteVector noise(std::uint64_t count, DType dtype) {
  ByteVector out(count);
  std::uint64_t state = 7;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
    if (dtype == DType::boolean) byte &= std::byte{1};
  }
  return out;
}

/// A tensor without a view; nullopt when the shape holds no whole number of bytes of the type.
std::optional<ckpt::Entry> plain_entry(DType dtype, const core::Shape& shape) {
  std::optional<std::uint64_t> size = core::byte_size(dtype, core::try_numel(shape.span()).value());
  if (!size) return std::nullopt;
  ckpt::Entry entry;
  entry.dtype = dtype;
  entry.shape = shape;
  entry.bytes = ckpt::memory_source(noise(*size, dtype));
  return entry;
}

/// The transposed columns of a matrix of 4 x 6, from its second row on.
std::optional<ckpt::Entry> strided_entry(DType dtype) {
  if (core::bit_width(dtype) % 8 != 0) return std::nullopt;
  auto storage = std::make_shared<ckpt::Storage>();
  storage->dtype = dtype;
  storage->bytes = ckpt::memory_source(noise(*core::byte_size(dtype, 24), dtype));
  ckpt::Entry entry;
  entry.dtype = dtype;
  entry.shape = core::Shape{6, 2};
  entry.view = ckpt::View{storage, 6, core::Shape{1, 12}};
  entry.bytes = ckpt::gather(*entry.view, dtype, entry.shape);
  return entry;
}

using Items = std::vector<std::pair<std::string, ckpt::Value>>;

void add(Items& items, const std::string& name, std::optional<ckpt::Entry> entry) {
  if (entry) items.emplace_back(name, ckpt::Value::tensor(std::make_shared<ckpt::Entry>(std::move(*entry))));
}

/// Every kind of tensor of one type, under names that say what it is.
void add_samples(Items& items, DType dtype) {
  std::string prefix(core::name(dtype));
  add(items, prefix + ".weight", plain_entry(dtype, {4, 6}));
  add(items, prefix + ".bias", plain_entry(dtype, {8}));
  add(items, prefix + ".empty", plain_entry(dtype, {0}));
  add(items, prefix + ".empty_rows", plain_entry(dtype, {0, 4}));
  add(items, prefix + ".scalar", plain_entry(dtype, {}));
  add(items, prefix + ".strided", strided_entry(dtype));
  std::size_t first = items.size();
  add(items, prefix + ".tied", plain_entry(dtype, {4, 4}));
  if (items.size() > first) items.emplace_back(prefix + ".tied_too", items.back().second);
}

Items all_samples() {
  Items items;
  for (int code = 0; code < core::kDTypeCount; ++code) add_samples(items, static_cast<DType>(code));
  return items;
}

Checkpoint holding(Items items) {
  return test::checkpoint(test::dict(std::move(items)));
}

Checkpoint one_tensor() {
  Items items;
  add(items, "fc.weight", plain_entry(DType::f32, {4, 6}));
  return holding(std::move(items));
}

Checkpoint tied_pair() {
  Items items;
  add(items, "wte.weight", plain_entry(DType::f32, {4, 4}));
  items.emplace_back("lm_head.weight", items.back().second);
  return holding(std::move(items));
}

/// Leaves out what the format says it cannot hold.
Items held_by(const Format& format, Items items) {
  std::set<std::string> refused;
  for (const ckpt::Obstacle& obstacle : ckpt::find_obstacles(format, holding(items), {})) {
    refused.insert(obstacle.subject);
  }
  std::erase_if(items, [&](const auto& item) { return refused.contains(item.first); });
  return items;
}

/// Formats of several tensors.
std::vector<const Format*> writable() {
  std::vector<const Format*> out;
  for (const Format* format : ckpt::formats()) {
    if (format->write != nullptr && format->name != "npy") out.push_back(format);
  }
  return out;
}

bool holds(const Format& format, const Checkpoint& checkpoint) {
  return ckpt::find_obstacles(format, checkpoint, {}).empty();
}

std::string difference(const Checkpoint& expected, const Checkpoint& actual) {
  auto left = ckpt::list_entries(expected.root);
  auto right = ckpt::list_entries(actual.root);
  if (left.size() != right.size()) return std::to_string(right.size()) + " tensors";
  auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(left.begin(), left.end(), by_name);
  std::sort(right.begin(), right.end(), by_name);
  for (std::size_t i = 0; i < left.size(); ++i) {
    const ckpt::Entry& a = *left[i].entry;
    const ckpt::Entry& b = *right[i].entry;
    if (left[i].name != right[i].name) return "the name " + right[i].name;
    if (a.dtype != b.dtype) return left[i].name + " became " + std::string(core::name(b.dtype));
    if (!(a.shape == b.shape)) return left[i].name + " has the shape " + core::to_list(b.shape);
    if (ckpt::read_all(*a.bytes) != ckpt::read_all(*b.bytes)) return left[i].name + " has other bytes";
  }
  return "";
}

/// Of a file, or of every file in a folder by its name.
std::map<std::string, std::string> bytes_at(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {{"", test::read_file(path)}};
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    files[entry.path().filename().string()] = test::read_file(entry.path());
  }
  return files;
}

/// Files of one test, which names them by format.
class Files {
 public:
  std::filesystem::path path(const Format& format, const std::string& step) const {
    std::string extension(format.extensions.empty() ? "" : format.extensions[0]);
    return dir_.path() / (step + extension);
  }
  /// Saves and opens again. The target's folder is emptied first: sharded formats write several files.
  Checkpoint through(const Format& format, const Checkpoint& checkpoint, const std::string& step,
                     std::uint64_t shard_size = 0) const {
    std::filesystem::path target = path(format, step);
    ckpt::SaveOptions options;
    options.format = format.name;
    options.durable = false;
    options.max_shard_size = shard_size;
    ckpt::save(checkpoint, target, options);
    return ckpt::open(target);
  }

 private:
  test::TempDir dir_;
};

using Pair = std::tuple<const Format*, const Format*>;

std::string pair_name(const testing::TestParamInfo<Pair>& info) {
  std::string name = std::string(std::get<0>(info.param)->name) + "_to_" + std::string(std::get<1>(info.param)->name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Found out by writing a pair; what keeps ties today must do so tomorrow, so the known ones are asked for by name.
bool keeps_ties(const Format& format) {
  bool known = format.name == "native" || format.name == "torch-zip" || format.name == "safetensors";
  if (!holds(format, tied_pair())) return known;
  Files files;
  auto entries = ckpt::list_entries(files.through(format, tied_pair(), "tie").root);
  return known || (entries.size() == 2 && ckpt::same_view(*entries[0].entry, *entries[1].entry));
}

class RoundTrip : public testing::TestWithParam<Pair> {};

TEST_P(RoundTrip, EveryTypeAndShapeComesBack) {
  const Format& first = *std::get<0>(GetParam());
  const Format& second = *std::get<1>(GetParam());
  Items items = held_by(second, held_by(first, all_samples()));
  EXPECT_GT(items.size(), 30U) << "hardly anything can be held by both";
  Checkpoint sample = holding(std::move(items));
  Files files;
  Checkpoint a = files.through(first, sample, "a");
  EXPECT_EQ(difference(sample, a), "");
  Checkpoint b = files.through(second, a, "b");
  EXPECT_EQ(difference(a, b), "");
  EXPECT_EQ(difference(sample, files.through(first, b, "c")), "");
}

TEST_P(RoundTrip, TheSameInputGivesTheSameBytes) {
  const Format& first = *std::get<0>(GetParam());
  const Format& second = *std::get<1>(GetParam());
  Files files;
  Files others;
  files.through(second, files.through(first, one_tensor(), "a"), "b");
  others.through(second, others.through(first, one_tensor(), "a"), "b");
  EXPECT_EQ(bytes_at(files.path(second, "b")), bytes_at(others.path(second, "b")));
}

/// Formats whose tensors of one storage stay tensors of one storage.
TEST_P(RoundTrip, TiesComeBackWhereBothKeepThem) {
  const Format& first = *std::get<0>(GetParam());
  const Format& second = *std::get<1>(GetParam());
  if (!keeps_ties(first) || !keeps_ties(second)) return;
  Files files;
  Checkpoint back = files.through(second, files.through(first, tied_pair(), "a"), "b");
  auto entries = ckpt::list_entries(back.root);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_TRUE(ckpt::same_view(*entries[0].entry, *entries[1].entry));
}

INSTANTIATE_TEST_SUITE_P(Formats, RoundTrip,
                         testing::Combine(testing::ValuesIn(writable()), testing::ValuesIn(writable())), pair_name);

TEST(ShardedRoundTrip, ShardsComeBackFromEveryFormat) {
  const Format* sharded = ckpt::find_format("safetensors-sharded");
  ASSERT_NE(sharded, nullptr);
  Items items;
  for (const char* name : {"a", "b", "c"}) add(items, name, plain_entry(DType::f32, {64}));
  Checkpoint sample = holding(std::move(items));
  for (const Format* format : writable()) {
    if (!holds(*format, sample)) continue;
    Files files;
    Checkpoint shards = files.through(*sharded, files.through(*format, sample, "a"), "b", 300);
    EXPECT_EQ(difference(sample, files.through(*format, shards, "c")), "") << format->name;
  }
}

/// An .npy file holds one array without its name.
TEST(SingleRoundTrip, EveryTypeAndShapeComesBack) {
  const Format* npy = ckpt::find_format("npy");
  ASSERT_NE(npy, nullptr);
  Files files;
  for (auto& [name, tensor] : all_samples()) {
    Checkpoint sample = holding({{name, tensor}});
    if (!holds(*npy, sample)) continue;
    Checkpoint back = files.through(*npy, sample, "a");
    ASSERT_TRUE(back.root.is(ckpt::Value::Kind::tensor)) << name;
    EXPECT_EQ(back.root.as_entry().dtype, tensor.as_entry().dtype) << name;
    EXPECT_EQ(back.root.as_entry().shape, tensor.as_entry().shape) << name;
    EXPECT_EQ(ckpt::read_all(*back.root.as_entry().bytes), ckpt::read_all(*tensor.as_entry().bytes)) << name;
  }
}

}  // namespace
