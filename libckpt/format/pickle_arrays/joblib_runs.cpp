#include "libckpt/format/pickle_arrays/joblib_runs.h"

#include <algorithm>
#include <charconv>

#include "libckpt/format/corrupt.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kModule = "joblib.numpy_pickle";
constexpr std::uint64_t kMostBytes = 1ULL << 62;

/// '(', the lowest code that is one.
constexpr std::uint64_t kFirstOpcode = 0x28;

/// Bytes of what the outline adds for each run, which the machine is given too.
constexpr std::uint64_t kRoomOfRuns = 16 << 20;

}  // namespace

bool is_joblib_wrapper(std::string_view symbol) {
  return symbol == "joblib.numpy_pickle.NumpyArrayWrapper" ||
         symbol == "sklearn.externals.joblib.numpy_pickle.NumpyArrayWrapper";
}

bool names_joblib(std::string_view text) {
  return text.find(kModule) != std::string_view::npos;
}

JoblibRuns::JoblibRuns(const ByteSource& file, const Limits& limits) : file_(file), machine_({}, limits) {
  machine_.expect(std::min(file.size(), limits.max_pickle_bytes) + kRoomOfRuns);
}

std::optional<PickleOutline::Run> JoblibRuns::run_behind(core::Bytes piece, std::uint64_t behind) {
  const std::size_t room = machine_.graph().room();
  if (piece.size() > room) throw core::Error(core::ErrorCode::refused, "the pickle holds too many arrays");
  machine_.feed(piece);
  const std::optional<NodeId> state = state_of_wrapper();
  if (!state) return std::nullopt;
  const std::uint64_t width = width_of(member(*state, "dtype"));
  const std::uint64_t count = count_of(member(*state, "shape"));
  if (count > kMostBytes / width) corrupt("an array of joblib has an impossible size");
  const NodeId alignment = member(*state, "numpy_array_alignment_bytes");
  // A byte says how many others follow, so that the values begin at a multiple of it.
  std::uint64_t padding = 0;
  if (alignment != kNoNode && machine_.graph().kind(alignment) != NodeKind::none && behind < file_.size()) {
    std::byte count_of_padding{};
    file_.read(behind, core::MutableBytes(&count_of_padding, 1));
    padding = std::to_integer<std::uint64_t>(count_of_padding);
    behind += 1 + padding;
  }
  end_plain_readers_ &= padding > 0 && padding < kFirstOpcode;
  if (behind > file_.size() || count * width > file_.size() - behind) {
    corrupt("the file is cut off: an array of " + core::format_count(count * width) + " bytes begins at byte " +
            core::format_count(behind));
  }
  return PickleOutline::Run{behind, count * width};
}

/// The dict on top of the stack, where a wrapper lies below it.
std::optional<NodeId> JoblibRuns::state_of_wrapper() const {
  const PickleGraph& graph = machine_.graph();
  const std::span<const NodeId> stack = machine_.stack();
  if (stack.size() < 2) return std::nullopt;
  const NodeId object = stack[stack.size() - 2];
  if (graph.kind(object) != NodeKind::call) return std::nullopt;
  const NodeId callable = graph.call(object).callable;
  if (graph.kind(callable) != NodeKind::global || !is_joblib_wrapper(graph.symbol(callable).full)) return std::nullopt;
  if (graph.kind(stack.back()) != NodeKind::dict) corrupt("a wrapper of joblib has a state that is no dict");
  return stack.back();
}

NodeId JoblibRuns::member(NodeId dict, std::string_view key) const {
  const PickleGraph& graph = machine_.graph();
  const std::span<const NodeId> items = graph.children(dict);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (graph.kind(items[i]) == NodeKind::text && graph.text(items[i]) == key) return items[i + 1];
  }
  return kNoNode;
}

std::uint64_t JoblibRuns::count_of(NodeId shape) const {
  const PickleGraph& graph = machine_.graph();
  if (shape == kNoNode || graph.kind(shape) != NodeKind::tuple) corrupt("an array of joblib has no shape");
  std::uint64_t count = 1;
  for (NodeId size : graph.children(shape)) {
    const bool fits = graph.kind(size) == NodeKind::integer && graph.node(size).integer >= 0;
    if (!fits) corrupt("an array of joblib has a dimension that is no size");
    const auto number = static_cast<std::uint64_t>(graph.node(size).integer);
    if (number != 0 && count > kMostBytes / number) corrupt("an array of joblib has an impossible size");
    count *= number;
  }
  return count;
}

/// Bytes of an element, from "f4", "U3", "M8".
std::uint64_t JoblibRuns::width_of(NodeId dtype) const {
  const PickleGraph& graph = machine_.graph();
  std::string_view code;
  if (dtype != kNoNode && graph.kind(dtype) == NodeKind::call &&
      graph.kind(graph.call(dtype).callable) == NodeKind::global &&
      graph.symbol(graph.call(dtype).callable).full == "numpy.dtype") {
    const std::span<const NodeId> args = graph.children(graph.call(dtype).args);
    if (!args.empty() && graph.kind(args[0]) == NodeKind::text) code = graph.text(args[0]);
  }
  if (code.starts_with('O')) {
    throw core::Error(core::ErrorCode::unsupported,
                      "the file of joblib holds an array of Python's objects, whose own pickle lies within it; only "
                      "arrays of numbers are read");
  }
  std::uint64_t width = 0;
  const char* end = code.data() + code.size();
  const bool known = code.size() > 1 && std::string_view("biufcSUVMm").find(code[0]) != std::string_view::npos &&
                     std::from_chars(code.data() + 1, end, width).ptr == end && width > 0 && width < (1U << 30);
  if (!known) corrupt("an array of joblib has the type " + core::quote(code) + ", which says no size");
  return code[0] == 'U' ? 4 * width : width;
}

}  // namespace ckpt::detail
