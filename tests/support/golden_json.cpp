#include "tests/support/golden_json.h"

#include <cmath>
#include <iostream>
#include <limits>
#include <stdexcept>

#include "tests/support/temp_dir.h"

namespace test {
namespace {

template <class T>
T typed(Json value) {
  T result{};
  if (value.get(result) != simdjson::SUCCESS)
    throw std::runtime_error("unexpected JSON type: " + simdjson::minify(value));
  return result;
}

template <class T, class Read>
std::vector<T> listed(Json list, Read read) {
  std::vector<T> result;
  for (Json item : typed<simdjson::dom::array>(list)) result.push_back(read(item));
  return result;
}

const Json& null_element() {
  static simdjson::dom::parser parser;
  static const Json element = parser.parse(std::string("null"));
  return element;
}

}  // namespace

GoldenJson::GoldenJson(const std::filesystem::path& path) {
  if (parser_.parse(read_file(path)).get(root_) != simdjson::SUCCESS) {
    throw std::runtime_error("cannot parse " + path.string());
  }
}

Json member(Json object, std::string_view key) {
  Json value;
  return object[key].get(value) == simdjson::SUCCESS ? value : null_element();
}

bool has(Json object, std::string_view key) {
  return object[key].error() == simdjson::SUCCESS;
}
bool is_null(Json value) {
  return value.is_null();
}

std::string text(Json value) {
  return std::string(typed<std::string_view>(value));
}
std::int64_t integer(Json value) {
  return value.is_uint64() ? static_cast<std::int64_t>(typed<std::uint64_t>(value)) : typed<std::int64_t>(value);
}
bool boolean(Json value) {
  return typed<bool>(value);
}

double number(Json value) {
  if (!value.is_string()) return typed<double>(value);
  std::string word = text(value);
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::runtime_error("no number: " + word);
}

std::vector<Json> items(Json list) {
  if (list.is_null()) return {};
  return listed<Json>(list, [](Json item) { return item; });
}
std::vector<std::int64_t> integers(Json list) {
  return listed<std::int64_t>(list, integer);
}
std::vector<double> numbers(Json list) {
  return listed<double>(list, number);
}
std::vector<std::string> texts(Json list) {
  return listed<std::string>(list, text);
}
core::Shape shape(Json list) {
  return core::Shape(integers(list));
}
core::DType dtype(Json value) {
  return core::parse_dtype(text(value));
}

int golden_main(const std::string& name, const std::string& relative,
                const std::function<void(Json root, GoldenRun& run)>& body) {
  auto path = golden_file(relative);
  if (!path) {
    std::cout << "golden " << name << ": no " << relative << " here, skipped\n";
    return 77;
  }
  GoldenRun run(name);
  GoldenJson json(*path);
  guarded(run, "(whole file)", [&] { body(json.root(), run); });
  return run.finish();
}

int golden_folder_main(const std::string& name,
                       const std::function<std::string(const std::filesystem::path& one)>& fault_of) {
  return golden_entries(name, name, "", [&](GoldenRun& run, const std::filesystem::path& one) {
    const std::string fault = fault_of(one);
    run.check(one.filename().string(), fault.empty(), fault);
  });
}

}  // namespace test
