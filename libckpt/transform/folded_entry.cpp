#include "libckpt/transform/folded_entry.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "libckpt/io/unit_source.h"
#include "libckpt/transform/cast_values.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kFoldedPiece = 16384;  ///< values computed at once

double value_at(Bytes values, std::size_t i) {
  double value = 0;
  std::memcpy(&value, values.data() + i * sizeof value, sizeof value);
  return value;
}

void set_value(MutableBytes values, std::size_t i, double value) {
  std::memcpy(values.data() + i * sizeof value, &value, sizeof value);
}

/// A tensor's values as f64, with the sign that they mean.
struct Values {
  explicit Values(const Entry& entry)
      : source(cast_source(entry.bytes, entry.dtype, DType::f64)), sign(entry.negative ? -1.0 : 1.0) {}
  SourcePtr source;
  double sign;
};

/// f64: a tensor with one value of `part` worked into each row of `inner` values.
class FoldedSource final : public UnitSource {
 public:
  FoldedSource(Values whole, Values part, std::uint64_t inner, Rule::By by)
      : UnitSource(whole.source->size() / sizeof(double), sizeof(double), kFoldedPiece),
        whole_(std::move(whole)),
        part_(std::move(part)),
        inner_(inner),
        by_(by) {}

  void require_unchanged() const override {
    whole_.source->require_unchanged();
    part_.source->require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override {
    whole_.source->visit_checked(see);
    part_.source->visit_checked(see);
  }

 private:
  void compute(std::uint64_t first, MutableBytes values) const override {
    std::size_t count = values.size() / sizeof(double);
    whole_.source->read(first * sizeof(double), values);
    std::uint64_t row = first / inner_;
    core::ByteVector rows(((first + count - 1) / inner_ - row + 1) * sizeof(double));
    part_.source->read(row * sizeof(double), rows);
    for (std::size_t i = 0; i < count; ++i) {
      double part = part_.sign * value_at(rows, (first + i) / inner_ - row);
      double value = whole_.sign * value_at(values, i);
      set_value(values, i, combined(value, part));
    }
  }

  double combined(double value, double part) const {
    if (by_ == Rule::By::multiply) return value * part;
    return by_ == Rule::By::add ? value + part : value - part;
  }

  Values whole_;
  Values part_;
  std::uint64_t inner_;
  Rule::By by_;
};

/// f64: a number added to every value.
class AddedSource final : public UnitSource {
 public:
  AddedSource(Values values, double number)
      : UnitSource(values.source->size() / sizeof(double), sizeof(double), kFoldedPiece),
        values_(std::move(values)),
        number_(number) {}

  void require_unchanged() const override { values_.source->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { values_.source->visit_checked(see); }

 private:
  void compute(std::uint64_t first, MutableBytes values) const override {
    values_.source->read(first * sizeof(double), values);
    for (std::size_t i = 0; i < values.size() / sizeof(double); ++i) {
      set_value(values, i, values_.sign * value_at(values, i) + number_);
    }
  }

  Values values_;
  double number_;
};

void require_floats(const Entry& entry) {
  if (entry.blocks) {
    throw Error(ErrorCode::unsupported, "quantised blocks of type " + entry.blocks->name + " cannot be changed inside");
  }
  if (core::is_floating(entry.dtype) && can_cast(entry.dtype)) return;
  throw Error(ErrorCode::value,
              "its values are " + std::string(core::name(entry.dtype)) + ", where floating-point numbers are computed");
}

std::int64_t rows_of(const Entry& entry) {
  require_floats(entry);
  if (!entry.shape.empty()) return entry.shape[0];
  throw Error(ErrorCode::value, "a tensor without dimensions has no rows to compute with");
}

/// `entry` with values that are computed as f64; without bytes it is one of shapes alone.
EntryPtr with_values(const Entry& entry, const SourcePtr& f64) {
  Entry out = entry;
  out.view.reset();
  out.negative = false;
  if (f64 != nullptr) out.bytes = cast_source(f64, DType::f64, entry.dtype);
  return std::make_shared<const Entry>(std::move(out));
}

/// f64: one value, again and again.
class FilledSource final : public UnitSource {
 public:
  FilledSource(std::uint64_t count, double value) : UnitSource(count, sizeof(double), kFoldedPiece), value_(value) {}

  void require_unchanged() const override {}
  void visit_checked(const CheckedVisitor&) const override {}

 private:
  void compute(std::uint64_t, MutableBytes values) const override {
    for (std::size_t i = 0; i < values.size() / sizeof(double); ++i) set_value(values, i, value_);
  }

