#pragma once
// Makes pickles by hand, opcode by opcode, for files that no library would write. Thread safety: pure functions.
// Use: std::string p = test::pickle(test::dict({{test::text("w"), test::number(1)}}));

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace test {

template <class T>
std::string raw(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

inline std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

/// Protocol 2 around an object.
inline std::string pickle(const std::string& object) {
  return "\x80\x02" + object + ".";
}
inline std::string text(const std::string& value) {
  return "X" + raw(static_cast<std::uint32_t>(value.size())) + value;
}
/// Python 2 text.
inline std::string old_text(const std::string& value) {
  return std::string("U") + static_cast<char>(value.size()) + value;
}
inline std::string number(std::int32_t value) {
  return "J" + raw(value);
}
inline std::string none() {
  return "N";
}
inline std::string symbol(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string tuple(const std::vector<std::string>& items) {
  return "(" + joined(items) + "t";
}
inline std::string list(const std::vector<std::string>& items) {
  return "](" + joined(items) + "e";
}
inline std::string pickled_dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [key, value] : items) out += key + value;
  return out + "u";
}
inline std::string call(const std::string& callable, const std::vector<std::string>& arguments) {
  return callable + tuple(arguments) + "R";
}
inline std::string instance(const std::string& type, const std::string& state) {
  return type + ")\x81" + state + "b";
}
inline std::string persistent(const std::string& id) {
  return id + "Q";
}
inline std::string numbers(const std::vector<std::int32_t>& values) {
  std::vector<std::string> items;
  for (std::int32_t value : values) items.push_back(number(value));
  return tuple(items);
}

/// The persistent id of a storage; `view` stands behind it in legacy streams.
inline std::string storage(const std::string& type, const std::string& key, std::int32_t count,
                           const std::string& view = "", const std::string& location = "cpu") {
  std::vector<std::string> parts = {text("storage"), symbol("torch", type), text(key), text(location), number(count)};
  if (!view.empty()) parts.push_back(view);
  return persistent(tuple(parts));
}
inline std::string tensor(const std::string& storage_id, std::int32_t offset, const std::vector<std::int32_t>& sizes,
                          const std::vector<std::int32_t>& strides) {
  return call(symbol("torch._utils", "_rebuild_tensor_v2"),
              {storage_id, number(offset), numbers(sizes), numbers(strides), "\x89",
               symbol("collections", "OrderedDict") + ")R"});
}

/// The first three pickles of a legacy stream.
inline std::string legacy_head() {
  std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  return magic + pickle("M" + raw(std::uint16_t{1001})) + pickle(pickled_dict({{text("little_endian"), "\x88"}}));
}
/// A whole legacy stream: an object, and storages as key, count and bytes.
struct LegacyData {
  std::string key;
  std::int64_t count;
  std::string bytes;
};
inline std::string legacy_stream(const std::string& object, const std::vector<LegacyData>& storages) {
  std::vector<std::string> keys;
  std::string data;
  for (const LegacyData& s : storages) {
    keys.push_back(text(s.key));
    data += raw(s.count) + s.bytes;
  }
  return legacy_head() + pickle(object) + pickle(list(keys)) + data;
}

inline std::string floats(const std::vector<float>& values) {
  std::string out;
  for (float value : values) out += raw(value);
  return out;
}

}  // namespace test
