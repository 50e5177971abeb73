#include "tests/cli/damaged_files.h"

#include <stdexcept>

#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/io/zip.h"
#include "libckpt/open_save.h"
#include "tests/libckpt/format/deflated.h"
#include "tests/libckpt/format/zip_maker.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"
#include "tests/support/temp_dir.h"

namespace test {
namespace {

namespace fs = std::filesystem;
using ckpt::Value;

const std::vector<std::int32_t> kSizes = {2, 4};

std::vector<float> counted(std::size_t count, float first) {
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(first + static_cast<float>(i));
  return out;
}

Value tensor_of(const std::vector<float>& values, const core::Shape& shape) {
  ckpt::Entry entry;
  entry.shape = shape;
  std::string bytes = floats(values);
  entry.bytes = ckpt::memory_source({core::as_bytes(bytes).begin(), core::as_bytes(bytes).end()});
  return Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry)));
}

ckpt::Checkpoint model() {
  ckpt::Checkpoint out;
  out.root = undamaged_model();
  return out;
}

void flip_at(const fs::path& file, std::size_t at) {
  std::string bytes = read_file(file);
  bytes.at(at) ^= 1;
  write_file(file, bytes);
}

/// The last two values of module.b, which stand nowhere else.
void flip(const fs::path& file) {
  std::size_t at = read_file(file).find(floats({6, 7}));
  if (at == std::string::npos) throw std::runtime_error("the values are not there: " + file.string());
  flip_at(file, at + 5);
}

void save_flipped(const fs::path& file) {
  ckpt::save(model(), file, {.durable = false});
  flip(file);
}

