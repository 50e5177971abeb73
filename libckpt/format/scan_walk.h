#pragma once
// ScanWalk: goes through everything inside one file, whatever it is, and writes down what it finds. It never throws for
// what the bytes say and never passes over anything in silence: each part is analysed, is data of a known kind, or is
// listed as unread. Thread safety: one owner. Use: ScanWalk(limits, budget, result).content(file, "");

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "libckpt/budget.h"
#include "libckpt/format/content_kind.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/hint.h"
#include "libckpt/io/zip.h"
#include "libckpt/scan.h"

namespace ckpt::detail {

class ScanWalk {
 public:
  ScanWalk(const Limits& limits, Budget& budget, ScanResult& result)
      : limits_(limits), budget_(budget), result_(result) {}

  /// Everything in `source`, which is called `where` ("" for the file itself). Returns the name of what it is:
  /// "torch-zip", "npz", "pickle", ... Errors: Error(io) alone.
  std::string content(const SourcePtr& source, const std::string& where);

  void finding(const std::string& where, std::string text, FindingKind kind = FindingKind::problem);
  void unread(const std::string& where, std::string text, std::optional<Hint> hint = {});

 private:
  /// Storages that a pickle refers to, and pickled bytes inside it.
  struct PickleYield {
    bool complete = false;
    std::vector<std::string> storages;
    std::vector<core::ByteVector> inner;
  };
  std::string join(const std::string& where, std::string_view name) const;
  std::string dispatch(ContentKind kind, const SourcePtr& source, const std::string& where);
  /// Runs `body`; an Error becomes unread.
  bool guarded(const std::string& where, const std::function<void()>& body);

  // scan_pickle.cpp
  PickleYield pickle(core::ByteVector bytes, const std::string& where, PickleIds ids, bool complete = true);
  void note_symbols(const PickleGraph& graph, ScannedPickle& out);
  void check_getattr(const PickleGraph& graph, const std::string& where);
  static PickleYield yield_of(const PickleGraph& graph);
  void inner_pickles(const PickleYield& yield, const std::string& where);
  /// Pickles back to back; returns where the last one ends.
  std::uint64_t pickle_sequence(const SourcePtr& source, const std::string& where, PickleIds ids, std::uint64_t count);
  bool joblib_pickle(const SourcePtr& source, const std::string& where);
  void bare_pickles(const SourcePtr& source, const std::string& where);
  void legacy_stream(const SourcePtr& source, const std::string& where);
  bool text_with_symbols(const SourcePtr& source, const std::string& where);

  // scan_archive.cpp
  std::string zip(const SourcePtr& source, const std::string& where);
  std::string tar(const SourcePtr& source, const std::string& where);
  void torch_members(const ZipArchive& archive, const std::string& root, const std::string& where, bool script);
  void torch_tar(const SourcePtr& source, const std::string& where);
  void member(const ZipArchive& archive, const ZipMember& member, const std::string& where);
  SourcePtr member_bytes(const ZipArchive& archive, const ZipMember& member, const std::string& where);
  void salvage(const SourcePtr& source, const std::string& where);
  void salvage_record(const SourcePtr& source, std::uint64_t at, const std::string& where);

  // scan_code.cpp
  void npy(const SourcePtr& source, const std::string& where);
  void gguf(const SourcePtr& source, const std::string& where);
  void hdf5(const SourcePtr& source, const std::string& where);
  void json(const SourcePtr& source, const std::string& where);

  const Limits& limits_;
  Budget& budget_;
  ScanResult& result_;
  int depth_ = 0;
};

}  // namespace ckpt::detail
