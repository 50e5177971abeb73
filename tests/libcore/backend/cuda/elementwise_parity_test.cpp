// Every slot of the CUDA devices' element-wise and copy tables, run on the host, against the CPU's slot. What the CPU
// has no slot for (the halves) is compared with its slot of float.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cuda/kernels/elements.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/element_types.h"
#include "libcore/backend/op_tables.h"
#include "tests/libcore/backend/cuda/emulation.h"
#include "tests/libcore/backend/cuda/parity.h"

namespace {

using core::BinaryOp;
using core::BinaryParams;
using core::CopyParams;
using core::DType;
using core::Loop;
using core::TernaryOp;
using core::TernaryParams;
using core::UnaryOp;
using core::UnaryParams;
using test::Buffer;
using test::Case;
using test::Coverage;
using test::Numbers;

const core::ElementwiseTable& device() {
  static const auto* table = [] {
    auto* filled = new core::ElementwiseTable;
    core::emulated_kernels::fill_elementwise(*filled);
    core::emulated_kernels::fill_compare(*filled);
    core::emulated_kernels::fill_ternary(*filled);
    return filled;
  }();
  return *table;
}
const core::ElementwiseTable& cpu() {
  return *core::cpu_op_tables().elementwise;
}
const core::CopyTable& device_copies() {
  static const auto* table = [] {
    auto* filled = new core::CopyTable;
    core::emulated_kernels::fill_copies(*filled);
    return filled;
  }();
  return *table;
}

/// Calls body(op, dtype, CPU's kernel, device's kernel, dtype of the CPU's kernel) for every slot of the device, and
/// counts. All slots of the CPU must be filled.
template <class Op, class Params, class Body>
Coverage for_slots(const core::KernelGrid<Op, Params>& of_cpu, const core::KernelGrid<Op, Params>& of_device,
                   const Body& body) {
  Coverage coverage;
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) {
    for (int k = 0; k < core::kDTypeCount; ++k) {
      const auto op = static_cast<Op>(i);
      const auto dtype = static_cast<DType>(k), by = test::is_half(dtype) ? DType::f32 : dtype;
      auto theirs = of_cpu.at(op, dtype), ours = of_device.at(op, dtype);
      coverage.count(dtype, theirs != nullptr, ours != nullptr);
      if (ours == nullptr) continue;
      SCOPED_TRACE(std::string(core::name(op)) + " of " + std::string(core::name(dtype)));
      const DType cpu_dtype = theirs == nullptr ? by : dtype;
      body(op, dtype, theirs == nullptr ? of_cpu.at(op, by) : theirs, ours, cpu_dtype);
    }
  }
  EXPECT_EQ(coverage.both, coverage.cpu);
  return coverage;
}

/// Numbers of the operations that have some.
void put_args(UnaryOp op, double* args) {
  const auto set = [&](double a, double b = 0, double c = 0) { args[0] = a, args[1] = b, args[2] = c; };
  switch (op) {
    case UnaryOp::leaky_relu:
      return set(0.01);
    case UnaryOp::elu:
      return set(1.5, 1.1, 0.9);
    case UnaryOp::softplus:
      return set(1.5, 3);
    case UnaryOp::clamp:
      return set(-1.5, 2.5);
    case UnaryOp::threshold:
      return set(0.5, -7);
    case UnaryOp::nan_to_num:
      return set(0.25, 100, -100);
    default:
      return set(0);
  }
}

/// The tolerance of an operation: the gamma functions and powers lose more places near their zeros.
test::Tolerance tolerance_for(DType dtype, bool is_rough) {
  test::Tolerance tolerance = test::tolerance_of(dtype);
  if (is_rough) tolerance.relative *= 10, tolerance.absolute *= 10;
  return tolerance;
}

/// Runs both slots on the same numbers; the whole buffers of the results must agree, gaps too. make(out, ins) gives
/// the parameters.
template <int N, class Kernel, class Make>
void compare_slots(const Case<N>& c, std::array<DType, N> device_types, std::array<DType, N> cpu_types, Kernel cpu_slot,
                   Kernel device_slot, Numbers numbers, const test::Tolerance& tolerance, const Make& make) {
  SCOPED_TRACE(c.name);
  std::mt19937 random(7);
  std::vector<Buffer> ours, theirs;
  for (int k = 0; k < N; ++k) {
    ours.push_back(test::random_buffer(device_types[static_cast<std::size_t>(k)], c.extent(k),
                                       k == 0 ? Numbers::finite : numbers, random));
    theirs.push_back(test::converted(ours.back(), cpu_types[static_cast<std::size_t>(k)]));
  }
  const auto run = [&](Kernel slot, std::vector<Buffer>& buffers) {
    std::array<void*, N> data;
    for (int k = 0; k < N; ++k) {
      data[static_cast<std::size_t>(k)] = buffers[static_cast<std::size_t>(k)].at(c.first[k]);
    }
    slot(make(data));
  };
  run(cpu_slot, theirs);
  run(device_slot, ours);
  EXPECT_EQ(test::difference(theirs[0], ours[0], tolerance), "");
}

