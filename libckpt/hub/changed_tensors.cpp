#include "libckpt/hub/changed_tensors.h"

#include "libckpt/io/unit_source.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/derived_entry.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kAtOnce = 1 << 16;

/// Of float32 values, or of f16 ones.
class SumSource final : public UnitSource {
 public:
  SumSource(SourcePtr floats, float number, bool half)
      : UnitSource(floats->size() / sizeof(float), sizeof(float), kAtOnce),
        floats_(std::move(floats)),
        number_(number),
        half_(half) {}

  void require_unchanged() const override { floats_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { floats_->visit_checked(see); }

 private:
  void compute(std::uint64_t first, MutableBytes units) const override {
    std::vector<float> values(units.size() / sizeof(float));
    const MutableBytes bytes = std::as_writable_bytes(std::span(values));
    floats_->read(first * sizeof(float), bytes);
    for (float& value : values) value += number_;
    if (half_) {
      core::ByteVector rounded(values.size() * 2);
      cast_values(bytes, DType::f32, rounded, DType::f16);
      cast_values(rounded, DType::f16, bytes, DType::f32);
    }
    std::ranges::copy(bytes, units.begin());
  }

  SourcePtr floats_;
  float number_;
  bool half_;
};

}  // namespace

EntryPtr plus(const Entry& entry, float number) {
  Entry out = *with_dtype(entry, DType::f32);
  out.view.reset();
  out.bytes = std::make_shared<SumSource>(out.bytes, number, entry.dtype == DType::f16);
  return std::make_shared<const Entry>(std::move(out));
}

EntryPtr without_rows(const Entry& entry, std::int64_t rows) {
  if (entry.shape.empty() || entry.shape[0] <= rows) {
    throw Error(ErrorCode::value, "the table of positions has the shape " + core::to_list(entry.shape) +
                                      ", and the first " + std::to_string(rows) + " rows of it are for no position");
  }
  return split_parts(entry, 0, 2, {rows, entry.shape[0] - rows})[1];
}

EntryPtr with_zero_rows(const Entry& entry, std::int64_t rows) {
  if (entry.blocks || entry.shape.size() != 2 || core::bit_width(entry.dtype) % 8 != 0) {
    throw Error(ErrorCode::value, "the table of positions is a " + type_name(entry) + " tensor of the shape " +
                                      core::to_list(entry.shape) + ", and not a matrix of numbers");
  }
  Entry zeros = entry;
  zeros.view.reset();
  zeros.shape[0] = rows;
  const std::uint64_t bytes =
      core::checked_mul(zeros.numel(), static_cast<std::uint64_t>(core::bit_width(entry.dtype)) / 8);
  zeros.bytes = memory_source(core::ByteVector(bytes));
  return fused({std::make_shared<const Entry>(std::move(zeros)), std::make_shared<const Entry>(entry)}, 0,
               {rows, entry.shape[0]});
}

}  // namespace ckpt::detail
