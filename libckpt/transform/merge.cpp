#include "libckpt/transform/merge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

#include "libckpt/io/unit_source.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/compared_models.h"
#include "libckpt/transform/entry_map.h"
#include "libckpt/transform/same_values.h"
#include "libckpt/transform/sparse_difference.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using detail::ComparedModel;
using detail::Kept;

constexpr std::uint64_t kMergedBlock = 1 << 16;  ///< elements computed at a time
constexpr double kStraight = 0.9995;             ///< cosine from which an arc is a line
constexpr double kNoNorm = 1e-8;
constexpr double kNoWeight = 1e-8;

constexpr std::array<std::pair<MergeMethod, std::string_view>, 6> kMethods = {
    {{MergeMethod::linear, "linear"},
     {MergeMethod::slerp, "slerp"},
     {MergeMethod::task_arithmetic, "task-arithmetic"},
     {MergeMethod::ties, "ties"},
     {MergeMethod::dare_linear, "dare-linear"},
     {MergeMethod::dare_ties, "dare-ties"}}};

bool by_sign(MergeMethod method) {
  return method == MergeMethod::ties || method == MergeMethod::dare_ties;
}

bool by_chance(MergeMethod method) {
  return method == MergeMethod::dare_linear || method == MergeMethod::dare_ties;
}

/// The options with one weight and one density a model.
struct MergeSettings {
  MergeMethod method;
  std::vector<double> weights;
  std::vector<double> densities;
  double t;
  double lambda;
  bool normalize;
  bool rescale;
  std::uint64_t seed;
};

std::vector<double> one_a_model(const std::vector<double>& given, std::size_t models, std::string_view what) {
  if (given.empty()) return std::vector<double>(models, 1);
  if (given.size() == 1) return std::vector<double>(models, given.front());
  if (given.size() != models) {
    throw Error(ErrorCode::usage, core::format_count(given.size()) + " " + std::string(what) + " were given for " +
                                      core::format_count(models) + " models");
  }
  return given;
}

void require_numbers(const MergeSettings& settings, const MergeOptions& options) {
  for (double weight : settings.weights) {
    if (!std::isfinite(weight)) throw Error(ErrorCode::usage, "a weight is not a finite number");
  }
  for (double density : settings.densities) {
    if (!(density >= 0 && density <= 1)) {
      throw Error(ErrorCode::usage, "the density " + core::python_float(density) + " is not between 0 and 1");
    }
  }
  if (!std::isfinite(options.t) || !std::isfinite(options.lambda)) {
    throw Error(ErrorCode::usage, "t or lambda is not a finite number");
  }
  double sum = 0;
  for (double weight : settings.weights) sum += weight;
  if (settings.method == MergeMethod::linear && settings.normalize && std::abs(sum) < kNoWeight) {
    throw Error(ErrorCode::usage, "the weights add up to 0");
  }
}

MergeSettings settings_of(const MergeOptions& options, std::size_t checkpoints) {
  const MergeMethod method = options.method;
  const std::size_t least = method == MergeMethod::linear || method == MergeMethod::slerp ? 2 : 1;
  const std::size_t models = checkpoints - (has_base(method) && checkpoints > 0 ? 1 : 0);
  if (models < least || (method == MergeMethod::slerp && models != 2)) {
    throw Error(ErrorCode::usage, std::string(name(method)) + " takes " +
                                      (method == MergeMethod::slerp ? "two models"
                                       : least == 2                 ? "two models or more"
                                                                    : "a base and a model or more") +
                                      ", not " + core::format_count(models));
  }
  MergeSettings settings{
      .method = method,
      .weights = one_a_model(options.weights, models, "weights"),
      .densities = one_a_model(options.densities, models, "densities"),
      .t = options.t,
      .lambda = options.lambda,
      .normalize = options.normalize.value_or(method == MergeMethod::linear || method == MergeMethod::ties),
      .rescale = options.rescale.value_or(by_chance(method)),
      .seed = options.seed};
  require_numbers(settings, options);
  return settings;
}

/// The tensors that one merged tensor comes from; the base is the first, where the method has one.
struct MergeParts {
  std::vector<SourcePtr> sources;
  std::vector<std::string> files;  ///< for messages
  std::string name;
  DType dtype;
};

/// Computes elements of the merged tensor when they are read.
template <class T>
class MergedValues final : public detail::UnitSource {
 public:
  MergedValues(MergeParts parts, std::shared_ptr<const MergeSettings> settings)
      : UnitSource(parts.sources.front()->size() * 8 / static_cast<std::uint64_t>(core::bit_width(parts.dtype)),
                   static_cast<std::uint64_t>(core::bit_width(parts.dtype)) / 8, kMergedBlock),
        parts_(std::move(parts)),
        settings_(std::move(settings)) {}

  void require_unchanged() const override {
    for (std::size_t i = 0; i < parts_.sources.size(); ++i) {
      core::with_context(parts_.files[i], [&] { parts_.sources[i]->require_unchanged(); });
    }
  }
  void visit_checked(const CheckedVisitor& see) const override {
    for (const SourcePtr& part : parts_.sources) part->visit_checked(see);
  }

