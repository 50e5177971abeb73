#include "tests/growth/growing_files.h"

#include "libckpt/ckpt.h"
#include "libckpt/io/byte_sink.h"
#include "libckpt/io/zip.h"
#include "tests/libckpt/format/zip_maker.h"
#include "tests/support/temp_dir.h"

namespace test {
namespace {

using ckpt::Checkpoint;
using ckpt::Dict;
using ckpt::Entry;
using ckpt::Value;

constexpr std::int64_t kSide = 4;

void save(const std::filesystem::path& path, Dict root) {
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(root));
  ckpt::save(checkpoint, path, {.durable = false});
}

void put(Dict& dict, const std::string& key, Value value) {
  dict.items.emplace_back(Value::text(key), std::move(value));
}

core::ByteVector floats_of(std::size_t first) {
  core::ByteVector bytes;
  for (std::size_t i = 0; i < kSide * kSide; ++i) core::append_le(bytes, static_cast<float>(first * 7 + i));
  return bytes;
}

/// A small matrix of its own; others for other numbers.
Value matrix(std::size_t number) {
  auto entry = std::make_shared<Entry>();
  entry->shape = {kSide, kSide};
  entry->bytes = ckpt::memory_source(floats_of(number));
  return Value::tensor(std::move(entry));
}

Value view(const std::shared_ptr<const ckpt::Storage>& storage, const core::Shape& shape, ckpt::View window) {
  auto entry = std::make_shared<Entry>();
  entry->dtype = storage->dtype;
  entry->shape = shape;
  window.storage = storage;
  entry->bytes = ckpt::gather(window, entry->dtype, shape);
  entry->view = std::move(window);
  return Value::tensor(std::move(entry));
}

std::shared_ptr<const ckpt::Storage> storage_of(core::ByteVector bytes) {
  return std::make_shared<const ckpt::Storage>(
      ckpt::Storage{core::DType::f32, ckpt::memory_source(std::move(bytes)), "cpu"});
}

std::string digits(std::size_t i) {
  return std::to_string(i);
}

/// {"params": [first, ...]} and the settings of a group.
Value group_of(Value::List params) {
  Dict group;
  put(group, "lr", Value::real(0.1));
  put(group, "params", Value::list(std::move(params)));
  return Value::dict(std::move(group));
}

Value slots_of(std::size_t i) {
  Dict slots;
  put(slots, "exp_avg", matrix(i));
  return Value::dict(std::move(slots));
}

/// Parts of at most this many items, as torch.save cuts dicts and lists.
std::string batched(const std::string& open, const std::string& close, const std::vector<std::string>& items) {
  constexpr std::size_t kBatch = 1000;
  std::string out = open;
  for (std::size_t from = 0; from < items.size(); from += kBatch) {
    out += "(";
    for (std::size_t i = from; i < std::min(from + kBatch, items.size()); ++i) out += items[i];
    out += close;
  }
  return out;
}

}  // namespace

void write_metadata(const std::filesystem::path& folder, std::size_t count) {
  for (const char* name : {"a", "b"}) {
    Checkpoint checkpoint;
    Dict root;
    put(root, "weight", matrix(0));
    checkpoint.root = Value::dict(std::move(root));
    for (std::size_t i = 0; i < count; ++i) {
      checkpoint.metadata.emplace_back("key" + digits(i), name + digits(i));
    }
    ckpt::save(checkpoint, folder / (std::string(name) + ".safetensors"), {.durable = false});
  }
}

void write_tied(const std::filesystem::path& folder, std::size_t count) {
  for (std::size_t which : {0U, 1U}) {
    auto storage = storage_of(floats_of(which));
    Dict root;
    for (std::size_t i = 0; i < count; ++i) {
      std::string name = (which == 0 ? "module.m" : "net.n") + digits(i) + ".weight";
      put(root, name, view(storage, {kSide, kSide}, {nullptr, 0, {kSide, 1}}));
    }
    save(folder / (which == 0 ? "a.pth" : "b.pth"), std::move(root));
  }
}

void write_windows(const std::filesystem::path& folder, std::size_t count) {
  auto storage = storage_of(core::ByteVector((3 * count + 64) * sizeof(float)));
  Dict root;
  for (std::size_t i = 0; i < count; ++i) {
    auto far = static_cast<std::int64_t>(2 * count);
    put(root, "w" + digits(i), view(storage, {2}, {nullptr, static_cast<std::int64_t>(i), {far}}));
  }
  save(folder / "a.pth", std::move(root));
}

