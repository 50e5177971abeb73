#include "tools/train/data_sets.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "libckpt/bridge/module_state.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tools/support/suggest.h"
#include "tools/train/csv.h"
#include "tools/train/hub_model.h"
#include "tools/train/image_folder.h"
#include "tools/train/text_rows.h"
#include "zoo/data/idx.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;
namespace fs = std::filesystem;

constexpr const char* kTables = "python3-sklearn";
constexpr const char* kTableFolder = "/usr/lib/python3/dist-packages/sklearn/datasets/data";
constexpr std::int64_t kMaxClasses = 1000;  ///< more different whole numbers than that are values

// --- Rows of numbers, before they are split and scaled.

struct Matrix {
  std::int64_t columns = 0;
  std::vector<double> inputs;   ///< row-major
  std::vector<double> targets;  ///< one a row
  std::int64_t rows() const { return static_cast<std::int64_t>(targets.size()); }
};

struct Split {
  std::vector<std::int64_t> train, test;
};

std::optional<std::int64_t> try_count(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool ok = code == std::errc() && end == text.data() + text.size() && value >= 0;
  return ok ? std::optional(value) : std::nullopt;
}

/// "none", "every:5" (rows 4, 9, ... test), "last:360".
Split split_rows(std::int64_t rows, const std::string& how) {
  const std::size_t colon = how.find(':');
  const std::string kind = how.substr(0, colon);
  const std::int64_t count =
      colon == std::string::npos ? 0 : try_count(std::string_view(how).substr(colon + 1)).value_or(0);
  const bool known = (how == "none") || (kind == "every" && count > 1) || (kind == "last" && count > 0);
  if (!known)
    throw Error(ErrorCode::usage, "--split takes none, every:N (N from 2) or last:N, not " + core::quote(how));
  Split split;
  for (std::int64_t i = 0; i < rows; ++i) {
    const bool tests = (kind == "every" && i % count == count - 1) || (kind == "last" && i >= rows - count);
    (tests ? split.test : split.train).push_back(i);
  }
  if (split.train.empty()) throw Error(ErrorCode::usage, "--split " + how + " leaves none of the rows to train on");
  return split;
}

/// What brings the columns of these rows to mean 0 and deviation 1.
void measure_columns(const Matrix& m, const std::vector<std::int64_t>& train, DataSet& data) {
  const auto n = static_cast<double>(train.size());
  for (std::int64_t column = 0; column < m.columns; ++column) {
    const auto at = [&](std::int64_t row) { return m.inputs[static_cast<std::size_t>(row * m.columns + column)]; };
    double mean = 0, variance = 0;
    for (std::int64_t row : train) mean += at(row);
    mean /= n;
    for (std::int64_t row : train) variance += (at(row) - mean) * (at(row) - mean);
    data.scale_mean.push_back(mean);
    data.scale_deviation.push_back(variance > 0 ? std::sqrt(variance / n) : 1);
  }
}

void scale_columns(Matrix& m, const DataSet& by) {
  const std::size_t columns = by.scale_mean.size();
  if (columns == 0) return;
  for (std::size_t i = 0; i < m.inputs.size(); ++i) {
    m.inputs[i] = (m.inputs[i] - by.scale_mean[i % columns]) / by.scale_deviation[i % columns];
  }
}

Rows pick(const Matrix& m, const std::vector<std::int64_t>& indices, bool classes) {
  const auto n = static_cast<std::int64_t>(indices.size());
  if (n == 0) return {};
  Rows rows{core::empty({n, m.columns}), classes ? core::empty({n}, {.dtype = core::DType::i64}) : core::empty({n, 1})};
  auto* input = rows.inputs.mutable_data<float>();
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = indices[static_cast<std::size_t>(i)];
    const double* from = m.inputs.data() + row * m.columns;
    input = std::transform(from, from + m.columns, input, [](double x) { return static_cast<float>(x); });
    const double target = m.targets[static_cast<std::size_t>(row)];
    if (classes) {
      rows.targets.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(target);
    } else {
      rows.targets.mutable_data<float>()[i] = static_cast<float>(target);
    }
  }
  return rows;
}

