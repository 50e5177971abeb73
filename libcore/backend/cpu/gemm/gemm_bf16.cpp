// Matrix products of bf16 through oneDNN, on processors that multiply it and sum in f32.
#include <cstring>
#include <dnnl.hpp>
#include <string_view>
#include <unordered_map>

#include "libcore/backend/cpu/conv/onednn.h"
#include "libcore/backend/cpu/gemm/gemm_bf16.h"
#include "libcore/backend/cpu/gemm/gemm_narrow.h"
#include "libcore/backend/cpu/gemm/tile_product.h"
#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

using dnnl::memory;
using Dims = memory::dims;

/// What a primitive depends on. Compared as bytes, so it has no padding.
struct Key {
  std::int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
  std::int64_t transpose_a, transpose_b, has_bias, threads;
  double alpha, beta;

  explicit Key(const GemmParams& p)
      : m(p.m),
        n(p.n),
        k(p.k),
        lda(p.lda),
        ldb(p.ldb),
        ldc(p.ldc),
        batch(p.batch),
        stride_a(p.batch_stride_a),
        stride_b(p.batch_stride_b),
        stride_c(p.batch_stride_c),
        transpose_a(p.transpose_a ? 1 : 0),
        transpose_b(p.transpose_b ? 1 : 0),
        has_bias(p.bias != nullptr ? 1 : 0),
        threads(num_threads()),
        alpha(p.alpha),
        beta(p.beta) {}
  friend bool operator==(const Key& a, const Key& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&key), sizeof key});
  }
};

memory::desc matrices(const Key& key, Dims sizes, std::int64_t batch_stride, std::int64_t leading, bool transposed) {
  Dims strides = transposed ? Dims{1, leading} : Dims{leading, 1};
  if (key.batch > 1) {
    sizes.insert(sizes.begin(), key.batch);
    strides.insert(strides.begin(), batch_stride);
  }
  return {sizes, Element::bf16, strides};
}

struct Product {
  dnnl::matmul primitive;
  memory::desc a, b, c, bias, scratchpad;

  explicit Product(const Key& key)
      : a(matrices(key, {key.m, key.k}, key.stride_a, key.lda, key.transpose_a != 0)),
        b(matrices(key, {key.k, key.n}, key.stride_b, key.ldb, key.transpose_b != 0)),
        c(matrices(key, {key.m, key.n}, key.stride_c, key.ldc, false)) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (key.alpha != 1) attributes.set_output_scales(0, {static_cast<float>(key.alpha)});
    if (key.beta != 0) {
      dnnl::post_ops sum;
      sum.append_sum(static_cast<float>(key.beta));
      attributes.set_post_ops(sum);
    }
    if (key.has_bias != 0) {
      bias = memory::desc(key.batch > 1 ? Dims{1, 1, key.n} : Dims{1, key.n}, Element::bf16,
                          key.batch > 1 ? memory::format_tag::abc : memory::format_tag::ab);
    }
    const dnnl::matmul::desc description =
        key.has_bias != 0 ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc chosen(description, attributes, dnnl_engine());
    primitive = dnnl::matmul(chosen);
    scratchpad = chosen.scratchpad_desc();
  }
};

const Product& product_of(const GemmParams& p) {
  static thread_local std::unordered_map<Key, Product, KeyHash> made;
  constexpr std::size_t kMostKept = 512;  // a program with ever new shapes must not grow without end
  const Key key(p);
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  if (made.size() >= kMostKept) made.clear();
  return made.emplace(key, Product(key)).first->second;
}

}  // namespace

void gemm_bf16(const GemmParams& p) {
#if defined(__x86_64__)
  if (multiplies_tiles() && avx512::tile_product_of_few_rows(p)) return;
#endif
  if (in_f32_is_faster(p)) return gemm_bf16_in_f32(p);
#if defined(__x86_64__)
  if (multiplies_tiles()) return avx512::tile_product(p);
#endif
  apply_thread_limit();
  const Product& product = product_of(p);
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, wrap(product.a, p.a)},
      {DNNL_ARG_WEIGHTS, wrap(product.b, p.b)},
      {DNNL_ARG_DST, wrap(product.c, p.c)},
      {DNNL_ARG_SCRATCHPAD,
       wrap(product.scratchpad, scratch_bytes(Scratch::primitive, product.scratchpad.get_size()))}};
  if (p.bias) arguments.emplace(DNNL_ARG_BIAS, wrap(product.bias, p.bias));
  product.primitive.execute(dnnl_stream(), arguments);
  finish_pass();
}

}  // namespace core::cpu