void write_keys(const std::filesystem::path& folder, std::size_t count) {
  Dict a;
  Dict b;
  Dict c;
  std::string map = "{";
  for (std::size_t i = 0; i < count; ++i) {
    std::string from = "module.layers." + digits(i) + (i % 2 == 0 ? ".weight" : ".bias");
    std::string to = "blocks" + digits(i * 7919 % count) + "." + (i % 2 == 0 ? "kernel" : "offset");
    put(a, from, matrix(i));
    put(b, to, matrix(i));
    put(c, from, matrix(i + 1));
    map += (i == 0 ? "" : ",") + ("\"" + from) + "\":\"" + to + "\"";
  }
  save(folder / "a.pth", std::move(a));
  save(folder / "b.pth", std::move(b));
  save(folder / "c.pth", std::move(c));
  write_file(folder / "map.json", map + "}");
}

void write_fresh_layers(const std::filesystem::path& folder, std::size_t count) {
  auto same = [](float value) {
    auto entry = std::make_shared<Entry>();
    entry->shape = {kSide};
    core::ByteVector bytes;
    for (std::int64_t i = 0; i < kSide; ++i) core::append_le(bytes, value);
    entry->bytes = ckpt::memory_source(std::move(bytes));
    return Value::tensor(std::move(entry));
  };
  Dict a;
  Dict b;
  Dict c;
  for (std::size_t i = 0; i < count / 4; ++i) {
    std::string layer = "layers." + digits(i) + ".";
    std::string block = "net.h." + digits(i) + ".";
    auto add = [&](const std::string& from, const std::string& to, const Value& value) {
      put(a, layer + from, value);
      put(b, "module." + layer + from, value);
      put(c, block + to, value);
    };
    add("fc.weight", "linear.weight", matrix(i));
    add("fc.bias", "linear.bias", same(0));
    add("bn.weight", "norm.weight", same(1));
    add("bn.bias", "norm.bias", same(0));
  }
  save(folder / "a.safetensors", std::move(a));
  save(folder / "b.safetensors", std::move(b));
  save(folder / "c.safetensors", std::move(c));
}

