#include "libckpt/analyze/why/python_line.h"

#include <algorithm>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/analyze/why/attempt.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMostTies = 16;

bool starts_with_any(const std::string& text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) { return text.starts_with(start); });
}

std::string import_of(const std::string& modules) {
  return modules.empty() ? "" : "import " + modules + "; ";
}

/// Keras names its datasets in its own way ("dense/kernel:0").
bool is_keras(const Diagnosis& diagnosis) {
  const std::vector<FixStep>& steps = diagnosis.plan.steps;
  return std::any_of(steps.begin(), steps.end(), [](const FixStep& step) {
    return step.kind == FixStep::Kind::rules || step.kind == FixStep::Kind::transpose;
  });
}

}  // namespace

PythonReader reader_in_python(std::string_view format) {
  const Format* row = find_format(format);
  return row == nullptr ? PythonReader::none : row->python;
}

bool PythonLine::has(CauseKind kind) const {
  return std::any_of(diagnosis_.causes.begin(), diagnosis_.causes.end(),
                     [&](const Cause& cause) { return cause.kind == kind; });
}

/// What the fix writes is a PyTorch file, whatever the file is.
bool PythonLine::writes_torch() const {
  const std::vector<FixStep>& steps = diagnosis_.plan.steps;
  return std::any_of(steps.begin(), steps.end(),
                     [](const FixStep& step) { return step.kind == FixStep::Kind::convert; });
}

std::optional<PythonLine::Read> PythonLine::read_hdf5() const {
  if (!diagnosis_.numpy_reads || !diagnosis_.place.empty() || is_keras(diagnosis_)) return std::nullopt;
  return Read{"h5py",
              "{}; h5py.File(" + python_path(diagnosis_.path) +
                  ").visititems(lambda n, d: sd.update({n.replace('/', '.'): torch.as_tensor(d[()])}) if isinstance(d, "
                  "h5py.Dataset) else None)"};
}

std::optional<PythonLine::Read> PythonLine::read() const {
  const std::string& format = diagnosis_.format;
  const std::string path = python_path(diagnosis_.path);
  const std::string cpu = cpu_ ? ", map_location='cpu'" : "";
  const bool named = format.empty() && diagnosis_.path.ends_with(".safetensors");
  // A file that weights_only refuses is not to be loaded in any other way.
  if (has(CauseKind::foreign_globals)) return std::nullopt;
  const PythonReader reader = reader_in_python(format);
  if (named || reader == PythonReader::safetensors)
    return Read{"safetensors.torch", "safetensors.torch.load_file(" + path + ")"};
  if (format.empty() || reader == PythonReader::torch_load) return Read{"", "torch.load(" + path + cpu + ")"};
  if (reader == PythonReader::torch_jit && diagnosis_.place.empty())
    return Read{"", "torch.jit.load(" + path + cpu + ").state_dict()"};
  if (!diagnosis_.numpy_reads) return std::nullopt;
  if (reader == PythonReader::numpy)
    return Read{"numpy", "{k: torch.from_numpy(v) for k, v in numpy.load(" + path + ").items()}"};
  if (reader == PythonReader::gguf)
    return Read{"gguf", "{t.name: torch.from_numpy(t.data.copy()) for t in gguf.GGUFReader(" + path + ").tensors}"};
  return reader == PythonReader::h5py ? read_hdf5() : std::nullopt;
}

/// load_file gives a tied tensor under one name: load_model ties the names of the model, which has to have the ties;
/// else each is named. Of tied counters load_model says that they are unexpected, as PyTorch fills them in itself.
std::optional<std::string> PythonLine::with_ties(const Read& read) const {
  bool counters = std::any_of(diagnosis_.dropped_ties.begin(), diagnosis_.dropped_ties.end(),
                              [](const auto& tie) { return is_counter(tie.first); });
  if (diagnosis_.ties_stated && !diagnosis_.target.empty() && !counters) {
    return import_of(read.imports) + "safetensors.torch.load_model(model, " + python_path(diagnosis_.path) + ")";
  }
  if (diagnosis_.dropped_ties.size() > kMostTies) return std::nullopt;
  std::string whole = "{**sd";
  for (const auto& [name, kept] : diagnosis_.dropped_ties) {
    whole += ", " + python_text(name) + ": sd[" + python_text(kept) + "]";
  }
  return import_of(read.imports) + "sd = " + read.expression + "; " +
         (diagnosis_.target.empty() ? "state_dict = " + whole + "}" : "model.load_state_dict(" + whole + "})");
}

std::optional<std::string> PythonLine::direct(const Change& change) const {
  std::optional<Read> read = this->read();
  if (!read) return std::nullopt;
  if (!diagnosis_.dropped_ties.empty()) {
    bool plain = change.place.empty() && change.names.empty();
    return plain ? with_ties(*read) : std::nullopt;
  }
  const bool built = read->expression.starts_with("{}");  // dict by dict, into `sd`
  const std::string load = read->expression + change.place;
  const bool plain = change.names.empty();
  const auto use = [&](const std::string& value) {
    return diagnosis_.target.empty() ? "state_dict = " + value : "model.load_state_dict(" + value + ")";
  };
  if (plain && !built) return import_of(read->imports) + use(load);
  return import_of(read->imports) + (change.regex ? "import re; " : "") + "sd = " + load + "; " +
         use(plain ? "sd" : change.names);
}

std::string PythonLine::after(const std::string& made, const std::string& place) const {
  const PythonReader reader = reader_in_python(diagnosis_.format);
  const bool torch = writes_torch() || reader == PythonReader::libckpt;
  if (!torch && !diagnosis_.format.empty() && !starts_with_any(diagnosis_.format, {"torch", "safetensors", "dcp"})) {
    return "";
  }
  const bool safetensors = !torch && (reader == PythonReader::safetensors ||
                                      (diagnosis_.format.empty() && diagnosis_.path.ends_with(".safetensors")));
  const std::string load =
      (safetensors ? "safetensors.torch.load_file(" : "torch.load(") + python_path(made) + ")" + place;
  return import_of(safetensors ? "safetensors.torch" : "") +
         (diagnosis_.target.empty() ? "state_dict = " + load : "model.load_state_dict(" + load + ")") +
         "  # after the command above";
}

}  // namespace ckpt::detail