/// Whole numbers from 0, not too many different ones.
bool look_like_classes(const std::vector<double>& targets) {
  return std::all_of(targets.begin(), targets.end(),
                     [](double t) { return t >= 0 && t < kMaxClasses && t == std::floor(t); });
}

bool wants_classes(const DataRequest& request, const std::vector<double>& targets) {
  const bool possible = look_like_classes(targets);
  if (request.kind.empty()) return possible;
  if (request.kind != "classes" && request.kind != "values") {
    throw Error(ErrorCode::usage, "--kind is classes or values, not " + core::quote(request.kind));
  }
  if (request.kind == "classes" && !possible) {
    throw Error(ErrorCode::usage, "the target is not a class: classes are whole numbers from 0, or words");
  }
  return request.kind == "classes";
}

std::int64_t class_count(const std::vector<double>& targets) {
  return static_cast<std::int64_t>(*std::max_element(targets.begin(), targets.end())) + 1;
}

/// The words of this table at their places among those of another.
void rename_classes(Matrix& m, DataSet& data, const DataSet& like) {
  if (like.classes == 0 || data.class_names == like.class_names) return;
  if (data.class_names.empty() || like.class_names.empty()) {
    throw Error(ErrorCode::corrupt, data.class_names.empty() ? "classes are numbers where the model learnt words"
                                                             : "classes are words where the model learnt numbers");
  }
  for (double& target : m.targets) {
    const std::string& name = data.class_names[static_cast<std::size_t>(target)];
    const auto found = std::find(like.class_names.begin(), like.class_names.end(), name);
    if (found == like.class_names.end()) {
      throw Error(ErrorCode::corrupt, "class " + core::quote(name) + " is not one of those the model learned: " +
                                          core::join(like.class_names, ", "));
    }
    target = static_cast<double>(found - like.class_names.begin());
  }
}

void fill(DataSet& data, Matrix m, const DataRequest& request, const std::string& split) {
  if (request.like != nullptr) rename_classes(m, data, *request.like);
  const bool classes = wants_classes(request, m.targets);
  if (classes) data.classes = class_count(m.targets);
  const std::string usual = request.like != nullptr ? "none" : split;
  const Split parts = split_rows(m.rows(), request.split.empty() ? usual : request.split);
  const std::string scale = request.scale.empty() ? "standard" : request.scale;
  if (scale != "standard" && scale != "none") {
    throw Error(ErrorCode::usage, "--scale is standard or none, not " + core::quote(scale));
  }
  if (request.like != nullptr) {
    if (m.columns == std::ssize(request.like->scale_mean)) scale_columns(m, *request.like);  // else refused later
  } else if (scale == "standard") {
    measure_columns(m, parts.train, data);
    scale_columns(m, data);
  }
  data.train = pick(m, parts.train, classes);
  data.test = pick(m, parts.test, classes);
}

// --- Tables.

std::size_t target_column(const Table& table, const std::string& wanted) {
  if (wanted.empty()) return table.columns - 1;
  const auto named = std::find(table.names.begin(), table.names.end(), wanted);
  if (named != table.names.end()) return static_cast<std::size_t>(named - table.names.begin());
  const auto number = try_count(wanted);
  if (number && static_cast<std::size_t>(*number) < table.columns) return static_cast<std::size_t>(*number);
  throw Error(ErrorCode::usage,
              "--target " + wanted + ": there is no such column" +
                  (table.names.empty() ? "; columns are numbered from 0 to " + std::to_string(table.columns - 1)
                                       : "; there are " + core::join(table.names, ", ")));
}

Matrix take_apart(const Table& table, std::size_t target, DataSet& data) {
  if (table.columns < 2) throw Error(ErrorCode::corrupt, "a table has at least two columns: an input and the target");
  Matrix m;
  m.columns = static_cast<std::int64_t>(table.columns) - 1;
  for (std::size_t column = 0; column < table.columns; ++column) {
    if (column != target && !table.words[column].empty()) {
      throw Error(ErrorCode::unsupported, "column " + std::to_string(column) + " holds words (" +
                                              core::quote(table.words[column].front()) +
                                              "); only the target may (--target names it)");
    }
    if (column != target && column < table.names.size()) data.column_names.push_back(table.names[column]);
  }
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    (i % table.columns == target ? m.targets : m.inputs).push_back(table.values[i]);
  }
  data.class_names = table.words[target];
  return m;
}

