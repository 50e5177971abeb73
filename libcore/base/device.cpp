#include "libcore/base/device.h"

#include <array>
#include <ostream>

#include "libcore/base/error.h"

namespace core {
namespace {

constexpr std::array<std::string_view, 20> kTypeNames = {
    "cpu",  "cuda", "ipu", "xpu",  "mkldnn", "opengl", "opencl", "ideep", "hip",  "ve",
    "fpga", "maia", "xla", "lazy", "vulkan", "mps",    "meta",   "hpu",   "mtia", "privateuseone"};
constexpr int kMaxIndex = 127;

bool is_type_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

[[noreturn]] void throw_invalid(std::string_view text) {
  throw Error(ErrorCode::runtime, "Invalid device string: '" + std::string(text) + "'");
}

/// An index is "0" or digits without a leading zero.
bool is_index(std::string_view digits) {
  if (digits.empty() || (digits.size() > 1 && digits[0] == '0')) return false;
  for (char c : digits) {
    if (!is_digit(c)) return false;
  }
  return true;
}

int parse_index(std::string_view digits, std::string_view whole) {
  int index = 0;
  for (char c : digits) {
    index = index * 10 + (c - '0');
    if (index > kMaxIndex) {
      throw Error(ErrorCode::runtime, "Could not parse device index '" + std::string(digits) + "' in device string '" +
                                          std::string(whole) + "'");
    }
  }
  return index;
}

DeviceType parse_type(std::string_view word) {
  for (std::size_t i = 0; i < kTypeNames.size(); ++i) {
    if (kTypeNames[i] == word) return static_cast<DeviceType>(i);
  }
  std::string known;
  for (std::string_view type : kTypeNames) known += (known.empty() ? "" : ", ") + std::string(type);
  throw Error(ErrorCode::runtime,
              "Expected one of " + known + " device type at start of device string: " + std::string(word));
}

}  // namespace

std::string_view name(DeviceType type) {
  return kTypeNames[static_cast<std::size_t>(type)];
}

Device::Device(std::string_view text) {
  if (text.empty()) throw Error(ErrorCode::runtime, "Device string must not be empty");
  std::size_t end = 0;
  while (end < text.size() && is_type_letter(text[end])) ++end;
  if (end == 0) throw_invalid(text);
  int index = -1;
  if (end < text.size()) {
    std::string_view digits = text.substr(end + 1);
    if (text[end] != ':' || !is_index(digits)) throw_invalid(text);
    index = parse_index(digits, text);
  }
  type_ = parse_type(text.substr(0, end));
  index_ = static_cast<std::int8_t>(index);
}

Device::Device(DeviceType type, int index) : type_(type), index_(static_cast<std::int8_t>(index)) {
  if (index < 0) throw Error(ErrorCode::runtime, "Device index must not be negative");
  if (index > kMaxIndex) {
    std::string number = std::to_string(index);
    throw Error(ErrorCode::runtime, "Could not parse device index '" + number + "' in device string '" +
                                        std::string(name(type)) + ":" + number + "'");
  }
}

Device::Device(std::string_view type, int index) {
  const Device parsed(type);
  if (parsed.has_index()) {
    throw Error(ErrorCode::runtime,
                "type (string) must not include an index because index was passed explicitly: " + std::string(type));
  }
  *this = Device(parsed.type(), index);
}

std::string Device::str() const {
  std::string text(name(type_));
  if (has_index()) text += ":" + std::to_string(index_);
  return text;
}

std::string Device::repr() const {
  std::string text = "device(type='" + std::string(name(type_)) + "'";
  if (has_index()) text += ", index=" + std::to_string(index_);
  return text + ")";
}

std::optional<Device> try_parse_device(std::string_view text) {
  try {
    return Device(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::ostream& operator<<(std::ostream& out, Device device) {
  return out << device.str();
}

}  // namespace core