  double value_;
};

core::Shape shape_of(const RuleConstant& constant) {
  if (constant.scalar) return {};
  return {static_cast<std::int64_t>(constant.values.size())};
}

std::string text_of(const std::vector<double>& values, bool scalar) {
  std::vector<std::string> texts;
  for (double value : values) texts.push_back(core::python_float(value));
  return scalar ? texts.at(0) : "[" + core::join(texts, ", ") + "]";
}

std::vector<double> f64_values(const SourcePtr& source, DType dtype) {
  const core::ByteVector bytes = read_all(*cast_source(source, dtype, DType::f64));
  std::vector<double> values(bytes.size() / sizeof(double));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(bytes, i);
  return values;
}

/// Rounding is what a float does; anything else would be another number than the one that was written down.
void require_held(const std::vector<double>& values, const SourcePtr& made, DType dtype) {
  const std::vector<double> held = f64_values(made, dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (core::is_floating(dtype) ? std::isfinite(held[i]) : held[i] == values[i]) continue;
    throw Error(ErrorCode::usage,
                std::string(core::name(dtype)) + " does not hold the value " + core::python_float(values[i]));
  }
}

SourcePtr constant_source(const std::vector<double>& values, DType dtype) {
  core::ByteVector bytes(values.size() * sizeof(double));
  for (std::size_t i = 0; i < values.size(); ++i) set_value(bytes, i, values[i]);
  return cast_source(memory_source(std::move(bytes)), DType::f64, dtype);
}

}  // namespace

EntryPtr folded(const Entry& entry, const Entry& part, Rule::By by) {
  std::int64_t rows = rows_of(entry);
  require_floats(part);
  if (part.shape != core::Shape({rows})) {
    throw Error(ErrorCode::value, "what goes into it has shape " + core::to_list(part.shape) + " where its own " +
                                      core::to_list(entry.shape) + " asks for [" + std::to_string(rows) + "]");
  }
  if (entry.bytes == nullptr || part.bytes == nullptr || entry.numel() == 0) return with_values(entry, nullptr);
  std::uint64_t inner = entry.numel() / static_cast<std::uint64_t>(rows);
  return with_values(entry, std::make_shared<FoldedSource>(Values(entry), Values(part), inner, by));
}

EntryPtr unfolded(const Entry& entry, Rule::By by) {
  std::int64_t rows = rows_of(entry);
  if (static_cast<std::uint64_t>(rows) > entry.numel()) {  // a shape alone could ask for any memory
    throw Error(ErrorCode::value, "a tensor of shape " + core::to_list(entry.shape) + " has no values");
  }
  Entry out;
  out.dtype = entry.dtype;
  out.shape = {rows};
  out.location = entry.location;
  if (entry.bytes != nullptr) {
    auto same = std::make_shared<FilledSource>(static_cast<std::uint64_t>(rows), by == Rule::By::multiply ? 1.0 : 0.0);
    out.bytes = cast_source(same, DType::f64, entry.dtype);
  }
  return std::make_shared<const Entry>(std::move(out));
}

EntryPtr added(const Entry& entry, double number) {
  require_floats(entry);
  if (entry.bytes == nullptr) return with_values(entry, nullptr);
  return with_values(entry, std::make_shared<AddedSource>(Values(entry), number));
}

EntryPtr constant_entry(const RuleConstant& constant, DType dtype) {
  if (!can_cast(dtype)) {
    throw Error(ErrorCode::unsupported, "values of type " + std::string(core::name(dtype)) + " cannot be made");
  }
  Entry out;
  out.dtype = dtype;
  out.shape = shape_of(constant);
  out.bytes = constant_source(constant.values, dtype);
  require_held(constant.values, out.bytes, dtype);
  return std::make_shared<const Entry>(std::move(out));
}

std::string other_values(const Entry& entry, const RuleConstant& constant) {
  const std::string makes = ", and " + text_of(constant.values, constant.scalar) + " is what the way back makes";
  const bool comparable = !entry.blocks && can_cast(entry.dtype) && entry.shape == shape_of(constant);
  if (!comparable) return " had " + type_name(entry) + " values of shape " + core::to_list(value_shape(entry)) + makes;
  if (entry.bytes == nullptr) return "";
  std::vector<double> values = f64_values(entry.bytes, entry.dtype);
  for (double& value : values) value = entry.negative ? -value : value;
  if (values == f64_values(constant_source(constant.values, entry.dtype), entry.dtype)) return "";
  return " had " + text_of(values, constant.scalar) + makes;
}

}  // namespace ckpt::detail
