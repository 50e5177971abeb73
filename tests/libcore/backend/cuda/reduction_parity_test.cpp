// Reductions, scans, sorts and indexing of CUDA devices, run on the host, against the CPU's slots: on one lane, and on
// teams of several.
#include <gtest/gtest.h>

#include <iostream>
#include <numeric>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/element_types.h"
#include "libcore/backend/op_tables.h"
#include "tests/libcore/backend/cuda/emulation.h"
#include "tests/libcore/backend/cuda/parity.h"

namespace {

using core::DType;
using core::IndexOp;
using core::IndexParams;
using core::Loop;
using core::ReduceOp;
using core::ReduceParams;
using core::ScanParams;
using core::SortParams;
using test::Buffer;
using test::Coverage;
using test::Numbers;

struct Tables {
  core::ReductionTable reduction;
  core::IndexingTable indexing;
  Tables() {
    core::emulated_kernels::fill_reductions(reduction);
    core::emulated_kernels::fill_scans(reduction);
    core::emulated_kernels::fill_sorts(reduction);
    core::emulated_kernels::fill_indexing(indexing);
  }
};

const Tables& device() {
  static const auto* tables = new Tables;
  return *tables;
}
const core::OpTables& cpu() {
  return core::cpu_op_tables();
}

DType by_dtype(DType dtype, bool on_cpu) {
  return test::is_half(dtype) && !on_cpu ? DType::f32 : dtype;
}

/// A reduction of a dense array whose dimensions are listed from the innermost: which are reduced, and which are kept.
struct Shape {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::vector<int> reduced;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{"one element", {1}, {0}},         {"all of few", {37}, {0}},
                                         {"all of many", {20011}, {0}},     {"nothing kept", {5, 0}, {0}},
                                         {"of nothing", {0, 3}, {0}},       {"rows", {33, 21}, {0}},
                                         {"short rows", {4, 300}, {0}},     {"many rows", {21, 2200}, {0}},
                                         {"columns", {45, 70}, {1}},        {"many short columns", {700, 9}, {1}},
                                         {"long columns", {40, 2000}, {1}}, {"middle", {6, 40, 5}, {1}},
                                         {"rows of packs", {40, 30}, {0}},  {"all of packs", {81920}, {0}},
                                         {"ends", {11, 7, 13}, {0, 2}},     {"two of four", {3, 8, 5, 17}, {1, 3}}};
  return all;
}

struct Reduction {
  ReduceParams params;
  std::int64_t outputs, inputs;
};

/// The loops of a reduction of `shape`.
Reduction make_reduction(const Shape& shape) {
  Reduction made{{}, 1, 1};
  std::int64_t step = 1;
  core::Loop<2>& outer = made.params.outer;
  core::Loop<1>& inner = made.params.inner;
  outer.numel = inner.numel = 1;
  for (int d = 0; d < static_cast<int>(shape.sizes.size()); ++d) {
    const std::int64_t size = shape.sizes[static_cast<std::size_t>(d)];
    if (std::find(shape.reduced.begin(), shape.reduced.end(), d) != shape.reduced.end()) {
      inner.sizes[inner.ndim] = size;
      inner.strides[0][inner.ndim++] = step;
      inner.numel *= size;
    } else {
      outer.sizes[outer.ndim] = size;
      outer.strides[0][outer.ndim] = made.outputs;
      outer.strides[1][outer.ndim++] = step;
      made.outputs *= size;
      outer.numel *= size;
    }
    step *= size;
  }
  if (outer.ndim == 0) outer.ndim = 1, outer.sizes[0] = 1;
  if (inner.ndim == 0) inner.ndim = 1, inner.sizes[0] = 1;
  made.inputs = step;
  return made;
}

bool has_indices(ReduceOp op) {
  return op == ReduceOp::max || op == ReduceOp::min;
}

DType result_of(ReduceOp op, DType dtype) {
  if (op == ReduceOp::argmax || op == ReduceOp::argmin) return DType::i64;
  return op == ReduceOp::all || op == ReduceOp::any ? DType::boolean : dtype;
}

/// Sums of many numbers in another order.
test::Tolerance tolerance_of_sum(DType dtype) {
  test::Tolerance tolerance = test::tolerance_of(dtype);
  if (core::is_floating(dtype)) tolerance.absolute = dtype == DType::f64 ? 1e-10 : dtype == DType::f32 ? 1e-3 : 5e-3;
  return tolerance;
}

