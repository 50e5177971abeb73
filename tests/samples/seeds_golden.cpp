// Golden data set golden_runtime_seeds: every program of the tutorials is run with the options of every case, on as
// many logical devices as it says. Lines are compared as the case's blocks tell (exactly, or in any order where
// replicas print), the tensors of the run to 1e-5 relative.
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "tests/support/golden_json.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using test::Json;
using test::member;

constexpr double kRelative = 1e-5;
constexpr double kAbsolute = 1e-7;  // sums that cancel

std::vector<std::string> lines_of(const std::string& all) {
  std::vector<std::string> lines;
  std::istringstream in(all);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The sample that stands for "boston.py".
fs::path program_of(Json json) {
  std::string name = fs::path(test::text(member(json, "program"))).stem();
  if (name == "train") name = "train_frame";
  const char* folder = std::getenv("CKPT_BIN_DIR");
  return fs::absolute(folder != nullptr ? folder : "build/bin") / "samples" / ("sample_" + name);
}

std::string quoted(const std::string& word) {
  return "'" + word + "'";
}

std::string value_text(Json value) {
  return value.is_string() ? quoted(test::text(value)) : simdjson::minify(value);
}

std::string options_of(Json json) {
  std::string text;
  simdjson::dom::object options = member(json, "options");
  for (auto [key, value] : options) {
    std::string name(key);
    if (value.is_bool()) {
      text += (test::boolean(value) ? " --" : " --no-") + name;
    } else {
      text += " --" + name + " " + value_text(value);
    }
  }
  return text;
}

struct Result {
  int status = 0;
  std::vector<std::string> lines;  ///< standard output, then what a failing program said
};

Result run_program(Json json, const fs::path& folder, const fs::path& scratch) {
  std::int64_t devices = test::integer(member(json, "n_devices"));
  std::string command = "cd " + quoted(scratch.string()) + " && env -u CUDA_VISIBLE_DEVICES -u CORE_LOGICAL_DEVICES ";
  const char* device = std::getenv("CKPT_GOLDEN_DEVICE");  // golden_device.h, which needs the runtime
  const char* kind = device != nullptr && *device != '\0' ? "opaque:" : "host:";
  if (devices > 0) command += std::string("CORE_LOGICAL_DEVICES=") + kind + std::to_string(devices) + " ";
  command += quoted(program_of(json).string()) + options_of(json);
  fs::path table = folder / "data" / "boston_house_prices.csv";
  if (fs::exists(table) && program_of(json).filename() == "sample_boston")
    command += " --path " + quoted(table.string());
  command += " --save values.safetensors >out 2>err </dev/null";
  int status = std::system(command.c_str());  // the words are ours and quoted
  Result result{.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .lines = {}};
  result.lines = lines_of(test::read_file(scratch / "out"));
  if (result.status == 0) return result;
  for (const std::string& line : lines_of(test::read_file(scratch / "err"))) result.lines.push_back(line);
  return result;
}

/// The number of "epoch 3 loss 608.0609" may differ as the losses themselves may: the order of float sums is free.
bool is_same_line(const std::string& ours, const std::string& wanted) {
  if (ours == wanted) return true;
  std::size_t at = wanted.find(" loss ");
  if (at == std::string::npos || ours.compare(0, at + 6, wanted, 0, at + 6) != 0) return false;
  double a = std::stod(ours.substr(at + 6)), b = std::stod(wanted.substr(at + 6));
  constexpr double kPrinted = 1.5e-4;  // one in the last of the four printed digits
  return std::abs(a - b) <= kRelative * std::abs(b) + kPrinted;
}

/// What differs, "" for nothing.
std::string compare_block(std::vector<std::string> ours, std::vector<std::string> wanted, bool in_any_order) {
  if (in_any_order) {
    std::sort(ours.begin(), ours.end());
    std::sort(wanted.begin(), wanted.end());
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!is_same_line(ours[i], wanted[i])) return "printed '" + ours[i] + "' where '" + wanted[i] + "'";
  }
  return "";
}

