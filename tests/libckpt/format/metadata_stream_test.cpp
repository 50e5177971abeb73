// The `.metadata` of distributed checkpoints, read while they go by: what torch and this library write, and that all
// else is left to the reader of whole pickles, or read as that reads it.

#include "libckpt/format/dcp/metadata_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "libckpt/format/dcp/encode.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/pickle_maker.h"
#include "tests/support/message_of.h"

namespace {

using ckpt::detail::DcpItem;
using ckpt::detail::DcpMetadata;
using ckpt::detail::DcpPlace;

ckpt::SourcePtr source_of(const std::string& pickle) {
  core::Bytes bytes = core::as_bytes(pickle);
  return ckpt::memory_source(core::ByteVector(bytes.begin(), bytes.end()));
}

std::optional<DcpMetadata> streamed(const std::string& pickle) {
  return ckpt::detail::stream_dcp_metadata(*source_of(pickle), {});
}

std::string encoded(const DcpMetadata& metadata) {
  return std::string(core::as_text(ckpt::detail::encode_dcp_metadata(metadata)));
}

/// By the reader of whole pickles; "" for what it refuses.
std::string read_whole(const std::string& pickle) {
  try {
    return encoded(
        ckpt::detail::read_dcp_metadata(ckpt::detail::read_dcp_pickle(*source_of(pickle), {}), ckpt::OpenOptions()));
  } catch (const core::Error&) {
    return "";
  }
}

DcpItem tensor(const std::string& name, const core::Shape& shape) {
  DcpItem item;
  item.name = name;
  item.path = {name.substr(0, 1), std::int64_t{300}};
  item.is_tensor = true;
  item.shape = shape;
  return item;
}

/// Rows of a matrix, one a rank.
DcpItem rows(const std::string& name, std::int64_t ranks) {
  DcpItem item = tensor(name, {ranks, 3});
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::string file = "__" + std::to_string(rank) + "_0.distcp";
    item.chunks.push_back({{rank, 0}, {1, 3}, DcpPlace{file, 64, 2048}});
  }
  return item;
}

