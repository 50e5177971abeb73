#pragma once
// The scales that fit the parts of a block of 256 values best, for eight parts at a time: each has a lane of its own,
// in which sums run in order, so they have the bits that one part after the other gives. Internal to k_packing.cpp.
// Thread safety: pure functions. Use: part_fits().scales(values, 32, found, numbers);

namespace ckpt::detail {

constexpr unsigned kFitLanes = 8;

/// How lines are tried: for values spread over `most`, then over most + first, most + first + 0.1, ...
struct LineTries {
  int most;  ///< the largest number
  float first;
  int last;        ///< tries beyond the first
  bool by_amount;  ///< the error is the difference and not its square
};

/// Of eight parts: value = scale * number + low.
struct PartLines {
  float scale[kFitLanes];
  float low[kFitLanes];  ///< at most 0
};

/// Eight parts of `size` values, 16 or 32, lie behind each other, and so do their weights and numbers.
struct PartFits {
  /// Values as scale * number + low, numbers from 0 to tries.most.
  void (*lines)(const float* values, const float* weights, unsigned size, const LineTries& tries, PartLines& lines,
                int* numbers);
  /// Parts of 16 as scale * (number - most), the best scale of nineteen.
  void (*scales)(const float* values, int most, float* scales, int* numbers);
  /// The same from one scale, with numbers that are improved in at most five rounds.
  void (*improved_scales)(const float* values, int most, float* scales, int* numbers);
};

extern const PartFits kPartFitsPlain;
extern const PartFits kPartFitsAvx2;  ///< where the processor has it

const PartFits& part_fits();

}  // namespace ckpt::detail
