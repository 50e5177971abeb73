#pragma once
// TorchArchive: the zip archive of torch.save with its rules: one folder at the top, a version, a byte order, storages
// under data/. Thread safety: the archive is immutable; its storage provider has one user. Use:
// TorchArchive archive = TorchArchive::open(input.file, options); archive.record("data.pkl")

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/format/torch/rebuild.h"
#include "libckpt/io/zip.h"
#include "libckpt/options.h"
#include "libckpt/value.h"

namespace ckpt {

enum class ArchiveKind : std::uint8_t {
  checkpoint,  ///< of torch.save
  script,      ///< of torch.jit.save: the same records, and code
};

class TorchArchive {
 public:
  /// Errors: those of ZipArchive; Error(corrupt | unsupported | refused) for what PyTorch would not take for its own.
  static TorchArchive open(const SourcePtr& file, const OpenOptions& options,
                           ArchiveKind kind = ArchiveKind::checkpoint);

  const ZipArchive& zip() const { return zip_; }
  bool big_endian() const { return big_endian_; }
  /// False for an archive that was saved without checksums.
  bool has_checksums() const { return has_checksums_; }
  /// The member "<root>/<name>", or null.
  const ZipMember* find(std::string_view name) const;
  /// Error(corrupt) when it is not there.
  const ZipMember& member(std::string_view name) const;
  /// What stands behind the root in a member's name: "data/0".
  std::string_view inner_name(const ZipMember& member) const;
  /// True for a record of a TorchScript archive that belongs to its program: code, constants, bytecode, extra files.
  bool is_program(std::string_view inner_name) const;

 private:
  explicit TorchArchive(ZipArchive zip) : zip_(std::move(zip)) {}
  void find_root();
  void check_version() const;
  void read_byte_order();
  void look_for_checksums();
  std::string small_text(const ZipMember& member) const;

  ZipArchive zip_;
  std::string root_;  ///< with its slash
  bool big_endian_ = false;
  bool has_checksums_ = false;
  ArchiveKind kind_ = ArchiveKind::checkpoint;
};

/// The pickle of the saved object, read to its end. Errors: those of read_pickle; Error(corrupt) for bytes behind it.
PickleGraph read_object_pickle(const TorchArchive& archive, const OpenOptions& options);
/// What the archive holds; the report gets what nobody asked for.
Value read_object(const TorchArchive& archive, const PickleGraph& graph, const OpenOptions& options,
                  SymbolCheck check = SymbolCheck::refuse);

/// Storages of one archive. Each is one lazy range of the file.
class ArchiveStorages final : public StorageProvider {
 public:
  ArchiveStorages(const TorchArchive& archive, const OpenOptions& options) : archive_(archive), options_(options) {}
  std::shared_ptr<const Storage> provide(const StorageRequest& request) override;
  /// Storages that nothing asked for: "data/7".
  std::vector<std::string> unused() const;

 private:
  struct Known {
    StorageRequest request;
    std::shared_ptr<const Storage> storage;
  };
  void check_agreement(const Known& known, const StorageRequest& request) const;
  SourcePtr payload(const StorageRequest& request) const;

  const TorchArchive& archive_;
  const OpenOptions& options_;
  std::unordered_map<std::string, Known> known_;
};

}  // namespace ckpt
