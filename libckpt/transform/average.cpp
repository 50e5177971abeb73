#include "libckpt/transform/average.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "libckpt/io/checksum.h"
#include "libckpt/io/unit_source.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/compared_models.h"
#include "libckpt/transform/entry_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using detail::ComparedModel;

constexpr std::uint64_t kAveragedBlock = 1 << 15;  ///< elements computed at a time

/// result = sum of factors[i] * x[i], then divided by `divisor`. A moving average is such a sum too, but is computed
/// step by step as its definition says.
struct Recipe {
  std::vector<double> factors;
  double divisor = 1;
  double decay = 0;
};

Recipe recipe_of(const AverageOptions& options, std::size_t count) {
  if (count < 2) throw Error(ErrorCode::usage, "an average needs two checkpoints or more");
  if (!options.weights.empty() && options.weights.size() != count) {
    throw Error(ErrorCode::usage, core::format_count(options.weights.size()) + " weights were given for " +
                                      core::format_count(count) + " checkpoints");
  }
  bool decays = options.ema_decay != 0;
  if (decays && !options.weights.empty()) throw Error(ErrorCode::usage, "give either weights or a decay, not both");
  if (!(options.ema_decay >= 0 && options.ema_decay < 1)) {
    throw Error(ErrorCode::usage, "the decay " + core::python_float(options.ema_decay) + " is not between 0 and 1");
  }
  Recipe recipe{options.weights, 0, options.ema_decay};
  if (recipe.factors.empty()) recipe.factors.assign(count, 1);
  for (double weight : recipe.factors) {
    if (!(weight >= 0) || !std::isfinite(weight)) {
      throw Error(ErrorCode::usage, "the weight " + core::python_float(weight) + " is not a positive number");
    }
    recipe.divisor += weight;
  }
  if (recipe.divisor == 0) throw Error(ErrorCode::usage, "all weights are 0");
  return recipe;
}

/// Computes elements of the average when they are read.
class AverageSource final : public detail::UnitSource {
 public:
  AverageSource(std::vector<SourcePtr> parts, std::vector<std::string> files, DType dtype, Recipe recipe)
      : UnitSource(parts.front()->size() * 8 / static_cast<std::uint64_t>(core::bit_width(dtype)),
                   static_cast<std::uint64_t>(core::bit_width(dtype)) / 8, kAveragedBlock),
        parts_(std::move(parts)),
        files_(std::move(files)),
        dtype_(dtype),
        wide_(core::is_complex(dtype) ? DType::c128 : DType::f64),
        recipe_(std::move(recipe)) {}

  void require_unchanged() const override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      core::with_context(files_[i], [&] { parts_[i]->require_unchanged(); });
    }
  }
  void visit_checked(const CheckedVisitor& see) const override {
    for (const SourcePtr& part : parts_) part->visit_checked(see);
  }

 private:
  void compute(std::uint64_t first, MutableBytes narrow) const override {
    std::uint64_t count = narrow.size() / unit();
    std::size_t doubles = count * (wide_ == DType::c128 ? 2 : 1);
    std::vector<double> sum(doubles);
    std::vector<double> values(doubles);
    core::ByteVector raw(narrow.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      core::with_context(files_[i], [&] { parts_[i]->read(first * unit(), raw); });
      cast_values(raw, dtype_, std::as_writable_bytes(std::span(values)), wide_);
      add(i, values, sum);
    }
    if (recipe_.decay == 0) {
      for (double& value : sum) value /= recipe_.divisor;
    }
    cast_values(std::as_bytes(std::span(sum)), wide_, narrow, dtype_);
  }

  void add(std::size_t i, const std::vector<double>& values, std::vector<double>& sum) const {
    if (i == 0 && (recipe_.decay != 0 || recipe_.factors[0] == 1)) {
      sum = values;
    } else if (recipe_.decay != 0) {
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] = recipe_.decay * sum[k] + (1 - recipe_.decay) * values[k];
    } else if (recipe_.factors[i] != 0) {  // a file that counts nothing cannot spoil the sum with its NaN
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += recipe_.factors[i] * values[k];
    }
  }

  std::vector<SourcePtr> parts_;
  std::vector<std::string> files_;  ///< that they come from, for messages
  DType dtype_;
  DType wide_;
  Recipe recipe_;
};