void compare_reduction(ReduceOp op, DType dtype, const Shape& shape, double arg, Numbers numbers) {
  SCOPED_TRACE(shape.name);
  auto theirs = cpu().reduction->reduce.at(op, dtype);
  const DType cpu_type = by_dtype(dtype, theirs != nullptr);
  if (theirs == nullptr) theirs = cpu().reduction->reduce.at(op, cpu_type);
  Reduction r = make_reduction(shape);
  std::mt19937 random(11);
  Buffer in = test::random_buffer(dtype, r.inputs, numbers, random), cpu_in = test::converted(in, cpu_type);
  Buffer expected(result_of(op, cpu_type), r.outputs), actual(result_of(op, dtype), r.outputs);
  Buffer expected_at(DType::i64, r.outputs), actual_at(DType::i64, r.outputs);
  r.params.args[0] = r.params.args[1] = arg;
  const auto run = [&](auto slot, Buffer& from, Buffer& to, Buffer& indices) {
    r.params.in = from.at(0);
    r.params.out = to.at(0);
    r.params.indices = has_indices(op) ? static_cast<std::int64_t*>(indices.at(0)) : nullptr;
    slot(r.params);
  };
  run(theirs, cpu_in, expected, expected_at);
  run(device().reduction.reduce.at(op, dtype), in, actual, actual_at);
  EXPECT_EQ(test::difference(expected, actual, tolerance_of_sum(result_of(op, dtype))), "");
  EXPECT_EQ(test::difference(expected_at, actual_at, {}), "");
}

void compare_reduction(ReduceOp op, DType dtype) {
  const Numbers numbers = op == ReduceOp::prod                                         ? Numbers::near_one
                          : has_indices(op) || result_of(op, DType::f32) != DType::f32 ? Numbers::any
                                                                                       : Numbers::finite;
  for (const Shape& shape : shapes()) {
    if (op != ReduceOp::norm) {
      compare_reduction(op, dtype, shape, 1, numbers);
      continue;
    }
    for (double p : {0.0, 1.0, 2.0, 3.0, HUGE_VAL, -HUGE_VAL}) compare_reduction(op, dtype, shape, p, numbers);
  }
}

Coverage compare_reductions() {
  Coverage coverage;
  for (int i = 0; i < static_cast<int>(ReduceOp::count_); ++i) {
    for (int k = 0; k < core::kDTypeCount; ++k) {
      const auto op = static_cast<ReduceOp>(i);
      const auto dtype = static_cast<DType>(k);
      const bool ours = device().reduction.reduce.at(op, dtype) != nullptr;
      coverage.count(dtype, cpu().reduction->reduce.at(op, dtype) != nullptr, ours);
      SCOPED_TRACE(std::string(core::name(op)) + " of " + std::string(core::name(dtype)));
      if (ours) compare_reduction(op, dtype);
    }
  }
  return coverage;
}

TEST(CudaReductions, AgreeWithCpu) {
  const Coverage coverage = compare_reductions();
  EXPECT_EQ(coverage.both, coverage.cpu);
  std::cout << "reductions: " << coverage.str() << '\n';
}
TEST(CudaReductions, AgreeWithCpuOnTeams) {
  const test::Lanes lanes(8);
  for (int i = 0; i < static_cast<int>(ReduceOp::count_); ++i) compare_reduction(static_cast<ReduceOp>(i), DType::f32);
  compare_reduction(ReduceOp::max, DType::i16);
}

TEST(CudaReductions, SecondStageMergesPiecesInOrder) {
  // The first of equal elements, and the first NaN, whatever piece they are in.
  const test::Lanes lanes(4);
  std::vector<float> in(100000, 1);
  in[70000] = in[90000] = 2;
  float best = 0;
  std::int64_t at = -1;
  ReduceParams p{&best, &at, in.data(), {}, {1, 1, {1}, {{0}, {0}}}, {1, 100000, {100000}, {{1}}}};
  device().reduction.reduce.at(ReduceOp::max, DType::f32)(p);
  EXPECT_EQ(best, 2);
  EXPECT_EQ(at, 70000);
  in[80000] = in[95000] = std::numeric_limits<float>::quiet_NaN();
  device().reduction.reduce.at(ReduceOp::min, DType::f32)(p);
  EXPECT_EQ(at, 80000);
}

/// Lines along a dimension of an array (inner, length, outer), from the innermost.
struct LineShape {
  std::string name;
  std::int64_t inner, length, outer;
};

