#include "libckpt/transform/quantize.h"

#include <algorithm>
#include <map>
#include <set>

#include "libckpt/blocks/unpacked.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/quantized_layers.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::string_view kFileType = "general.file_type";
constexpr std::string_view kQuantizationVersion = "general.quantization_version";

/// llama.cpp's number for a file whose matrices have this type; "" where it has none.
std::string file_type_of(std::string_view type) {
  static const std::map<std::string_view, std::string> kNumbers = {
      {"float32", "0"}, {"float16", "1"}, {"Q4_0", "2"},     {"Q4_1", "3"},  {"Q8_0", "7"},
      {"Q5_0", "8"},    {"Q5_1", "9"},    {"Q2_K", "10"},    {"Q3_K", "11"}, {"Q4_K", "14"},
      {"Q5_K", "16"},   {"Q6_K", "18"},   {"bfloat16", "32"}};
  auto found = kNumbers.find(type);
  return found == kNumbers.end() ? "" : found->second;
}

using Metadata = std::vector<std::pair<std::string, std::string>>;

bool erase(Metadata& metadata, std::string_view key) {
  return std::erase_if(metadata, [&](const auto& item) { return item.first == key; }) > 0;
}

/// What a GGUF file says about the type of its matrices.
void set_file_type(Metadata& metadata, std::string_view type) {
  erase(metadata, kFileType);
  std::string number = file_type_of(type);
  if (!number.empty()) metadata.emplace_back(kFileType, number);
}

/// Replaces the tensors of a dict, tied ones by one and the same, and counts.
class EntryMap : public detail::TreeMap {
 public:
  EntryMap(const Checkpoint& checkpoint, const std::string& at) {
    for (const NamedEntry& named : list_entries(value_at(checkpoint.root, at))) {
      if (names_.try_emplace(named.entry.get(), named.name).second) ++report_.tensors;
    }
  }

  const QuantizeReport& report() const { return report_; }

 protected:
  Value map_tensor(const Value& tensor) override {
    auto named = names_.find(&tensor.as_entry());
    if (named == names_.end()) return tensor;
    const Entry& before = tensor.as_entry();
    EntryPtr after = core::with_context(core::quote(named->second), [&] { return replacement(before, named->second); });
    report_.bytes_before += before.byte_size();
    report_.bytes_after += after == nullptr ? before.byte_size() : after->byte_size();
    if (after == nullptr) return tensor;
    count(type_name(before), type_name(*after));
    return Value::tensor(std::move(after));
  }

  /// Null when the entry stays.
  virtual EntryPtr replacement(const Entry& entry, const std::string& name) = 0;
  QuantizeReport report_;

 private:
  void count(const std::string& from, const std::string& to) {
    ++report_.changed;
    for (QuantizeReport::Count& known : report_.counts) {
      if (known.from == from) {
        ++known.tensors;
        return;
      }
    }
    report_.counts.push_back({from, to, 1});
  }

  std::map<const Entry*, std::string> names_;
};

/// Values that are f32 as another float type.
EntryPtr as_type(const EntryPtr& values, DType to) {
  if (to == DType::f32) return values;
  auto out = std::make_shared<Entry>(*values);
  out->dtype = to;
  if (values->bytes != nullptr) out->bytes = cast_source(values->bytes, DType::f32, to);
  return out;
}

class Dequantizer final : public EntryMap {
 public:
  Dequantizer(const Checkpoint& checkpoint, const DequantizeOptions& options)
      : EntryMap(checkpoint, options.at), to_(options.to), threads_(options.threads) {}

 protected:
  EntryPtr replacement(const Entry& entry, const std::string&) override {
    if (!entry.blocks) return nullptr;
    EntryPtr values = detail::unpacked(entry, threads_);
    if (values == nullptr) {
      throw Error(ErrorCode::unsupported, "quantised blocks of type " + entry.blocks->name + " cannot be unpacked");
    }
    return as_type(values, to_);
  }

 private:
  DType to_;
  unsigned threads_;
};

/// Puts one weight in the place of the first part of each layer, and takes the others away.
class LayerDequantizer final : public detail::TreeMap {
 public:
  LayerDequantizer(const Checkpoint& checkpoint, const DequantizeOptions& options) : options_(options) {
    for (const NamedEntry& named : list_entries(value_at(checkpoint.root, options.at)))
      meant_.insert(named.entry.get());
  }

  const std::vector<QuantizeReport::Count>& counts() const { return counts_; }

 protected:
  bool edit_dict(const Value&, Dict& dict) override {
    const std::vector<detail::LayerWeight> layers = detail::layer_weights(dict, {.zeros_as_stored = options_.gptq_v2});
    std::vector<bool> gone(dict.items.size());
    bool changed = false;
    for (const detail::LayerWeight& layer : layers) {
      auto& first = dict.items[layer.parts.front()];
      if (!meant_.contains(&first.second.as_entry())) continue;
      changed = true;
      for (std::size_t part : layer.parts) gone[part] = true;
      gone[layer.parts.front()] = false;
      first = {Value::text(layer.key), Value::tensor(as_type(layer.weight, options_.to))};
      count(layer.scheme);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < dict.items.size(); ++i) {
      if (gone[i]) continue;
      if (kept != i) dict.items[kept] = std::move(dict.items[i]);
      ++kept;
    }
    dict.items.resize(kept);
    return changed;
  }

