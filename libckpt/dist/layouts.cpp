#include "libckpt/dist/layouts.h"

#include <map>

#include "libckpt/dist/messages.h"
#include "libckpt/entry.h"
#include "libckpt/format/dcp/part_writer.h"
#include "libckpt/format/dcp/parts_file.h"
#include "libckpt/format/dcp/write.h"
#include "libckpt/format/parts/parts_index.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/json.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::dist {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;
using detail::DcpChunk;
using detail::DcpItem;
using detail::DcpMetadata;

/// Calls `see(item, chunk, value)` for what the rank owns, in the order of the plan; chunk is 0 for an object.
template <class See>
void each_owned(const PartWork& work, const See& see) {
  std::map<std::string_view, const Value*> values;
  for (std::size_t i = 0; i < work.local.items.size(); ++i) {
    values.emplace(work.local.items[i].item.name, &work.local.values[i]);
  }
  for (std::size_t i = 0; i < work.plan.items.size(); ++i) {
    const PlannedItem& planned = work.plan.items[i];
    for (std::size_t k = 0; k < planned.owners.size(); ++k) {
      if (planned.owners[k] != work.rank) continue;
      core::with_context(quote(planned.item.name), [&] { see(i, k, *values.at(planned.item.name)); });
    }
  }
}

/// What the rank owns, under the names of its items.
Checkpoint owned_by(const PartWork& work) {
  Dict dict;
  each_owned(work, [&](std::size_t i, std::size_t, const Value& value) {
    dict.items.emplace_back(Value::text(work.plan.items[i].item.name), value);
  });
  Checkpoint part;
  part.root = Value::dict(std::move(dict));
  return part;
}

void say_facts(MessageWriter& out, std::uint64_t size, const Hash128& hash) {
  out.number(size);
  out.number(hash.low);
  out.number(hash.high);
}

detail::PartFacts hear_facts(MessageReader& in, std::string file) {
  detail::PartFacts part{std::move(file), in.number(), {}};
  part.hash.low = in.number();
  part.hash.high = in.number();
  return part;
}

class DcpLayout final : public Layout {
 public:
  void check(const Plan&) const override {}

  std::string write_part(const PartWork& work) const override {
    detail::DcpPartWriter part(work.folder, detail::part_name(work.rank), work.save_id, work.plan.load[work.rank],
                               work.write);
    MessageWriter places;
    each_owned(work, [&](std::size_t, std::size_t, const Value& value) {
      detail::DcpPlace place = part.add(value);
      places.number(place.offset);
      places.number(place.length);
    });
    detail::PartFacts facts = part.finish();
    MessageWriter out;
    say_facts(out, facts.size, facts.hash);
    out.text(places.take());
    return out.take();
  }

  static detail::PartsFile parts_file(const PartWork& work, std::size_t ranks) {
    detail::PartsFile parts;
    parts.save_id = work.save_id;
    parts.ranks = ranks;
    for (const PlannedItem& planned : work.plan.items) {
      for (std::size_t k = 0; k < planned.item.chunks.size(); ++k) {
        if (planned.replicas[k] < 2) continue;
        std::uint64_t numel = core::try_numel(planned.item.chunks.sizes(k).span()).value_or(0);
        ++parts.replicated_pieces;
        parts.bytes_saved += (planned.replicas[k] - 1) * core::byte_size(planned.item.dtype, numel).value_or(0);
      }
    }
    return parts;
  }

  std::uint64_t write_index(const PartWork& work, const std::vector<std::string>& facts) const override {
    DcpMetadata metadata;
    metadata.save_id = work.save_id;
    for (const PlannedItem& planned : work.plan.items) metadata.items.push_back(planned.item);
    detail::PartsFile parts = parts_file(work, facts.size());
    std::vector<MessageReader> places;
    std::uint64_t bytes = 0;
    for (std::size_t rank = 0; rank < facts.size(); ++rank) {
      MessageReader in(facts[rank]);
      detail::PartFacts part = hear_facts(in, detail::part_name(rank));
      places.emplace_back(in.text());
      bytes += part.size;
      parts.parts.push_back(std::move(part));
    }
    for (std::size_t i = 0; i < metadata.items.size(); ++i) {
      const std::vector<std::uint32_t>& owners = work.plan.items[i].owners;
      for (std::size_t k = 0; k < owners.size(); ++k) {
        detail::DcpPlace place{detail::part_name(owners[k]), places[owners[k]].number(), 0};
        place.length = places[owners[k]].number();
        DcpItem& item = metadata.items[i];
        item.is_tensor ? item.chunks.set_place(k, place) : static_cast<void>(item.place = std::move(place));
      }
    }
    return bytes + detail::write_index(work.folder, metadata, parts, work.write);
  }

  bool knows(std::string_view name) const override { return detail::is_dcp_file(name); }
};

void write_text(const std::filesystem::path& path, const std::string& text, const ckpt::SaveOptions& options) {
  AtomicFile file(path, {.durable = options.durable, .expected_size = text.size(), .lock = false});
  file.write(core::as_bytes(text));
  file.commit();
}

