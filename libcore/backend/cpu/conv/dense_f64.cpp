// Convolution in double precision: the patches under the kernel are laid out as a matrix (im2col), then OpenBLAS
// multiplies.
#include <cblas.h>

#include <algorithm>

#include "libcore/backend/cpu/conv/dense.h"
#include "libcore/backend/cpu/scratch.h"

namespace core::cpu {
namespace {

/// Sizes of one group of one image as matrices: weight (rows x depth), patches (depth x positions), output (rows x
/// positions).
struct GroupShape {
  int rows, depth, positions;
  std::int64_t in_channels;
  std::int64_t in_size;  // elements of the group's input

  explicit GroupShape(const Conv2dSizes& s)
      : rows(static_cast<int>(s.out_channels / s.groups)),
        depth(static_cast<int>(s.in_channels / s.groups * s.kernel_h * s.kernel_w)),
        positions(static_cast<int>(s.out_h * s.out_w)),
        in_channels(s.in_channels / s.groups),
        in_size(in_channels * s.in_h * s.in_w) {}
  std::int64_t out_size() const { return std::int64_t{rows} * positions; }
  std::int64_t weight_size() const { return std::int64_t{rows} * depth; }
};

/// Calls visit(patch index, input index or -1 in the padding) for every cell of the patch matrix of one group.
template <class Visit>
void for_each_patch_cell(const Conv2dSizes& s, std::int64_t channels, Visit visit) {
  std::int64_t cell = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t tap = 0; tap < s.kernel_h * s.kernel_w; ++tap) {
      const std::int64_t top = tap / s.kernel_w * s.dilation_h - s.pad_top;
      const std::int64_t left = tap % s.kernel_w * s.dilation_w - s.pad_left;
      for (std::int64_t position = 0; position < s.out_h * s.out_w; ++position, ++cell) {
        const std::int64_t y = position / s.out_w * s.stride_h + top;
        const std::int64_t x = position % s.out_w * s.stride_w + left;
        const bool inside = y >= 0 && y < s.in_h && x >= 0 && x < s.in_w;
        visit(cell, inside ? (c * s.in_h + y) * s.in_w + x : -1);
      }
    }
  }
}

void image_to_patches(const Conv2dSizes& s, std::int64_t channels, const double* image, double* patches) {
  for_each_patch_cell(s, channels, [&](std::int64_t cell, std::int64_t at) { patches[cell] = at < 0 ? 0 : image[at]; });
}

void add_patches_to_image(const Conv2dSizes& s, std::int64_t channels, const double* patches, double* image) {
  for_each_patch_cell(s, channels, [&](std::int64_t cell, std::int64_t at) {
    if (at >= 0) image[at] += patches[cell];
  });
}

/// Calls visit(group shape, image, group) for every group of every image.
template <class Visit>
void for_each_group(const Conv2dSizes& s, Visit visit) {
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t g = 0; g < s.groups; ++g) visit(n * s.groups + g, g);
  }
}

}  // namespace

void conv2d_f64(const Conv2dParams& p) {
  const GroupShape shape(p.sizes);
  double* patches = scratch<double>(Scratch::input, std::int64_t{shape.depth} * shape.positions);
  for_each_group(p.sizes, [&](std::int64_t block, std::int64_t group) {
    double* out = static_cast<double*>(p.output) + block * shape.out_size();
    for (int row = 0; row < shape.rows; ++row) {
      const double bias = p.bias ? static_cast<const double*>(p.bias)[group * shape.rows + row] : 0;
      std::fill_n(out + std::int64_t{row} * shape.positions, shape.positions, bias);
    }
    image_to_patches(p.sizes, shape.in_channels, static_cast<const double*>(p.input) + block * shape.in_size, patches);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, shape.rows, shape.positions, shape.depth, 1.0,
                static_cast<const double*>(p.weight) + group * shape.weight_size(), shape.depth, patches,
                shape.positions, 1.0, out, shape.positions);
  });
  trim_scratch();
}

void conv2d_input_grad_f64(const Conv2dInputGradParams& p) {
  const GroupShape shape(p.sizes);
  double* patches = scratch<double>(Scratch::input, std::int64_t{shape.depth} * shape.positions);
  for_each_group(p.sizes, [&](std::int64_t block, std::int64_t group) {
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, shape.depth, shape.positions, shape.rows, 1.0,
                static_cast<const double*>(p.weight) + group * shape.weight_size(), shape.depth,
                static_cast<const double*>(p.output_grad) + block * shape.out_size(), shape.positions, 0.0, patches,
                shape.positions);
    double* image = static_cast<double*>(p.input_grad) + block * shape.in_size;
    std::fill_n(image, shape.in_size, 0.0);
    add_patches_to_image(p.sizes, shape.in_channels, patches, image);
  });
  trim_scratch();
}

void conv2d_weight_grad_f64(const Conv2dWeightGradParams& p) {
  const GroupShape shape(p.sizes);
  double* patches = scratch<double>(Scratch::input, std::int64_t{shape.depth} * shape.positions);
  auto* weight_grad = static_cast<double*>(p.weight_grad);
  auto* bias_grad = static_cast<double*>(p.bias_grad);
  std::fill_n(weight_grad, shape.weight_size() * p.sizes.groups, 0.0);
  if (bias_grad) std::fill_n(bias_grad, p.sizes.out_channels, 0.0);
  for_each_group(p.sizes, [&](std::int64_t block, std::int64_t group) {
    const double* grad = static_cast<const double*>(p.output_grad) + block * shape.out_size();
    image_to_patches(p.sizes, shape.in_channels, static_cast<const double*>(p.input) + block * shape.in_size, patches);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, shape.rows, shape.depth, shape.positions, 1.0, grad,
                shape.positions, patches, shape.positions, 1.0, weight_grad + group * shape.weight_size(), shape.depth);
    for (int row = 0; bias_grad && row < shape.rows; ++row) {
      const double* line = grad + std::int64_t{row} * shape.positions;
      for (int i = 0; i < shape.positions; ++i) bias_grad[group * shape.rows + row] += line[i];
    }
  });
  trim_scratch();
}

}  // namespace core::cpu
