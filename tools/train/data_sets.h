#pragma once
// Data sets: those that Debian ships, by name, and files of the user's own (IDX folder, folders of images, CSV file,
// NumPy arrays), all as rows with a target. Thread safety: pure functions; a DataSet is only read.
// Use: train::DataSet data = train::load_data({.name = "iris"});

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace train {

struct Rows {
  core::Tensor inputs = {};   ///< (n, ...), f32, or u8 where DataSet::divisor is not 1
  core::Tensor targets = {};  ///< classes: (n) i64; values: (n, 1) f32

  bool empty() const { return !inputs.defined() || inputs.size(0) == 0; }
  std::int64_t size() const { return empty() ? 0 : inputs.size(0); }
};

/// What works for a data set unless the user says otherwise.
struct Preset {
  const char* model = "mlp";
  std::int64_t hidden = 64;
  std::int64_t epochs = 30;
  std::int64_t batch = 32;
  const char* optimizer = "adam";
  double lr = 0.001;
};

struct DataSet {
  std::string name = {};
  std::string source = {};                                    ///< the file or folder it came from
  std::int64_t classes = 0;                                   ///< 0: the target is a value
  std::vector<std::string> class_names = {};                  ///< may be empty
  std::vector<std::string> column_names = {};                 ///< may be empty
  std::vector<double> scale_mean = {}, scale_deviation = {};  ///< of columns that were scaled by them; else empty
  double divisor = 1;                                         ///< of the inputs, when they become f32
  core::Tensor mean = {}, deviation = {};  ///< (1, channels, 1, 1), of the inputs behind that; or undefined
  Rows train = {}, test = {};              ///< `test` may be empty
  Preset preset = {};

  /// Shape of one row.
  core::Shape row() const;
  bool is_image() const { return row().size() == 3; }
  /// Rows are numbers of tokens, -1 behind the end of the shorter ones.
  bool is_text = false;
  std::int64_t padding = 0;  ///< the token that stands there for the model
  std::uint64_t bytes() const;
};

/// As the options of RunOptions; empty and 0: as the data set has it.
struct DataRequest {
  std::string name;
  std::string kind = {}, target = {}, split = {}, scale = {};
  std::int64_t rows = 0, test_rows = 0;
  std::string model = {};  ///< images of a folder are brought to what it wants
  std::int64_t resize = 0;
  std::string text_column = {};
  std::int64_t length = 0;  ///< tokens of a text at most; 0: what the model has positions for
  /// What a model has learnt that is to be tested on these data: its classes and its scale count, and where the data
  /// have no rows to test on of their own, all are.
  const DataSet* like = nullptr;
};

/// Columns scaled by the training rows: minus their mean, divided by their population deviation, in f64.
/// Errors: Error(io) that says which Debian package to install, or that a file cannot be read; Error(corrupt) naming
/// file and line; Error(usage) for a name that is neither a data set nor a file, and for options that do not fit.
/// Error(corrupt) for data that are not like DataRequest::like.
DataSet load_data(const DataRequest& request);

struct KnownData {
  const char* name;
  const char* about;
  const char* package;  ///< of Debian
};
const std::vector<KnownData>& known_data();

}  // namespace train
