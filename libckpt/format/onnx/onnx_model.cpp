#include "libckpt/format/onnx/onnx_model.h"

#include <algorithm>
#include <unordered_set>

#include "libckpt/format/corrupt.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using Kind = ProtoField::Kind;

constexpr std::uint64_t kMaxText = 1 << 20;      ///< bytes of a text that is metadata
constexpr std::uint64_t kMaxTopFields = 65'536;  ///< that are looked at to know a model
constexpr std::uint64_t kLastVersion = 10'000;   ///< that a number at the front may be; there are some fifteen
constexpr std::uint64_t kMaxPieces = 1 << 20;    ///< runs of numbers; writers make one for each tensor

struct Known {
  std::uint32_t number;
  Kind kind;
};
constexpr std::uint32_t kGraph = 7;
constexpr Known kTop[] = {{1, Kind::varint}, {2, Kind::bytes},  {3, Kind::bytes},  {4, Kind::bytes},
                          {5, Kind::varint}, {6, Kind::bytes},  {7, Kind::bytes},  {8, Kind::bytes},
                          {14, Kind::bytes}, {20, Kind::bytes}, {25, Kind::bytes}, {26, Kind::bytes}};

bool is_top(const ProtoField& field) {
  return std::any_of(std::begin(kTop), std::end(kTop),
                     [&](const Known& known) { return field.is(known.number, known.kind); });
}

class Reader {
 public:
  Reader(const ByteSource& file, const Limits& limits) : in_(file), limits_(limits) {}

  OnnxModel run() {
    ProtoRange rest = in_.all();
    while (auto field = in_.next(rest)) top(*field);
    for (auto& [domain, version] : opsets_) add("opset " + domain, version);
    return std::move(out_);
  }

 private:
  [[noreturn]] static void refuse_texts() {
    throw Error(ErrorCode::refused,
                "the model has more than " + core::format_count(kMaxHeaderTexts) + " texts of metadata");
  }
  void add(const std::string& key, std::string value) {
    if (out_.metadata.size() >= kMaxHeaderTexts) refuse_texts();
    if (!value.empty()) out_.metadata.emplace_back(key, std::move(value));
  }
  void add_text(const char* key, const ProtoField& field) { add(key, in_.text(field, kMaxText)); }

  void top(const ProtoField& field) {
    if (field.is(1, Kind::varint)) add("ir_version", std::to_string(field.value));
    if (field.is(2, Kind::bytes)) add_text("producer_name", field);
    if (field.is(3, Kind::bytes)) add_text("producer_version", field);
    if (field.is(4, Kind::bytes)) add_text("domain", field);
    if (field.is(5, Kind::varint)) add("model_version", std::to_string(field.value));
    if (field.is(6, Kind::bytes)) add_text("doc_string", field);
    if (field.is(kGraph, Kind::bytes)) graph(field.content);
    if (field.is(8, Kind::bytes)) opset(field.content);
    if (field.is(14, Kind::bytes)) {
      auto [key, value] = pair(field.content);
      add(key, std::move(value));
    }
  }

  void opset(ProtoRange rest) {
    std::string domain = "ai.onnx";
    std::string version;
    while (auto field = in_.next(rest)) {
      if (field->is(1, Kind::bytes) && field->content.size() > 0) domain = in_.text(*field, kMaxText);
      if (field->is(2, Kind::varint)) version = std::to_string(field->value);
    }
    opsets_.emplace_back(std::move(domain), std::move(version));
    if (opsets_.size() > kMaxHeaderFields) throw Error(ErrorCode::refused, "the model names too many operator sets");
  }

  std::pair<std::string, std::string> pair(ProtoRange rest) {
    std::pair<std::string, std::string> out;
    while (auto field = in_.next(rest)) {
      if (field->is(1, Kind::bytes)) out.first = in_.text(*field, kMaxText);
      if (field->is(2, Kind::bytes)) out.second = in_.text(*field, kMaxText);
    }
    return out;
  }

