#include "libckpt/format/deepspeed/zero_files.h"

#include <algorithm>

#include "libckpt/format/corrupt.h"
#include "libckpt/format/torch_part.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kRank = "zero_pp_rank_";
constexpr std::string_view kOptimizer = "_mp_rank_00_optim_states.pt";
constexpr std::string_view kModel = "_mp_rank_00_model_states.pt";
constexpr const char* kOneModel = "mp_rank_00_model_states.pt";
constexpr std::int64_t kMostRanks = 65'536;
constexpr std::size_t kMostNamed = 4;

/// A number, or an enumeration around one.
std::int64_t integer_of(const Value& value) {
  if (value.is(Value::Kind::integer)) return value.as_integer();
  if (value.is(Value::Kind::object) && value.as_object().args.is(Value::Kind::tuple)) {
    for (const Value& argument : value.as_object().args.as_list()) {
      if (argument.is(Value::Kind::integer)) return argument.as_integer();
    }
  }
  corrupt("a number of the checkpoint is none");
}

/// How many processes wrote it. ZeRO-2 counts for every group of parameters.
std::int64_t process_count(const Value& optimizer) {
  const Value& count = required(optimizer, "partition_count");
  std::int64_t most = 0;
  if (!count.is(Value::Kind::list)) most = integer_of(count);
  if (count.is(Value::Kind::list)) {
    for (const Value& one : count.as_list()) most = std::max(most, integer_of(one));
  }
  if (most < 1 || most > kMostRanks)
    corrupt("the checkpoint says that " + std::to_string(most) + " processes wrote it");
  return most;
}

void require_all(const std::filesystem::path& folder, const std::vector<std::string>& names, std::int64_t count) {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / name, ignored)) missing.push_back(core::quote(name));
  }
  if (missing.empty()) return;
  const std::size_t more = missing.size() > kMostNamed ? missing.size() - kMostNamed : 0;
  missing.resize(missing.size() - more);
  corrupt("this ZeRO checkpoint of DeepSpeed was written by " + std::to_string(count) +
          (count == 1 ? " process" : " processes") + ", and a part of it is missing: " + core::join(missing, ", ") +
          (more > 0 ? " and " + std::to_string(more) + " more" : "") + "; copy that too");
}

class FilesReader {
 public:
  FilesReader(const Input& input, const OpenOptions& options) : input_(input), options_(options) {}

  ZeroFiles run(const ZeroName& name) {
    const std::string first = input_.path.filename().string();
    Value known = required(read(first), "optimizer_state_dict");
    out_.stage = core::with_context(core::quote(first), [&] { return integer_of(required(known, "zero_stage")); });
    if (out_.stage < 1 || out_.stage > 3) corrupt("this is a checkpoint of ZeRO stage " + std::to_string(out_.stage));
    const std::int64_t count = process_count(known);
    std::vector<std::string> optimizers;
    for (std::int64_t rank = 0; rank < count; ++rank) optimizers.push_back(name.of(static_cast<std::uint64_t>(rank)));
    std::vector<std::string> models = model_names(count);
    out_.names = optimizers;
    out_.names.insert(out_.names.end(), models.begin(), models.end());
    require_all(input_.path.parent_path(), out_.names, count);
    refuse_more(name, count);
    for (const std::string& file : optimizers) {
      out_.optimizers.push_back(file == first ? known : required(read(file), "optimizer_state_dict"));
    }
    for (const std::string& file : models) out_.models.push_back(read(file));
    return std::move(out_);
  }

 private:
  std::vector<std::string> model_names(std::int64_t count) const {
    if (out_.stage < 3) return {kOneModel};
    std::vector<std::string> names;
    for (std::int64_t rank = 0; rank < count; ++rank) {
      names.push_back(std::string(kRank) + std::to_string(rank) + std::string(kModel));
    }
    return names;
  }

  /// Files of an older run with more processes would belong to nothing.
  void refuse_more(const ZeroName& name, std::int64_t count) const {
    std::string next = name.of(static_cast<std::uint64_t>(count));
    std::error_code ignored;
    if (!std::filesystem::exists(input_.path.parent_path() / next, ignored)) return;
    corrupt("this ZeRO checkpoint was written by " + std::to_string(count) + " processes, and " + core::quote(next) +
            " is of one more; an older checkpoint lies in the same folder");
  }

  Value read(const std::string& name) const {
    return read_torch_part(input_, input_.path.parent_path(), name, options_);
  }

  const Input& input_;
  const OpenOptions& options_;
  ZeroFiles out_;
};

}  // namespace

std::optional<ZeroName> zero_name(const std::string& file) {
  std::size_t at = file.find(kRank);
  if (at == std::string::npos || !file.ends_with(kOptimizer)) return std::nullopt;
  std::size_t digits = at + kRank.size();
  std::string rank = file.substr(digits, file.size() - kOptimizer.size() - digits);
  bool number = !rank.empty() && rank.size() < 8 && rank.find_first_not_of("0123456789") == std::string::npos;
  if (!number) return std::nullopt;
  return ZeroName{file.substr(0, digits), std::string(kOptimizer)};
}

const Value& required(const Value& dict, std::string_view key) {
  const Value* found = dict.is(Value::Kind::dict) ? dict.find(key) : nullptr;
  if (found == nullptr)
    corrupt("it has no " + core::quote(key) + ", so it is no part of a ZeRO checkpoint of DeepSpeed");
  return *found;
}

ZeroFiles read_zero_files(const Input& input, const OpenOptions& options) {
  std::optional<ZeroName> name = zero_name(input.path.filename().string());
  if (!name) corrupt("its name is none that DeepSpeed gives");
  return FilesReader(input, options).run(*name);
}

}  // namespace ckpt::detail