void check_unary() {
  const auto coverage = for_slots(
      cpu().unary, device().unary, [](UnaryOp op, DType dtype, auto cpu_slot, auto device_slot, DType cpu_dtype) {
        const bool is_rough = op == UnaryOp::lgamma || op == UnaryOp::digamma || op == UnaryOp::trigamma ||
                              op == UnaryOp::erfinv || op == UnaryOp::tan;
        // Off the poles of the gamma functions, beside which a digit decides.
        const Numbers numbers = op == UnaryOp::digamma || op == UnaryOp::trigamma ? Numbers::near_one : Numbers::any;
        for (const auto& c : test::loops<2>()) {
          compare_slots<2>(c, {dtype, dtype}, {cpu_dtype, cpu_dtype}, cpu_slot, device_slot, numbers,
                           tolerance_for(dtype, is_rough), [&](const auto& data) {
                             UnaryParams p{data[0], data[1], {}, c.loop};
                             put_args(op, p.args);
                             return p;
                           });
        }
      });
  std::cout << "unary: " << coverage.str() << '\n';
}

void check_predicates() {
  const auto coverage = for_slots(cpu().predicate, device().predicate,
                                  [](core::PredicateOp, DType dtype, auto cpu_slot, auto device_slot, DType cpu_dtype) {
                                    for (const auto& c : test::loops<2>()) {
                                      compare_slots<2>(c, {DType::boolean, dtype}, {DType::boolean, cpu_dtype},
                                                       cpu_slot, device_slot, Numbers::any, {}, [&](const auto& data) {
                                                         return UnaryParams{data[0], data[1], {}, c.loop};
                                                       });
                                    }
                                  });
  std::cout << "predicates: " << coverage.str() << '\n';
}

bool divides(BinaryOp op) {
  return op == BinaryOp::div_floor || op == BinaryOp::div_trunc || op == BinaryOp::remainder || op == BinaryOp::fmod;
}

void check_binary() {
  const auto coverage = for_slots(
      cpu().binary, device().binary, [](BinaryOp op, DType dtype, auto cpu_slot, auto device_slot, DType cpu_dtype) {
        const bool scales = op == BinaryOp::add || op == BinaryOp::sub;
        const Numbers numbers = divides(op) && !core::is_floating(dtype) ? Numbers::nonzero : Numbers::any;
        for (const auto& c : test::loops<3>()) {
          compare_slots<3>(c, {dtype, dtype, dtype}, {cpu_dtype, cpu_dtype, cpu_dtype}, cpu_slot, device_slot, numbers,
                           tolerance_for(dtype, op == BinaryOp::pow), [&](const auto& data) {
                             return BinaryParams{data[0], data[1], data[2], {scales ? 3.0 : -0.5, 1.5}, c.loop};
                           });
        }
      });
  std::cout << "binary: " << coverage.str() << '\n';
}

void check_compare() {
  const auto coverage =
      for_slots(cpu().compare, device().compare,
                [](core::CompareOp, DType dtype, auto cpu_slot, auto device_slot, DType cpu_dtype) {
                  for (const auto& c : test::loops<3>()) {
                    compare_slots<3>(c, {DType::boolean, dtype, dtype}, {DType::boolean, cpu_dtype, cpu_dtype},
                                     cpu_slot, device_slot, Numbers::any, {}, [&](const auto& data) {
                                       return BinaryParams{data[0], data[1], data[2], {}, c.loop};
                                     });
                  }
                });
  std::cout << "comparisons: " << coverage.str() << '\n';
}

void check_ternary() {
  const auto coverage = for_slots(
      cpu().ternary, device().ternary, [](TernaryOp op, DType dtype, auto cpu_slot, auto device_slot, DType cpu_dtype) {
        const bool is_where = op == TernaryOp::where;
        for (const auto& c : test::loops<4>()) {
          compare_slots<4>(
              c, {dtype, is_where ? DType::boolean : dtype, dtype, dtype},
              {cpu_dtype, is_where ? DType::boolean : cpu_dtype, cpu_dtype, cpu_dtype}, cpu_slot, device_slot,
              Numbers::any, is_where ? test::Tolerance{} : tolerance_for(dtype, false),
              [&](const auto& data) { return TernaryParams{data[0], data[1], data[2], data[3], {-2}, c.loop}; });
        }
      });
  std::cout << "three operands: " << coverage.str() << '\n';
}

