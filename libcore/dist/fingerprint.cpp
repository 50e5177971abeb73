#include "libcore/dist/fingerprint.h"

#include <optional>
#include <sstream>

#include "libcore/base/text.h"

namespace core::distributed {

std::string scalar_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "Float";
    case DType::f64:
      return "Double";
    case DType::f16:
      return "Half";
    case DType::bf16:
      return "BFloat16";
    case DType::i8:
      return "Char";
    case DType::u8:
      return "Byte";
    case DType::i16:
      return "Short";
    case DType::i32:
      return "Int";
    case DType::i64:
      return "Long";
    case DType::boolean:
      return "Bool";
    case DType::c64:
      return "ComplexFloat";
    case DType::c128:
      return "ComplexDouble";
    default:
      return std::string(core::name(dtype));
  }
}

namespace {

std::string sizes_text(const std::vector<Shape>& shapes, const char* between) {
  std::string text;
  for (const Shape& shape : shapes) {
    for (const std::int64_t size : shape) text += (text.empty() ? "" : between) + std::to_string(size);
  }
  return text;
}

std::string dtypes_text(const std::vector<DType>& dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += (text.empty() ? "" : ", ") + scalar_name(dtype);
  return text;
}

std::string devices_text(const std::vector<std::string>& devices) {
  std::string text;
  for (const std::string& device : devices) {
    text += (text.empty() ? "" : ", ") + ("TensorOptions(dtype=float (default), device=" + device) +
            ", layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), "
            "memory_format=(nullopt))";
  }
  return text;
}

}  // namespace

std::uint32_t Fingerprint::tag(std::uint64_t sequence) const {
  std::uint64_t hash = 1469598103934665603U;
  for (const char c : packed()) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  hash ^= hash >> 32;
  return static_cast<std::uint32_t>((sequence & 0xfffU) << 20 | ((hash ^ hash >> 20) & 0xfffffU));
}

std::string Fingerprint::str(std::uint64_t sequence) const {
  std::string text = "CollectiveFingerPrint(SequenceNumber=" + std::to_string(sequence) + ", OpType=" + op;
  if (!shapes.empty()) {
    text += ", TensorShape=[" + sizes_text(shapes, ", ") + "], TensorDtypes=" + dtypes_text(dtypes) +
            ", TensorDeviceTypes=" + devices_text(devices);
  }
  return text + ")";
}

std::string Fingerprint::brief() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::uint64_t count = 1;
    for (const std::int64_t size : shapes[i]) count *= static_cast<std::uint64_t>(size);
    bytes += byte_size(dtypes[i], count).value_or(0);
  }
  return dtypes.empty() ? "" : std::string(core::name(dtypes[0])) + ", " + format_size(bytes);
}

std::string Fingerprint::packed() const {
  std::ostringstream out;
  out << op << '|' << detail << '|' << shapes.size();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    out << '|' << static_cast<int>(dtypes[i]) << '|' << devices[i] << '|' << shapes[i].size();
    for (const std::int64_t size : shapes[i]) out << '|' << size;
  }
  return out.str();
}

Fingerprint Fingerprint::parsed(const std::string& text) {
  Fingerprint found;
  std::istringstream in(text);
  std::string part;
  const auto next = [&] {
    part.clear();
    std::getline(in, part, '|');
    return part;
  };
  const auto number = [&] { return std::atoll(next().c_str()); };
  found.op = next();
  found.detail = next();
  for (long long count = number(); count > 0 && in; --count) {
    const long long dtype = number();
    if (dtype < 0 || dtype >= kDTypeCount) return found;
    found.dtypes.push_back(static_cast<DType>(dtype));
    found.devices.push_back(next());
    Shape shape;
    for (long long dims = number(); dims > 0 && in; --dims) shape.push_back(number());
    found.shapes.push_back(std::move(shape));
  }
  return found;
}

std::string Fingerprint::difference(const Fingerprint& other) const {
  std::string text;
  const auto differs = [&](const char* what, const std::string& ours, const std::string& theirs) {
    if (ours != theirs) text += std::string("  ") + what + ": " + ours + "vs " + theirs;
  };
  differs("Op type", op, other.op);
  if (!text.empty()) return text;
  differs("Tensor Tensor shapes", sizes_text(shapes, " "), sizes_text(other.shapes, " "));
  differs("Tensor Tensor dtypes", dtypes_text(dtypes), dtypes_text(other.dtypes));
  differs("Tensor Tensor devices", devices_text(devices), devices_text(other.devices));
  differs("Options", detail, other.detail);
  return text;
}

}  // namespace core::distributed
