#include "libcore/tensor/factory.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <sstream>
#include <string>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/deterministic.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/packed_weights.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

std::atomic<DType> the_default_dtype{DType::f32};
std::atomic<Device> the_default_device{Device()};

Backend& backend_from(const TensorOptions& options) {
  return backend_for(options.device ? *options.device : default_device());
}

Tensor finish(Tensor made, const TensorOptions& options) {
  if (options.requires_grad && !is_floating(made.dtype()) && !is_complex(made.dtype())) {
    throw Error(ErrorCode::runtime, "Only Tensors of floating point and complex dtype can require gradients");
  }
  return options.requires_grad ? made.requires_grad_() : made;
}

void check_sizes(const Shape& sizes) {
  for (std::int64_t size : sizes) {
    if (size >= 0) continue;
    throw Error(ErrorCode::runtime,
                "Trying to create tensor with negative dimension " + std::to_string(size) + ": " + to_list(sizes));
  }
  if (!try_numel(sizes.span())) throw Error(ErrorCode::runtime, "numel: integer multiplication overflow");
}

Tensor allocate(const Shape& sizes, DType dtype, const TensorOptions& options) {
  check_sizes(sizes);
  if (!options.memory_format || *options.memory_format == MemoryFormat::contiguous) {
    return raw::make(sizes, dtype, backend_from(options));
  }
  if (*options.memory_format == MemoryFormat::preserve) {
    throw Error(ErrorCode::runtime, "unsupported memory format Preserve");
  }
  return raw::make_strided(sizes, raw::strides_of(*options.memory_format, sizes), dtype, backend_from(options));
}

Tensor filled(Tensor made, Scalar value, const TensorOptions& options) {
  raw::fill_into(made, value);
  return finish(std::move(made), options);
}

TensorOptions from_like(const Tensor& like, TensorOptions options) {
  if (!options.dtype) options.dtype = like.dtype();
  if (!options.device) options.device = like.device();
  return options;
}

Tensor allocate_like(const Tensor& like, const TensorOptions& options) {
  if (options.memory_format && *options.memory_format != MemoryFormat::preserve) {
    return allocate(like.sizes(), *options.dtype, options);
  }
  Tensor made = raw::make_like_on(like, backend_from(options));
  if (made.dtype() == *options.dtype) return made;
  return raw::make_strided(made.sizes(), made.strides(), *options.dtype, backend_from(options));
}

}  // namespace

DType default_dtype() {
  return the_default_dtype.load(std::memory_order_relaxed);
}

void set_default_dtype(DType dtype) {
  if (!is_floating(dtype)) throw Error(ErrorCode::type, "only floating-point types are supported as the default type");
  the_default_dtype = dtype;
}

Device default_device() {
  return the_default_device.load(std::memory_order_relaxed);
}
void set_default_device(Device device) {
  the_default_device = device;
}

Tensor empty(const Shape& sizes, const TensorOptions& options) {
  Tensor made = allocate(sizes, options.dtype.value_or(default_dtype()), options);
#ifndef NDEBUG
  if (made.is_floating_point()) raw::fill_into(made, std::nan(""));
#endif
  detail::fill_if_deterministic(made);
  return finish(std::move(made), options);
}

Tensor empty_strided(const Shape& sizes, const Shape& strides, const TensorOptions& options) {
  check_sizes(sizes);
  Tensor made = raw::make_strided(sizes, strides, options.dtype.value_or(default_dtype()), backend_from(options));
  detail::fill_if_deterministic(made);
  return finish(std::move(made), options);
}

Tensor full(const Shape& sizes, Scalar value, const TensorOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("full", {}, {{"value", value}}, [&] { return full(sizes, value, options); });
  DType suggested = value.is_float() ? default_dtype() : value.kind();
  return filled(allocate(sizes, options.dtype.value_or(suggested), options), value, options);
}

Tensor zeros(const Shape& sizes, const TensorOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("full", {}, {{"value", Scalar(0)}}, [&] { return zeros(sizes, options); });
  return filled(allocate(sizes, options.dtype.value_or(default_dtype()), options), 0, options);
}
Tensor ones(const Shape& sizes, const TensorOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("full", {}, {{"value", Scalar(1)}}, [&] { return ones(sizes, options); });
  return filled(allocate(sizes, options.dtype.value_or(default_dtype()), options), 1, options);
}

Tensor empty_like(const Tensor& like, const TensorOptions& options) {
  TensorOptions all = from_like(like, options);
  Tensor made = allocate_like(like, all);
  detail::fill_if_deterministic(made);
  return finish(std::move(made), all);
}
Tensor full_like(const Tensor& like, Scalar value, const TensorOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("full", {}, {{"value", value}}, [&] { return full_like(like, value, options); });
  TensorOptions all = from_like(like, options);
  return filled(allocate_like(like, all), value, all);
}
Tensor zeros_like(const Tensor& like, const TensorOptions& options) {
  return full_like(like, 0, options);
}
Tensor ones_like(const Tensor& like, const TensorOptions& options) {
  return full_like(like, 1, options);
}