DcpMetadata sample() {
  DcpMetadata metadata;
  metadata.save_id = "0123";
  metadata.items.push_back(rows("w", 3));
  DcpItem scalar = tensor("n", {});
  scalar.dtype = core::DType::i64;
  scalar.requires_grad = true;
  scalar.chunks.push_back({{}, {}, DcpPlace{"__1_0.distcp", std::uint64_t{1} << 40, 7}});
  metadata.items.push_back(std::move(scalar));
  DcpItem deep = tensor("k", {2, 1, 1, 70'000, 1});
  deep.path.assign(5, std::string("k"));
  deep.chunks.push_back({{0, 0, 0, 0, 0}, {1, 1, 1, 70'000, 1}, DcpPlace{"another.distcp", 1, 2}});
  deep.chunks.push_back({{1, 0, 0, 0, 0}, {1, 1, 1, 70'000, 1}, DcpPlace{"__0_2048.distcp", 1, 2}});
  metadata.items.push_back(std::move(deep));
  DcpItem empty = tensor("e", {0});
  empty.chunks.push_back({{0}, {0}, {}});
  metadata.items.push_back(std::move(empty));
  DcpItem step;
  step.name = "step";
  step.path = {std::string("step")};
  step.place = DcpPlace{"__0_0.distcp", 8, 9};
  metadata.items.push_back(std::move(step));
  return metadata;
}

TEST(MetadataStream, ReadsWhatIsWrittenHere) {
  DcpMetadata metadata = sample();
  metadata.items.push_back(rows("v", 2500));
  const std::string pickle = encoded(metadata);
  std::optional<DcpMetadata> read = streamed(pickle);
  ASSERT_TRUE(read);
  EXPECT_EQ(encoded(*read), pickle);
  EXPECT_EQ(read->save_id, "0123");
  EXPECT_EQ(read->items[1].chunks.place(0)->offset, std::uint64_t{1} << 40);
  EXPECT_EQ(read->items[2].chunks.place(0)->file, "another.distcp");
  EXPECT_EQ(read->items[2].chunks.place(1)->file, "__0_2048.distcp");
  EXPECT_FALSE(read->items[3].chunks.is_placed(0));
  EXPECT_EQ(read->items[5].chunks.sizes(2499), (core::Shape{1, 3}));
  EXPECT_EQ(read->items[5].chunks.place(2499)->file, "__2499_0.distcp");
}

/// Pickles as Python's pickler of protocol 4 does: every object gets a number of the memo, frames hold 64 KiB.
class Pickler {
 public:
  explicit Pickler(std::size_t frame) : frame_(frame) {}
  void add(const std::string& opcode) {
    if (held_.size() >= frame_) close_frame();
    held_ += opcode;
  }
  void memoise() {
    add("\x94");
    ++numbers_;
  }
  void text(const std::string& value) {
    if (recalls(value)) return;
    add("\x8c" + std::string(1, static_cast<char>(value.size())) + value);
    keep(value);
  }
  void symbol(const std::string& module, const std::string& name) {
    if (recalls(module + "\n" + name)) return;
    text(module);
    text(name);
    add("\x93");
    keep(module + "\n" + name);
  }
  void number(std::int64_t value) {
    add(value < 256 ? "K" + std::string(1, static_cast<char>(value))
                    : "J" + test::raw(static_cast<std::int32_t>(value)));
  }
  void begin(const std::string& module, const std::string& name) {
    symbol(module, name);
    add(")");
    add("\x81");
    memoise();
  }
  void container(const std::string& opcode) {
    add(opcode);
    memoise();
  }
  void size(std::initializer_list<std::int64_t> sizes) {
    symbol("torch", "Size");
    for (std::int64_t n : sizes) number(n);
    container(sizes.size() == 1 ? "\x85" : "\x86");
    container("\x85");
    container("R");
  }
  std::string finish() {
    add(".");
    close_frame();
    return "\x80\x04" + out_;
  }

 private:
  bool recalls(const std::string& what) {
    auto known = memo_.find(what);
    if (known == memo_.end()) return false;
    add(known->second < 256 ? "h" + std::string(1, static_cast<char>(known->second)) : "j" + test::raw(known->second));
    return true;
  }
  void keep(const std::string& what) {
    memo_[what] = numbers_;
    memoise();
  }
  void close_frame() {
    out_ += "\x95" + test::raw(static_cast<std::uint64_t>(held_.size())) + held_;
    held_.clear();
  }

  std::size_t frame_;
  std::string held_;
  std::string out_;
  std::map<std::string, std::uint32_t> memo_;
  std::uint32_t numbers_ = 0;
};

/// None, or as many as its number says.
void add_strides(Pickler& out, std::int64_t tensor) {
  if (tensor % 5 == 0) return out.add(tensor == 0 ? "N" : ")");
  const std::int64_t rank = tensor % 5;
  if (rank > 3) out.add("(");
  for (std::int64_t d = 0; d < rank; ++d) out.number(1);
  out.container(rank > 3 ? "t" : std::string(1, static_cast<char>(0x84 + rank)));
}

constexpr const char* kModule = "torch.distributed.checkpoint.metadata";

void begin_state(Pickler& out) {
  out.container("}");
  out.add("(");
}

void end_state(Pickler& out) {
  out.add("u");
  out.add("b");
}

void add_properties(Pickler& out, std::int64_t tensor) {
  out.begin(kModule, "TensorProperties");
  out.add("(");
  out.symbol("torch", "float32");
  out.symbol("torch.serialization", "_get_layout");
  out.text("torch.strided");
  out.container("\x85");
  out.container("R");
  out.add("\x89");
  out.symbol(kModule, "_MEM_FORMAT_ENCODING");
  out.number(0);
  out.container("\x85");
  out.container("R");
  out.add("\x89");
  add_strides(out, tensor);
  out.container("t");
  out.add("b");
}

void add_tensor(Pickler& out, std::int64_t tensor, std::int64_t ranks) {
  out.text("w" + std::to_string(tensor));
  out.begin(kModule, "TensorStorageMetadata");
  begin_state(out);
  out.text("properties");
  add_properties(out, tensor);
  out.text("size");
  out.size({ranks, 2});
  out.text("chunks");
  out.container("]");
  if (ranks > 1) out.add("(");
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    out.begin(kModule, "ChunkStorageMetadata");
    begin_state(out);
    out.text("offsets");
    out.size({rank, 0});
    out.text("sizes");
    out.size({1, 2});
    end_state(out);
  }
  out.add(ranks > 1 ? "e" : "a");
  end_state(out);
}

void add_place(Pickler& out, std::int64_t tensor, std::int64_t rank) {
  out.begin(kModule, "MetadataIndex");
  begin_state(out);
  out.text("fqn");
  out.text("w" + std::to_string(tensor));
  out.text("offset");
  out.size({rank, 0});
  out.text("index");
  out.number(rank);
  end_state(out);
  out.begin("torch.distributed.checkpoint.filesystem", "_StorageInfo");
  begin_state(out);
  out.text("relative_path");
  out.text("__" + std::to_string(rank) + "_0.distcp");
  out.text("offset");
  out.number(tensor * 100);
  out.text("length");
  out.number(100);
  end_state(out);
}

/// As torch 2.15 writes it: the places rank by rank.
std::string torch_pickle(std::int64_t ranks, std::int64_t tensors, std::size_t frame) {
  Pickler out(frame);
  out.begin(kModule, "Metadata");
  begin_state(out);
  out.text("state_dict_metadata");
  begin_state(out);
  for (std::int64_t tensor = 0; tensor < tensors; ++tensor) add_tensor(out, tensor, ranks);
  out.add("u");
  out.text("planner_data");
  out.add("N");
  out.text("storage_data");
  begin_state(out);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t tensor = 0; tensor < tensors; ++tensor) add_place(out, tensor, rank);
  }
  out.add("u");
  out.text("version");
  out.text("1.0.0");
  end_state(out);
  return out.finish();
}

TEST(MetadataStream, ReadsWhatPyTorchWrites) {
  for (std::int64_t ranks : {1, 3, 90}) {
    const std::string pickle = torch_pickle(ranks, 11, 64 << 10);
    std::optional<DcpMetadata> read = streamed(pickle);
    ASSERT_TRUE(read) << ranks;
    EXPECT_EQ(encoded(*read), read_whole(pickle));
    EXPECT_EQ(read->items[10].chunks.size(), static_cast<std::size_t>(ranks));
    EXPECT_EQ(read->items[10].chunks.place(0)->offset, 1000U);
  }
}

TEST(MetadataStream, FramesMayEndAnywhereBetweenOpcodes) {
  const std::string whole = read_whole(torch_pickle(3, 3, 64 << 10));
  ASSERT_FALSE(whole.empty());
  for (std::size_t frame : {1, 2, 3, 7, 50, 1000}) {
    std::optional<DcpMetadata> read = streamed(torch_pickle(3, 3, frame));
    ASSERT_TRUE(read) << frame;
    EXPECT_EQ(encoded(*read), whole);
  }
  auto with_frame_of = [](std::string pickle, std::int64_t more) {
    std::uint64_t length = 0;
    std::memcpy(&length, &pickle[3], sizeof length);
    return pickle.replace(3, sizeof length, test::raw(length + static_cast<std::uint64_t>(more)));
  };
  const std::string pickle = torch_pickle(3, 3, 64 << 10);
  EXPECT_TRUE(streamed(with_frame_of(pickle, -1))) << "before STOP";
  EXPECT_FALSE(streamed(with_frame_of(pickle, -6))) << "in the last text";
  EXPECT_FALSE(streamed(with_frame_of(pickle, 1)));
}

/// Wherever a byte changes, nothing is read that the reader of whole pickles refuses or reads otherwise.
TEST(MetadataStream, IsNoMoreLenientThanTheReaderOfWholePickles) {
  std::size_t read_both = 0;
  for (const std::string& pickle : {encoded(sample()), torch_pickle(2, 2, 64 << 10), torch_pickle(1, 2, 100)}) {
    for (std::size_t at = 0; at < pickle.size(); ++at) {
      EXPECT_FALSE(streamed(pickle.substr(0, at))) << "cut at " << at;
      for (int byte : std::vector<int>{0x00, 0x01, 0x80, 0xff, 'N', 'K', 'h', '(', 'u', '0', '.', pickle[at] ^ 1,
                                       pickle[at] ^ 2}) {
        std::string changed = pickle;
        changed[at] = static_cast<char>(byte);
        std::optional<DcpMetadata> read = streamed(changed);
        if (!read) continue;
        ++read_both;
        ASSERT_EQ(encoded(*read), read_whole(changed)) << "byte " << at << " is " << byte;
      }
    }
    EXPECT_FALSE(streamed(pickle + "."));
  }
  EXPECT_GT(read_both, 500U);
}

TEST(MetadataStream, LeavesLimitsAndFileNamesToTheReaderOfWholePickles) {
  const std::string pickle = encoded(sample());
  ckpt::OpenOptions options;
  options.limits.max_tensors = 3;
  EXPECT_FALSE(ckpt::detail::stream_dcp_metadata(*source_of(pickle), options));
  options = {};
  options.limits.max_rank = 4;
  EXPECT_FALSE(ckpt::detail::stream_dcp_metadata(*source_of(pickle), options));
  DcpMetadata outside = sample();
  outside.items[4].place->file = "../x.distcp";
  EXPECT_FALSE(streamed(encoded(outside)));
  DcpMetadata twice = sample();
  twice.items[2].name = "w";
  EXPECT_FALSE(streamed(encoded(twice)));
  DcpMetadata long_name = sample();
  long_name.items[4].name.assign(300'000, 'a');
  EXPECT_FALSE(streamed(encoded(long_name)));
  EXPECT_FALSE(read_whole(encoded(long_name)).empty());
}

/// What torch writes without a frame, up to and without its last attribute, the version.
std::string torch_head() {
  const std::string pickle = torch_pickle(1, 1, 64 << 10);
  const std::size_t frame = 11, before_version = pickle.find("\x8c\x07version");
  return "\x80\x04" + pickle.substr(frame, before_version - frame);
}

/// As a hostile file has them in what is skipped.
TEST(MetadataStream, LeavesDeeplyNestedCallsToTheReaderOfWholePickles) {
  auto nested = [](int depth) {
    std::string calls;
    for (int i = 0; i < depth; ++i) calls += test::symbol("collections", "OrderedDict") + "(";
    calls += "N";
    for (int i = 0; i < depth; ++i) calls += "tR";
    return torch_head() + "\x8c\x07version" + calls + "ub.";
  };
  EXPECT_TRUE(streamed(nested(2)));
  EXPECT_FALSE(streamed(nested(300'000)));
}

TEST(MetadataStream, LeavesSymbolsThatAreDroppedAgainToTheReaderOfWholePickles) {
  std::string head = torch_head();
  const std::size_t none = head.find("planner_data");
  ASSERT_NE(none, std::string::npos);
  head.replace(none, 12, "storage_meta");
  auto with = [&](const std::string& dropped) {
    return head + "\x8c\x0cplanner_data}" + dropped + "(\x8c\x02w0\x8c\x02w0\x85uub.";
  };
  EXPECT_TRUE(streamed(with(test::symbol("torch", "Size") + "0")));
  const std::string hostile = with(test::symbol("os", "system") + "0");
  EXPECT_EQ(read_whole(hostile), "");
  EXPECT_FALSE(streamed(hostile));
}

/// A rank without rows begins where its neighbour does, and a dict of Python has one place for both, under the number
/// of the first.
TEST(MetadataStream, LeavesPiecesThatBeginTogetherToTheReaderOfWholePickles) {
  for (const std::int64_t third : {2, 1}) {
    DcpMetadata metadata;
    DcpItem item = tensor("w", {4});
    item.chunks.push_back({{2}, {0}, DcpPlace{"__1_0.distcp", 0, 10}});
    item.chunks.push_back({{0}, {2}, DcpPlace{"__0_0.distcp", 0, 10}});
    item.chunks.push_back({{third}, {2}, third == 2 ? std::optional<DcpPlace>() : DcpPlace{"__0_0.distcp", 10, 10}});
    metadata.items.push_back(std::move(item));
    EXPECT_EQ(streamed(encoded(metadata)).has_value(), third == 1);
  }
}

TEST(MetadataStream, PathsAreNotFarLongerThanNames) {
  DcpMetadata metadata = sample();
  metadata.items[0].path.assign(2, std::string(2000, 'k'));
  EXPECT_TRUE(streamed(encoded(metadata)));
  metadata.items[0].path.assign(3, std::string(2000, 'k'));
  EXPECT_FALSE(streamed(encoded(metadata)));
  EXPECT_EQ(read_whole(encoded(metadata)), "");
}

/// What every item has a copy of, and a memo repeats for two bytes.
TEST(MetadataStream, FileNamesAreNoLongerThanFileSystemsTake) {
  const auto named = [](std::size_t length) {
    DcpMetadata metadata = sample();
    const std::string name = std::string(length - 7, 'f') + ".distcp";
    metadata.items[2].chunks.set_place(0, {name, 1, 2});
    metadata.items[4].place->file = name;
    return encoded(metadata);
  };
  EXPECT_TRUE(streamed(named(1024)));
  EXPECT_EQ(read_whole(named(1024)), named(1024));
  EXPECT_FALSE(streamed(named(1025)));
  EXPECT_THAT(test::message_of([&] { ckpt::detail::read_dcp_metadata(*source_of(named(1025)), {}); }),
              testing::AllOf(testing::StartsWith("the metadata names the file 'fff"),
                             testing::EndsWith("...', which is longer than a file system takes")));
}

}  // namespace
