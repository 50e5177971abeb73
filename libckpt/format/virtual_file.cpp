#include "libckpt/format/virtual_file.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "libckpt/format/hdf5_write/hdf5_types.h"
#include "libckpt/format/native/hdf5_side.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/parts/parts.h"
#include "libckpt/format/parts/parts_index.h"
#include "libckpt/format/save_file.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/io/replaced_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorCode;
using core::quote;
using detail::Hdf5Form;
using detail::IndexedBox;
using detail::IndexedItem;
using detail::VirtualPiece;

constexpr std::uint32_t kZstdFilter = 32015;
constexpr const char* kWayOut = "; written without 'virtual', the file holds the values themselves";

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::unsupported, why + kWayOut);
}

void require_parts(const Input& input) {
  const Format& format = detect_format(input);
  if (format.name == detail::kParts.name) return;
  refuse("virtual datasets are made over the parts of a native checkpoint, which are HDF5 files, and this is a " +
         std::string(format.title));
}

/// The datasets of one part by the names of their tensors.
class PartDatasets {
 public:
  PartDatasets(const fs::path& folder, const std::string& file, const std::string& save_id, const OpenOptions& options)
      : file_(file) {
    Input input = detail::open_native_part(folder, file, options);
    if (!detail::detect_native(input)) throw Error(ErrorCode::corrupt, "it is no native checkpoint");
    std::shared_ptr<const detail::OpenedNative> opened = detail::open_native(input, options.limits);
    const std::pair<std::string, std::string> wanted(detail::kSaveIdKey, save_id);
    if (std::ranges::find(opened->index.metadata, wanted) == opened->index.metadata.end()) {
      throw Error(ErrorCode::corrupt, "it is a part of another save than the index");
    }
    side_ = detail::read_hdf5_side(*input.file, {options.limits, options.unsandboxed});
    for (detail::IndexedTensor& tensor : detail::read_index_side(opened->index, options.limits).tensors) {
      std::string name = tensor.named.name;
      tensors_.emplace(std::move(name), std::move(tensor));
    }
  }

  /// The path in the part. REQUIRES: dims are those of the piece.
  std::string path_of(const IndexedItem& item, const core::Shape& sizes, const std::vector<std::uint64_t>& dims,
                      bool& needs_zstd) const {
    auto tensor = tensors_.find(item.name);
    auto dataset = tensor == tensors_.end() ? side_.datasets.end() : side_.datasets.find(tensor->second.path);
    if (dataset == side_.datasets.end()) refuse("its part " + quote(file_) + " has no dataset of it");
    require_alike(*tensor->second.named.entry, item.dtype, sizes);
    if (dataset->second->dims != dims) {
      throw Error(ErrorCode::corrupt,
                  "the dataset in its part " + quote(file_) + " has another shape than the index says");
    }
    for (const Hdf5Filter& filter : dataset->second->filters) {
      if (const std::string codec = own_codec(filter.id); !codec.empty()) {
        refuse("its part " + quote(file_) + " is packed by the codec '" + codec + "', which HDF5 cannot read");
      }
      needs_zstd = needs_zstd || filter.id == kZstdFilter;
    }
    return "/data/" + core::join(tensor->second.path, "/");
  }

 private:
  /// Of a filter that is known to this project alone; "" for others.
  static std::string own_codec(std::uint32_t filter) {
    if (filter == detail::kFastFilter) return "fast";
    if (filter == detail::kDeltaFilter) return "delta";
    return filter == detail::kTrimmedFilter ? "trimmed" : "";
  }

  /// HDF5 would cast a piece of another dtype without a word.
  void require_alike(const Entry& entry, core::DType dtype, const core::Shape& sizes) const {
    if (entry.dtype == dtype && entry.shape == sizes) return;
    auto text = [](core::DType type, const core::Shape& shape) {
      return std::string(core::name(type)) + " " + core::to_list(shape);
    };
    throw Error(ErrorCode::corrupt, "its part " + quote(file_) + " holds " + text(entry.dtype, entry.shape) +
                                        " where " + text(dtype, sizes) + " is expected");
  }

  std::string file_;
  detail::Hdf5Side side_;
  std::unordered_map<std::string, detail::IndexedTensor> tensors_;
};

std::vector<std::uint64_t> as_sizes(const core::Shape& shape) {
  return {shape.begin(), shape.end()};
}

/// Where HDF5 sees a tensor as one run of bytes, a piece of it is one as well if it has whole rows.
VirtualPiece run_of(const IndexedItem& item, const IndexedBox& box, const Hdf5Form& form) {
  const core::Shape& sizes = box.box.sizes;
  std::uint64_t row = 1;
  for (std::size_t d = 1; d < sizes.size(); ++d) {
    row *= static_cast<std::uint64_t>(item.shape[d]);
    if (sizes[d] == item.shape[d]) continue;
    refuse("HDF5 has no " + std::string(core::name(item.dtype)) + " of " + std::to_string(item.shape.size()) +
           " dimensions and holds its bytes, in which a piece that is cut along dimension " + std::to_string(d) +
           " is no single run");
  }
  auto elements = [&](std::uint64_t count) { return *core::byte_size(item.dtype, count) / form.width; };
  const std::uint64_t first = sizes.empty() ? 0 : static_cast<std::uint64_t>(box.box.offsets[0]);
  const std::uint64_t rows = sizes.empty() ? 1 : static_cast<std::uint64_t>(sizes[0]);
  return {"", "", {elements(first * row)}, {elements(rows * row)}};
}