bool same_bytes(const Entry& a, const Entry& b) {
  if (!a.bytes || !b.bytes) return a.bytes == b.bytes;
  if (a.byte_size() != b.byte_size()) return false;
  return hash128(*a.bytes) == hash128(*b.bytes);
}

bool is_norm_buffer(std::string_view name) {
  std::string_view last = name.substr(name.rfind('.') + 1);
  return last == "running_mean" || last == "running_var";
}

class Averager {
 public:
  Averager(const std::vector<ComparedModel>& models, Recipe recipe, AverageReport& report)
      : models_(models), recipe_(std::move(recipe)), report_(report) {}

  Value run() {
    for (const NamedEntry& named : models_.front().entries) look_at(named);
    return replaced_.apply(*models_.front().value);
  }

 private:
  void look_at(const NamedEntry& named) {
    std::vector<const Entry*> parts;
    for (const ComparedModel& model : models_)
      parts.push_back(model.by_name.at(named.name)->bytes ? model.by_name.at(named.name) : nullptr);
    DType dtype = named.entry->dtype;
    bool number = core::is_floating(dtype) || core::is_complex(dtype);
    if (std::find(parts.begin(), parts.end(), nullptr) != parts.end()) return;  // meta tensors have no values
    if (!number) return take_agreed(named, parts);
    if (!can_cast(dtype)) {
      throw Error(ErrorCode::unsupported, core::quote(named.name) + " holds " + std::string(core::name(dtype)) +
                                              " values, which cannot be averaged");
    }
    ++report_.averaged;
    if (is_norm_buffer(named.name)) report_.norm_buffers.push_back(named.name);
    auto entry = std::make_shared<Entry>(*named.entry);
    entry->view.reset();
    entry->bytes = average_of(parts);
    replaced_.replace(named.entry, std::move(entry));
  }

  /// Names that are tied in all checkpoints share their average.
  SourcePtr average_of(const std::vector<const Entry*>& parts) {
    std::vector<const ByteSource*> key;
    std::vector<SourcePtr> sources;
    for (const Entry* part : parts) {
      key.push_back(part->bytes.get());
      sources.push_back(part->bytes);
    }
    SourcePtr& known = sources_[key];
    if (known == nullptr) {
      std::vector<std::string> files;
      for (const ComparedModel& model : models_) files.push_back(model.file);
      known = std::make_shared<AverageSource>(std::move(sources), std::move(files), parts.front()->dtype, recipe_);
    }
    return known;
  }

  void take_agreed(const NamedEntry& named, const std::vector<const Entry*>& parts) {
    bool agreed =
        std::all_of(parts.begin(), parts.end(), [&](const Entry* e) { return same_bytes(*e, *parts.front()); });
    if (agreed) {
      ++report_.equal;
      return;
    }
    report_.taken_last.push_back(named.name);
    auto entry = std::make_shared<Entry>(*named.entry);
    entry->view.reset();
    entry->bytes = parts.back()->bytes;
    replaced_.replace(named.entry, std::move(entry));
  }

  const std::vector<ComparedModel>& models_;
  Recipe recipe_;
  AverageReport& report_;
  detail::EntryReplacements replaced_;
  std::map<std::vector<const ByteSource*>, SourcePtr> sources_;
};

}  // namespace

Checkpoint average(const std::vector<Checkpoint>& checkpoints, const AverageOptions& options, AverageReport* report) {
  Recipe recipe = recipe_of(options, checkpoints.size());
  const std::vector<ComparedModel> models = detail::same_models(checkpoints, options.at);
  AverageReport noted;
  noted.checkpoints = checkpoints.size();
  Checkpoint out;
  out.format = checkpoints.front().format;
  out.metadata = checkpoints.front().metadata;
  out.root = Averager(models, std::move(recipe), noted).run();
  if (report != nullptr) *report = std::move(noted);
  return out;
}

}  // namespace ckpt