void write_chunks(const std::filesystem::path& folder, std::size_t count) {
  const char* const kModule = "torch.distributed.checkpoint.metadata";
  constexpr std::int32_t kRows = 2048;
  auto sizes = [](std::int32_t rows, std::int32_t columns) {
    return call(symbol("torch", "Size"), {numbers({rows, columns})});
  };
  std::string object = pickle(tensor(storage("FloatStorage", "0", kRows), 0, {kRows, 1}, {1, 1}));
  // All chunks lie in one place: the data are not what is to be large.
  std::string data = torch_zip(object, {floats(std::vector<float>(kRows, 1))}).bytes();
  std::vector<std::string> boxes;
  std::vector<std::string> places;
  for (std::size_t i = 0; i < count; ++i) {
    auto at = static_cast<std::int32_t>(i);
    boxes.push_back(instance(symbol(kModule, "ChunkStorageMetadata"),
                             pickled_dict({{text("offsets"), sizes(0, at)}, {text("sizes"), sizes(kRows, 1)}})));
    std::string index =
        instance(symbol(kModule, "MetadataIndex"),
                 pickled_dict({{text("fqn"), text("w")}, {text("offset"), sizes(0, at)}, {text("index"), none()}}));
    std::string place = instance(symbol("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
                                 pickled_dict({{text("relative_path"), text("__0_0.distcp")},
                                               {text("offset"), number(std::int32_t{0})},
                                               {text("length"), number(static_cast<std::int32_t>(data.size()))}}));
    places.push_back(index + place);
  }
  std::string properties =
      instance(symbol(kModule, "TensorProperties"), tuple({symbol("torch", "float32"), none(), "\x89"}));
  std::string item = instance(symbol(kModule, "TensorStorageMetadata"),
                              pickled_dict({{text("properties"), properties},
                                            {text("size"), sizes(kRows, static_cast<std::int32_t>(count))},
                                            {text("chunks"), batched("]", "e", boxes)}}));
  std::string root = instance(symbol(kModule, "Metadata"),
                              pickled_dict({{text("state_dict_metadata"), pickled_dict({{text("w"), item}})},
                                            {text("storage_data"), batched("}", "u", places)}}));
  std::filesystem::create_directories(folder / "dcp");
  write_file(folder / "dcp" / ".metadata", pickle(root));
  write_file(folder / "dcp" / "__0_0.distcp", data);
}

void write_modules(const std::filesystem::path& folder, std::size_t count) {
  Dict versions;
  versions.type = "collections.OrderedDict";
  for (std::size_t i = 0; i < count; ++i) {
    Dict local;
    put(local, "version", Value::integer(2));
    put(versions, "module.m" + digits(i), Value::dict(std::move(local)));
  }
  Dict attributes;
  put(attributes, "_metadata", Value::dict(std::move(versions)));
  Dict root;
  root.type = "collections.OrderedDict";
  put(root, "module.m1.weight", matrix(0));
  root.attributes = Value::dict(std::move(attributes));
  save(folder / "a.pth", std::move(root));
  write_file(folder / "map.json", R"({"module.m1.weight": "module.n1.weight"})");
}

void write_state_dicts(const std::filesystem::path& folder, std::size_t count) {
  for (std::size_t which : {0U, 1U}) {
    Dict root;
    for (std::size_t i = 0; i < count; ++i) {
      Dict model;
      put(model, "weight", matrix(i + which));
      put(root, "model" + digits(i), Value::dict(std::move(model)));
      Dict optimizer;
      Dict state;
      state.items.emplace_back(Value::integer(0), slots_of(i + which));
      put(optimizer, "state", Value::dict(std::move(state)));
      put(optimizer, "param_groups", Value::list({group_of({Value::integer(0)})}));
      put(root, "optimizer" + digits(i), Value::dict(std::move(optimizer)));
    }
    save(folder / (which == 0 ? "a.pth" : "b.pth"), std::move(root));
  }
}

void write_optimizer(const std::filesystem::path& folder, std::size_t count) {
  Dict model;
  Dict state;
  Value::List groups;
  for (std::size_t i = 0; i < count; ++i) {
    put(model, "layers." + digits(i) + ".weight", matrix(i));
    if (i % 16 == 0) continue;  // frozen, so that places must be looked for
    auto key = static_cast<std::int64_t>(groups.size());
    state.items.emplace_back(Value::integer(key), slots_of(i));
    groups.push_back(group_of({Value::integer(key)}));
  }
  Dict optimizer;
  put(optimizer, "state", Value::dict(std::move(state)));
  put(optimizer, "param_groups", Value::list(std::move(groups)));
  Dict root;
  put(root, "model", Value::dict(std::move(model)));
  put(root, "optimizer", Value::dict(std::move(optimizer)));
  save(folder / "a.pth", std::move(root));
}

void write_shards(const std::filesystem::path& folder, std::size_t count) {
  std::string map;
  for (std::size_t i = 0; i < count; ++i) {
    Dict root;
    put(root, "w" + digits(i), matrix(i));
    std::string name = "part" + digits(i) + ".safetensors";
    save(folder / name, std::move(root));
    map += (i == 0 ? "\"w" : ",\"w") + digits(i) + "\":\"" + name + "\"";
  }
  write_file(folder / "model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
}

void write_records(const std::filesystem::path& folder, std::size_t count) {
  auto source = [](const std::string& bytes) {
    core::Bytes view = core::as_bytes(bytes);
    return ckpt::memory_source(core::ByteVector(view.begin(), view.end()));
  };
  std::string object = pickle(pickled_dict({{text("w"), tensor(storage("FloatStorage", "used", 1), 0, {1}, {1})}}));
  std::vector<ckpt::ZipItem> items = {{"x/data.pkl", source(object)}, {"x/data/used", source(floats({1}))}};
  for (std::size_t i = 0; i < count; ++i) items.push_back({"x/data/" + digits(i), source("more")});
  items.push_back({"x/version", source("3\n")});
  ckpt::ZipWriter zip(std::move(items));
  ckpt::MemorySink sink;
  zip.write(sink);
  write_file(folder / "a.pth", core::as_text(sink.bytes()));
}

void write_shared_values(const std::filesystem::path& folder, std::size_t count) {
  Value::List first;
  Value::List second;
  for (std::size_t i = 0; i < count; ++i) {
    Value both = Value::list({Value::integer(static_cast<std::int64_t>(i)), Value::text("v" + digits(i))});
    first.push_back(both);
    second.push_back(both);
  }
  Dict root;
  put(root, "first", Value::list(std::move(first)));
  put(root, "second", Value::list(std::move(second)));
  put(root, "weight", matrix(0));
  save(folder / "a.pth", std::move(root));
}

}  // namespace test