VirtualPiece piece_of(const IndexedItem& item, const IndexedBox& box, const Hdf5Form& form) {
  if (form.flattened) return run_of(item, box, form);
  return {"", "", as_sizes(box.box.offsets), as_sizes(box.box.sizes)};
}

/// Of a link the file is written where it leads to, also where nothing lies there yet.
fs::path folder_from(const fs::path& target, const fs::path& folder) {
  fs::path beside = fs::absolute(target).parent_path();
  std::error_code unseen;
  if (fs::is_symlink(target, unseen)) {
    core::with_context(target.string(), [&] { beside = fs::absolute(detail::look_up(target).folder_path); });
  }
  return fs::weakly_canonical(fs::absolute(folder)).lexically_relative(fs::weakly_canonical(beside));
}

EntryPtr entry_of(const IndexedItem& item) {
  auto entry = std::make_shared<Entry>();
  entry->dtype = item.dtype;
  entry->shape = item.shape;
  return entry;
}

void add_tensor(const IndexedItem& item, const detail::PartsIndex& index, const std::vector<PartDatasets>& parts,
                VirtualFile& file) {
  const Hdf5Form form = detail::hdf5_form(item.dtype, item.shape);
  std::vector<VirtualPiece> pieces;
  for (const IndexedBox& box : item.boxes) {
    if (core::try_numel(box.box.sizes.span()).value_or(1) == 0) continue;
    core::with_context(quote(item.name), [&] {
      VirtualPiece piece = piece_of(item, box, form);
      piece.file = (fs::path(file.folder) / index.parts[box.part].file).string();
      piece.dataset = parts[box.part].path_of(item, box.box.sizes, piece.sizes, file.needs_zstd);
      pieces.push_back(std::move(piece));
    });
  }
  file.names.push_back(item.name);
  file.entries.push_back(entry_of(item));
  file.pieces.push_back(std::move(pieces));
}

}  // namespace

VirtualFile plan_virtual_file(const fs::path& folder, const fs::path& target, const OpenOptions& options) {
  if (is_remote_name(folder)) refuse("virtual datasets name files beside them, and this folder is on another machine");
  const Input input = open_input(folder, options);
  require_parts(input);
  detail::read_parts_checkpoint(input, options);  // sizes of the parts, and that pieces cover their tensors
  const detail::PartsIndex index = detail::read_parts_index(*input.file, options);
  if (index.parts.size() > kMaxVirtualParts) {
    refuse("it has " + core::format_count(index.parts.size()) + " parts, and a virtual file names at most " +
           std::to_string(kMaxVirtualParts));
  }
  const fs::path home = input.path.parent_path();
  const fs::path from_target = folder_from(target, home);
  std::vector<PartDatasets> parts;
  for (const detail::PartFacts& part : index.parts) {
    core::with_context("part " + quote(part.file),
                       [&] { parts.emplace_back(home, part.file, index.save_id, options); });
  }
  VirtualFile file;
  file.folder = from_target.string();
  file.parts = parts.size();
  for (const IndexedItem& item : index.items) {
    item.is_tensor ? add_tensor(item, index, parts, file) : void(++file.left_in_parts);
  }
  return file;
}

void write_virtual_file(const VirtualFile& file, const fs::path& target, const SaveOptions& options) {
  detail::Hdf5Describer helper;
  helper.require_ready();
  const detail::Payload nothing;
  const std::vector<detail::Hdf5Path> paths = detail::plan_hdf5_paths(file.names);
  std::vector<detail::DatasetPlan> datasets;
  for (std::size_t i : detail::in_group_order(paths)) {
    detail::DatasetPlan plan{.name = file.names[i], .path = paths[i], .entry = file.entries[i].get()};
    if (file.pieces[i].empty()) plan.payload = &nothing;  // a tensor without elements
    if (!file.pieces[i].empty()) plan.pieces = &file.pieces[i];
    datasets.push_back(std::move(plan));
  }
  detail::Hdf5Style style{.top_group = "", .keep_order = true};
  style.attributes.push_back({std::string(detail::kVirtualOf), Value::text(file.folder)});
  const detail::Hdf5Place place{0, detail::kFirstPayload};
  const detail::Hdf5Image image = build_hdf5(helper, {std::move(datasets), place, std::move(style)});
  core::ByteVector superblock(image.superblock.begin(), image.superblock.end());
  superblock.resize(detail::kFirstPayload);
  AtomicFile out(target, detail::file_options(options, place.metadata_begin + image.metadata.size()));
  out.write(superblock);
  out.write(image.metadata);
  out.commit();
  if (options.report == nullptr) return;
  options.report->bytes_written += out.position();
  options.report->rung = "rewrite";
}

}  // namespace ckpt
