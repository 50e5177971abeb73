#include "tools/python/bindings/checkpoint.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "libckpt/children.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/lora.h"
#include "libckpt/transform/map_location.h"
#include "libckpt/transform/merge.h"
#include "libckpt/transform/metadata.h"
#include "libckpt/transform/prefix.h"
#include "libckpt/transform/quantize.h"
#include "libckpt/transform/rename.h"
#include "libckpt/transform/rules.h"
#include "libckpt/transform/select.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/python/bindings/calls.h"
#include "tools/python/bindings/rules.h"
#include "tools/python/bindings/values.h"

namespace python {
namespace {

using core::Error;
using core::ErrorCode;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Keyword arguments, each of which somebody has to take.
class Arguments {
 public:
  explicit Arguments(const nb::kwargs& given) { given_.update(given); }

  template <class T>
  void take(const char* name, T& value) {
    if (!given_.contains(name)) return;
    try {
      value = nb::cast<T>(given_[name]);
    } catch (const nb::cast_error&) {
      throw Error(ErrorCode::type, std::string(name) + " cannot be " + nb::repr(given_[name]).c_str());
    }
    nb::del(given_[name]);
  }
  nb::object take_object(const char* name) {
    if (!given_.contains(name)) return nb::none();
    nb::object value = given_[name];
    nb::del(given_[name]);
    return value;
  }
  void require_empty() const {
    for (auto [name, value] : given_) {
      throw Error(ErrorCode::usage, "there is no argument '" + nb::cast<std::string>(name) + "'");
    }
  }

