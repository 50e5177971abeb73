#include "tests/fuzz/part_targets.h"

#include <algorithm>
#include <stdexcept>

#include "libckpt/analyze/error_text.h"
#include "libckpt/analyze/key_list.h"
#include "libckpt/io/codec.h"
#include "libckpt/io/float_planes.h"
#include "libckpt/io/json.h"
#include "libckpt/io/predicted_words.h"
#include "libckpt/io/zip.h"
#include "libckpt/keras/keras_rules.h"
#include "libckpt/transform/glob.h"
#include "libckpt/transform/rules.h"
#include "libckpt/transform/selector.h"
#include "tests/fuzz/targets.h"
#include "zoo/data/ppm.h"
#include "zoo/text/tokenizer.h"

namespace fuzz {
namespace {

constexpr std::uint64_t kReadBudget = 8 << 20;
constexpr std::size_t kMaxPattern = 512;

ckpt::SourcePtr source_of(core::Bytes bytes) {
  return ckpt::memory_source(core::ByteVector(bytes.begin(), bytes.end()));
}

void walk(const ckpt::JsonView& node) {
  switch (node.kind()) {
    case ckpt::JsonView::Kind::array:
      for (const ckpt::JsonView& item : node.items()) walk(item);  // depth is bounded by the parser
      break;
    case ckpt::JsonView::Kind::object:
      for (const auto& [key, value] : node.members()) walk(value);
      break;
    case ckpt::JsonView::Kind::text:
      ckpt::json_quote(node.as_text());
      break;
    default:
      node.is_count();
  }
}

ckpt::Checkpoint small_model() {
  ckpt::Dict dict;
  for (const char* key : {"fc.weight", "fc.bias", "h.0.attn.c_attn.weight", "h.1.attn.c_attn.weight", "wte.weight"}) {
    auto entry = std::make_shared<ckpt::Entry>();
    entry->shape = std::string_view(key).ends_with("bias") ? core::Shape{6} : core::Shape{6, 6};
    entry->bytes = ckpt::memory_source(core::ByteVector(static_cast<std::size_t>(entry->numel()) * 4));
    dict.items.emplace_back(ckpt::Value::text(key), ckpt::Value::tensor(std::move(entry)));
  }
  ckpt::Checkpoint model;
  model.root = ckpt::Value::dict(std::move(dict));
  return model;
}

/// With what a configuration can say most of: which kind of layer, and whose result a dense one sees.
ckpt::Checkpoint keras_model() {
  const std::pair<const char*, core::Shape> tensors[] = {{"layers.conv2d.vars.0", {2, 2, 1, 3}},
                                                         {"layers.batch_normalization.vars.0", {3}},
                                                         {"layers.batch_normalization.vars.1", {3}},
                                                         {"layers.batch_normalization.vars.2", {3}},
                                                         {"layers.dense.vars.0", {6, 2}},
                                                         {"layers.bidirectional.backward_layer.cell.vars.0", {2, 12}},
                                                         {"layers.bidirectional.backward_layer.cell.vars.1", {4, 12}},
                                                         {"layers.bidirectional.backward_layer.cell.vars.2", {2, 12}},
                                                         {"layers.functional.layers.dense.vars.0", {6, 2}}};
  ckpt::Dict dict;
  for (const auto& [key, shape] : tensors) {
    auto entry = std::make_shared<ckpt::Entry>();
    entry->shape = shape;
    entry->bytes = ckpt::memory_source(core::ByteVector(static_cast<std::size_t>(entry->numel()) * 4));
    dict.items.emplace_back(ckpt::Value::text(key), ckpt::Value::tensor(std::move(entry)));
  }
  ckpt::Checkpoint model;
  model.root = ckpt::Value::dict(std::move(dict));
  return model;
}

void require_same(core::Bytes back, core::Bytes bytes) {
  if (!std::ranges::equal(back, bytes)) throw std::logic_error("packed bytes came back as others");
}

}  // namespace

void run_zip(core::Bytes bytes) {
  ckpt::ZipReadOptions options;
  options.accept_trailing = bytes.size() % 2 == 1;
  answer([&] {
    ckpt::ZipArchive zip = ckpt::ZipArchive::open(source_of(bytes), options);
    std::uint64_t budget = kReadBudget;
    for (const ckpt::ZipMember& member : zip.members()) {
      if (member.size > budget) continue;
      budget -= member.size;
      answer([&] { ckpt::read_all(*zip.payload(member)); });
    }
  });
}

void run_keras_config(core::Bytes bytes) {
  ckpt::Checkpoint keras = keras_model();
  keras.metadata.emplace_back("config.json", core::as_text(bytes));
  answer([&] {
    const ckpt::KerasRules way = ckpt::keras_rules(keras);
    const ckpt::Checkpoint torch = ckpt::from_keras(keras, way);
    for (const ckpt::NamedEntry& named : ckpt::list_entries(torch.root)) ckpt::read_all(*named.entry->bytes);
    ckpt::to_keras(torch, keras);
  });
}

void run_json(core::Bytes bytes) {
  answer([&] {
    ckpt::JsonDocument document = ckpt::JsonDocument::parse(core::as_text(bytes));
    walk(document.root());
    if (document.root().is(ckpt::JsonView::Kind::object)) document.member_spans();
  });
}

void run_tokenizer(core::Bytes bytes) {
  answer([&] {
    const zoo::text::Tokenizer tokenizer = zoo::text::Tokenizer::from_json(core::as_text(bytes));
    std::vector<std::int64_t> ids = tokenizer.encode("Ab \xEF\xAC\x81\xC3\xA9 12<s> \xE6\x97\xA5\xFF ab");
    for (std::int64_t id = 0; id < 8; ++id) ids.push_back(id);
    zoo::text::TextStream stream(tokenizer, {});
    for (std::int64_t id : ids) stream.push(id);
    stream.finish();
  });
}

void run_selector(core::Bytes bytes) {
  std::string_view text = core::as_text(bytes);
  std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view pattern = text.substr(0, std::min(end, kMaxPattern));
  std::string_view key = text.substr(std::min(end + 1, text.size()));
  ckpt::glob_match(pattern, key);
  answer([&] {
    ckpt::Entry entry;
    entry.shape = core::Shape{3, 4};
    ckpt::Selector selector = ckpt::Selector::parse(pattern);
    selector.matches(key, entry);
    selector.covers(key, entry);
    selector.covers_value(key);
  });
}

void run_why_text(core::Bytes bytes) {
  answer([&] {
    ckpt::KeyList list = ckpt::parse_key_list(core::as_text(bytes), "keys");
    ckpt::compare_keys(list, list);
  });
  ckpt::parse_error_text(core::as_text(bytes));  // may not throw at all
}

void run_rules(core::Bytes bytes) {
  answer([&] {
    ckpt::Rules rules = ckpt::parse_rules(core::as_text(bytes), "rules");
    for (const ckpt::Rule& rule : rules) ckpt::describe(rule);
    ckpt::parse_rules(ckpt::to_toml(rules), "written rules");
    answer([&] { ckpt::reversed(rules); });
    ckpt::Checkpoint changed = ckpt::apply_rules(small_model(), rules);
    for (const ckpt::NamedEntry& named : ckpt::list_entries(changed.root)) {
      if (named.entry->byte_size() <= kReadBudget) ckpt::read_all(*named.entry->bytes);
    }
  });
}

void run_ppm(core::Bytes bytes) {
  answer([&] { zoo::parse_ppm(bytes); });
}

void run_floats(core::Bytes bytes) {
  if (bytes.size() < 2) return;
  constexpr ckpt::FloatKind kKinds[] = {ckpt::FloatKind::f16, ckpt::FloatKind::bf16, ckpt::FloatKind::f32};
  ckpt::FloatKind kind = kKinds[static_cast<std::size_t>(bytes[0]) % 3];
  std::size_t width = ckpt::float_width(kind);
  core::Bytes packed = bytes.subspan(1);
  core::Bytes floats = packed.first(packed.size() / width * width);
  core::ByteVector back(floats.size());
  ckpt::unpack_floats(ckpt::pack_floats(floats, kind), kind, back);
  require_same(back, floats);
  // As a packed chunk, of as many floats as it may hold.
  for (std::size_t size = packed.size(); size <= 3 * packed.size(); ++size) {
    core::ByteVector out(size);
    answer([&] { ckpt::unpack_floats(packed, kind, out); });
    if (size > 64) size += packed.size() / 16;
  }
}

void run_predicted(core::Bytes bytes) {
  constexpr std::size_t kWords = 600;
  if (bytes.size() < 8) return;
  const std::uint64_t columns = 1 + static_cast<std::uint64_t>(bytes[0]);
  core::ByteVector before(2 * kWords), after(2 * kWords);
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = bytes[i % (bytes.size() / 2)];
  for (std::size_t i = 0; i < after.size(); ++i) after[i] = before[i] ^ (bytes[i % bytes.size()] & std::byte{3});
  core::ByteVector packed = ckpt::pack_predicted(before, after, columns, nullptr);
  packed.resize(std::max(packed.size(), after.size()));
  const ckpt::SourcePtr source = source_of(packed);
  core::ByteVector words = before;
  if (packed.size() == after.size()) {
    if (const auto found = ckpt::PredictedWords::find(*source, 0, after.size())) {
      found->add(0, words);
      require_same(words, after);
    }
  }
}

void run_planes(core::Bytes bytes) {
  if (bytes.size() < 2) return;
  std::uint32_t width = 1 + static_cast<std::uint32_t>(bytes[0]) % 16;
  core::Bytes chunk = bytes.subspan(1);
  core::ByteVector planes(chunk.size());
  ckpt::shuffle(chunk, width, planes);
  core::ByteVector frame = ckpt::zstd_compress_planes(planes, width, 1);
  core::ByteVector back(chunk.size());
  ckpt::unshuffle(ckpt::zstd_decompress(frame, chunk.size()), width, back);
  require_same(back, chunk);
  ckpt::inflate_zlib(ckpt::deflate_zlib(chunk, 1), back);
  require_same(back, chunk);
  answer([&] { ckpt::zstd_decompress(chunk, back); });
  answer([&] { ckpt::inflate_zlib(chunk, back); });
}

}  // namespace fuzz
