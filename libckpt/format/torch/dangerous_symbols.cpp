#include "libckpt/format/torch/dangerous_symbols.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "libcore/base/text.h"

namespace ckpt {
namespace {

constexpr std::size_t kMaxText = 80;      // of one string
constexpr std::size_t kMaxCall = 240;     // of the whole call
constexpr std::size_t kMaxArguments = 6;  // of one call or container
constexpr int kMaxDepth = 4;

/// Modules of which nothing belongs into a checkpoint, with all below them.
constexpr auto kDangerousModules = std::to_array<std::string_view>({
    "os",
    "posix",
    "nt",
    "sys",
    "subprocess",
    "importlib",
    "imp",
    "runpy",
    "socket",
    "webbrowser",
    "pty",
    "shutil",
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
    "codeop",
    "_codecs",
    "codecs",
    "pip",
    "ctypes",
    "_ctypes",
    "cffi",
    "popen2",
    "timeit",
    "cProfile",
    "profile",
    "pdb",
    "bdb",
    "doctest",
    "idlelib",
    "distutils",
    "setuptools",
    "ensurepip",
    "venv",
    "asyncio",
    "multiprocessing",
    "threading",
    "_thread",
    "signal",
    "atexit",
    "tempfile",
    "operator",
    "_operator",
    "functools",
    "_functools",
    "types",
    "inspect",
    "gc",
    "urllib",
    "urllib2",
    "urllib3",
    "http",
    "httplib",
    "requests",
    "httpx",
    "aiohttp",
    "ftplib",
    "smtplib",
    "telnetlib",
    "poplib",
    "imaplib",
    "nntplib",
    "xmlrpc",
    "ssl",
    "io",
    "_io",
    "fileinput",
    "linecache",
    "pydoc",
    "pkgutil",
    "zipimport",
    "zipfile",
    "tarfile",
    "sqlite3",
    "platform",
    "_osx_support",
    "_aix_support",
    "_pyrepl",
    "lib2to3",
    "unittest",
    "picklescan",
    "fickling",
    "paramiko",
    "pexpect",
    "ckpt",
});

/// Names, and modules with all below them, inside libraries that checkpoints do name.
constexpr auto kNames = std::to_array<std::string_view>({
    "torch.load",
    "torch.save",
    "torch.serialization",
    "torch.hub",
    "torch.jit",
    "torch.ops",
    "torch.classes",
    "torch.package",
    "torch.distributed.rpc",
    "torch.multiprocessing",
    "torch.utils.bottleneck",
    "torch.utils.collect_env",
    "torch.utils.cpp_extension",
    "torch.utils.model_dump",
    "torch.utils._config_module",
    "torch.utils.data.datapipes",
    "torch._dynamo",
    "torch._inductor",
    "torch.fx.experimental",
    "numpy.load",
    "numpy.save",
    "numpy.fromfile",
    "numpy.memmap",
    "numpy.testing",
    "numpy.f2py",
    "numpy.distutils",
    "numpy.ctypeslib",
    "numpy.core.multiarray.fromfile",
    "pandas.read_pickle",
    "pandas.eval",
    "code.InteractiveConsole",
    "code.InteractiveInterpreter",
    "code.interact",
    "commands.getoutput",
    "commands.getstatusoutput",
    "trace.Trace",
    "test.support",
    "logging.config",
    "uuid._get_command_stdout",
    "copyreg.add_extension",
    "keras.models.load_model",
    "tensorflow.io",
    "tensorflow.py_function",
});

bool is_at_or_below(std::string_view symbol, std::string_view module) {
  return symbol.starts_with(module) && (symbol.size() == module.size() || symbol[module.size()] == '.');
}

bool is_system_module(std::string_view component) {
  constexpr auto kSystem = std::to_array<std::string_view>({"os", "posix", "nt", "sys", "subprocess", "importlib"});
  return std::find(kSystem.begin(), kSystem.end(), component) != kSystem.end();
}

/// Where classes live that are no part of a library: a script's, and those of a TorchScript program, which
/// torch.jit.load compiles from the code in the same archive ("__torch__.net.___torch_mangle_0.Block").
bool is_program_name(std::string_view component, bool first) {
  if (first) return component == "__main__" || component == "__torch__";
  return component.starts_with("___torch_mangle_");
}

/// Exceptions and warnings are plain classes; the rest of builtins that no table allows compiles, runs or fetches.
bool is_dangerous_builtin(std::string_view name) {
  return !name.ends_with("Error") && !name.ends_with("Exception") && !name.ends_with("Warning") && name != "Ellipsis" &&
         name != "NotImplemented" && name != "NoneType";
}

class CallText {
 public:
  explicit CallText(const PickleGraph& graph) : graph_(graph) {}