fs::path table_folder() {
  const char* named = std::getenv("SKLEARN_DATA_DIR");
  return named != nullptr && *named != '\0' ? named : kTableFolder;
}

/// A file of python3-sklearn.
fs::path shipped(const char* file) {
  fs::path path = table_folder() / file;
  if (fs::exists(path)) return path;
  throw Error(ErrorCode::io, path.string() + ": the table is not there; install the Debian package " + kTables +
                                 " or name the folder of its tables in SKLEARN_DATA_DIR");
}

struct Shipped {
  const char* name;
  const char* file;
  std::size_t skip;  ///< lines in front of the rows
  const char* split;
  bool classes;
  Preset preset;
};

const Shipped kShipped[] = {
    {"iris", "iris.csv", 1, "every:5", true, {"mlp", 16, 50, 16, "adam", 0.01}},
    {"wine", "wine_data.csv", 1, "every:5", true, {"mlp", 16, 50, 16, "adam", 0.01}},
    {"breast_cancer", "breast_cancer.csv", 1, "every:5", true, {"mlp", 16, 30, 32, "adam", 0.01}},
    {"boston", "boston_house_prices.csv", 2, "every:5", false, {"linear", 0, 300, 32, "adam", 0.05}},
};

DataSet load_shipped(const Shipped& known, const DataRequest& request) {
  DataSet data{.name = known.name, .preset = known.preset};
  const fs::path path = shipped(known.file);
  data.source = path.string();
  const Table table = read_table(path, {.skip = known.skip});
  DataRequest asked = request;
  if (asked.kind.empty()) asked.kind = known.classes ? "classes" : "values";
  core::with_context(path.string(), [&] {
    fill(data, take_apart(table, target_column(table, request.target), data), asked, known.split);
  });
  return data;
}

DataSet load_diabetes(const DataRequest& request) {
  DataSet data{.name = "diabetes", .preset = {"linear", 0, 200, 0, "adam", 1.0}};
  const fs::path inputs = shipped("diabetes_data_raw.csv.gz"), targets = shipped("diabetes_target.csv.gz");
  data.source = inputs.string();
  const Table x = read_table(inputs, {.skip = 0}), y = read_table(targets, {.skip = 0});
  if (x.rows() != y.rows()) throw Error(ErrorCode::corrupt, data.source + ": other rows than " + targets.string());
  DataRequest asked = request;
  if (asked.kind.empty()) asked.kind = "values";
  fill(data, {static_cast<std::int64_t>(x.columns), x.values, y.values}, asked, "every:5");
  return data;
}

/// 8 x 8 pixels of 0 .. 16.
DataSet load_digits(const DataRequest& request) {
  DataSet data{.name = "digits"};
  const fs::path path = shipped("digits.csv.gz");
  data.source = path.string();
  const Table table = read_table(path, {.skip = 0});
  Matrix m = take_apart(table, table.columns - 1, data);
  for (double& pixel : m.inputs) pixel /= 16;
  DataRequest asked = request;
  if (asked.scale.empty()) asked.scale = "none";
  fill(data, std::move(m), asked, "last:360");
  for (Rows* rows : {&data.train, &data.test}) {
    if (!rows->empty()) rows->inputs = rows->inputs.view({rows->size(), 1, 8, 8});
  }
  return data;
}

DataSet load_csv(const fs::path& path, const DataRequest& request) {
  DataSet data{.name = path.filename().string(), .source = path.string()};
  const Table table = read_table(path);
  core::with_context(path.string(), [&] {
    fill(data, take_apart(table, target_column(table, request.target), data), request, "every:5");
  });
  return data;
}

// --- Images.

Rows rows_of(const zoo::IdxArray& images, const zoo::IdxArray& labels) {
  const auto n = labels.shape[0];
  Rows rows{core::empty({n, 1, images.shape[1], images.shape[2]}, {.dtype = core::DType::u8}),
            core::empty({n}, {.dtype = core::DType::i64})};
  std::copy(images.values.begin(), images.values.end(), rows.inputs.mutable_data<std::uint8_t>());
  std::copy(labels.values.begin(), labels.values.end(), rows.targets.mutable_data<std::int64_t>());
  return rows;
}

