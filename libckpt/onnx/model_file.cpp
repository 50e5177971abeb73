#include "libckpt/onnx/model_file.h"

#include <span>
#include <string>
#include <vector>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/file_set.h"
#include "libckpt/onnx/step.h"
#include "libcore/base/bytes.h"
#include "libcore/base/error.h"
#include "libcore/tensorboard/wire.h"

namespace ckpt::onnx {
namespace {

namespace wire = core::tensorboard::wire;

/// Bytes of the file in order: text, then the values of a tensor.
struct Piece {
  std::string text;
  core::Tensor values;  ///< may be undefined
};

std::string attribute_bytes(const Attribute& attribute) {
  std::string out;
  wire::bytes(out, 1, attribute.name);
  if (const auto* number = std::get_if<std::int64_t>(&attribute.value)) {
    wire::integer(out, 3, *number);
    wire::integer(out, 20, 2);
  } else if (const auto* real = std::get_if<double>(&attribute.value)) {
    wire::real32(out, 2, static_cast<float>(*real));
    wire::integer(out, 20, 1);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    wire::bytes(out, 4, *text);
    wire::integer(out, 20, 3);
  } else if (const auto* texts = std::get_if<Texts>(&attribute.value)) {
    for (const std::string& each : *texts) wire::bytes(out, 9, each);
    wire::integer(out, 20, 8);
  } else {
    for (const std::int64_t each : std::get<Integers>(attribute.value)) wire::integer(out, 8, each);
    wire::integer(out, 20, 7);
  }
  return out;
}

std::string node_bytes(const GraphNode& node) {
  std::string out;
  for (const std::string& input : node.inputs) wire::bytes(out, 1, input);
  for (const std::string& output : node.outputs) wire::bytes(out, 2, output);
  wire::bytes(out, 3, node.name);
  wire::bytes(out, 4, node.op);
  for (const Attribute& attribute : node.attributes) wire::bytes(out, 5, attribute_bytes(attribute));
  return out;
}

std::string value_info_bytes(const ValueInfo& value) {
  std::string shape;
  for (const auto& size : value.sizes) {
    std::string dim;
    if (const auto* number = std::get_if<std::int64_t>(&size)) wire::integer(dim, 1, *number);
    if (const auto* name = std::get_if<std::string>(&size)) wire::bytes(dim, 2, *name);
    wire::bytes(shape, 1, dim);
  }
  std::string tensor, type, out;
  wire::integer(tensor, 1, type_number(value.dtype));
  wire::bytes(tensor, 2, shape);
  wire::bytes(type, 1, tensor);
  wire::bytes(out, 1, value.name);
  wire::bytes(out, 2, type);
  return out;
}

/// A TensorProto without its values.
std::string tensor_bytes(const Initializer& initializer) {
  std::string out;
  for (const std::int64_t size : initializer.tensor.sizes()) wire::integer(out, 1, size);
  wire::integer(out, 2, type_number(initializer.tensor.dtype()));
  wire::bytes(out, 8, initializer.name);
  return out;
}

std::string entry_bytes(const std::string& key, const std::string& value) {
  std::string out;
  wire::bytes(out, 1, key);
  wire::bytes(out, 2, value);
  return out;
}

/// What comes before the content of a field that is so long.
std::string header(unsigned field, std::uint64_t size) {
  std::string out;
  wire::varint(out, field << 3 | 2);
  wire::varint(out, size);
  return out;
}

std::uint64_t size_of(const core::Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.nbytes());
}

/// Sizes and other small numbers stay in the model, where checkers look for them.
bool goes_outside(const core::Tensor& tensor) {
  constexpr std::uint64_t kLeast = 1024;
  return size_of(tensor) >= kLeast;
}

/// Where the values of each initialiser begin in a file of their own; the last one: its size.
std::vector<std::uint64_t> places_of(const Graph& graph) {
  constexpr std::uint64_t kPage = 4096;  // so that a runtime may map it
  std::vector<std::uint64_t> places;
  std::uint64_t at = 0;
  for (const Initializer& one : graph.initializers()) {
    if (!goes_outside(one.tensor)) {
      places.push_back(at);
      continue;
    }
    if (size_of(one.tensor) >= kPage) at = (at + kPage - 1) / kPage * kPage;
    places.push_back(at);
    at += size_of(one.tensor);
  }
  places.push_back(at);
  return places;
}

std::vector<Piece> graph_pieces(const Graph& graph, const std::string& data_file) {
  std::vector<Piece> pieces(1);
  for (const GraphNode& node : graph.nodes()) wire::bytes(pieces[0].text, 1, node_bytes(node));
  wire::bytes(pieces[0].text, 2, "main");
  const std::vector<std::uint64_t> places = places_of(graph);
  for (std::size_t i = 0; i < graph.initializers().size(); ++i) {
    const Initializer& one = graph.initializers()[i];
    const std::uint64_t size = size_of(one.tensor);
    std::string start = tensor_bytes(one);
    if (data_file.empty() || !goes_outside(one.tensor)) {
      const std::string values = header(9, size);
      pieces.back().text += header(5, start.size() + values.size() + size) + start + values;
      pieces.back().values = one.tensor;
      pieces.emplace_back();
      continue;
    }
    wire::bytes(start, 13, entry_bytes("location", data_file));
    wire::bytes(start, 13, entry_bytes("offset", std::to_string(places[i])));
    wire::bytes(start, 13, entry_bytes("length", std::to_string(size)));
    wire::integer(start, 14, 1);
    wire::bytes(pieces.back().text, 5, start);
  }
  for (const ValueInfo& input : graph.model_inputs) wire::bytes(pieces.back().text, 11, value_info_bytes(input));
  for (const ValueInfo& output : graph.model_outputs) wire::bytes(pieces.back().text, 12, value_info_bytes(output));
  return pieces;
}

std::uint64_t total(const std::vector<Piece>& pieces) {
  std::uint64_t size = 0;
  for (const Piece& piece : pieces) size += piece.text.size() + (piece.values.defined() ? size_of(piece.values) : 0);
  return size;
}

/// The whole model: what says its versions, then the graph.
std::vector<Piece> model_pieces(const Graph& graph, const std::string& data_file) {
  std::vector<Piece> pieces = graph_pieces(graph, data_file);
  std::string opset, start;
  wire::bytes(opset, 1, "");
  wire::integer(opset, 2, graph.opset());
  wire::integer(start, 1, 8);  // the version of the file format that has both opsets
  wire::bytes(start, 2, "ckpt");
  wire::bytes(start, 8, opset);
  start += header(7, total(pieces));
  pieces[0].text = start + pieces[0].text;
  return pieces;
}

void write_values(ByteSink& file, const core::Tensor& tensor) {
  const core::Tensor dense = tensor.detach().cpu().contiguous();
  file.write(Bytes(static_cast<const std::byte*>(dense.raw_data()), size_of(dense)));
}

void write_pieces(ByteSink& sink, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    sink.write(core::as_bytes(piece.text));
    if (piece.values.defined()) write_values(sink, piece.values);
  }
}

