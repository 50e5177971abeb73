#include "libckpt/format/dcp/encode.h"

#include <unordered_map>

#include "libckpt/format/torch/pickle_writer.h"
#include "libckpt/format/torch/symbols.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kClasses = "torch.distributed.checkpoint.metadata.";
constexpr std::string_view kStorageInfo = "torch.distributed.checkpoint.filesystem._StorageInfo";

/// Items of a dict or a list, in batches as Python writes them: readers count on short stacks.
class Batches {
 public:
  Batches(PickleWriter& out, bool is_dict) : out_(out), is_dict_(is_dict) { out_.mark(); }
  /// Before each item.
  void next() {
    constexpr std::size_t kBatch = 1000;
    if (count_++ < kBatch) return;
    close();
    out_.mark();
    count_ = 1;
  }
  void close() { is_dict_ ? out_.set_items() : out_.appends(); }

 private:
  PickleWriter& out_;
  bool is_dict_;
  std::size_t count_ = 0;
};

/// Hundreds of thousands of boxes: what comes again is taken from the memo by its number, never looked up by its text.
class Encoder {
 public:
  core::ByteVector run(const DcpMetadata& metadata) {
    begin(std::string(kClasses) + "Metadata");
    out_.text("state_dict_metadata");
    out_.empty_dict();
    remember_words();
    Batches items(out_, true);
    for (const DcpItem& item : metadata.items) {
      items.next();
      write_item(item);
    }
    items.close();
    out_.text("planner_data");
    write_paths(metadata);
    out_.text("storage_data");
    write_places(metadata);
    write_storage_meta(metadata.save_id);
    end();
    out_.stop();
    return out_.take();
  }

 private:
  struct Word {
    std::string_view text;
    std::uint32_t number = 0;
  };

  /// What every box needs gets low numbers, which take one byte: pushed once, kept by the memo, dropped.
  void remember_words() {
    for (Word* word : {&chunk_, &index_, &info_, &size_}) {
      out_.global(word->text);
      word->number = out_.memo_size() - 1;
      out_.pop();
    }
    for (Word* word : {&offsets_, &sizes_, &fqn_, &offset_, &at_index_, &path_, &length_}) {
      out_.text(word->text);
      word->number = out_.put();
      out_.pop();
    }
  }
  void say(const Word& word) { out_.get(word.number); }

  /// An object of a class without arguments, whose attributes follow.
  void begin(std::string_view symbol) {
    out_.global(symbol);
    open();
  }
  void begin(const Word& symbol) {
    say(symbol);
    open();
  }
  void open() {
    out_.empty_tuple();
    out_.new_object();
    out_.empty_dict();
    out_.mark();
  }
  void end() {
    out_.set_items();
    out_.build();
  }

  void write_size(const core::Shape& shape) {
    say(size_);
    if (PickleWriter::tuple_needs_mark(shape.size())) out_.mark();
    for (std::int64_t n : shape) out_.integer(n);
    out_.close_tuple(shape.size());
    out_.close_tuple(1);
    out_.reduce();
  }

  void write_item(const DcpItem& item) {
    out_.text(item.name);
    names_.push_back(out_.put());
    if (!item.is_tensor) {
      begin(std::string(kClasses) + "BytesStorageMetadata");
      out_.set_items();
      return out_.build();
    }
    begin(std::string(kClasses) + "TensorStorageMetadata");
    out_.common_text("properties");
    write_properties(item);
    out_.common_text("size");
    write_size(item.shape);
    out_.common_text("chunks");
    out_.empty_list();
    Batches chunks(out_, false);
    for (const DcpChunk& chunk : item.chunks) {
      chunks.next();
      begin(chunk_);
      say(offsets_);
      write_size(chunk.offsets);
      say(sizes_);
      write_size(chunk.sizes);
      end();
    }
    chunks.close();
    end();
  }