constexpr Preset kImages{"lenet5", 256, 5, 64, "adam", 0.001};

DataSet load_fashion(const DataRequest&) {
  DataSet data{.name = "fashion_mnist", .classes = 10, .class_names = zoo::fashion_mnist_classes(), .divisor = 255};
  data.preset = kImages;
  zoo::ImageSet train = zoo::fashion_mnist("train"), test = zoo::fashion_mnist("t10k");
  data.source = "dataset-fashion-mnist";
  data.train = rows_of(train.images, train.labels);
  data.test = rows_of(test.images, test.labels);
  return data;
}

/// PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte, with .gz or without. Empty when there are none.
Rows read_idx_pair(const fs::path& folder, const std::string& prefix) {
  const auto find = [&](const std::string& name) -> fs::path {
    for (const char* end : {"", ".gz"}) {
      if (fs::exists(folder / (prefix + name + end))) return folder / (prefix + name + end);
    }
    return {};
  };
  const fs::path images = find("-images-idx3-ubyte"), labels = find("-labels-idx1-ubyte");
  if (images.empty() && labels.empty()) return {};
  if (images.empty() || labels.empty()) {
    throw Error(ErrorCode::io, folder.string() + ": holds " + (images.empty() ? labels : images).filename().string() +
                                   " without " + prefix +
                                   (images.empty() ? "-images-idx3-ubyte" : "-labels-idx1-ubyte") + " (.gz)");
  }
  const zoo::IdxArray x = zoo::read_idx(images), y = zoo::read_idx(labels);
  if (x.shape.size() != 3 || y.shape.size() != 1 || x.shape[0] != y.shape[0]) {
    throw Error(ErrorCode::corrupt, images.string() + ": images " + core::to_list(x.shape) + " and labels " +
                                        core::to_list(y.shape) + " do not belong together");
  }
  if (x.values.empty()) throw Error(ErrorCode::corrupt, images.string() + ": holds no image");
  return rows_of(x, y);
}

// --- NumPy arrays.

Tensor read_npy(const fs::path& path) {
  const ckpt::Checkpoint file = ckpt::open(path);
  const auto entries = ckpt::list_entries(file.root);
  if (entries.size() != 1) throw Error(ErrorCode::unsupported, path.string() + ": is not a single array");
  return ckpt::to_tensor(*entries.front().entry, core::Device());
}

std::vector<double> numbers_of(const Tensor& x) {
  return x.to(core::DType::f64).to_vector<double>();
}

Rows rows_of_arrays(const Tensor& x, const Tensor& y, bool classes) {
  const bool bytes = x.dtype() == core::DType::u8;
  Rows rows{bytes ? x : x.to(core::DType::f32), {}};
  if (rows.inputs.dim() == 3) rows.inputs = rows.inputs.unsqueeze(1);  // (n, h, w): one channel
  rows.targets = classes ? y.flatten().to(core::DType::i64) : y.to(core::DType::f32).reshape({y.size(0), 1});
  return rows;
}

/// PREFIXx.npy and PREFIXy.npy.
std::pair<Tensor, Tensor> read_npy_pair(const fs::path& folder, const std::string& prefix) {
  Tensor x = read_npy(folder / (prefix + "x.npy")), y = read_npy(folder / (prefix + "y.npy"));
  if (x.dim() < 2 || x.size(0) == 0 || x.size(0) != y.numel()) {
    throw Error(ErrorCode::corrupt, folder.string() + ": " + prefix + "x.npy " + core::to_list(x.sizes()) + " and " +
                                        prefix + "y.npy " + core::to_list(y.sizes()) +
                                        " do not belong together: there is a target a row");
  }
  return {x, y};
}

void load_arrays(const fs::path& folder, const DataRequest& request, DataSet& data) {
  const bool split = fs::exists(folder / "train_x.npy");
  const auto [x, y] = read_npy_pair(folder, split ? "train_" : "");
  const bool classes = wants_classes(request, numbers_of(y));
  if (classes) data.classes = class_count(numbers_of(y));
  data.divisor = x.dtype() == core::DType::u8 ? 255 : 1;
  data.train = rows_of_arrays(x, y, classes);
  if (split && fs::exists(folder / "test_x.npy")) {
    const auto [test_x, test_y] = read_npy_pair(folder, "test_");
    data.test = rows_of_arrays(test_x, test_y, classes);
  }
}

