#include "tools/train/text_rows.h"

#include <algorithm>
#include <charconv>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tools/train/csv.h"
#include "tools/train/hub_model.h"
#include "zoo/data/idx.h"
#include "zoo/text/tokenizer.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;
using zoo::text::Tokenizer;
using Ids = std::vector<std::int64_t>;
namespace fs = std::filesystem;

constexpr std::int64_t kUsualBlock = 1024;  ///< tokens, where a model has positions for more

std::optional<std::int64_t> count_of(const zoo::Config& config, std::string_view name) {
  const std::string* json = config.json_of(name);
  std::int64_t count = 0;
  if (json == nullptr) return std::nullopt;
  const auto [end, code] = std::from_chars(json->data(), json->data() + json->size(), count);
  return code == std::errc() && end == json->data() + json->size() ? std::optional(count) : std::nullopt;
}

/// The tokenizer of a folder, and what its model says about tokens.
struct Reader {
  Tokenizer tokenizer;
  std::int64_t positions = 0;  ///< 0: any number
  std::int64_t padding = 0;
};

Reader open_reader(const fs::path& folder) {
  const zoo::FolderConfig said = zoo::folder_config(folder);
  Reader reader{.tokenizer = Tokenizer::open(folder)};
  const auto rows = count_of(said.config, "vocab_size");
  if (rows && reader.tokenizer.rows() > *rows) {
    throw Error(ErrorCode::unsupported,
                folder.string() + ": the tokenizer has numbers up to " + std::to_string(reader.tokenizer.rows() - 1) +
                    ", and the model's embedding " + std::to_string(*rows) + " rows: they are not of one model");
  }
  for (const char* name : {"max_position_embeddings", "n_positions"}) {
    if (const auto count = count_of(said.config, name)) reader.positions = *count;
  }
  const bool roberta = said.family->name.starts_with("Roberta");
  reader.padding = std::max<std::int64_t>(0, count_of(said.config, "pad_token_id").value_or(roberta ? 1 : 0));
  if (roberta && reader.positions > 0) reader.positions -= reader.padding + 1;  // the first ones are not for tokens
  return reader;
}

std::int64_t most_tokens(const Reader& reader, const DataRequest& request, std::int64_t otherwise) {
  if (reader.positions > 0 && request.length > reader.positions) {
    throw Error(ErrorCode::usage, "--length " + std::to_string(request.length) + ": the model has positions for " +
                                      std::to_string(reader.positions) + " tokens");
  }
  if (request.length > 0) return request.length;
  return reader.positions > 0 && otherwise > 0 ? std::min(otherwise, reader.positions)
                                               : std::max(reader.positions, otherwise);
}

/// The end of the text goes, not what the tokenizer puts around it.
Ids shortened(const Tokenizer& tokenizer, const std::string& text, std::int64_t most) {
  Ids whole = tokenizer.encode(text);
  if (most == 0 || std::ssize(whole) <= most) return whole;
  const Ids plain = tokenizer.encode(text, false);
  const auto at = std::search(whole.begin(), whole.end(), plain.begin(), plain.end());
  const std::int64_t extra = std::ssize(whole) - std::ssize(plain);
  if (at == whole.end() || extra >= most) return Ids(whole.begin(), whole.begin() + most);
  whole.erase(at + (most - extra), at + std::ssize(plain));
  return whole;
}

std::size_t column_named(const Record& names, const std::string& wanted, const char* option) {
  const auto found = std::find(names.fields.begin(), names.fields.end(), wanted);
  if (found != names.fields.end()) return static_cast<std::size_t>(found - names.fields.begin());
  throw Error(ErrorCode::usage, std::string(option) + " " + wanted + ": there is no such column; there are " +
                                    core::join(names.fields, ", "));
}

struct Columns {
  std::size_t text = 0, label = 0;
};

Columns columns_of(const Record& names, const DataRequest& request) {
  const auto first_of = [&](std::initializer_list<std::string_view> usual) {
    for (std::string_view name : usual) {
      const auto found = std::find(names.fields.begin(), names.fields.end(), name);
      if (found != names.fields.end()) return static_cast<std::size_t>(found - names.fields.begin());
    }
    return names.fields.size();
  };
  if (names.fields.size() < 2) throw Error(ErrorCode::corrupt, "has one column, where texts and classes are two");
  Columns columns{.text = first_of({"text", "sentence"}), .label = first_of({"label", "labels"})};
  if (!request.target.empty()) columns.label = column_named(names, request.target, "--target");
  if (!request.text_column.empty()) columns.text = column_named(names, request.text_column, "--text-column");
  if (columns.label == names.fields.size()) {
    columns.label = names.fields.size() - (columns.text + 1 == names.fields.size() ? 2 : 1);
  }
  if (columns.text == names.fields.size() && names.fields.size() == 2) columns.text = 1 - columns.label;
  if (columns.text == names.fields.size()) {
    throw Error(ErrorCode::usage,
                "--text-column NAME: which of " + core::join(names.fields, ", ") + " holds the texts");
  }
  if (columns.text == columns.label) {
    throw Error(ErrorCode::usage, "--text-column and --target are both " + names.fields[columns.text]);
  }
  return columns;
}

