#include "libckpt/format/gguf/gguf_types.h"

#include <algorithm>
#include <array>

namespace ckpt::detail {
namespace {

using core::DType;

constexpr std::array kTypes = {
    GgmlType{0, "F32", 1, 4, DType::f32},    GgmlType{1, "F16", 1, 2, DType::f16},
    GgmlType{2, "Q4_0", 32, 18, {}},         GgmlType{3, "Q4_1", 32, 20, {}},
    GgmlType{6, "Q5_0", 32, 22, {}},         GgmlType{7, "Q5_1", 32, 24, {}},
    GgmlType{8, "Q8_0", 32, 34, {}},         GgmlType{9, "Q8_1", 32, 36, {}},
    GgmlType{10, "Q2_K", 256, 84, {}},       GgmlType{11, "Q3_K", 256, 110, {}},
    GgmlType{12, "Q4_K", 256, 144, {}},      GgmlType{13, "Q5_K", 256, 176, {}},
    GgmlType{14, "Q6_K", 256, 210, {}},      GgmlType{15, "Q8_K", 256, 292, {}},
    GgmlType{16, "IQ2_XXS", 256, 66, {}},    GgmlType{17, "IQ2_XS", 256, 74, {}},
    GgmlType{18, "IQ3_XXS", 256, 98, {}},    GgmlType{19, "IQ1_S", 256, 50, {}},
    GgmlType{20, "IQ4_NL", 32, 18, {}},      GgmlType{21, "IQ3_S", 256, 110, {}},
    GgmlType{22, "IQ2_S", 256, 82, {}},      GgmlType{23, "IQ4_XS", 256, 136, {}},
    GgmlType{24, "I8", 1, 1, DType::i8},     GgmlType{25, "I16", 1, 2, DType::i16},
    GgmlType{26, "I32", 1, 4, DType::i32},   GgmlType{27, "I64", 1, 8, DType::i64},
    GgmlType{28, "F64", 1, 8, DType::f64},   GgmlType{29, "IQ1_M", 256, 56, {}},
    GgmlType{30, "BF16", 1, 2, DType::bf16}, GgmlType{34, "TQ1_0", 256, 54, {}},
    GgmlType{35, "TQ2_0", 256, 66, {}},      GgmlType{39, "MXFP4", 32, 17, {}},
    GgmlType{40, "NVFP4", 64, 36, {}},       GgmlType{41, "Q1_0", 128, 18, {}},
    GgmlType{42, "Q2_0", 64, 18, {}},
};

template <class Test>
const GgmlType* find_if(Test test) {
  auto found = std::find_if(kTypes.begin(), kTypes.end(), test);
  return found == kTypes.end() ? nullptr : &*found;
}

struct ValueType {
  std::string_view name;
  std::uint32_t size;
};
constexpr std::array<ValueType, kGgufValueTypes> kValueTypes = {{
    {"UINT8", 1},
    {"INT8", 1},
    {"UINT16", 2},
    {"INT16", 2},
    {"UINT32", 4},
    {"INT32", 4},
    {"FLOAT32", 4},
    {"BOOL", 1},
    {"STRING", 0},
    {"ARRAY", 0},
    {"UINT64", 8},
    {"INT64", 8},
    {"FLOAT64", 8},
}};

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t id) {
  return find_if([&](const GgmlType& type) { return type.id == id; });
}

const GgmlType* find_ggml_type(std::string_view name) {
  return find_if([&](const GgmlType& type) { return type.name == name; });
}

const GgmlType* find_ggml_type(core::DType dtype) {
  return find_if([&](const GgmlType& type) { return type.dtype == dtype; });
}

std::uint32_t value_size(GgufValueType type) {
  return kValueTypes[static_cast<std::size_t>(type)].size;
}

std::string_view value_type_name(GgufValueType type) {
  return kValueTypes[static_cast<std::size_t>(type)].name;
}

}  // namespace ckpt::detail