namespace {

void refuse_bool(DType dtype, const char* kernel) {
  if (dtype != DType::boolean) return;
  throw Error(ErrorCode::not_implemented, "\"" + std::string(kernel) + "\" not implemented for 'Bool'");
}

}  // namespace

Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("arange", {}, {{"start", start}, {"end", end}, {"step", step}},
                                [&] { return arange(start, end, step, options); });
  bool is_float = start.is_float() || end.is_float() || step.is_float();
  DType dtype = options.dtype.value_or(is_float ? default_dtype() : DType::i64);
  refuse_bool(dtype, "arange_cpu");
  double by = step.to_double();
  double span = end.to_double() - start.to_double();
  if (by == 0) throw Error(ErrorCode::runtime, "step must be nonzero");
  if (!std::isfinite(span)) {
    std::ostringstream text;
    text << "unsupported range: " << start.to_double() << " -> " << end.to_double();
    throw Error(ErrorCode::runtime, text.str());
  }
  if (span != 0 && (span > 0) != (by > 0)) {
    throw Error(ErrorCode::runtime, "upper bound and lower bound inconsistent with step sign");
  }
  Tensor made = allocate({static_cast<std::int64_t>(std::ceil(span / by))}, dtype, options);
  const CopyTable* table = raw::backend_of(made).ops().copy;
  if (table == nullptr) return finish(made, options);
  auto kernel = table->range[static_cast<std::size_t>(dtype)];
  if (kernel == nullptr) {
    TensorOptions wide = options;
    wide.dtype = DType::f32;
    return raw::cast(arange(start, end, step, wide), dtype);
  }
  UnaryParams params{const_cast<void*>(made.raw_data()), nullptr, {start.to_double(), by, 0}, {}};
  params.loop.numel = made.numel();
  kernel(params);
  return finish(made, options);
}

Tensor arange(Scalar start, Scalar end, const TensorOptions& options) {
  return arange(start, end, 1, options);
}
Tensor arange(Scalar end, const TensorOptions& options) {
  return arange(0, end, 1, options);
}

namespace {

/// From both ends to the middle, in the arithmetic of T, as PyTorch computes it.
template <class T>
std::vector<double> linspace_values(T start, T end, std::int64_t steps) {
  std::vector<double> values(static_cast<std::size_t>(steps));
  T step = steps > 1 ? (end - start) / static_cast<T>(steps - 1) : T(0);
  for (std::int64_t i = 0; i < steps; ++i) {
    T value =
        i < steps / 2 || steps == 1 ? start + step * static_cast<T>(i) : end - step * static_cast<T>(steps - i - 1);
    values[static_cast<std::size_t>(i)] = static_cast<double>(value);
  }
  return values;
}

std::int64_t checked_steps(std::int64_t steps) {
  if (steps < 0) throw Error(ErrorCode::runtime, "number of steps must be non-negative");
  return steps;
}

/// An end of a line of numbers, which integers have whole. Error(runtime) as full() where the type cannot hold it.
double end_in(DType dtype, double value) {
  raw::check_fits_halves_too(value, dtype);
  return is_integer(dtype) ? std::trunc(value) : value;
}

/// That `layout` names each dimension once.
void check_layout(const Shape& sizes, const Shape& layout) {
  if (sizes.size() != layout.size()) {
    throw Error(ErrorCode::runtime,
                "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = " +
                    std::to_string(sizes.size()) +
                    " is not equal to len(physical_layout) = " + std::to_string(layout.size()));
  }
  std::vector<bool> seen(sizes.size(), false);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] < 0 || layout[i] >= static_cast<std::int64_t>(sizes.size())) {
      throw Error(ErrorCode::runtime, "Dimension out of range (expected to be between 0 and " +
                                          std::to_string(sizes.size() - 1) + ", but got " + std::to_string(layout[i]) +
                                          " at index " + std::to_string(i) +
                                          ").  NB: negative dims not currently supported; file an issue if you want "
                                          "it.");
    }
    if (seen[static_cast<std::size_t>(layout[i])]) throw Error(ErrorCode::runtime, "Duplicate dim not allowed");
    seen[static_cast<std::size_t>(layout[i])] = true;
  }
}

}  // namespace

Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options) {
  checked_steps(steps);
  DType dtype = options.dtype.value_or(default_dtype());
  refuse_bool(dtype, "linspace_cpu");
  if (steps > 0) start = end_in(dtype, start), end = end_in(dtype, end);
  std::vector<double> values = dtype == DType::f32
                                   ? linspace_values(static_cast<float>(start), static_cast<float>(end), steps)
                                   : linspace_values(start, end, steps);
  TensorOptions all = options;
  all.dtype = dtype;
  return from_values(values, all);
}

Tensor logspace(double start, double end, std::int64_t steps, double base, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(default_dtype());
  TensorOptions all = options;
  all.dtype = dtype;
  refuse_bool(dtype, "logspace_cpu");
  if (steps > 0) start = end_in(dtype, start), end = end_in(dtype, end);
  if (dtype == DType::f32) {
    std::vector<double> values =
        linspace_values(static_cast<float>(start), static_cast<float>(end), checked_steps(steps));
    for (double& value : values) value = std::pow(static_cast<float>(base), static_cast<float>(value));
    return from_values(values, all);
  }
  std::vector<double> values = linspace_values(start, end, checked_steps(steps));
  for (double& value : values) value = std::pow(base, value);
  return from_values(values, all);
}

