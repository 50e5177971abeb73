#include "libckpt/format/megatron/megatron_files.h"

#include <algorithm>
#include <array>
#include <compare>
#include <map>

#include "libckpt/format/corrupt.h"
#include "libckpt/format/torch_part.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRank = "mp_rank_";
/// The second without its optimizer, which another file holds.
constexpr std::array<const char*, 2> kFiles = {"model_optim_rng.pt", "model_rng.pt"};
constexpr std::size_t kMostNamed = 4;

const Value* find_in_arguments(const Value& root, std::string_view name) {
  const Value* arguments = root.find("args");
  if (arguments == nullptr) return nullptr;
  if (arguments->is(Value::Kind::object)) arguments = &arguments->as_object().state;
  return arguments->is(Value::Kind::dict) ? arguments->find(name) : nullptr;
}

std::string two_digits(std::size_t rank) {
  return (rank < 10 ? "0" : "") + std::to_string(rank);
}

std::string three_digits(std::size_t rank) {
  return (rank < 100 ? "0" : "") + two_digits(rank);
}

struct Place {
  std::size_t tensor = 0;
  std::size_t stage = 0;
  std::size_t expert = 0;

  auto operator<=>(const Place&) const = default;
};

class FilesReader {
 public:
  FilesReader(const Input& input, const OpenOptions& options)
      : input_(input), options_(options), folder_(input.path.parent_path().parent_path()) {}

  MegatronFiles run() {
    const std::vector<MegatronRank> found = list_megatron_ranks(folder_);
    const std::string first = input_.path.parent_path().filename().string() + "/" + input_.path.filename().string();
    out_.roots.push_back(read_torch_part(input_, folder_, first, options_));
    count_ranks(found);
    require_all(found);
    const Value known = out_.roots[0];
    out_.roots.clear();
    for (const std::string& name : out_.names) {
      out_.roots.push_back(name == first ? known : read_torch_part(input_, folder_, name, options_));
    }
    const Value* version = out_.roots[0].find("checkpoint_version");
    if (version != nullptr && version->is(Value::Kind::real)) out_.version = version->as_real();
    if (version != nullptr && version->is(Value::Kind::integer)) {
      out_.version = static_cast<double>(version->as_integer());
    }
    return std::move(out_);
  }

 private:
  /// Two numbers are of tensor parallelism and the pipeline, or of tensor parallelism and experts where there is no
  /// pipeline, which the command line says.
  Place place_of(const MegatronRank& rank) const {
    const std::vector<std::size_t>& ranks = rank.ranks;
    if (ranks.size() > 2) return {ranks[0], ranks[1], ranks[2]};
    if (ranks.size() < 2) return {ranks[0], 0, 0};
    const bool experts =
        out_.number("expert_model_parallel_size") > 1 && out_.number("pipeline_model_parallel_size") < 2;
    return experts ? Place{ranks[0], 0, ranks[1]} : Place{ranks[0], ranks[1], 0};
  }

  /// As the command line said, else as the folder shows.
  void count_ranks(const std::vector<MegatronRank>& found) {
    for (const MegatronRank& rank : found) {
      const Place place = place_of(rank);
      out_.tensor = std::max(out_.tensor, place.tensor + 1);
      out_.stages = std::max(out_.stages, place.stage + 1);
      out_.experts = std::max(out_.experts, place.expert + 1);
    }
    std::uint64_t tensor = out_.number("tensor_model_parallel_size");
    if (tensor == 0) tensor = out_.number("model_parallel_size");
    const std::uint64_t stages = out_.number("pipeline_model_parallel_size");
    const std::uint64_t experts = out_.number("expert_model_parallel_size");
    if ((tensor > 0 && tensor < out_.tensor) || (stages > 0 && stages < out_.stages) ||
        (experts > 0 && experts < out_.experts)) {
      corrupt("this Megatron checkpoint says that " + std::to_string(tensor) + " x " + std::to_string(stages) +
              (experts > 1 ? " x " + std::to_string(experts) : "") +
              " ranks wrote it, and the folder holds files of more; an older checkpoint lies in the same folder");
    }
    constexpr std::uint64_t kMost = 65536;
    if (tensor > kMost || stages > kMost || experts > kMost ||
        tensor * stages * std::max<std::uint64_t>(experts, 1) > kMost) {
      corrupt("the checkpoint says that an impossible number of ranks wrote it");
    }
    out_.tensor = std::max<std::size_t>(out_.tensor, tensor);
    out_.stages = std::max<std::size_t>(out_.stages, stages);
    out_.experts = std::max<std::size_t>(out_.experts, experts);
  }