 private:
  static constexpr DType kWide = sizeof(T) == 8 ? DType::f64 : DType::f32;

  std::vector<T> values(std::size_t part, std::uint64_t first, std::uint64_t count) const {
    core::ByteVector raw(count * unit());
    core::with_context(parts_.files[part], [&] { parts_.sources[part]->read(first * unit(), raw); });
    std::vector<T> wide(count);
    cast_values(raw, parts_.dtype, std::as_writable_bytes(std::span(wide)), kWide);
    return wide;
  }

  template <class Take>
  void for_each_block(Take take) const {
    for (std::uint64_t first = 0; first < count(); first += kMergedBlock) {
      take(first, std::min(kMergedBlock, count() - first));
    }
  }

  /// What the method needs to know of the tensor before its first element can be computed.
  void look_at_whole() const {
    if (settings_->method == MergeMethod::slerp) {
      find_arc();
    } else if (by_chance(settings_->method) || settings_->method == MergeMethod::ties) {
      for (std::size_t model = 0; model < settings_->weights.size(); ++model) kept_.push_back(kept_of(model));
    }
  }

  Kept kept_of(std::size_t model) const {
    const detail::ForEachPiece pieces = [&](const auto& take) {
      for_each_block([&](std::uint64_t first, std::uint64_t count) {
        const std::vector<T> base = values(0, first, count);
        const std::vector<T> other = values(model + 1, first, count);
        std::vector<float> difference(count);
        for (std::size_t i = 0; i < count; ++i) difference[i] = static_cast<float>(other[i] - base[i]);
        take(first, difference);
      });
    };
    const double density = settings_->densities[model];
    if (settings_->method == MergeMethod::ties) {
      return detail::largest_values(count(), density, settings_->rescale, pieces);
    }
    return detail::values_by_chance(detail::chance_key(settings_->seed, parts_.name, model), density,
                                    settings_->rescale, pieces);
  }

  /// The factors of the two ends.
  void find_arc() const {
    double square_a = 0, square_b = 0, product = 0;
    for_each_block([&](std::uint64_t first, std::uint64_t count) {
      const std::vector<T> a = values(0, first, count);
      const std::vector<T> b = values(1, first, count);
      for (std::size_t i = 0; i < count; ++i) {
        square_a += static_cast<double>(a[i]) * static_cast<double>(a[i]);
        square_b += static_cast<double>(b[i]) * static_cast<double>(b[i]);
        product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
      }
    });
    auto norm = [](double square) { return std::sqrt(square) > kNoNorm ? std::sqrt(square) : 1; };
    const double cosine = std::clamp(product / norm(square_a) / norm(square_b), -1.0, 1.0);
    const double t = settings_->t;
    if (std::abs(cosine) > kStraight) {
      ends_ = {static_cast<T>(1 - t), static_cast<T>(t)};
      return;
    }
    const double angle = std::acos(cosine);
    ends_ = {static_cast<T>(std::sin((1 - t) * angle) / std::sin(angle)),
             static_cast<T>(std::sin(t * angle) / std::sin(angle))};
  }

  void compute(std::uint64_t first, MutableBytes narrow) const override {
    std::call_once(looked_, [&] { look_at_whole(); });
    const std::uint64_t count = narrow.size() / unit();
    std::vector<std::vector<T>> parts;
    for (std::size_t i = 0; i < parts_.sources.size(); ++i) parts.push_back(values(i, first, count));
    std::vector<T> merged(count);
    if (has_base(settings_->method)) {
      add_differences(first, parts, merged);
    } else {
      add_weighted(parts, merged);
    }
    cast_values(std::as_bytes(std::span(merged)), kWide, narrow, parts_.dtype);
  }

  void add_weighted(const std::vector<std::vector<T>>& parts, std::vector<T>& merged) const {
    const bool arc = settings_->method == MergeMethod::slerp;
    T sum = 0;
    for (std::size_t m = 0; m < parts.size(); ++m) {
      const T weight = arc ? ends_[m] : static_cast<T>(settings_->weights[m]);
      sum += weight;
      for (std::size_t i = 0; i < merged.size(); ++i) merged[i] += parts[m][i] * weight;
    }
    if (arc || !settings_->normalize) return;
    for (T& value : merged) value /= sum;
  }

  /// The weighted difference of a model at an element.
  T difference(std::size_t model, std::uint64_t index, T base, T other) const {
    T off = other - base;
    if (!kept_.empty()) {
      const Kept& kept = kept_[model];
      off = kept.has(static_cast<float>(off), index) ? off * static_cast<T>(kept.scale) : T(0);
    }
    return off * static_cast<T>(settings_->weights[model]);
  }