  /// Newer releases write strides as a sixth; five are read by all.
  void write_properties(const DcpItem& item) {
    out_.global(std::string(kClasses) + "TensorProperties");
    out_.empty_tuple();
    out_.new_object();
    out_.mark();
    out_.global(dtype_text(item.dtype));
    out_.global("torch.serialization._get_layout");
    out_.common_text("torch.strided");
    out_.close_tuple(1);
    out_.reduce();
    out_.boolean(item.requires_grad);
    out_.global(std::string(kClasses) + "_MEM_FORMAT_ENCODING");
    out_.integer(0);
    out_.close_tuple(1);
    out_.reduce();
    out_.boolean(false);
    out_.close_tuple(5);
    out_.build();
  }

  void write_paths(const DcpMetadata& metadata) {
    out_.empty_dict();
    Batches paths(out_, true);
    for (std::size_t i = 0; i < metadata.items.size(); ++i) {
      paths.next();
      const std::vector<PathStep>& path = metadata.items[i].path;
      out_.get(names_[i]);
      if (PickleWriter::tuple_needs_mark(path.size())) out_.mark();
      for (const PathStep& step : path) write_step(step);
      out_.close_tuple(path.size());
    }
    paths.close();
  }
  void write_step(const PathStep& step) {
    if (const auto* text = std::get_if<std::string>(&step)) return out_.common_text(*text);
    out_.integer(std::get<std::int64_t>(step));
  }

  void write_places(const DcpMetadata& metadata) {
    out_.empty_dict();
    Batches places(out_, true);
    for (std::size_t i = 0; i < metadata.items.size(); ++i) {
      const DcpItem& item = metadata.items[i];
      if (item.place) {
        places.next();
        write_place(names_[i], nullptr, 0, *item.place);
      }
      for (std::size_t k = 0; k < item.chunks.size(); ++k) {
        const std::optional<DcpPlace> place = item.chunks.place(k);
        if (!place) continue;
        places.next();
        const core::Shape offsets = item.chunks.offsets(k);
        write_place(names_[i], &offsets, k, *place);
      }
    }
    places.close();
  }

  void write_place(std::uint32_t name, const core::Shape* offset, std::size_t index, const DcpPlace& place) {
    begin(index_);
    say(fqn_);
    out_.get(name);
    say(offset_);
    offset == nullptr ? out_.none() : write_size(*offset);
    say(at_index_);
    offset == nullptr ? out_.none() : out_.integer(static_cast<std::int64_t>(index));
    end();
    begin(info_);
    say(path_);
    auto [file, fresh] = files_.try_emplace(place.file);
    if (fresh) {
      out_.text(place.file);
      file->second = out_.put();
    } else {
      out_.get(file->second);
    }
    say(offset_);
    out_.integer(static_cast<std::int64_t>(place.offset));
    say(length_);
    out_.integer(static_cast<std::int64_t>(place.length));
    end();
  }

  void write_storage_meta(const std::string& save_id) {
    if (save_id.empty()) return;
    out_.text("storage_meta");
    begin(std::string(kClasses) + "StorageMeta");
    out_.text("checkpoint_id");
    out_.none();
    out_.text("save_id");
    out_.text(save_id);
    out_.text("load_id");
    out_.none();
    out_.text("modules");
    out_.empty_list();
    end();
  }

  static std::string dtype_text(core::DType dtype) { return "torch." + std::string(core::name(dtype)); }

  PickleWriter out_;
  Word chunk_{"torch.distributed.checkpoint.metadata.ChunkStorageMetadata"};
  Word index_{"torch.distributed.checkpoint.metadata.MetadataIndex"};
  Word info_{kStorageInfo};
  Word size_{"torch.Size"};
  Word offsets_{"offsets"};
  Word sizes_{"sizes"};
  Word fqn_{"fqn"};
  Word offset_{"offset"};
  Word at_index_{"index"};
  Word path_{"relative_path"};
  Word length_{"length"};
  std::vector<std::uint32_t> names_;  ///< in the memo, of the items
  std::unordered_map<std::string, std::uint32_t> files_;
};

}  // namespace

core::ByteVector encode_dcp_metadata(const DcpMetadata& metadata) {
  return Encoder().run(metadata);
}

}  // namespace ckpt::detail
