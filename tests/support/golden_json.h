#pragma once
// Golden JSON files as simdjson documents, and the main function of a golden program.
// Use: int main() { return test::golden_main("printing", "runtime/printing.json", [](auto root, auto& run) { ... }); }

#include <simdjson.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"
#include "tests/support/golden.h"
#include "tests/support/golden_arrays.h"

namespace test {

using Json = simdjson::dom::element;

/// Owns a parsed file; elements are views into it.
class GoldenJson {
 public:
  /// Throws std::runtime_error when the file cannot be read or parsed.
  explicit GoldenJson(const std::filesystem::path& path);
  Json root() const { return root_; }

 private:
  simdjson::dom::parser parser_;
  Json root_;
};

/// The member `key`, or a null element when there is none.
Json member(Json object, std::string_view key);
bool has(Json object, std::string_view key);
bool is_null(Json value);

/// Each throws std::runtime_error when the value has another type.
std::string text(Json value);
std::int64_t integer(Json value);
/// Numbers, and the strings "nan", "inf", "-inf".
double number(Json value);
bool boolean(Json value);
/// Elements of a list; none for null.
std::vector<Json> items(Json list);
std::vector<std::int64_t> integers(Json list);
std::vector<double> numbers(Json list);
std::vector<std::string> texts(Json list);
core::Shape shape(Json list);
/// "f32" and friends.
core::DType dtype(Json value);

/// Runs `body` over the file `relative` of the golden folder. An exception that leaves `body` is a failure.
/// Exit status: 0 all passed, 1 something failed or nothing passed, 77 the file is not there.
int golden_main(const std::string& name, const std::string& relative,
                const std::function<void(Json root, GoldenRun& run)>& body);
/// As golden_main(), for a golden folder `name` in which each entry is a case: "" or what is wrong with it.
int golden_folder_main(const std::string& name,
                       const std::function<std::string(const std::filesystem::path& one)>& fault_of);

}  // namespace test
