// The methods of Tensor that are functions of ops/ under another spelling.
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/tensor/tensor.h"

namespace core {

Tensor Tensor::add(const Tensor& other, Scalar alpha) const {
  return core::add(*this, other, alpha);
}
Tensor Tensor::add(Scalar other, Scalar alpha) const {
  return core::add(*this, other, alpha);
}
Tensor Tensor::sub(const Tensor& other, Scalar alpha) const {
  return core::sub(*this, other, alpha);
}
Tensor Tensor::sub(Scalar other, Scalar alpha) const {
  return core::sub(*this, other, alpha);
}
Tensor Tensor::mul(const Tensor& other) const {
  return core::mul(*this, other);
}
Tensor Tensor::mul(Scalar other) const {
  return core::mul(*this, other);
}
Tensor Tensor::div(const Tensor& other) const {
  return core::div(*this, other);
}
Tensor Tensor::div(Scalar other) const {
  return core::div(*this, other);
}
Tensor Tensor::pow(const Tensor& exponent) const {
  return core::pow(*this, exponent);
}
Tensor Tensor::pow(Scalar exponent) const {
  return core::pow(*this, exponent);
}
Tensor Tensor::abs() const {
  return core::abs(*this);
}
Tensor Tensor::exp() const {
  return core::exp(*this);
}
Tensor Tensor::log() const {
  return core::log(*this);
}
Tensor Tensor::neg() const {
  return core::neg(*this);
}
Tensor Tensor::relu() const {
  return core::relu(*this);
}
Tensor Tensor::sigmoid() const {
  return core::sigmoid(*this);
}
Tensor Tensor::sin() const {
  return core::sin(*this);
}
Tensor Tensor::cos() const {
  return core::cos(*this);
}
Tensor Tensor::sqrt() const {
  return core::sqrt(*this);
}
Tensor Tensor::tanh() const {
  return core::tanh(*this);
}
Tensor Tensor::square() const {
  return core::square(*this);
}
Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  return core::clamp(*this, low, high);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  return core::masked_fill(*this, mask, value);
}
Tensor Tensor::eq(const Tensor& other) const {
  return core::eq(*this, other);
}
Tensor Tensor::eq(Scalar other) const {
  return core::eq(*this, other);
}
Tensor Tensor::ne(const Tensor& other) const {
  return core::ne(*this, other);
}
Tensor Tensor::lt(const Tensor& other) const {
  return core::lt(*this, other);
}
Tensor Tensor::gt(const Tensor& other) const {
  return core::gt(*this, other);
}
Tensor Tensor::matmul(const Tensor& other) const {
  return core::matmul(*this, other);
}
Tensor Tensor::mm(const Tensor& other) const {
  return core::mm(*this, other);
}
Tensor Tensor::sum(std::optional<DType> dtype) const {
  return core::sum(*this, {.dtype = dtype});
}
Tensor Tensor::sum(const Shape& dims, bool keepdim) const {
  return core::sum(*this, {.dims = dims, .keepdim = keepdim});
}
Tensor Tensor::mean() const {
  return core::mean(*this);
}
Tensor Tensor::mean(const Shape& dims, bool keepdim) const {
  return core::mean(*this, {.dims = dims, .keepdim = keepdim});
}
Tensor Tensor::var(const Shape& dims, std::int64_t correction, bool keepdim) const {
  return core::var(*this, {.dims = dims, .correction = static_cast<double>(correction), .keepdim = keepdim});
}
Tensor Tensor::std(const Shape& dims, std::int64_t correction, bool keepdim) const {
  return core::std(*this, {.dims = dims, .correction = static_cast<double>(correction), .keepdim = keepdim});
}
Tensor Tensor::norm(double p) const {
  return core::norm(*this, {.p = p});
}
Tensor Tensor::prod() const {
  return core::prod(*this);
}
Tensor Tensor::max() const {
  return core::max(*this);
}
ValuesIndices Tensor::max(std::int64_t dim, bool keepdim) const {
  return core::max(*this, dim, keepdim);
}
Tensor Tensor::min() const {
  return core::min(*this);
}
ValuesIndices Tensor::min(std::int64_t dim, bool keepdim) const {
  return core::min(*this, dim, keepdim);
}
Tensor Tensor::argmax(std::optional<std::int64_t> dim, bool keepdim) const {
  return core::argmax(*this, dim, keepdim);
}
Tensor Tensor::argmin(std::optional<std::int64_t> dim, bool keepdim) const {
  return core::argmin(*this, dim, keepdim);
}
Tensor Tensor::all() const {
  return core::all(*this);
}
Tensor Tensor::any() const {
  return core::any(*this);
}
Tensor Tensor::cumsum(std::int64_t dim) const {
  return core::cumsum(*this, dim);
}
Tensor Tensor::index_select(std::int64_t dim, const Tensor& index) const {
  return core::index_select(*this, dim, index);
}
Tensor Tensor::gather(std::int64_t dim, const Tensor& index) const {
  return core::gather(*this, dim, index);
}
Tensor Tensor::repeat(const Shape& times) const {
  return core::repeat(*this, times);
}
Tensor Tensor::flip(const Shape& dims) const {
  return core::flip(*this, dims);
}
bool Tensor::equal(const Tensor& other) const {
  return core::equal(*this, other);
}

}  // namespace core