// --- Folders and choices.

void require_no(const std::string& option, const std::string& value, const std::string& what) {
  if (!value.empty()) throw Error(ErrorCode::usage, "--" + option + " is for tables, not for " + what);
}

Rows subset(const Rows& rows, const std::vector<std::int64_t>& indices) {
  if (indices.empty()) return {};
  const Tensor at = core::empty({static_cast<std::int64_t>(indices.size())}, {.dtype = core::DType::i64});
  std::copy(indices.begin(), indices.end(), at.mutable_data<std::int64_t>());
  return {rows.inputs.index_select(0, at), rows.targets.index_select(0, at)};
}

DataSet load_folder(const fs::path& folder, const DataRequest& request) {
  DataSet data{.name = fs::path(folder / "").parent_path().filename().string(), .source = folder.string()};
  const bool has_arrays = fs::exists(folder / "train_x.npy") || fs::exists(folder / "x.npy");
  if (!has_arrays && holds_classes(folder)) return load_image_folder(folder, request);
  if (has_arrays) {
    load_arrays(folder, request, data);
    if (data.is_image()) data.preset = kImages;
    data.preset.model = "mlp";
  } else {
    data.train = read_idx_pair(folder, "train");
    data.test = read_idx_pair(folder, "t10k");
    if (data.test.empty()) data.test = read_idx_pair(folder, "test");
    if (data.train.empty()) {
      throw Error(ErrorCode::usage, folder.string() +
                                        ": holds neither train-images-idx3-ubyte and train-labels-idx1-ubyte (.gz) "
                                        "nor train_x.npy and train_y.npy nor x.npy and y.npy "
                                        "nor folders of images, one per class");
    }
    data.classes = class_count(numbers_of(data.train.targets));
    data.divisor = 255;
    data.preset = kImages;
    const core::Shape row = data.row();
    if (row[1] != 28 || row[2] != 28) data.preset.model = "mlp";
  }
  return data;
}

/// What a split means for data that came as rows of tensors.
void split_again(DataSet& data, const DataRequest& request) {
  const std::string& how = request.split;
  if (how.empty() && !data.test.empty()) return;
  if (!data.test.empty()) {
    if (how != "none") throw Error(ErrorCode::usage, "--split: " + data.source + " has test rows of its own");
    data.test = {};
    return;
  }
  if (request.like != nullptr) return;
  const Split parts = split_rows(data.train.size(), how.empty() ? "every:5" : how);
  const Rows all = data.train;
  data.train = subset(all, parts.train);
  data.test = subset(all, parts.test);
}

void cut(Rows& rows, std::int64_t count) {
  if (count <= 0 || rows.empty() || count >= rows.size()) return;
  rows.inputs = rows.inputs.slice(0, 0, count);
  rows.targets = rows.targets.slice(0, 0, count);
}

core::Shape shape_of_row(const Rows& rows) {
  core::Shape shape;
  for (std::int64_t dim = 1; dim < rows.inputs.dim(); ++dim) shape.push_back(rows.inputs.size(dim));
  return shape;
}

/// Rows to test on that are none for what is learnt.
void check_test_rows(const DataSet& data) {
  if (data.test.empty()) return;
  const core::Shape row = shape_of_row(data.train), test = shape_of_row(data.test);
  const core::DType learnt = data.train.inputs.dtype(), tested = data.test.inputs.dtype();
  if ((row != test && !data.is_text) || learnt != tested) {
    throw Error(ErrorCode::corrupt, data.source + ": rows to test on are " + std::string(core::name(tested)) + " " +
                                        core::to_list(test) + " where those to learn from are " +
                                        std::string(core::name(learnt)) + " " + core::to_list(row));
  }
  if (data.classes == 0) return;
  const auto least = data.test.targets.min().item<std::int64_t>(), most = data.test.targets.max().item<std::int64_t>();
  if (least >= 0 && most < data.classes) return;
  throw Error(ErrorCode::corrupt, data.source + ": class " + std::to_string(least < 0 ? least : most) +
                                      " in the rows to test on, where those to learn from have 0 to " +
                                      std::to_string(data.classes - 1));
}

