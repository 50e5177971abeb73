#pragma once
// Products of blocks of 16 x 16 halves with sums in f32, by tensor cores: the lanes of a warp hold a block together,
// and call everything together. On the host a lane alone is a warp and adds the products up in f32, one after the
// other. Blocks in shared memory begin at multiples of 32 bytes, and their rows are a multiple of 8 halves or of 4
// floats apart. Thread safety: plain values. Use: SumBlock<Half> sums; left.load(a, pitch); right.load(b, pitch);
// sums.add(left, right); sums.store(to, pitch);

#include <type_traits>

#include "libcore/backend/cuda/kernels/elements.h"

#ifdef __CUDACC__
#include <mma.h>
#endif

namespace core::CORE_KERNELS {

inline constexpr int kBlock = 16;  // rows and columns

/// Where the elements of a factor lie: (row, column) at row * pitch + column, or at column * pitch + row.
enum class Lying { straight, turned };

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

#ifdef __CUDACC__

inline constexpr int kWarpLanes = 32;

namespace detail {
template <class T>
using TensorElement = std::conditional_t<std::is_same_v<T, Half>, __half, __nv_bfloat16>;
template <Lying kLying>
using TensorLayout = std::conditional_t<kLying == Lying::straight, nvcuda::wmma::row_major, nvcuda::wmma::col_major>;
using TensorSums = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kBlock, kBlock, kBlock, float>;

template <class Use, class T, Lying kLying>
struct FactorBlock {
  nvcuda::wmma::fragment<Use, kBlock, kBlock, kBlock, TensorElement<T>, TensorLayout<kLying>> fragment;
  __device__ void load(const T* from, int pitch) {
    nvcuda::wmma::load_matrix_sync(fragment, reinterpret_cast<const TensorElement<T>*>(from),
                                   static_cast<unsigned>(pitch));
  }
};
}  // namespace detail

template <class T, Lying kLying = Lying::straight>
using LeftBlock = detail::FactorBlock<nvcuda::wmma::matrix_a, T, kLying>;
template <class T, Lying kLying = Lying::straight>
using RightBlock = detail::FactorBlock<nvcuda::wmma::matrix_b, T, kLying>;

class SumBlock {
 public:
  __device__ SumBlock() { nvcuda::wmma::fill_fragment(sums_, 0.0F); }
  template <class Left, class Right>
  __device__ void add(const Left& left, const Right& right) {
    nvcuda::wmma::mma_sync(sums_, left.fragment, right.fragment, sums_);
  }
  /// Each element times that of the block at `factors`.
  __device__ void scale(const float* factors, int pitch) {
    detail::TensorSums by;
    nvcuda::wmma::load_matrix_sync(by, factors, static_cast<unsigned>(pitch), nvcuda::wmma::mem_row_major);
    for (int i = 0; i < sums_.num_elements; ++i) sums_.x[i] *= by.x[i];
  }
  __device__ void store(float* to, int pitch) const {
    nvcuda::wmma::store_matrix_sync(to, sums_, static_cast<unsigned>(pitch), nvcuda::wmma::mem_row_major);
  }

 private:
  detail::TensorSums sums_;
};

#else

inline constexpr int kWarpLanes = 1;

namespace detail {
template <class T, Lying kLying>
struct FactorBlock {
  float values[kBlock][kBlock];
  void load(const T* from, int pitch) {
    for (int i = 0; i < kBlock; ++i) {
      for (int j = 0; j < kBlock; ++j) {
        values[i][j] = widen(from[kLying == Lying::straight ? i * pitch + j : j * pitch + i]);
      }
    }
  }
};
}  // namespace detail

template <class T, Lying kLying = Lying::straight>
using LeftBlock = detail::FactorBlock<T, kLying>;
template <class T, Lying kLying = Lying::straight>
using RightBlock = detail::FactorBlock<T, kLying>;

class SumBlock {
 public:
  template <class Left, class Right>
  void add(const Left& left, const Right& right) {
    for (int i = 0; i < kBlock; ++i) {
      for (int k = 0; k < kBlock; ++k) {
        for (int j = 0; j < kBlock; ++j) sums_[i][j] += left.values[i][k] * right.values[k][j];
      }
    }
  }
  void scale(const float* factors, int pitch) {
    for (int i = 0; i < kBlock; ++i) {
      for (int j = 0; j < kBlock; ++j) sums_[i][j] *= factors[i * pitch + j];
    }
  }
  void store(float* to, int pitch) const {
    for (int i = 0; i < kBlock; ++i) {
      for (int j = 0; j < kBlock; ++j) to[i * pitch + j] = sums_[i][j];
    }
  }

 private:
  float sums_[kBlock][kBlock] = {};
};

#endif

/// A grid of blocks of sums that the warps of a team of 256 lanes share out: each has neighbours of one row, kEach at
/// most on the GPU.
template <int kEach>
class SharedBlocks {
 public:
#ifdef __CUDACC__
  static constexpr int kCount = kEach;
#else
  static constexpr int kCount = kEach * 8;
#endif
  SumBlock sums[kCount];

  CORE_BODY SharedBlocks(const Team& team, int rows, int columns)
      : columns_(columns), all_(rows * columns), each_((all_ + warps(team) - 1) / warps(team)) {
    first_ = team.lane() / kWarpLanes * each_;
  }
  /// visit(block, its row, its column, whether it begins a row of this warp's) for those of the calling warp.
  template <class Visit>
  CORE_BODY void each(const Visit& visit) {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int i = 0; i < kCount; ++i) {
      const int block = first_ + i;
      if (i < each_ && block < all_)
        visit(sums[i], block / columns_, block % columns_, i == 0 || block % columns_ == 0);
    }
  }

 private:
  CORE_BODY static int warps(const Team& team) {
    return (team.size() + kWarpLanes - 1) / kWarpLanes;
  }
  int columns_, all_, each_, first_;
};

/// blocks += left * right, whose sides are `depth` long, a multiple of 16.
template <Lying kLeft, Lying kRight, class T, int kEach>
CORE_BODY void multiply_blocks(SharedBlocks<kEach>& blocks, const T* left, int left_pitch, const T* right,
                               int right_pitch, int depth) {
  for (int k = 0; k < depth; k += kBlock) {
    LeftBlock<T, kLeft> a;
    RightBlock<T, kRight> b;
    blocks.each([&](SumBlock& sums, int row, int column, bool is_first) {
      if (is_first)
        a.load(left + (kLeft == Lying::straight ? row * kBlock * left_pitch + k : k * left_pitch + row * kBlock),
               left_pitch);
      b.load(
          right + (kRight == Lying::straight ? k * right_pitch + column * kBlock : column * kBlock * right_pitch + k),
          right_pitch);
      sums.add(a, b);
    });
  }
}

/// Each block where it belongs in the array that begins at `to`.
template <int kEach>
CORE_BODY void store_blocks(SharedBlocks<kEach>& blocks, float* to, int pitch) {
  blocks.each([&](SumBlock& sums, int row, int column, bool) {
    sums.store(to + row * kBlock * pitch + column * kBlock, pitch);
  });
}

}  // namespace core::CORE_KERNELS