TEST(CudaElementwise, UnaryAgreesWithCpu) {
  check_unary();
}
TEST(CudaElementwise, PredicatesAgreeWithCpu) {
  check_predicates();
}
TEST(CudaElementwise, BinaryAgreesWithCpu) {
  check_binary();
}
TEST(CudaElementwise, CompareAgreesWithCpu) {
  check_compare();
}
TEST(CudaElementwise, TernaryAgreesWithCpu) {
  check_ternary();
}

TEST(CudaElementwise, TakesANumberOfTheHostByValue) {
  float out[5] = {}, a[5] = {1, 2, 3, 4, 5}, number = 10;
  BinaryParams p{out, a, &number, {1}, {1, 5, {5}, {{1}, {1}, {0}}}};
  p.b_on_host = true;
  device().binary.at(BinaryOp::sub, DType::f32)(p);
  EXPECT_THAT(out, testing::ElementsAre(-9, -8, -7, -6, -5));
  p = BinaryParams{out, &number, a, {1}, {1, 5, {5}, {{1}, {1}, {1}}}};
  p.a_on_host = true;  // whatever its strides say
  device().binary.at(BinaryOp::sub, DType::f32)(p);
  EXPECT_THAT(out, testing::ElementsAre(9, 8, 7, 6, 5));
}

TEST(CudaElementwise, WritesOverItsOwnInput) {
  std::vector<float> x(1001, -2);
  const UnaryParams p{x.data(), x.data(), {}, {1, 1001, {1001}, {{1}, {1}}}};
  device().unary.at(UnaryOp::square, DType::f32)(p);
  EXPECT_THAT(x, testing::Each(4));
}

TEST(CudaIndexer, DividesByMultiplying) {
  constexpr std::uint32_t kLast = (std::uint32_t{1} << 31) - 1;
  for (std::uint32_t divisor : {1U, 2U, 3U, 5U, 7U, 641U, 65535U, 65536U, 1000003U, (1U << 30) + 1, kLast}) {
    const core::emulated_kernels::Divider divider(divisor);
    for (std::uint32_t n : {0U, 1U, divisor - 1, divisor, kLast / divisor * divisor, kLast - 1, kLast, 123456789U}) {
      EXPECT_EQ(divider.divide(n), n / divisor) << n << " / " << divisor;
    }
  }
}

TEST(CudaIndexer, CountsWith64BitsWhereItMust) {
  const std::int64_t large = std::int64_t{1} << 31;
  const core::emulated_kernels::Indexer<2> far({2, 6, {2, 3}, {{3, 1}, {1, large}}});
  EXPECT_EQ(far(5)[0], 3 + 2);
  EXPECT_EQ(far(5)[1], 1 + 2 * large);
  const core::emulated_kernels::Indexer<1> many({2, 3 * large, {large, 3}, {{1, large}}});
  EXPECT_EQ(many(3 * large - 1)[0], 3 * large - 1);
  const core::emulated_kernels::Splitter rows(large + 1, 3 * large);
  EXPECT_EQ(rows.quotient(2 * large + 5), 2);
  EXPECT_EQ(rows.rest(2 * large + 5, 2), 3);
}

TEST(CudaCopies, ConversionsAgreeWithCpu) {
  Coverage coverage;
  const auto& theirs = core::cpu_op_tables().copy->convert;
  for (std::size_t from = 0; from < theirs.size(); ++from) {
    for (std::size_t to = 0; to < theirs.size(); ++to) {
      auto ours = device_copies().convert[from][to];
      const auto from_type = static_cast<DType>(from), to_type = static_cast<DType>(to);
      coverage.count(core::is_complex(from_type) ? from_type : to_type, theirs[from][to] != nullptr, ours != nullptr);
      if (ours == nullptr || theirs[from][to] == nullptr) continue;
      SCOPED_TRACE(std::string(core::name(from_type)) + " to " + std::string(core::name(to_type)));
      const DType stored = from_type > DType::f64 ? DType::u8 : from_type;  // 8-bit floats as their bytes
      for (const auto& c : test::loops<2>()) {
        compare_slots<2>(c, {to_type, stored}, {to_type, stored}, theirs[from][to], ours, Numbers::any, {},
                         [&](const auto& data) {
                           return CopyParams{data[0], data[1], c.loop};
                         });
      }
    }
  }
  EXPECT_EQ(coverage.both, coverage.cpu);
  std::cout << "conversions: " << coverage.str() << '\n';
}