DataSet load_path(const fs::path& path, const DataRequest& request) {
  const bool has_folder = is_model_folder(request.model);
  if (has_folder && !request.kind.empty() && request.kind != "classes") {
    throw Error(ErrorCode::usage,
                "--kind " + request.kind + ": the model of a folder tells classes apart; leave --kind out");
  }
  const bool reads_texts = has_folder && classifier_family(request.model).input == zoo::Input::tokens;
  if (reads_texts && fs::is_directory(path)) {
    throw Error(ErrorCode::usage, path.string() + ": is a folder, and " + request.model +
                                      " reads texts: a CSV file with a column of them and one of classes");
  }
  if (reads_texts) {
    require_no("scale", request.scale, "texts");
    DataSet data = load_text_rows(path, request);
    split_again(data, request);
    return data;
  }
  if (has_folder && !fs::is_directory(path)) {
    throw Error(ErrorCode::usage, path.string() + ": is a file, and " + request.model +
                                      " takes images: a folder of folders of them, one per class");
  }
  if (!fs::is_directory(path)) return load_csv(path, request);
  require_no("target", request.target, "a folder");
  require_no("scale", request.scale, "a folder");
  DataSet data = load_folder(path, request);
  split_again(data, request);
  return data;
}

DataSet load_named(const DataRequest& request) {
  for (const Shipped& known : kShipped) {
    if (request.name == known.name) return load_shipped(known, request);
  }
  if (request.name == "diabetes") return load_diabetes(request);
  if (request.name == "digits") return load_digits(request);
  if (request.name == "fashion_mnist") {
    require_no("target", request.target, "images");
    require_no("scale", request.scale, "images");
    DataSet data = load_fashion(request);
    split_again(data, request);
    return data;
  }
  std::vector<std::string> names;
  for (const KnownData& known : known_data()) names.emplace_back(known.name);
  if (request.name.empty()) {
    throw Error(ErrorCode::usage, "DATA is missing: a data set (" + core::join(names, ", ") +
                                      "), a CSV file or a folder; see train list");
  }
  if (fs::exists(request.name)) return load_path(request.name, request);
  throw Error(ErrorCode::usage, core::quote(request.name) + " is neither a file nor a data set" +
                                    cli::did_you_mean(request.name, names) + "; there are " + core::join(names, ", "));
}

DataSet load_like(DataRequest request, const DataSet& like) {
  request.kind = like.classes > 0 ? "classes" : "values";
  request.split = "";
  DataSet data = load_named(request);
  if (data.test.empty()) data.test = data.train;
  data.train = like.train;
  data.classes = like.classes;
  check_test_rows(data);
  return data;
}

}  // namespace

core::Shape DataSet::row() const {
  return shape_of_row(train);
}

std::uint64_t DataSet::bytes() const {
  std::uint64_t sum = 0;
  for (const Rows* rows : {&train, &test}) {
    if (rows->empty()) continue;
    for (const Tensor* t : {&rows->inputs, &rows->targets}) {
      sum += core::byte_size(t->dtype(), static_cast<std::uint64_t>(t->numel())).value_or(0);
    }
  }
  return sum;
}

DataSet load_data(const DataRequest& request) {
  if (request.like != nullptr) return load_like(request, *request.like);
  DataSet data = load_named(request);
  check_test_rows(data);
  cut(data.train, request.rows);
  cut(data.test, request.test_rows);
  return data;
}

const std::vector<KnownData>& known_data() {
  static const std::vector<KnownData> kKnown = {
      {"fashion_mnist", "70,000 grey images of 28 x 28, 10 kinds of clothing", "dataset-fashion-mnist"},
      {"digits", "1,797 grey images of 8 x 8, handwritten digits", kTables},
      {"iris", "150 flowers, 4 measures, 3 species", kTables},
      {"wine", "178 wines, 13 measures, 3 growers", kTables},
      {"breast_cancer", "569 tumours, 30 measures, malignant or benign", kTables},
      {"boston",
       "506 towns, 13 measures, price of houses (column 11, B, is computed from the share of black residents)",
       kTables},
      {"diabetes", "442 patients, 10 measures, progress of the disease", kTables},
  };
  return kKnown;
}

}  // namespace train