const std::vector<LineShape>& line_shapes() {
  static const std::vector<LineShape> all = {{"one element", 1, 1, 1},
                                             {"empty lines", 3, 0, 2},
                                             {"no lines", 0, 5, 1},
                                             {"one line", 1, 100, 1},
                                             {"one long line", 1, 9001, 1},
                                             {"few long lines", 1, 3000, 3},
                                             {"rows", 1, 50, 40},
                                             {"columns", 40, 33, 1},
                                             {"middle", 7, 300, 5},
                                             {"short lines", 1, 7, 90},
                                             {"pairs", 2, 2, 2},
                                             {"many columns", 9000, 18, 1}};
  return all;
}

Loop<2> lines_of(const LineShape& shape) {
  if (shape.outer == 1) return {1, shape.inner, {shape.inner}, {{1}, {1}}};
  const std::int64_t step = shape.inner * shape.length;
  if (shape.inner == 1) return {1, shape.outer, {shape.outer}, {{step}, {step}}};
  return {2, shape.inner * shape.outer, {shape.inner, shape.outer}, {{1, step}, {1, step}}};
}

void compare_scan(core::ScanOp op, DType dtype, const LineShape& shape) {
  SCOPED_TRACE(shape.name);
  auto theirs = cpu().reduction->scan.at(op, dtype);
  const DType cpu_type = by_dtype(dtype, theirs != nullptr);
  if (theirs == nullptr) theirs = cpu().reduction->scan.at(op, cpu_type);
  std::mt19937 random(5);
  const std::int64_t count = shape.inner * shape.length * shape.outer;
  const Numbers numbers = op == core::ScanOp::cumprod ? Numbers::near_one : Numbers::finite;
  Buffer in = test::random_buffer(dtype, count, numbers, random), cpu_in = test::converted(in, cpu_type);
  Buffer expected(cpu_type, count), actual(dtype, count);
  theirs({expected.at(0), cpu_in.at(0), lines_of(shape), shape.length, shape.inner, shape.inner});
  const ScanParams ours{actual.at(0), in.at(0), lines_of(shape), shape.length, shape.inner, shape.inner};
  device().reduction.scan.at(op, dtype)(ours);
  EXPECT_EQ(test::difference(expected, actual, tolerance_of_sum(dtype)), "");
}

Coverage compare_scans() {
  Coverage coverage;
  for (int i = 0; i < static_cast<int>(core::ScanOp::count_); ++i) {
    for (int k = 0; k < core::kDTypeCount; ++k) {
      const auto op = static_cast<core::ScanOp>(i);
      const auto dtype = static_cast<DType>(k);
      const bool ours = device().reduction.scan.at(op, dtype) != nullptr;
      coverage.count(dtype, cpu().reduction->scan.at(op, dtype) != nullptr, ours);
      SCOPED_TRACE(std::string(core::name(op)) + " of " + std::string(core::name(dtype)));
      for (const LineShape& shape : line_shapes()) {
        if (ours) compare_scan(op, dtype, shape);
      }
    }
  }
  return coverage;
}

TEST(CudaScans, AgreeWithCpu) {
  const Coverage coverage = compare_scans();
  EXPECT_EQ(coverage.both, coverage.cpu);
  std::cout << "scans: " << coverage.str() << '\n';
}
TEST(CudaScans, AgreeWithCpuOnTeams) {
  const test::Lanes lanes(4);
  compare_scans();
}

void compare_sort(DType dtype, const LineShape& shape, bool descending, Numbers numbers) {
  SCOPED_TRACE(shape.name + (descending ? " descending" : " ascending"));
  std::mt19937 random(3);
  const std::int64_t count = shape.inner * shape.length * shape.outer;
  Buffer in = test::random_buffer(dtype, count, numbers, random);
  Buffer expected(dtype, count), actual(dtype, count), expected_at(DType::i64, count), actual_at(DType::i64, count);
  const auto run = [&](auto slot, Buffer& values, Buffer& indices) {
    slot({values.at(0), static_cast<std::int64_t*>(indices.at(0)), in.at(0), lines_of(shape), shape.length, shape.inner,
          shape.inner, descending});
  };
  run(cpu().reduction->sort[static_cast<std::size_t>(dtype)], expected, expected_at);
  run(device().reduction.sort[static_cast<std::size_t>(dtype)], actual, actual_at);
  EXPECT_EQ(test::difference(expected, actual, {}), "");
  EXPECT_EQ(test::difference(expected_at, actual_at, {}), "");
}