std::string compare_lines(Json json, const std::vector<std::string>& ours) {
  std::size_t at = 0;
  for (Json block : test::items(member(json, "blocks"))) {
    bool in_any_order = test::has(block, "any_order");
    std::vector<std::string> wanted = test::texts(member(block, in_any_order ? "any_order" : "exact"));
    if (ours.size() < at + wanted.size()) {
      return "stopped behind line " + std::to_string(ours.size()) + (ours.empty() ? "" : ": '" + ours.back() + "'");
    }
    auto begin = ours.begin() + static_cast<std::ptrdiff_t>(at);
    auto end = begin + static_cast<std::ptrdiff_t>(wanted.size());
    std::string difference = compare_block({begin, end}, wanted, in_any_order);
    if (!difference.empty()) return "line " + std::to_string(at + 1) + ": " + difference;
    at += wanted.size();
  }
  return at == ours.size() ? "" : "printed more: '" + ours[at] + "'";
}

template <class T>
std::string compare_elements(const test::GoldenArray& ours, const test::GoldenArray& wanted) {
  const T* a = reinterpret_cast<const T*>(ours.bytes.data());
  const T* b = reinterpret_cast<const T*>(wanted.bytes.data());
  for (std::size_t i = 0; i < wanted.bytes.size() / sizeof(T); ++i) {
    auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    if (std::abs(x - y) <= kRelative * std::abs(y) + kAbsolute) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(x) + " where " + std::to_string(y);
  }
  return "";
}

std::string compare_array(const test::GoldenArray& ours, const test::GoldenArray& wanted) {
  if (ours.dtype != wanted.dtype || ours.shape != wanted.shape) return "another shape or dtype";
  switch (wanted.dtype) {
    case core::DType::f32:
      return compare_elements<float>(ours, wanted);
    case core::DType::f64:
      return compare_elements<double>(ours, wanted);
    case core::DType::i64:
      return compare_elements<std::int64_t>(ours, wanted);
    default:
      return "a dtype that this test does not know";
  }
}

std::string compare_values(Json json, const fs::path& saved, const test::GoldenArrays& arrays) {
  if (!test::has(json, "values")) return "";
  test::GoldenArrays ours(saved);
  simdjson::dom::object values = member(json, "values");
  for (auto [key, value] : values) {
    std::string name(key);
    if (!ours.contains(name)) return name + " was not kept";
    std::string difference = compare_array(ours.at(name), arrays.at(test::text(value)));
    if (!difference.empty()) return name + ": " + difference;
  }
  return "";
}

void run_case(Json json, const fs::path& folder, const test::GoldenArrays& arrays, test::GoldenRun& run) {
  std::string id = folder.filename().string() + "/" + test::text(member(json, "id"));
  fs::path program = program_of(json);
  if (!fs::exists(program)) return run.skip(id, "no program " + program.string());
  test::TempDir scratch;
  Result result = run_program(json, folder, scratch.path());
  std::vector<std::string> wanted = lines_of(test::read_file(folder / test::text(member(json, "expected"))));
  bool must_fail = !wanted.empty() && wanted.back().rfind("RuntimeError: ", 0) == 0;
  std::string difference = compare_lines(json, result.lines);
  if (difference.empty() && (result.status != 0) != must_fail) {
    difference = "exit status " + std::to_string(result.status);
  }
  if (difference.empty() && !must_fail) {
    difference = compare_values(json, scratch.path() / "values.safetensors", arrays);
  }
  run.check(id, difference.empty(), difference);
}

}  // namespace

int main() {
  auto seeds = test::golden_file("runtime/seeds");
  if (!seeds) {
    std::cout << "golden runtime_seeds: no runtime/seeds here, skipped\n";
    return 77;
  }
  test::GoldenRun run("runtime_seeds");
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(*seeds)) {
    if (fs::exists(entry.path() / "spec.json")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    test::GoldenJson spec(folder / "spec.json");
    test::GoldenArrays arrays(folder / "values.safetensors");
    for (Json json : test::items(member(spec.root(), "cases"))) {
      test::guarded(run, test::text(member(json, "id")), [&] { run_case(json, folder, arrays, run); });
    }
  }
  return run.finish();
}