/// An ordinary `.ckpt` a rank, which has its boxes under the names of their tensors, behind an index.
class NativeLayout final : public Layout {
 public:
  void check(const Plan&) const override {}

  std::string write_part(const PartWork& work) const override {
    Checkpoint part = owned_by(work);
    part.metadata = {{std::string(detail::kSaveIdKey), work.save_id}};
    ckpt::SaveOptions options = work.write;
    options.format = "native";
    options.overwrite = false;
    std::filesystem::path path = work.folder / detail::native_part_name(work.rank);
    ckpt::save(part, path, options);
    SourcePtr written = open_file(path);
    MessageWriter out;
    say_facts(out, written->size(), hash128(*written));
    return out.take();
  }

  std::uint64_t write_index(const PartWork& work, const std::vector<std::string>& facts) const override {
    detail::PartsIndex index;
    index.save_id = work.save_id;
    std::uint64_t bytes = 0;
    for (std::size_t rank = 0; rank < facts.size(); ++rank) {
      MessageReader in(facts[rank]);
      detail::PartFacts part = hear_facts(in, detail::native_part_name(rank));
      bytes += part.size;
      index.parts.push_back(std::move(part));
    }
    for (const PlannedItem& planned : work.plan.items) index.items.push_back(indexed(planned));
    std::string text = detail::encode_parts_index(index);
    write_text(work.folder / detail::kPartsIndex, text, work.write);
    return bytes + text.size();
  }

  bool knows(std::string_view name) const override { return detail::is_file_of_parts(name); }

 private:
  static detail::IndexedItem indexed(const PlannedItem& planned) {
    const DcpItem& item = planned.item;
    detail::IndexedItem out;
    out.name = item.name;
    out.path = item.path;
    out.is_tensor = item.is_tensor;
    out.part = planned.owners[0];
    if (!item.is_tensor) return out;
    out.dtype = item.dtype;
    out.requires_grad = item.requires_grad;
    out.shape = item.shape;
    for (std::size_t k = 0; k < item.chunks.size(); ++k) {
      out.boxes.push_back({{item.chunks.offsets(k), item.chunks.sizes(k)}, planned.owners[k]});
    }
    return out;
  }
};

/// Whole tensors, each in the shard of the rank that owns it.
class SafetensorsLayout final : public Layout {
 public:
  void check(const Plan& plan) const override {
    for (const PlannedItem& planned : plan.items) {
      const std::string name = quote(planned.item.name);
      if (!planned.item.is_tensor) {
        throw Error(ErrorCode::unsupported, name + ": safetensors hold tensors alone; save with the layout dcp");
      }
      if (planned.item.chunks.size() == 1) continue;
      throw Error(ErrorCode::unsupported, name + " is in " + std::to_string(planned.item.chunks.size()) +
                                              " pieces, and safetensors hold whole tensors; save with the layout dcp");
    }
  }

  std::string write_part(const PartWork& work) const override {
    Checkpoint shard = owned_by(work);
    shard.metadata = {{"format", "pt"}};
    Report report;
    ckpt::SaveOptions options = work.write;
    options.format = "safetensors";
    options.overwrite = false;
    options.slack = 0;
    options.report = &report;
    ckpt::save(shard, work.folder / shard_name(work.rank, work.plan.load.size()), options);
    return std::to_string(report.bytes_written);
  }

  std::uint64_t write_index(const PartWork& work, const std::vector<std::string>& facts) const override {
    std::uint64_t bytes = 0;
    for (const std::string& fact : facts) bytes += std::stoull(fact);
    std::uint64_t total = 0;
    for (std::uint64_t load : work.plan.load) total += load;
    JsonWriter json(2);
    json.begin_object();
    json.key("metadata").begin_object().key("total_size").value(total).end_object();
    json.key("weight_map").begin_object();
    for (const PlannedItem& planned : work.plan.items) {
      json.key(planned.item.name).value(shard_name(planned.owners[0], facts.size()));
    }
    json.end_object();
    json.end_object();
    std::string text = json.take() + "\n";
    write_text(work.folder / "model.safetensors.index.json", text, work.write);
    return bytes + text.size();
  }

  bool knows(std::string_view name) const override {
    bool shard = name.starts_with("model") && (name.ends_with(".safetensors") || name.ends_with(".index.json"));
    return shard || (name.starts_with('.') && detail::is_dcp_file(name));
  }

 private:
  static std::string shard_name(std::size_t rank, std::size_t ranks) {
    auto digits = [](std::uint64_t n) {
      std::string text = std::to_string(n);
      return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
    };
    return "model-" + digits(rank + 1) + "-of-" + digits(ranks) + ".safetensors";
  }
};

}  // namespace

std::unique_ptr<Layout> layout_named(const std::string& name) {
  if (name == "dcp") return std::make_unique<DcpLayout>();
  if (name == "native") return std::make_unique<NativeLayout>();
  if (name == "safetensors") return std::make_unique<SafetensorsLayout>();
  throw Error(ErrorCode::usage, "no layout is named " + quote(name) + "; there are dcp, native and safetensors");
}

}  // namespace ckpt::dist