/// The different ones: whole numbers by their size, else words by their letters.
std::vector<std::string> different(const std::vector<Record>& rows, std::size_t column) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::string& label = rows[i].fields[column];
    if (label.empty()) {
      throw Error(ErrorCode::corrupt,
                  "line " + std::to_string(rows[i].line) + ": " + core::quote(rows[0].fields[column]) + " is empty");
    }
    names.push_back(label);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const bool numbers = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return name.size() < 18 && name.find_first_not_of("0123456789") == std::string::npos;
  });
  if (numbers) std::sort(names.begin(), names.end(), [](auto& a, auto& b) { return std::stoll(a) < std::stoll(b); });
  return names;
}

/// (n, longest), -1 behind the shorter ones.
Tensor padded(const std::vector<Ids>& texts) {
  std::size_t longest = 1;
  for (const Ids& ids : texts) longest = std::max(longest, ids.size());
  const Tensor rows = core::full({std::ssize(texts), static_cast<std::int64_t>(longest)}, std::int64_t{-1},
                                 {.dtype = core::DType::i64});
  auto* to = rows.mutable_data<std::int64_t>();
  for (const Ids& ids : texts) {
    std::copy(ids.begin(), ids.end(), to);
    to += longest;
  }
  return rows;
}

void fill_texts(const std::vector<Record>& records, const DataRequest& request, DataSet& data) {
  const Columns columns = columns_of(records.front(), request);
  data.class_names = different(records, columns.label);
  if (request.like == nullptr) data.class_names = in_order_of_model(request.model, data.class_names);
  if (request.like != nullptr) data.class_names = request.like->class_names;
  if (data.class_names.size() < 2) {
    throw Error(ErrorCode::usage, "all rows are of the class " + core::quote(data.class_names.front()));
  }
  data.classes = std::ssize(data.class_names);
  const Reader reader = open_reader(request.model);
  const std::int64_t most = most_tokens(reader, request, 0);
  data.padding = reader.padding;
  std::vector<Ids> texts;
  Ids classes;
  for (std::size_t i = 1; i < records.size(); ++i) {
    const std::string& label = records[i].fields[columns.label];
    const auto name = std::find(data.class_names.begin(), data.class_names.end(), label);
    if (name == data.class_names.end()) {
      throw Error(ErrorCode::corrupt,
                  "line " + std::to_string(records[i].line) + ": class " + core::quote(label) +
                      " is not one of those the model learned: " + core::join(data.class_names, ", "));
    }
    classes.push_back(name - data.class_names.begin());
    texts.push_back(shortened(reader.tokenizer, records[i].fields[columns.text], most));
    if (texts.back().empty()) {
      throw Error(ErrorCode::corrupt, "line " + std::to_string(records[i].line) + ": the text has no token");
    }
  }
  data.train = {padded(texts), core::from_values(classes)};
}

}  // namespace

DataSet load_text_rows(const fs::path& path, const DataRequest& request) {
  DataSet data{.name = path.stem().string(), .source = path.string(), .preset = kFineTuning};
  data.is_text = true;
  const std::vector<Record> records = read_records(path);
  core::with_context(path.string(), [&] { fill_texts(records, request, data); });
  return data;
}

DataSet load_token_blocks(const fs::path& path, const DataRequest& request) {
  DataSet data{.name = path.stem().string(), .source = path.string(), .preset = kFineTuning};
  data.is_text = true;
  const Reader reader = open_reader(request.model);
  const std::int64_t length = most_tokens(reader, request, kUsualBlock);
  if (length < 2)
    throw Error(ErrorCode::usage, "--length is at least 2: each token but the first is said by those before it");
  const core::ByteVector bytes = zoo::read_unpacked(path);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return core::with_context(path.string(), [&] {
    if (!core::is_utf8(text)) throw Error(ErrorCode::corrupt, "the text is not UTF-8");
    const Ids ids = reader.tokenizer.encode(text);
    const std::int64_t blocks = std::ssize(ids) / length, held = blocks / 10;
    if (blocks == 0) {
      throw Error(ErrorCode::usage,
                  std::to_string(ids.size()) + " tokens are too few for a --length of " + std::to_string(length));
    }
    const Tensor all = core::from_values(Ids(ids.begin(), ids.begin() + blocks * length)).view({blocks, length});
    const Tensor none = core::zeros({blocks}, {.dtype = core::DType::i64});
    const std::int64_t learnt = request.like != nullptr ? 0 : blocks - held;  // what else is tested on is all of it
    data.train = {all.slice(0, 0, learnt), none.slice(0, 0, learnt)};
    if (learnt < blocks) data.test = {all.slice(0, learnt, blocks), none.slice(0, learnt, blocks)};
    if (request.like != nullptr) data.train = request.like->train;
    return std::move(data);
  });
}

}  // namespace train
