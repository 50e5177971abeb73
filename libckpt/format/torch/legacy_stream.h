#pragma once
// The legacy stream: what torch.save wrote before PyTorch 1.6 and still writes on request: five pickles back to back
// (magic number, protocol, machine, object, keys), then the storages, each a count and its elements. Storages stay in
// the file. Thread safety: a LegacyStream is immutable, LegacyStorages has one user. Use:
// LegacyStream stream = read_legacy_pickles(file, options); LegacyStorages storages(file, stream, options);

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/format/torch/rebuild.h"
#include "libckpt/options.h"
#include "libckpt/value.h"

namespace ckpt {

/// True when `head` begins with the pickle of the magic number, in any protocol. The number must be a literal.
bool is_legacy_stream(core::Bytes head);

struct LegacyStream {
  PickleGraph object;
  std::vector<std::string> keys;  ///< of the storages, in the order of their data
  std::uint64_t data_offset = 0;  ///< where the first count stands
};

/// Errors: Error(corrupt) for a stream that is cut off or contradicts itself; those of read_pickle().
LegacyStream read_legacy_pickles(const SourcePtr& file, const OpenOptions& options,
                                 SymbolCheck check = SymbolCheck::refuse);

/// The storages behind the pickles.
class LegacyStorages final : public StorageProvider {
 public:
  /// Finds every storage. Errors: Error(corrupt) for a count that is not the object's, for a storage that is cut off,
  /// listed twice, not listed or not used, and for bytes behind the last one (let pass when lenient, and reported).
  LegacyStorages(SourcePtr file, const LegacyStream& stream, const OpenOptions& options);

  std::shared_ptr<const Storage> provide(const StorageRequest& request) override;
  std::uint64_t count() const { return ranges_.size(); }

 private:
  struct Range {
    StorageRequest request;
    std::uint64_t offset = 0;
    std::shared_ptr<const Storage> storage;
  };
  void collect(const PickleGraph& object);
  void lay_out(const LegacyStream& stream, const OpenOptions& options);

  SourcePtr file_;
  std::unordered_map<std::string, Range> ranges_;
  std::map<std::string, std::shared_ptr<const Storage>> empty_;  ///< by key, type and location
};

/// The saved object. Errors: those of the three steps above.
Value read_legacy_object(const SourcePtr& file, const OpenOptions& options);

}  // namespace ckpt