 private:
  nb::dict given_;
};

std::vector<ckpt::Retype> retypes(const nb::object& table) {
  std::vector<ckpt::Retype> pairs;
  if (table.is_none()) return pairs;
  for (auto [from, to] : nb::cast<nb::dict>(table)) {
    pairs.push_back({core::parse_dtype(nb::cast<std::string>(from)), core::parse_dtype(nb::cast<std::string>(to))});
  }
  return pairs;
}

ckpt::Codec codec_of(const std::string& name) {
  if (name.empty()) return ckpt::Codec::automatic;
  std::optional<ckpt::Codec> codec = ckpt::codec_named(name);
  if (!codec) throw Error(ErrorCode::usage, "there is no codec " + core::quote(name));
  return *codec;
}

ckpt::SaveOptions save_options(const nb::kwargs& given, ckpt::Report& report) {
  ckpt::SaveOptions options;
  std::string codec;
  Arguments arguments(given);
  arguments.take("format", options.format);
  arguments.take("overwrite", options.overwrite);
  arguments.take("durable", options.durable);
  arguments.take("codec", codec);
  arguments.take("in_place", options.in_place);
  arguments.take("slack", options.slack);
  arguments.take("parity", options.parity);
  arguments.take("max_shard_size", options.max_shard_size);
  arguments.take("shards", options.shards);
  arguments.take("drop_inexpressible", options.drop_inexpressible);
  arguments.take("max_memory", options.max_memory);
  arguments.take("threads", options.threads);
  options.retype = retypes(arguments.take_object("retype"));
  options.progress = progress_of(arguments.take_object("progress"));
  arguments.require_empty();
  options.codec = codec_of(codec);
  options.report = &report;
  return options;
}

Checkpoint open(const std::filesystem::path& path, const nb::kwargs& arguments) {
  ckpt::Report report;
  const ckpt::OpenOptions options = open_options(arguments, report);
  Checkpoint opened(without_lock([&] { return ckpt::open(path, options); }));
  warn(report);
  return opened;
}

void save(const Checkpoint& checkpoint, const std::filesystem::path& path, const nb::kwargs& arguments) {
  ckpt::Report report;
  const ckpt::SaveOptions options = save_options(arguments, report);
  without_lock([&] { ckpt::save(checkpoint.get(), path, options); });
  warn(report);
}

Checkpoint built(const nb::object& tree, const nb::object& leaf, const Pairs& metadata) {
  ckpt::Checkpoint checkpoint;
  checkpoint.root = to_value(tree, leaf);
  checkpoint.metadata = metadata;
  return Checkpoint(std::move(checkpoint));
}

Checkpoint strip_prefix(const Checkpoint& self, const std::string& prefix, bool repeat, bool anywhere, bool wrappers,
                        const std::string& at) {
  ckpt::KeyChanges changes;
  Checkpoint made(ckpt::strip_prefix(
      self.get(), {.prefix = prefix, .repeat = repeat, .anywhere = anywhere, .wrappers = wrappers, .at = at},
      &changes));
  if (!changes.renamed.empty()) return made;
  std::string text = wrappers ? "no key carries the name of a wrapper" : "no key begins with " + core::quote(prefix);
  if (!changes.starts.empty()) text += "; they begin with " + core::quote(changes.starts.front().first);
  warn(text);
  return made;
}

Checkpoint add_prefix(const Checkpoint& self, const std::string& prefix, const std::string& at) {
  return Checkpoint(ckpt::add_prefix(self.get(), {.prefix = prefix, .at = at}));
}

/// A table, whose names must all be there, or rules.
Checkpoint rename(const Checkpoint& self, const nb::object& rules, bool reverse, const std::string& at) {
  if (nb::isinstance<nb::dict>(rules)) {
    Pairs table;
    for (auto [from, to] : nb::cast<nb::dict>(rules)) {
      table.emplace_back(nb::cast<std::string>(reverse ? to : from), nb::cast<std::string>(reverse ? from : to));
    }
    return Checkpoint(ckpt::rename_keys(self.get(), {.table = std::move(table), .at = at}));
  }
  ckpt::RuleReport report;
  Checkpoint made(ckpt::apply_rules(
      self.get(), rules_named(nb::cast<std::string>(nb::str(rules)), reverse, self.get(), at), {.at = at}, &report));
  for (const std::string& rule : report.unmatched) warn("nothing matches: " + rule);
  return made;
}

Checkpoint remap(const Checkpoint& self, const nb::object& to, const std::string& at) {
  ckpt::MapLocationOptions options;
  options.at = at;
  if (nb::isinstance<nb::str>(to)) {
    options.to = nb::cast<std::string>(to);
  } else {
    for (auto [from, target] : nb::cast<nb::dict>(to)) {
      options.map.emplace_back(nb::cast<std::string>(from), nb::cast<std::string>(target));
    }
  }
  return Checkpoint(ckpt::map_location(self.get(), options));
}

Checkpoint cast(const Checkpoint& self, const std::string& to, const std::vector<std::string>& from,
                const std::vector<std::string>& keep, bool keep_norms, const std::string& at) {
  ckpt::CastOptions options;
  options.to = core::parse_dtype(to);
  for (const std::string& name : from) options.from.push_back(core::parse_dtype(name));
  options.keep.include = keep;
  options.keep_norms = keep_norms;
  options.at = at;
  return Checkpoint(ckpt::cast(self.get(), options));
}

Checkpoint dequantize(const Checkpoint& self, const std::string& to, const std::string& at) {
  return Checkpoint(ckpt::dequantize(self.get(), {.to = core::parse_dtype(to), .at = at}));
}

Checkpoint quantize(const Checkpoint& self, const std::string& to, const std::vector<std::string>& keep,
                    const std::string& at) {
  return Checkpoint(ckpt::quantize(self.get(), {.to = to, .keep = {.include = keep}, .at = at}));
}

Checkpoint merge_lora(const Checkpoint& self, const std::filesystem::path& adapter, double strength,
                      const std::string& at) {
  const ckpt::LoraAdapter opened = without_lock([&] { return ckpt::open_lora(adapter); });
  return Checkpoint(ckpt::merge_lora(self.get(), opened, {.at = at, .strength = strength}));
}

/// Of "slerp", also as mergekit spells it: "task_arithmetic".
ckpt::MergeMethod method_named(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  const std::optional<ckpt::MergeMethod> method = ckpt::parse_merge_method(name);
  if (!method) throw Error(ErrorCode::usage, "there is no method " + core::quote(name) + " of merging");
  return *method;
}

Checkpoint merge(const std::vector<nb::object>& models, const nb::object& base, const nb::kwargs& given) {
  ckpt::MergeOptions options;
  std::string method = "linear";
  Arguments arguments(given);
  arguments.take("method", method);
  arguments.take("weights", options.weights);
  arguments.take("densities", options.densities);
  arguments.take("t", options.t);
  arguments.take("lambda_", options.lambda);
  arguments.take("normalize", options.normalize);
  arguments.take("seed", options.seed);
  arguments.require_empty();
  options.method = method_named(method);
  if (ckpt::has_base(options.method) == base.is_none()) {
    throw Error(ErrorCode::usage, method + (base.is_none() ? " needs a base" : " takes no base"));
  }
  std::vector<ckpt::Checkpoint> checkpoints;
  if (!base.is_none()) checkpoints.push_back(checkpoint_of(base));
  for (const nb::object& model : models) checkpoints.push_back(checkpoint_of(model));
  return without_lock([&] { return Checkpoint(ckpt::merge(checkpoints, options)); });
}

Checkpoint select(const Checkpoint& self, const std::vector<std::string>& include,
                  const std::vector<std::string>& exclude, const std::string& at) {
  return Checkpoint(ckpt::select(self.get(), {.include = include, .exclude = exclude, .at = at}));
}

Checkpoint with_metadata(const Checkpoint& self, const nb::dict& set, const std::vector<std::string>& unset) {
  ckpt::MetadataEdit edit;
  for (auto [key, text] : set) edit.set.emplace_back(nb::cast<std::string>(key), nb::cast<std::string>(text));
  edit.unset = unset;
  return Checkpoint(ckpt::edit_metadata(self.get(), edit));
}

/// What lies at "model" as a checkpoint of its own.
Checkpoint part(const Checkpoint& self, const std::string& at) {
  ckpt::Checkpoint made;
  made.root = ckpt::value_at(self.get().root, at);
  made.path = self.get().path;
  return Checkpoint(std::move(made));
}

nb::dict metadata_of(const Checkpoint& self) {
  nb::dict metadata;
  for (const auto& [key, text] : self.get().metadata) metadata[key.c_str()] = nb::str(text.c_str(), text.size());
  return metadata;
}

nb::object name_object(std::string_view name) {
  PyObject* made = PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "surrogatepass");
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

nb::list names_of(const Checkpoint& self) {
  nb::list names;
  ckpt::visit_tensors(self.get().root,
                      [&](std::string_view name, const ckpt::Value&) { names.append(name_object(name)); });
  return names;
}

Tensor item(const Checkpoint& self, const std::string& name) {
  ckpt::EntryPtr found = self.find(name);
  if (found == nullptr) {
    PyErr_SetObject(PyExc_KeyError, name_object(name).ptr());
    throw nb::python_error();
  }
  return {name, std::move(found)};
}

std::string repr_of(const Checkpoint& self) {
  std::uint64_t bytes = 0;
  ckpt::visit_tensors(self.get().root,
                      [&](std::string_view, const ckpt::Value& tensor) { bytes += tensor.as_entry().byte_size(); });
  const std::string file = self.get().path.empty() ? "" : core::quote(self.get().path.string()) + ", ";
  return "Checkpoint(" + file + core::format_count(self.count()) + " tensors, " + core::format_size(bytes) + ")";
}

void bind_transforms(nb::class_<Checkpoint>& type) {
  type.def("strip_prefix", &strip_prefix, nb::arg("prefix") = "module.", nb::kw_only(), nb::arg("repeat") = false,
           nb::arg("anywhere") = false, nb::arg("wrappers") = false, nb::arg("at") = "",
           "The prefix taken off every key that begins with it. `anywhere`: wherever it stands between dots; "
           "`wrappers`: what DataParallel, torch.compile, FSDP and their kin add, at any depth.")
      .def("add_prefix", &add_prefix, nb::arg("prefix") = "module.", nb::kw_only(), nb::arg("at") = "",
           "The prefix put before every key of one state dict.")
      .def("rename", &rename, nb::arg("rules"), nb::kw_only(), nb::arg("reverse") = false, nb::arg("at") = "",
           "Other names: by a dict of old and new keys, by a file of rules (TOML or JSON), by the text of such a file, "
           "or by the name of a rule pack (`ckpt zoo rules`).")
      .def("remap", &remap, nb::arg("to"), nb::kw_only(), nb::arg("at") = "",
           "Other device tags: 'cuda:1' for all, or a dict {'cuda:0': 'cuda:1'}. No GPU is needed.")
      .def("cast", &cast, nb::arg("to"), nb::kw_only(), nb::arg("from_") = std::vector<std::string>(),
           nb::arg("keep") = std::vector<std::string>(), nb::arg("keep_norms") = false, nb::arg("at") = "",
           "Another element type, rounded as PyTorch rounds. Values are read when the result is.")
      .def("dequantize", &dequantize, nb::arg("to") = "float32", nb::kw_only(), nb::arg("at") = "",
           "Quantised blocks of GGUF as the values they stand for. Values are read when the result is.")
      .def("quantize", &quantize, nb::arg("to") = "Q8_0", nb::kw_only(), nb::arg("keep") = std::vector<std::string>(),
           nb::arg("at") = "",
           "Float matrices packed into quantised blocks of GGUF: Q8_0, Q6_K, Q5_K, Q4_K, Q3_K, Q2_K, Q5_1, Q5_0, Q4_1 "
           "or Q4_0.")
      .def("merge_lora", &merge_lora, nb::arg("adapter"), nb::kw_only(), nb::arg("strength") = 1.0, nb::arg("at") = "",
           "The state dict with the changes of a PEFT adapter, a folder with adapter_config.json, in its weights.")
      .def("select", &select, nb::arg("include"), nb::kw_only(), nb::arg("exclude") = std::vector<std::string>(),
           nb::arg("at") = "",
           "The tensors and values that the patterns name: select(['model.*'], exclude=['*.bias']).")
      .def("part", &part, nb::arg("at"), "What lies at a dotted path, as a checkpoint of its own: part('model').")
      .def("with_metadata", &with_metadata, nb::arg("set") = nb::dict(), nb::kw_only(),
           nb::arg("unset") = std::vector<std::string>(), "Other texts in `metadata`.");
}

void bind_mapping(nb::class_<Checkpoint>& type) {
  type.def("__len__", [](const Checkpoint& self) { return self.count(); })
      .def("__contains__", [](const Checkpoint& self, const std::string& name) { return self.find(name) != nullptr; })
      .def("__getitem__", &item, nb::arg("name"))
      .def("__iter__", [](const Checkpoint& self) { return nb::iter(names_of(self)); })
      .def("__repr__", &repr_of);
}

}  // namespace

std::size_t Checkpoint::count() const {
  if (!count_) {
    std::size_t count = 0;
    ckpt::visit_tensors(checkpoint_.root, [&](std::string_view, const ckpt::Value&) { ++count; });
    count_ = count;
  }
  return *count_;
}

ckpt::EntryPtr Checkpoint::find(const std::string& name) const {
  if (index_.empty()) {
    index_.reserve(count());
    ckpt::visit_tensors(checkpoint_.root, [&](std::string_view key, const ckpt::Value& tensor) {
      index_.emplace(std::string(key), &tensor);
    });
  }
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second->entry_ptr();
}

ckpt::OpenOptions open_options(const nb::kwargs& given, ckpt::Report& report) {
  ckpt::OpenOptions options;
  Arguments arguments(given);
  arguments.take("lenient", options.lenient);
  arguments.take("foreign_objects", options.foreign_objects);
  arguments.take("allow_symlinks", options.allow_symlinks);
  arguments.take("unsandboxed", options.unsandboxed);
  arguments.take("check_hashes", options.check_hashes);
  arguments.take("max_expansion", options.limits.max_expansion);
  arguments.take("threads", options.threads);
  arguments.require_empty();
  options.report = &report;
  return options;
}

ckpt::Checkpoint checkpoint_of(const nb::object& what) {
  if (nb::isinstance<Checkpoint>(what)) return nb::cast<const Checkpoint&>(what).get();
  return open(nb::cast<std::filesystem::path>(what), nb::kwargs()).get();
}

void bind_checkpoint(nb::module_& module) {
  nb::class_<Checkpoint> type(module, "Checkpoint", nb::dynamic_attr(),
                              "A file as a mapping from dotted names to tensors, in the order of the file. Only its "
                              "structure has been read. Transforms give another checkpoint and move no byte before "
                              "that is saved.");
  type.def_prop_ro("path", [](const Checkpoint& self) { return self.get().path; })
      .def_prop_ro(
          "format", [](const Checkpoint& self) { return self.get().format; },
          "Name of the format it was read from; '' for one that was made here.")
      .def_prop_ro("metadata", &metadata_of, "Texts that belong to the whole file, such as safetensors' __metadata__.")
      .def_prop_ro(
          "tree", [](const Checkpoint& self) { return to_python(self.get().root); },
          "Everything in the file as Python data, with a Tensor for each tensor.")
      .def("save", &save, nb::arg("path"), nb::arg("options"),
           "Writes a file whose format follows from its name. It is there whole or not at all, also after a power cut; "
           "it may be the file that this was read from.\n\n"
           "format, overwrite=True, durable=True, codec ('none', 'zstd', 'gzip'), in_place=False, slack, parity, "
           "max_shard_size, shards, drop_inexpressible=False, retype={'bfloat16': 'float32'}, max_memory, threads, "
           "progress(done, total).");
  bind_mapping(type);
  bind_transforms(type);
  module.def("open", &open, nb::arg("path"), nb::arg("options"),
             "Opens a file of any format, or a folder of one: reads its structure and no tensor, and executes nothing "
             "that is in it.\n\n"
             "lenient=False, foreign_objects=False, allow_symlinks=False, unsandboxed=False, check_hashes=False, "
             "max_expansion, threads: as the options of `ckpt`.");
  module.def(
      "merge", &merge, nb::arg("models"), nb::arg("base").none() = nb::none(), nb::arg("options"),
      "One model of several, which are checkpoints or paths, by the methods of mergekit: method='linear', "
      "'slerp', 'task_arithmetic', 'ties', 'dare_linear', 'dare_ties'; all but the first two take the differences "
      "to `base`.\n\n"
      "weights=[], densities=[], t=0.5, lambda_=1.0, normalize, seed=0: as the options of `ckpt merge`.");
  module.def("_built", &built, nb::arg("tree").none(), nb::arg("leaf"), nb::arg("metadata"));
}

}  // namespace python