  void graph(ProtoRange rest) {
    std::vector<std::pair<std::string, std::string>> inputs;
    std::vector<std::pair<std::string, std::string>> outputs;
    while (auto field = in_.next(rest)) {
      if (field->is(2, Kind::bytes)) add_text("graph", *field);
      if (field->is(5, Kind::bytes)) initializer(field->content);
      if (field->is(15, Kind::bytes)) sparse(field->content);
      if (field->is(11, Kind::bytes)) inputs.push_back(value_info(field->content));
      if (field->is(12, Kind::bytes)) outputs.push_back(value_info(field->content));
      if (inputs.size() + outputs.size() > kMaxHeaderTexts) refuse_texts();
    }
    // Before version 4 of the format every initialiser stood among the inputs as well.
    for (auto& [name, text] : inputs) {
      if (!names_.contains(name)) add("input " + name, std::move(text));
    }
    for (auto& [name, text] : outputs) add("output " + name, std::move(text));
  }

  void initializer(const ProtoRange& content) {
    OnnxTensor tensor =
        core::with_context("initialiser " + std::to_string(out_.tensors.size()), [&] { return this->tensor(content); });
    if (tensor.name.empty()) {
      corrupt("initialiser " + std::to_string(out_.tensors.size()) + " has no name");
    }
    if (!names_.insert(tensor.name).second) corrupt("the initialiser " + core::quote(tensor.name) + " is there twice");
    if (out_.tensors.size() >= limits_.max_tensors) {
      throw Error(ErrorCode::refused,
                  "the model has more than " + core::format_count(limits_.max_tensors) + " initialisers");
    }
    out_.tensors.push_back(std::move(tensor));
  }

  void sparse(ProtoRange rest) {
    std::string name = "a sparse initialiser";
    while (auto field = in_.next(rest)) {
      if (!field->is(1, Kind::bytes)) continue;
      std::string own = tensor(field->content).name;
      if (!own.empty()) name = own;
    }
    if (out_.left_out.size() < limits_.max_tensors) out_.left_out.push_back(std::move(name));
  }

  OnnxTensor tensor(ProtoRange rest) {
    OnnxTensor out;
    while (auto field = in_.next(rest)) tensor_field(*field, out);
    return out;
  }

  void tensor_field(const ProtoField& field, OnnxTensor& out) {
    switch (field.number) {
      case 1:
        return dims(field, out);
      case 2:
        out.type = field.kind == Kind::varint ? field.value : 0;
        return;
      case 3:
        out.segmented = true;
        return;
      case 4:
        return numbers(field, OnnxField::floats, out);
      case 5:
        return numbers(field, OnnxField::int32s, out);
      case 7:
        return numbers(field, OnnxField::int64s, out);
      case 8:
        if (field.kind == Kind::bytes) out.name = name_of(field);
        return;
      case 9:
        out.has_raw = field.kind == Kind::bytes;
        out.raw = field.content;
        return;
      case 10:
        return numbers(field, OnnxField::doubles, out);
      case 11:
        return numbers(field, OnnxField::uint64s, out);
      case 13:
        if (field.kind == Kind::bytes) place(field, out);
        return;
      case 14:
        out.external = field.value == 1;
        return;
      default:  // text values, which the type says too, documentation and metadata
        return;
    }
  }

  std::string name_of(const ProtoField& field) {
    if (field.content.size() > limits_.max_name) {
      throw Error(ErrorCode::refused, "its name has " + core::format_count(field.content.size()) +
                                          " bytes where at most " + core::format_count(limits_.max_name) + " are read");
    }
    return in_.text(field, limits_.max_name);
  }

  void place(const ProtoField& field, OnnxTensor& out) {
    constexpr std::size_t kMost = 16;
    if (out.place.size() >= kMost) corrupt("its place in another file is described by too many texts");
    out.place.push_back(pair(field.content));
  }

