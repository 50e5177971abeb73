// Golden data set: weights of Keras under torchvision's names and the other way round, for every model that both have
// (make_keras_families.py). A case is RULES.json with keys, shapes and seeds of both sides; the weights follow from a
// formula, and of what they become on the other side there is a checksum a tensor. Equal to the bit, there and back.
#include <cstring>
#include <set>

#include "libckpt/ckpt.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/json.h"
#include "libcore/base/text.h"
#include "tests/support/golden.h"
#include "zoo/rules/rule_packs.h"

namespace {

namespace fs = std::filesystem;
using ckpt::Checkpoint;
using ckpt::Entry;
using ckpt::JsonView;
using ckpt::Value;

/// One tensor of a side: [key, shape, dtype, seed, offset, scale, checksum].
struct Row {
  explicit Row(const JsonView& row) {
    auto cells = row.items();
    key = cells[0].as_text();
    for (const JsonView& size : cells[1].items()) shape.push_back(size.as_integer());
    dtype = *core::try_parse_dtype(cells[2].as_text());
    seed = static_cast<std::uint64_t>(cells[3].as_integer());
    offset = cells[4].as_real();
    scale = cells[5].as_real();
    checksum = static_cast<std::uint32_t>(cells[6].as_integer());
  }

  std::string key;
  core::Shape shape;
  core::DType dtype;
  std::uint64_t seed;
  double offset, scale;
  std::uint32_t checksum;  ///< of the bytes that this tensor has when it comes from the other side
};

using Rows = std::vector<Row>;

Rows rows_of(const JsonView& side) {
  Rows rows;
  for (const JsonView& row : side.items()) rows.emplace_back(row);
  return rows;
}

/// Element `i` of a tensor.
double value_of(const Row& row, std::uint64_t i) {
  const std::uint64_t hash = ((i * 2654435761U + row.seed * 40503U) & 0xFFFFFFFFU) >> 20;
  return row.offset + row.scale * static_cast<double>(hash) / 4096;
}

template <class T>
core::ByteVector bytes_of(const Row& row, std::uint64_t count) {
  core::ByteVector bytes(count * sizeof(T));
  for (std::uint64_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(value_of(row, i));
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

Checkpoint file_of(const Rows& rows) {
  ckpt::Dict dict;
  for (const Row& row : rows) {
    Entry entry;
    entry.shape = row.shape;
    entry.dtype = row.dtype;
    const std::uint64_t count = entry.numel();
    entry.bytes = ckpt::memory_source(row.dtype == core::DType::i32 ? bytes_of<std::int32_t>(row, count)
                                                                    : bytes_of<float>(row, count));
    dict.items.emplace_back(Value::text(row.key), Value::tensor(std::make_shared<const Entry>(std::move(entry))));
  }
  Checkpoint file;
  file.root = Value::dict(std::move(dict));
  return file;
}

void check_side(test::GoldenRun& run, const std::string& id, const Checkpoint& got, const Rows& wanted) {
  std::set<std::string> names, wanted_names;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(got.root)) names.insert(named.name);
  for (const Row& row : wanted) wanted_names.insert(row.key);
  run.check(id + " names", names == wanted_names, "they are others");
  for (const Row& row : wanted) {
    const Value* value = got.root.find(row.key);
    if (value == nullptr) continue;
    const Entry& entry = value->as_entry();
    const core::ByteVector bytes = ckpt::read_all(*entry.bytes);
    const bool same =
        entry.dtype == row.dtype && entry.shape == row.shape && (ckpt::crc32(bytes) & 0xFFFFU) == row.checksum;
    run.check(id + "/" + row.key, same, "another type, shape or value; shape " + core::to_list(entry.shape));
  }
}

}  // namespace

int main() {
  auto folder = test::golden_file("keras_families");
  if (!folder) return 77;
  test::GoldenRun run("keras_families");
  run.check("cases", !fs::is_empty(*folder), "there are none");
  for (const auto& file : fs::directory_iterator(*folder)) {
    const std::string name = file.path().stem().string();
    const ckpt::RulePack* pack = zoo::find_rule_pack(name);
    run.check(name, pack != nullptr, "no rules have this name");
    if (pack == nullptr) continue;
    const core::ByteVector text = ckpt::read_all(*ckpt::open_file(file.path()));
    const ckpt::JsonDocument sides = ckpt::JsonDocument::parse(core::as_text(text));
    const Rows keras = rows_of(sides.root().at("keras")), torch = rows_of(sides.root().at("torch"));
    check_side(run, name, ckpt::apply_rules(file_of(keras), pack->rules), torch);
    check_side(run, name + " back", ckpt::apply_rules(file_of(torch), ckpt::turned_round(*pack).rules), keras);
  }
  return run.finish();
}