  void add_differences(std::uint64_t first, const std::vector<std::vector<T>>& parts, std::vector<T>& merged) const {
    const std::size_t models = parts.size() - 1;
    T all_weights = 0;
    for (double weight : settings_->weights) all_weights += static_cast<T>(weight);
    std::vector<T> off(models);
    for (std::size_t i = 0; i < merged.size(); ++i) {
      T sum = 0;
      for (std::size_t m = 0; m < models; ++m) {
        off[m] = difference(m, first + i, parts[0][i], parts[m + 1][i]);
        sum += off[m];
      }
      T divisor = std::abs(all_weights) < T(kNoWeight) ? T(1) : all_weights;
      if (by_sign(settings_->method)) sum = agreed(off, sum, divisor);
      if (settings_->normalize) sum /= divisor;
      merged[i] = parts[0][i] + sum * static_cast<T>(settings_->lambda);
    }
  }

  /// The sum of those with the sign of the whole sum; `divisor` becomes the sum of their weights.
  T agreed(const std::vector<T>& off, T sum, T& divisor) const {
    T agreed = 0;
    divisor = 0;
    for (std::size_t m = 0; m < off.size(); ++m) {
      const bool agrees = sum >= 0 ? off[m] > 0 : off[m] < 0;
      if (!agrees) continue;
      agreed += off[m];
      divisor += static_cast<T>(settings_->weights[m]);
    }
    if (divisor == 0) divisor = 1;
    return agreed;
  }

  MergeParts parts_;
  std::shared_ptr<const MergeSettings> settings_;
  mutable std::once_flag looked_;
  mutable std::vector<Kept> kept_;  ///< one a model; empty for methods that keep all values
  mutable std::array<T, 2> ends_{};
};

class ModelMerger {
 public:
  ModelMerger(const std::vector<ComparedModel>& models, MergeSettings settings, MergeReport& report)
      : models_(models), settings_(std::make_shared<MergeSettings>(std::move(settings))), report_(report) {}

  Value run() {
    for (const NamedEntry& named : models_.front().entries) look_at(named);
    return replaced_.apply(*models_.front().value);
  }

 private:
  void look_at(const NamedEntry& named) {
    MergeParts parts{.sources = {}, .files = {}, .name = named.name, .dtype = named.entry->dtype};
    bool equal = true;
    for (const ComparedModel& model : models_) {
      const Entry& entry = *model.by_name.at(named.name);
      if (entry.bytes == nullptr) return;  // a meta tensor has no values
      parts.sources.push_back(entry.bytes);
      parts.files.push_back(model.file);
    }
    if (!core::is_floating(parts.dtype)) {
      for (const ComparedModel& model : models_) {
        equal = equal && detail::same_values(*named.entry, *model.by_name.at(named.name));
      }
      equal ? static_cast<void>(++report_.equal) : report_.taken_first.push_back(named.name);
      return;
    }
    if (!can_cast(parts.dtype) || named.entry->blocks) {
      throw Error(ErrorCode::unsupported,
                  core::quote(named.name) + " holds " + type_name(*named.entry) + " values, which cannot be merged");
    }
    ++report_.merged;
    auto entry = std::make_shared<Entry>(*named.entry);
    entry->view.reset();
    entry->bytes = merged(std::move(parts));
    replaced_.replace(named.entry, std::move(entry));
  }

  /// Names that are tied in all checkpoints share their merged tensor.
  SourcePtr merged(MergeParts parts) {
    std::vector<const ByteSource*> key;
    for (const SourcePtr& source : parts.sources) key.push_back(source.get());
    SourcePtr& known = sources_[key];
    if (known == nullptr) {
      known = parts.dtype == DType::f64 ? SourcePtr(std::make_shared<MergedValues<double>>(std::move(parts), settings_))
                                        : SourcePtr(std::make_shared<MergedValues<float>>(std::move(parts), settings_));
    }
    return known;
  }

  const std::vector<ComparedModel>& models_;
  std::shared_ptr<const MergeSettings> settings_;
  MergeReport& report_;
  detail::EntryReplacements replaced_;
  std::map<std::vector<const ByteSource*>, SourcePtr> sources_;
};

}  // namespace

std::optional<MergeMethod> parse_merge_method(std::string_view name) {
  auto found = std::ranges::find(kMethods, name, [](const auto& row) { return row.second; });
  return found == kMethods.end() ? std::nullopt : std::optional(found->first);
}

std::string_view name(MergeMethod method) {
  return std::ranges::find(kMethods, method, [](const auto& row) { return row.first; })->second;
}

bool has_base(MergeMethod method) {
  return method != MergeMethod::linear && method != MergeMethod::slerp;
}

Checkpoint merge(const std::vector<Checkpoint>& checkpoints, const MergeOptions& options, MergeReport* report) {
  MergeSettings settings = settings_of(options, checkpoints.size());
  const std::vector<ComparedModel> models = detail::same_models(checkpoints, options.at);
  MergeReport noted;
  Checkpoint out;
  out.format = checkpoints.front().format;
  out.metadata = checkpoints.front().metadata;
  out.root = ModelMerger(models, std::move(settings), noted).run();
  if (report != nullptr) *report = std::move(noted);
  return out;
}

}  // namespace ckpt
