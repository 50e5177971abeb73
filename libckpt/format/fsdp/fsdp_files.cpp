#include "libckpt/format/fsdp/fsdp_files.h"

#include <algorithm>
#include <array>

#include "libckpt/budget.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/folder.h"
#include "libckpt/format/fsdp/sharded_tensor.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/torch_archive.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMostNamed = 4;

/// What the pickle calls is carried as data; classes of the program beside the weights only where the caller says so.
void require_known(const PickleGraph& graph, const OpenOptions& options) {
  const SymbolRole worst = options.foreign_objects ? SymbolRole::forbidden : SymbolRole::foreign;
  const std::vector<std::string> names = unknown_symbols(graph, worst);
  if (names.empty()) return;
  throw core::Error(core::ErrorCode::refused,
                    "the pickle names " + core::join(names, ", ") +
                        ", which is not plain data; nothing was loaded and nothing was run" +
                        (options.foreign_objects ? "" : "; --foreign-objects keeps such objects as inert data"));
}

class FilesReader {
 public:
  FilesReader(const Input& input, const OpenOptions& options, FsdpName name)
      : input_(input), options_(options), name_(std::move(name)) {}

  FsdpFiles run() {
    FsdpFiles out;
    const Value first = read(name_.of(name_.rank));
    const std::uint64_t count = rank_count(first);
    require_all(count);
    for (std::uint64_t rank = 0; rank < count; ++rank) {
      out.names.push_back(name_.of(rank));
      out.roots.push_back(rank == name_.rank ? first : read(out.names.back()));
      core::with_context(core::quote(out.names.back()), [&] { require_rank(out.roots.back(), rank, count); });
    }
    return out;
  }

 private:
  Value read(const std::string& name) const {
    return core::with_context(core::quote(name), [&] {
      SourcePtr file = open_part(input_.path.parent_path(), name, options_, "the checkpoint");
      if (input_.budget) input_.budget->add_disk(file->size());
      TorchArchive archive = TorchArchive::open(file, options_);
      PickleGraph graph = read_object_pickle(archive, options_);
      require_known(graph, options_);
      OpenOptions quiet = options_;
      quiet.report = nullptr;
      Value root = read_object(archive, graph, quiet, SymbolCheck::carry);
      if (!root.is(Value::Kind::dict)) corrupt("it is not a dict");
      return root;
    });
  }

  /// How many ranks trained it, as its first sharded tensor says.
  std::uint64_t rank_count(const Value& root) const {
    constexpr std::int64_t kMost = 65'536;
    std::optional<RankOf> place = rank_of(root);
    if (!place) corrupt(core::quote(name_.of(name_.rank)) + ": it does not say which rank of how many wrote it");
    if (place->ranks < 1 || place->ranks > kMost) {
      corrupt("the checkpoint says that " + std::to_string(place->ranks) + " ranks wrote it");
    }
    return static_cast<std::uint64_t>(place->ranks);
  }

  static void require_rank(const Value& root, std::uint64_t rank, std::uint64_t count) {
    std::optional<RankOf> place = rank_of(root);
    if (!place ||
        (static_cast<std::uint64_t>(place->rank) == rank && static_cast<std::uint64_t>(place->ranks) == count))
      return;
    corrupt("its name says rank " + std::to_string(rank) + " of " + std::to_string(count) +
            ", and what it holds is of " + "rank " + std::to_string(place->rank) + " of " +
            std::to_string(place->ranks));
  }

  void require_all(std::uint64_t count) const {
    const std::vector<std::string> there = ranks_beside(input_.path.parent_path(), name_);
    std::vector<std::string> missing;
    for (std::uint64_t rank = 0; rank < count; ++rank) {
      if (std::ranges::find(there, name_.of(rank)) == there.end()) missing.push_back(core::quote(name_.of(rank)));
    }
    if (missing.empty() && there.size() > count) {
      corrupt("this FSDP checkpoint was written by " + std::to_string(count) +
              " ranks, and the folder holds files of " + std::to_string(there.size()) +
              "; an older checkpoint lies in the same folder");
    }
    if (missing.empty()) return;
    const std::size_t more = missing.size() > kMostNamed ? missing.size() - kMostNamed : 0;
    missing.resize(missing.size() - more);
    corrupt("this FSDP checkpoint was written by " + std::to_string(count) + (count == 1 ? " rank" : " ranks") +
            ", and a part of it is missing: " + core::join(missing, ", ") +
            (more > 0 ? " and " + std::to_string(more) + " more" : "") + "; copy that too");
  }

  const Input& input_;
  const OpenOptions& options_;
  FsdpName name_;
};

}  // namespace

std::optional<FsdpName> fsdp_name(const std::string& file) {
  constexpr std::array<std::string_view, 4> kEnds = {".pth", ".pt", ".bin", ".ckpt"};
  const std::size_t dot = file.rfind('.');
  if (dot == std::string::npos || std::ranges::find(kEnds, std::string_view(file).substr(dot)) == kEnds.end())
    return {};
  const std::size_t last = file.find_last_not_of("0123456789", dot - 1);
  const std::size_t begin = last == std::string::npos ? 0 : last + 1;
  const std::string digits = dot == 0 ? "" : file.substr(begin, dot - begin);
  if (digits.empty() || digits.size() > 6 || (digits.size() > 1 && digits[0] == '0')) return {};
  return FsdpName{file.substr(0, begin), file.substr(dot), std::stoull(digits)};
}

bool names_shards(const ByteSource& file) {
  constexpr std::uint64_t kLookedAt = 4 << 20;
  constexpr std::string_view kClasses[] = {"torch.distributed._shard.sharded_tensor.api", "\nDTensor\n"};
  core::ByteVector head(std::min(kLookedAt, file.size()));
  file.read(0, head);
  const std::string_view text = core::as_text(head);
  return text.starts_with("PK") && std::ranges::any_of(kClasses, [&](std::string_view name) {
           return text.find(name) != std::string_view::npos;
         });
}

std::vector<std::string> ranks_beside(const std::filesystem::path& folder, const FsdpName& name) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    std::optional<FsdpName> other = fsdp_name(file);
    if (other && other->before == name.before && other->behind == name.behind) found.emplace_back(other->rank, file);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (auto& [rank, file] : found) names.push_back(std::move(file));
  return names;
}

FsdpFiles read_fsdp_files(const Input& input, const OpenOptions& options) {
  std::optional<FsdpName> name = fsdp_name(input.path.filename().string());
  if (!name) corrupt("its name does not say which rank wrote it");
  return FilesReader(input, options, *name).run();
}

}  // namespace ckpt::detail