  void dims(const ProtoField& field, OnnxTensor& out) {
    ProtoRange rest = field.content;
    if (field.kind != Kind::varint && field.kind != Kind::bytes) corrupt("its dimensions are no whole numbers");
    while (rest.begin < rest.end) {
      auto size = static_cast<std::int64_t>(in_.varint(rest));
      if (size < 0) corrupt("it has a dimension of " + std::to_string(size));
      if (out.shape.size() >= limits_.max_rank) {
        throw Error(ErrorCode::refused, "it has more than " + std::to_string(limits_.max_rank) + " dimensions");
      }
      out.shape.push_back(size);
    }
  }

  /// A run of numbers, or a single one: both lie in the file alike.
  void numbers(const ProtoField& field, OnnxField where, OnnxTensor& out) {
    const bool fixed = where == OnnxField::floats || where == OnnxField::doubles;
    const Kind single = !fixed ? Kind::varint : where == OnnxField::floats ? Kind::fixed32 : Kind::fixed64;
    if (field.kind != Kind::bytes && field.kind != single) corrupt("its values are no numbers of their field");
    if (++pieces_ > kMaxPieces) {
      throw Error(ErrorCode::refused,
                  "the values of its tensors come in more than " + core::format_count(kMaxPieces) + " pieces");
    }
    out.numbers[static_cast<std::size_t>(where)].push_back(field.content);
  }

  /// "float32[batch, 3, 224, 224]" of a name; "" for what is no tensor.
  std::pair<std::string, std::string> value_info(ProtoRange rest) {
    std::pair<std::string, std::string> out;
    while (auto field = in_.next(rest)) {
      if (field->is(1, Kind::bytes)) out.first = in_.text(*field, kMaxText);
      if (!field->is(2, Kind::bytes)) continue;
      ProtoRange type = field->content;
      while (auto of = in_.next(type)) {
        if (of->is(1, Kind::bytes)) out.second = tensor_type(of->content);
      }
    }
    return out;
  }

  std::string tensor_type(ProtoRange rest) {
    std::string name;
    std::string sizes;
    while (auto field = in_.next(rest)) {
      if (field->is(1, Kind::varint)) name = onnx_type_name(field->value);
      if (!field->is(2, Kind::bytes)) continue;
      ProtoRange shape = field->content;
      std::size_t count = 0;
      while (auto dim = in_.next(shape)) {
        if (dim->is(1, Kind::bytes) && ++count <= limits_.max_rank)
          sizes += (count > 1 ? ", " : "") + size_text(dim->content);
      }
      sizes = "[" + sizes + "]";
    }
    return name + sizes;
  }

  std::string size_text(ProtoRange rest) {
    std::string text = "?";
    while (auto field = in_.next(rest)) {
      if (field->is(1, Kind::varint)) text = std::to_string(static_cast<std::int64_t>(field->value));
      if (field->is(2, Kind::bytes) && field->content.size() > 0) text = in_.text(*field, 256);
    }
    return text;
  }

  ProtoReader in_;
  const Limits& limits_;
  OnnxModel out_;
  std::unordered_set<std::string> names_;
  std::vector<std::pair<std::string, std::string>> opsets_;
  std::uint64_t pieces_ = 0;
};

/// As a model that is cut off does, mostly.
bool ends_in_graph(ProtoReader& in, ProtoRange rest) {
  return rest.size() > 1 && in.varint(rest) == (kGraph << 3 | 2) && in.varint(rest) > rest.size();
}

}  // namespace

bool looks_like_onnx(const ByteSource& file) {
  bool graph = false;
  try {
    ProtoReader in(file);
    ProtoRange rest = in.all();
    for (std::uint64_t count = 0; count < kMaxTopFields; ++count) {
      if (count > 0 && !graph && ends_in_graph(in, rest)) return true;
      std::optional<ProtoField> field = in.next(rest);
      if (!field) return graph;
      // Fields are written in the order of their numbers, and every model says its version.
      if (count == 0 && (field->number != 1 || field->value > kLastVersion)) return false;
      if (!is_top(*field)) return false;
      graph = graph || field->number == kGraph;
    }
  } catch (const Error&) {
    return graph;
  }
  return graph;
}

OnnxModel read_onnx_model(const ByteSource& file, const Limits& limits) {
  return Reader(file, limits).run();
}

}  // namespace ckpt::detail