void packed_native(const fs::path& folder) {
  ckpt::Checkpoint checkpoint = model();
  ckpt::Dict root = checkpoint.root.as_dict();
  for (std::size_t i : {1U, 2U}) root.items[i].second = tensor_of(std::vector<float>(20'000, 0.5F), {2, 10'000});
  checkpoint.root = Value::dict(std::move(root));
  fs::path file = folder / "packed.ckpt";
  ckpt::save(checkpoint, file, {.durable = false, .codec = ckpt::Codec::zstd});
  ckpt::Checkpoint read = ckpt::open(file);
  const auto* stored = ckpt::detail::stored_payload(*read.root.find("module.b")->as_entry().bytes);
  ckpt::SourcePtr packed = stored->stored();
  if (packed->size() >= 80'000) throw std::runtime_error("the values are not packed");
  flip_at(file, packed->file_range()->offset + packed->size() / 2);
}

/// The bytes inflate to what they are, and the checksum is another.
void packed_npz(const fs::path& folder) {
  ckpt::save(model(), folder / "packed.npz", {.durable = false});
  ckpt::ZipArchive zip = ckpt::ZipArchive::open(ckpt::open_file(folder / "packed.npz"));
  ZipSpec packed;
  for (const ckpt::ZipMember& member : zip.members()) {
    std::string content(core::as_text(ckpt::read_all(*zip.payload(member))));
    ZipSpecMember& added = packed.add(member.name, content);
    added.deflated = deflated(content, DeflateForm::zip);
    added.crc_xor = member.name == "module.b.npy" ? 1 : 0;
  }
  write_file(folder / "packed.npz", packed.bytes());
}

void write_hdf5(const fs::path& file, const std::vector<H5Z_filter_t>& filters) {
  Hdf5Maker maker(file);
  maker.group("module");
  maker.floats("module/a", {3});
  maker.chunked("module/b", {2, 4}, {2, 4}, filters);
  maker.chunked("module/c", {2, 4}, {2, 4}, filters);
  maker.overwrite("module/c", 10);
  maker.close();
}

void keras(const fs::path& folder) {
  write_hdf5(folder / "weights.h5", {});
  ZipSpec zip;
  zip.add("metadata.json", "{}");
  zip.add("config.json", "{}");
  zip.add("model.weights.h5", read_file(folder / "weights.h5"));
  fs::remove(folder / "weights.h5");
  write_file(folder / "in.keras", zip.bytes());
  flip(folder / "in.keras");
}

void sharded(const fs::path& folder) {
  fs::create_directories(folder / "shards");
  ckpt::Checkpoint whole = model();
  for (std::size_t i = 0; i < 3; ++i) {
    ckpt::Checkpoint part;
    ckpt::Dict root;
    root.items.push_back(whole.root.as_dict().items[i]);
    part.root = Value::dict(std::move(root));
    ckpt::save(part, folder / "shards" / (std::to_string(i) + ".bin"), {.durable = false});
  }
  write_file(folder / "shards" / "pytorch_model.bin.index.json",
             R"({"weight_map": {"module.a": "0.bin", "module.b": "1.bin", "module.c": "2.bin"}})");
  flip(folder / "shards" / "1.bin");
}

std::string pickled_tensor(const std::string& key, const std::vector<std::int32_t>& sizes) {
  std::int32_t count = 1;
  std::vector<std::int32_t> strides(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0; count *= sizes[d]) strides[d] = count;
  return tensor(storage("FloatStorage", key, count), 0, sizes, strides);
}

void script(const fs::path& folder) {
  std::string inner = instance(symbol("__torch__", "Inner"), pickled_dict({{text("a"), pickled_tensor("0", {3})},
                                                                           {text("b"), pickled_tensor("1", kSizes)},
                                                                           {text("c"), pickled_tensor("2", kSizes)}}));
  std::string object = pickle(instance(symbol("__torch__", "Outer"), pickled_dict({{text("module"), inner}})));
  ZipSpec zip = torch_zip(object, {floats(counted(3, 0)), floats(counted(8, 0)), floats(counted(8, 10))});
  zip.add("x/constants.pkl", pickle(")"));
  zip.add("x/code/__torch__.py", "class Outer(Module):\n");
  write_file(folder / "script.pt", zip.bytes());
  flip(folder / "script.pt");
}

/// One tensor of a distributed checkpoint, which is an archive of its own in the file of data.
struct Saved {
  std::string name;
  std::vector<std::int32_t> sizes;
  std::vector<float> values;
};

std::string size_of(const std::vector<std::int32_t>& sizes) {
  return call(symbol("torch", "Size"), {numbers(sizes)});
}

void distributed(const fs::path& folder) {
  const char* const kModule = "torch.distributed.checkpoint.metadata";
  std::vector<std::pair<std::string, std::string>> items;
  std::vector<std::pair<std::string, std::string>> places;
  std::string data;
  for (const Saved& saved : {Saved{"module.a", {3}, counted(3, 0)}, Saved{"module.b", kSizes, counted(8, 0)},
                             Saved{"module.c", kSizes, counted(8, 10)}}) {
    std::string archive = torch_zip(pickle(pickled_tensor("0", saved.sizes)), {floats(saved.values)}).bytes();
    std::string origin = size_of(std::vector<std::int32_t>(saved.sizes.size(), 0));
    std::string chunk = instance(symbol(kModule, "ChunkStorageMetadata"),
                                 pickled_dict({{text("offsets"), origin}, {text("sizes"), size_of(saved.sizes)}}));
    std::string properties =
        instance(symbol(kModule, "TensorProperties"), tuple({symbol("torch", "float32"), none(), "\x89"}));
    items.emplace_back(text(saved.name), instance(symbol(kModule, "TensorStorageMetadata"),
                                                  pickled_dict({{text("properties"), properties},
                                                                {text("size"), size_of(saved.sizes)},
                                                                {text("chunks"), list({chunk})}})));
    std::string index =
        instance(symbol(kModule, "MetadataIndex"),
                 pickled_dict({{text("fqn"), text(saved.name)}, {text("offset"), origin}, {text("index"), none()}}));
    places.emplace_back(index,
                        instance(symbol("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
                                 pickled_dict({{text("relative_path"), text("__0_0.distcp")},
                                               {text("offset"), number(static_cast<std::int32_t>(data.size()))},
                                               {text("length"), number(static_cast<std::int32_t>(archive.size()))}})));
    data += archive;
  }
  std::string root = instance(
      symbol(kModule, "Metadata"),
      pickled_dict({{text("state_dict_metadata"), pickled_dict(items)}, {text("storage_data"), pickled_dict(places)}}));
  fs::create_directories(folder / "dcp");
  write_file(folder / "dcp" / ".metadata", pickle(root));
  write_file(folder / "dcp" / "__0_0.distcp", data);
  flip(folder / "dcp" / "__0_0.distcp");
}

/// Native parts of two ranks, of which one holds each half of module.b.
void parts(const fs::path& folder) {
  ckpt::save(model(), folder / "in.parts", {.durable = false, .shards = 2});
  for (const auto& part : fs::directory_iterator(folder / "in.parts")) {
    if (read_file(part.path()).find(floats({6, 7})) != std::string::npos) return flip(part.path());
  }
  throw std::runtime_error("no part has the values");
}

}  // namespace

ckpt::Value undamaged_model() {
  ckpt::Dict root;
  root.items.emplace_back(Value::text("module.a"), tensor_of(counted(3, 0), {3}));
  root.items.emplace_back(Value::text("module.b"), tensor_of(counted(8, 0), {2, 4}));
  root.items.emplace_back(Value::text("module.c"), tensor_of(counted(8, 10), {2, 4}));
  return Value::dict(std::move(root));
}

const std::vector<DamagedForm>& damaged_forms() {
  static const std::vector<DamagedForm> kForms = {
      {"in.pth", "module.b", [](const fs::path& folder) { save_flipped(folder / "in.pth"); }},
      {"in.npz", "module.b", [](const fs::path& folder) { save_flipped(folder / "in.npz"); }},
      {"packed.npz", "module.b", packed_npz},
      {"in.ckpt", "module.b", [](const fs::path& folder) { save_flipped(folder / "in.ckpt"); }},
      {"packed.ckpt", "module.b", packed_native, false},
      {"in.h5", "module.b",
       [](const fs::path& folder) {
         write_hdf5(folder / "in.h5", {H5Z_FILTER_FLETCHER32});
         flip(folder / "in.h5");
       }},
      {"in.keras", "model.weights.h5", keras},
      {"script.pt", "module.b", script},
      {"shards", "module.b", sharded},
      {"dcp", "module.b", distributed},
      {"in.parts", "module.b", parts},
  };
  return kForms;
}

}  // namespace test