/// The model, and its values in PATH.data; where that is taken, PATH.1.data.
std::uint64_t write_beside(const Graph& graph, const std::filesystem::path& path, const FileOptions& options,
                           const std::vector<std::uint64_t>& places) {
  FileSet set(path, {.overwrite = options.overwrite});
  const std::string stem = path.filename().string();
  std::string name = stem + ".data";
  for (int i = 1; !set.is_free(name); ++i) name = stem + "." + std::to_string(i) + ".data";
  set.announce({name}, {}, places.back());
  set.write_member(name, places.back(), [&](AtomicFile& file) {
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
      if (!goes_outside(graph.initializers()[i].tensor)) continue;
      file.skip_to(places[i]);
      write_values(file, graph.initializers()[i].tensor);
    }
  });
  MemorySink head;
  write_pieces(head, model_pieces(graph, name));
  set.commit(head.bytes());
  return places.back() + head.position();
}

}  // namespace

std::uint64_t write_model(const Graph& graph, const std::filesystem::path& path, const FileOptions& options) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;  // what one message of protobuf may have
  const std::vector<Piece> pieces = model_pieces(graph, "");
  const std::vector<std::uint64_t> places = places_of(graph);
  const std::uint64_t size = total(pieces);
  if ((options.external || size >= kMost) && places.back() > 0) return write_beside(graph, path, options, places);
  AtomicFile file(path, {.overwrite = options.overwrite, .expected_size = size});
  write_pieces(file, pieces);
  file.commit();
  return size;
}

}  // namespace ckpt::onnx