  std::string call(NodeId id, int depth) {
    const PickleCall& call = graph_.call(id);
    std::string text = core::printable(graph_.symbol(call.callable).full) + "(";
    text += list(graph_.children(call.args), depth);
    if (call.kwargs != kNoNode && !graph_.children(call.kwargs).empty()) {
      text += (graph_.children(call.args).empty() ? "**{" : ", **{") + pairs(call.kwargs, depth) + "}";
    }
    return text + ")";
  }

 private:
  std::string list(std::span<const NodeId> items, int depth) {
    std::string text;
    for (std::size_t i = 0; i < std::min(items.size(), kMaxArguments); ++i) {
      text += (i > 0 ? ", " : "") + value(items[i], depth + 1);
    }
    return text + (items.size() > kMaxArguments ? ", ..." : "");
  }

  std::string pairs(NodeId dict, int depth) {
    std::span<const NodeId> items = graph_.children(dict);
    std::string text;
    for (std::size_t i = 0; i + 1 < std::min(items.size(), 2 * kMaxArguments); i += 2) {
      text += (i > 0 ? ", " : "") + value(items[i], depth + 1) + ": " + value(items[i + 1], depth + 1);
    }
    return text + (items.size() > 2 * kMaxArguments ? ", ..." : "");
  }

  std::string value(NodeId id, int depth) {
    if (depth > kMaxDepth) return "...";
    const PickleNode& node = graph_.node(id);
    switch (node.kind) {
      case NodeKind::none:
        return "None";
      case NodeKind::boolean:
        return node.integer != 0 ? "True" : "False";
      case NodeKind::integer:
        return std::to_string(node.integer);
      case NodeKind::text:
        return core::quote(graph_.text(id), kMaxText);
      case NodeKind::bytes:
      case NodeKind::bytearray:
        return "b" + core::quote(graph_.text(id), kMaxText);
      case NodeKind::list:
        return "[" + list(graph_.children(id), depth) + "]";
      case NodeKind::tuple:
        return "(" + list(graph_.children(id), depth) + (graph_.children(id).size() == 1 ? ",)" : ")");
      case NodeKind::dict:
        return "{" + pairs(id, depth) + "}";
      case NodeKind::global:
        return core::printable(graph_.symbol(id).full);
      case NodeKind::call:
        return call(id, depth);
      default:
        return describe_node(graph_, id);
    }
  }

  const PickleGraph& graph_;
};

}  // namespace

bool is_dangerous(std::string_view symbol) {
  if (symbol.starts_with("builtins.")) return is_dangerous_builtin(symbol.substr(9));
  if (symbol == "io.BytesIO" || symbol == "_io.BytesIO" || symbol == "io.StringIO" || symbol == "_io.StringIO")
    return false;
  auto below = [&](std::string_view module) { return is_at_or_below(symbol, module); };
  if (std::any_of(kDangerousModules.begin(), kDangerousModules.end(), below)) return true;
  if (std::any_of(kNames.begin(), kNames.end(), below)) return true;
  // A module's way to another one ("torch.os.system") and the inside of an object ("Net.__init__.__globals__").
  for (std::size_t begin = 0; begin <= symbol.size();) {
    std::size_t end = std::min(symbol.find('.', begin), symbol.size());
    std::string_view component = symbol.substr(begin, end - begin);
    bool inside = component.starts_with("__") && !is_program_name(component, begin == 0);
    if (is_system_module(component) || inside) return true;
    begin = end + 1;
  }
  return false;
}

std::string call_text(const PickleGraph& graph, NodeId call) {
  std::string text = CallText(graph).call(call, 0);
  if (text.size() <= kMaxCall) return text;
  std::size_t end = kMaxCall;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;  // whole characters
  return text.substr(0, end) + "...";
}

}  // namespace ckpt