Coverage compare_sorts() {
  Coverage coverage;
  for (int k = 0; k < core::kDTypeCount; ++k) {
    const auto dtype = static_cast<DType>(k);
    const bool ours = device().reduction.sort[static_cast<std::size_t>(k)] != nullptr;
    coverage.count(cpu().reduction->sort[static_cast<std::size_t>(k)] != nullptr, ours);
    SCOPED_TRACE(std::string(core::name(dtype)));
    for (const LineShape& shape : line_shapes()) {
      if (!ours || shape.inner > 1000) continue;
      compare_sort(dtype, shape, false, Numbers::any);
      compare_sort(dtype, shape, true, Numbers::any);
      compare_sort(dtype, shape, true, Numbers::near_one);
    }
  }
  return coverage;
}

TEST(CudaSorts, AgreeWithCpu) {
  const Coverage coverage = compare_sorts();
  EXPECT_EQ(coverage.both, coverage.cpu);
  std::cout << "sorts: " << coverage.str() << '\n';
}
TEST(CudaSorts, AgreeWithCpuOnTeams) {
  const test::Lanes lanes(4);
  for (const LineShape& shape : line_shapes()) {
    if (shape.inner > 1000) continue;
    compare_sort(DType::f32, shape, false, Numbers::any);
    compare_sort(DType::i64, shape, true, Numbers::near_one);
  }
}

TEST(CudaSorts, ZerosAreEqualAndNaNIsLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float in[6] = {nan, 0.0F, -0.0F, -nan, -1, HUGE_VALF}, values[6];
  std::int64_t indices[6];
  const SortParams p{values, indices, in, {1, 1, {1}, {{0}, {0}}}, 6, 1, 1, false};
  device().reduction.sort[static_cast<std::size_t>(DType::f32)](p);
  EXPECT_THAT(indices, testing::ElementsAre(4, 1, 2, 5, 0, 3));
}

// Indexing: the loop runs over an index laid along a dimension (index_select, index_add), or over an index of the full
// shape (gather, scatter).

struct IndexShape {
  std::string name;
  Loop<3> loop;  // out, in, index
  std::int64_t step, limit;
  std::int64_t outs, ins, indices;  // elements of each
};

/// `placing`: the operand that is indexed is out, else in. Dimensions: 6 columns, 50 positions of 9 rows.
std::vector<IndexShape> index_shapes(bool placing) {
  const auto rows = [&](std::string name, std::int64_t columns, std::int64_t positions, std::int64_t limit) {
    IndexShape s{std::move(name),
                 {2, columns * positions, {columns, positions}, {{1, columns}, {1, columns}, {0, 1}}},
                 columns,
                 limit,
                 columns * positions,
                 columns * positions,
                 positions};
    s.loop.strides[placing ? 0 : 1][1] = 0;
    (placing ? s.outs : s.ins) = columns * limit;
    return s;
  };
  const auto full = [&](std::string name, std::int64_t columns, std::int64_t positions, std::int64_t limit) {
    IndexShape s = rows(std::move(name), columns, positions, limit);
    s.loop.strides[2][0] = 1;
    s.loop.strides[2][1] = columns;
    s.indices = columns * positions;
    return s;
  };
  const auto line = [&](std::string name, std::int64_t positions, std::int64_t limit) {
    IndexShape s{std::move(name), {1, positions, {positions}, {{1}, {1}, {1}}}, 1, limit, positions, positions,
                 positions};
    s.loop.strides[placing ? 0 : 1][0] = 0;
    (placing ? s.outs : s.ins) = limit;
    return s;
  };
  std::vector<IndexShape> all = {rows("rows", 6, 50, 9),          rows("wide rows", 16, 5, 7),   full("full", 6, 50, 9),
                                 line("line", 200, 30),           line("long line", 3000, 2000), line("one", 1, 1),
                                 full("columns of one", 1, 7, 3), rows("no rows", 4, 0, 5)};
  // Many meet in few places: runs that teams add up, also of more than a tile, beside short ones.
  all.push_back(rows("few rows", 20, 700, 3));
  all.push_back(rows("long and short runs", 3, 600, 9));
  all.push_back(line("few places", 9000, 2));
  // One index for all positions: they meet in one place.
  IndexShape same = rows("same index", 3, 8, 4);
  same.loop.strides[2][1] = 0;
  all.push_back(same);
  return all;
}