TEST(CudaCopies, FloatsOutOfRangeConvertAsOnTheCpu) {
  Buffer in(DType::f64, 6), expected(DType::i32, 6), actual(DType::i32, 6);
  const double values[] = {1e10, -1e10, 1e30, -1e30, HUGE_VAL, 3.99};
  for (int i = 0; i < 6; ++i) in.set(i, values[i]);
  constexpr auto kFrom = static_cast<std::size_t>(DType::f64), kTo = static_cast<std::size_t>(DType::i32);
  const Loop<2> loop{1, 6, {6}, {{1}, {1}}};
  core::cpu_op_tables().copy->convert[kFrom][kTo]({expected.at(0), in.at(0), loop});
  device_copies().convert[kFrom][kTo]({actual.at(0), in.at(0), loop});
  EXPECT_EQ(test::difference(expected, actual, {}), "");
}

constexpr DType kWords[] = {DType::u8, DType::u16, DType::u32, DType::u64};

TEST(CudaCopies, MovesAgreeWithCpu) {
  for (DType word : kWords) {
    const std::size_t bytes = core::element_bytes(word);
    SCOPED_TRACE(bytes);
    for (const auto& c : test::loops<2>()) {
      compare_slots<2>(c, {word, word}, {word, word}, core::cpu_op_tables().copy->move[bytes],
                       device_copies().move[bytes], Numbers::any, {}, [&](const auto& data) {
                         return CopyParams{data[0], data[1], c.loop};
                       });
    }
  }
}

TEST(CudaCopies, TransposesGoByTiles) {
  const std::vector<Case<2>> cases = {test::make_case<2>("plain", {70, 90}, {{}, {{1, 0}}}),
                                      test::make_case<2>("planes", {40, 3, 33}, {{}, {{2, 0, 1}, 1, -1, 1}}),
                                      test::make_case<2>("four", {16, 2, 17, 3}, {{{0, 2, 1, 3}}, {{2, 3, 1, 0}}}),
                                      test::make_case<2>("with gaps outside", {32, 20, 2}, {{{0, 1, 2}}, {{1, 2, 0}}})};
  for (int count : {1, 8}) {
    const test::Lanes lanes(count);
    for (DType word : kWords) {
      const std::size_t bytes = core::element_bytes(word);
      SCOPED_TRACE(bytes);
      for (const auto& c : cases) {
        compare_slots<2>(c, {word, word}, {word, word}, core::cpu_op_tables().copy->move[bytes],
                         device_copies().move[bytes], Numbers::any, {}, [&](const auto& data) {
                           return CopyParams{data[0], data[1], c.loop};
                         });
      }
    }
  }
}

TEST(CudaCopies, MovesElementsOfSixteenBytes) {
  std::int64_t in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {};
  device_copies().move[16]({out, in, {1, 4, {4}, {{1}, {1}}}});
  EXPECT_THAT(out, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  device_copies().move[16]({out, in, {1, 2, {2}, {{1}, {2}}}});
  EXPECT_THAT(out, testing::ElementsAre(1, 2, 5, 6, 5, 6, 7, 8));
}

TEST(CudaCopies, FillsAgreeWithCpu) {
  for (DType word : kWords) {
    const std::size_t bytes = core::element_bytes(word);
    SCOPED_TRACE(bytes);
    std::uint64_t value = 0x0102030405060708;
    for (const auto& c : test::loops<2>()) {
      compare_slots<2>(c, {word, word}, {word, word}, core::cpu_op_tables().copy->fill[bytes],
                       device_copies().fill[bytes], Numbers::any, {}, [&](const auto& data) {
                         return CopyParams{data[0], &value, c.loop};
                       });
    }
  }
}

TEST(CudaCopies, RangesAgreeWithCpu) {
  for (std::size_t i = 0; i < core::kDTypeCount; ++i) {
    auto theirs = core::cpu_op_tables().copy->range[i];
    ASSERT_EQ(theirs == nullptr, device_copies().range[i] == nullptr);
    if (theirs == nullptr) continue;
    const auto c = test::make_case<2>("dense", {100}, {{}});
    compare_slots<2>(c, {static_cast<DType>(i), DType::u8}, {static_cast<DType>(i), DType::u8}, theirs,
                     device_copies().range[i], Numbers::any, {}, [&](const auto& data) {
                       return UnaryParams{data[0], nullptr, {3, 0.5 + (i < 9 ? 0.5 : 0), 0}, c.loop};
                     });
  }
}

TEST(CudaElementwise, LanesSideBySideGiveTheSame) {
  const test::Lanes lanes(8);
  for (const auto& c : test::loops<3>()) {
    compare_slots<3>(c, {DType::f32, DType::f32, DType::f32}, {DType::f32, DType::f32, DType::f32},
                     cpu().binary.at(BinaryOp::mul, DType::f32), device().binary.at(BinaryOp::mul, DType::f32),
                     Numbers::any, {}, [&](const auto& data) {
                       return BinaryParams{data[0], data[1], data[2], {}, c.loop};
                     });
  }
}

}  // namespace