 private:
  void count(const std::string& scheme) {
    for (QuantizeReport::Count& known : counts_) {
      if (known.from != scheme) continue;
      ++known.tensors;
      return;
    }
    counts_.push_back({scheme, std::string(core::name(options_.to)), 1});
  }

  const DequantizeOptions& options_;
  std::set<const Entry*> meant_;
  std::vector<QuantizeReport::Count> counts_;
};

class Quantizer final : public EntryMap {
 public:
  Quantizer(const Checkpoint& checkpoint, const QuantizeOptions& options, const detail::BlockCodec& codec)
      : EntryMap(checkpoint, options.at),
        codec_(codec),
        keep_(options.keep),
        keeps_(!options.keep.include.empty()),
        threads_(options.threads) {}

 protected:
  EntryPtr replacement(const Entry& entry, const std::string& name) override {
    if (!is_matrix_of_blocks(entry)) return nullptr;
    if (keeps_ && keep_.contains(name, entry)) {
      ++report_.kept;
      return nullptr;
    }
    Entry values = entry;
    values.dtype = DType::f32;
    if (entry.bytes != nullptr) values.bytes = cast_source(entry.bytes, entry.dtype, DType::f32);
    return detail::packed(values, codec_, name, threads_);
  }

 private:
  bool is_matrix_of_blocks(const Entry& entry) const {
    bool plain = !entry.blocks && !entry.conjugate && !entry.negative;
    bool wide = entry.dtype == DType::f32 || entry.dtype == DType::f16 || entry.dtype == DType::bf16 ||
                entry.dtype == DType::f64;
    if (!plain || !wide || entry.shape.size() < 2) return false;
    std::int64_t row = entry.shape[entry.shape.size() - 1];
    return row > 0 && row % codec_.elements == 0;
  }

  const detail::BlockCodec& codec_;
  SelectionMatcher keep_;
  bool keeps_;
  unsigned threads_;
};

Checkpoint mapped(const Checkpoint& checkpoint, EntryMap& map, QuantizeReport* report) {
  Checkpoint out = checkpoint;
  out.root = map.map(checkpoint.root);
  if (report != nullptr) *report = map.report();
  return out;
}

}  // namespace

Checkpoint dequantize(const Checkpoint& checkpoint, const DequantizeOptions& options, QuantizeReport* report) {
  if (!core::is_floating(options.to) || !can_cast(options.to)) {
    throw Error(ErrorCode::value,
                "quantised blocks become values of a float type, not " + std::string(core::name(options.to)));
  }
  LayerDequantizer layers(checkpoint, options);
  Checkpoint whole = checkpoint;
  whole.root = layers.map(checkpoint.root);
  Dequantizer map(whole, options);
  Checkpoint out = mapped(whole, map, report);
  if (report != nullptr) {
    for (const QuantizeReport::Count& count : layers.counts()) {
      report->changed += count.tensors;
      report->counts.push_back(count);
    }
  }
  if (map.report().changed == 0) return out;
  erase(out.metadata, kQuantizationVersion);
  if (erase(out.metadata, kFileType)) set_file_type(out.metadata, core::name(options.to));
  return out;
}

Checkpoint blocks_as_values(const Checkpoint& checkpoint) {
  const std::vector<NamedEntry> all = list_entries(checkpoint.root);
  const bool any = std::any_of(all.begin(), all.end(), [](const NamedEntry& named) { return named.entry->blocks; });
  return any ? dequantize(checkpoint) : checkpoint;
}

Checkpoint quantize(const Checkpoint& checkpoint, const QuantizeOptions& options, QuantizeReport* report) {
  const detail::BlockCodec* codec = detail::find_block_codec(options.to);
  if (codec == nullptr || codec->pack == nullptr) {
    throw Error(ErrorCode::value, "no tensor can be packed into blocks of type " + core::quote(options.to) + "; use " +
                                      core::join(quantized_types(), ", "));
  }
  Quantizer map(checkpoint, options, *codec);
  Checkpoint out = mapped(checkpoint, map, report);
  if (map.report().changed == 0) return out;
  set_file_type(out.metadata, options.to);
  erase(out.metadata, kQuantizationVersion);
  out.metadata.emplace_back(kQuantizationVersion, "2");
  return out;
}

std::vector<std::string> quantized_types() {
  std::vector<std::string> names;
  for (const detail::BlockCodec& codec : detail::block_codecs()) {
    if (codec.pack != nullptr) names.emplace_back(codec.name);
  }
  return names;
}

}  // namespace ckpt