void compare_indexing(IndexOp op, DType dtype, const IndexShape& shape) {
  SCOPED_TRACE(shape.name);
  const auto slot_of = [&](const core::IndexingTable& table, DType type) {
    return table.index[static_cast<std::size_t>(op)][static_cast<std::size_t>(type)];
  };
  const DType cpu_type = by_dtype(dtype, slot_of(*cpu().indexing, dtype) != nullptr);
  std::mt19937 random(13);
  Buffer in = test::random_buffer(dtype, shape.ins, Numbers::finite, random), cpu_in = test::converted(in, cpu_type);
  Buffer actual = test::random_buffer(dtype, shape.outs, Numbers::finite, random);
  Buffer expected = test::converted(actual, cpu_type);
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.indices));
  for (auto& i : index) i = static_cast<std::int64_t>(random() % static_cast<unsigned>(shape.limit));
  const auto run = [&](auto slot, Buffer& to, Buffer& from) {
    IndexParams p{to.at(0), from.at(0), index.data(), shape.loop, shape.step, shape.limit, 0, false};
    slot(p);
    EXPECT_FALSE(p.failed);
  };
  run(slot_of(*cpu().indexing, cpu_type), expected, cpu_in);
  run(slot_of(device().indexing, dtype), actual, in);
  // The same bits, also of sums: the order of the additions is the CPU's.
  const auto tolerance = cpu_type == dtype ? test::Tolerance{} : test::tolerance_of(dtype);
  EXPECT_EQ(test::difference(expected, actual, tolerance), "");
}

Coverage compare_indexing() {
  Coverage coverage;
  for (int i = 0; i < static_cast<int>(IndexOp::count_); ++i) {
    for (int k = 0; k < core::kDTypeCount; ++k) {
      const auto op = static_cast<IndexOp>(i);
      const bool ours = device().indexing.index[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)] != nullptr;
      const auto dtype = static_cast<DType>(k);
      const auto theirs = cpu().indexing->index[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)];
      coverage.count(dtype, theirs != nullptr, ours);
      SCOPED_TRACE(std::string(core::name(op)) + " of " + std::string(core::name(dtype)));
      for (const IndexShape& shape : index_shapes(op != IndexOp::take)) {
        // Complex numbers, 8-bit floats and their like are moved as the integers of their size are.
        if (ours && dtype <= DType::f64) compare_indexing(op, dtype, shape);
      }
    }
  }
  EXPECT_FALSE(test::took_flag());
  return coverage;
}

TEST(CudaIndexing, AgreesWithCpu) {
  const Coverage coverage = compare_indexing();
  EXPECT_EQ(coverage.both, coverage.cpu);
  std::cout << "indexing: " << coverage.str() << '\n';
}
TEST(CudaIndexing, AgreesWithCpuOnTeams) {
  const test::Lanes lanes(4);
  for (IndexOp op : {IndexOp::take, IndexOp::put, IndexOp::accumulate}) {
    for (const IndexShape& shape : index_shapes(op != IndexOp::take)) compare_indexing(op, DType::f32, shape);
  }
}
// Some lanes add up what the others bring.
TEST(CudaIndexing, LargeTeamsAddUpLongRuns) {
  const test::Lanes lanes(256);
  for (const IndexShape& shape : index_shapes(true)) {
    if (shape.indices > 500) compare_indexing(IndexOp::accumulate, DType::f32, shape);
  }
}

TEST(CudaIndexing, RaisesTheFlagForIndicesOutOfRange) {
  float in[3] = {1, 2, 3}, out[3] = {-1, -1, -1};
  const std::int64_t index[3] = {2, 3, -1};
  IndexParams p{out, in, index, {1, 3, {3}, {{1}, {0}, {1}}}, 1, 3, 0, false};
  device().indexing.index[static_cast<std::size_t>(IndexOp::take)][static_cast<std::size_t>(DType::f32)](p);
  EXPECT_TRUE(test::took_flag());
  EXPECT_FALSE(p.failed);
  EXPECT_THAT(out, testing::ElementsAre(3, -1, -1));
  IndexParams add{out, in, index, {1, 3, {3}, {{0}, {1}, {1}}}, 1, 3, 0, false};
  device().indexing.index[static_cast<std::size_t>(IndexOp::accumulate)][static_cast<std::size_t>(DType::f32)](add);
  EXPECT_TRUE(test::took_flag());
  EXPECT_THAT(out, testing::ElementsAre(3, -1, 0));
}

}  // namespace