Tensor scalar_tensor(Scalar value, const TensorOptions& options) {
  TensorOptions all = options;
  all.dtype = options.dtype.value_or(default_dtype());
  return full({}, value, all);
}

Tensor empty_permuted(const Shape& sizes, const Shape& physical_layout, const TensorOptions& options) {
  check_layout(sizes, physical_layout);
  Shape strides(sizes.size(), 0);
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const auto dim = static_cast<std::size_t>(physical_layout[i]);
    strides[dim] = step;
    step *= std::max<std::int64_t>(sizes[dim], 1);
  }
  return empty_strided(sizes, strides, options);
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, const TensorOptions& options) {
  const auto check_count = [](const char* name, std::int64_t count) {
    if (count >= 0) return;
    throw Error(ErrorCode::runtime, name + std::string(" must be greater or equal to 0, got ") + std::to_string(count));
  };
  check_count("n", rows);
  if (columns) check_count("m", *columns);
  Tensor made = allocate({rows, columns.value_or(rows)}, options.dtype.value_or(default_dtype()), options);
  raw::fill_into(made, 0);
  std::int64_t count = std::min(rows, columns.value_or(rows));
  raw::fill_into(raw::view(made, {count}, {columns.value_or(rows) + 1}, 0), 1);
  return finish(made, options);
}

/// Walks nested braces: finds the shape and the kind of number, then the values in order.
struct NestedReader {
  Shape sizes;
  bool any_float = false, any_int = false;
  std::vector<Scalar> values;

  void read(const NestedValues& item, std::size_t depth) {
    if (!item.is_list_) {
      any_float = any_float || item.scalar_.is_float();
      any_int = any_int || !item.scalar_.is_bool();
      values.push_back(item.scalar_);
      return;
    }
    auto count = static_cast<std::int64_t>(item.items_.size());
    if (sizes.size() == depth) {
      sizes.push_back(count);
    } else if (sizes[depth] != count) {
      throw Error(ErrorCode::value, "expected sequence of length " + std::to_string(sizes[depth]) + " at dim " +
                                        std::to_string(depth) + " (got " + std::to_string(count) + ")");
    }
    for (const NestedValues& inner : item.items_) read(inner, depth + 1);
  }
  DType dtype() const {
    if (values.empty() || any_float) return default_dtype();
    return any_int ? DType::i64 : DType::boolean;
  }
};

Tensor tensor(const NestedValues& values, const TensorOptions& options) {
  NestedReader reader;
  reader.read(values, 0);
  DType dtype = options.dtype.value_or(reader.dtype());
  Tensor host = raw::make(reader.sizes, dtype, backend_for(DeviceType::cpu));
  auto* to = static_cast<std::byte*>(const_cast<void*>(host.raw_data()));
  for (Scalar value : reader.values) {
    if (is_integer(dtype) && raw::overflows(value, dtype)) {
      throw Error(ErrorCode::runtime,
                  "value cannot be converted to type " + std::string(name(dtype)) + " without overflow");
    }
    raw::store_scalar(to, value, dtype);
    to += bit_width(dtype) / 8;
  }
  return finish(raw::move(host, backend_from(options)), options);
}

Tensor from_bytes(std::span<const std::byte> bytes, const Shape& sizes, DType dtype, const TensorOptions& options) {
  Tensor made = allocate(sizes, dtype, options);
  if (byte_size(dtype, static_cast<std::uint64_t>(made.numel())) != bytes.size()) {
    throw Error(ErrorCode::value, "from_bytes: " + std::to_string(bytes.size()) + " bytes where shape " +
                                      to_list(sizes) + " of " + std::string(name(dtype)) + " needs another number");
  }
  if (!bytes.empty())
    raw::backend_of(made).copy_from_host(const_cast<void*>(made.raw_data()), bytes.data(), bytes.size());
  return finish(made, options);
}

Tensor from_storage(Storage storage, DType dtype, const Shape& sizes, const Shape& strides, std::int64_t offset) {
  auto impl = make_intrusive<TensorImpl>();
  impl->storage = std::move(storage);
  impl->dtype = dtype;
  impl->sizes = sizes;
  impl->strides = strides;
  impl->offset = offset;
  impl->numel = sizes.numel();
  impl->contiguous = raw::is_row_major(sizes, strides);
  return Tensor(std::move(impl));
}

Tensor from_blob(void* data, const Shape& sizes, DType dtype, Device device, void (*release)(void*), void* context) {
  auto bytes = byte_size(dtype, static_cast<std::uint64_t>(sizes.numel()));
  Storage storage = Storage::borrow(data, static_cast<std::size_t>(bytes.value_or(0)), device, release, context);
  if (storage.nbytes() != 0) packed_weights::never_keep(storage);
  return from_storage(std::move(storage), dtype, sizes, contiguous_strides(sizes), 0);
}

}  // namespace core