  void require_all(const std::vector<MegatronRank>& found) {
    const auto longest = std::ranges::max(found, {}, [](const MegatronRank& rank) { return rank.ranks.size(); });
    const std::size_t numbers = longest.ranks.size();
    if (out_.stages > 1 && numbers < 2) corrupt("the checkpoint says that it has stages, and its folders have none");
    if (out_.experts > 1 && numbers < (out_.stages > 1 ? 3U : 2U)) {
      corrupt("the checkpoint says that its experts are spread over ranks, and its folders have no number for that");
    }
    std::map<Place, std::string> files;
    for (const MegatronRank& rank : found) files.emplace(place_of(rank), rank.file);
    std::vector<std::string> missing;
    std::size_t more = 0;
    for (std::size_t i = 0; i < out_.tensor * out_.stages * out_.experts; ++i) {
      const Place place = {i % out_.tensor, i / out_.tensor % out_.stages, i / out_.tensor / out_.stages};
      auto at = files.find(place);
      if (at != files.end()) {
        out_.names.push_back(at->second);
      } else if (missing.size() == kMostNamed) {
        ++more;
      } else {
        missing.push_back(core::quote(name_of(place, numbers)));
      }
    }
    if (missing.empty()) return;
    corrupt("this Megatron checkpoint was written by " + std::to_string(out_.tensor * out_.stages * out_.experts) +
            " ranks, and a part of it is missing: " + core::join(missing, ", ") +
            (more > 0 ? " and " + std::to_string(more) + " more" : "") + "; copy that too");
  }

  std::string name_of(const Place& place, std::size_t numbers) const {
    std::string name = std::string(kRank) + two_digits(place.tensor);
    if (numbers > 2 || (numbers > 1 && out_.experts == 1)) name += "_" + three_digits(place.stage);
    if (numbers > 2 || (numbers > 1 && out_.experts > 1)) name += "_" + three_digits(place.expert);
    return name + "/" + kFiles[0];
  }

  const Input& input_;
  const OpenOptions& options_;
  fs::path folder_;
  MegatronFiles out_;
};

}  // namespace

std::optional<std::vector<std::size_t>> megatron_ranks(const std::string& folder) {
  if (!folder.starts_with(kRank)) return std::nullopt;
  std::vector<std::size_t> ranks;
  for (std::string_view part : core::split(std::string_view(folder).substr(kRank.size()), '_')) {
    const bool number = !part.empty() && part.size() < 6 && part.find_first_not_of("0123456789") == std::string::npos;
    if (!number) return std::nullopt;
    ranks.push_back(std::stoul(std::string(part)));
  }
  if (ranks.size() > 3) return std::nullopt;
  return ranks;
}

std::vector<MegatronRank> list_megatron_ranks(const fs::path& folder) {
  std::vector<MegatronRank> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::optional<std::vector<std::size_t>> ranks = megatron_ranks(name);
    if (!ranks) continue;
    for (const char* file : kFiles) {
      std::error_code ignored;
      if (!fs::exists(at->path() / file, ignored)) continue;
      out.push_back({name + "/" + file, *ranks});
      break;
    }
  }
  std::ranges::sort(out, {}, &MegatronRank::file);
  return out;
}

const Value* MegatronFiles::find_argument(std::string_view name) const {
  return roots.empty() ? nullptr : find_in_arguments(roots[0], name);
}

std::uint64_t MegatronFiles::number(std::string_view name) const {
  const Value* found = find_argument(name);
  const bool counts = found != nullptr && found->is(Value::Kind::integer) && found->as_integer() > 0;
  return counts ? static_cast<std::uint64_t>(found->as_integer()) : 0;
}

MegatronFiles read_megatron_files(const Input& input, const OpenOptions& options) {
  return FilesReader(input, options).run();
}

}  // namespace ckpt::detail
