#include "libckpt/format/torch/symbols.h"

#include <algorithm>
#include <array>

namespace ckpt {
namespace {

using core::DType;

/// Calls of these become values, tensors or typed data.
constexpr auto kValueSymbols = std::to_array<std::string_view>({
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_sparse_csr_tensor",
    "torch._utils._rebuild_meta_tensor_no_storage",
    "torch._utils._rebuild_device_tensor_from_numpy",
    "torch._utils._rebuild_device_tensor_from_cpu_tensor",
    "torch._utils._rebuild_xla_tensor",
    "torch._utils._rebuild_wrapper_subclass",
    "torch._utils._rebuild_nested_tensor",
    "torch._tensor._rebuild_from_type",
    "torch._tensor._rebuild_from_type_v2",
    "torch.storage._load_from_bytes",
    "torch.serialization._get_layout",
    "torch.Size",
    "torch.device",
    "_codecs.encode",
    "builtins.set",
    "builtins.frozenset",
    "builtins.bytearray",
    "builtins.bytes",
    "builtins.complex",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
});

constexpr auto kDictClasses = std::to_array<std::string_view>({
    "collections.OrderedDict",
    "collections.Counter",
    "collections.defaultdict",
});

constexpr auto kStateful = std::to_array<std::string_view>({
    "torch.Tensor",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",
    "numpy.dtype",
});

/// Classes and constants whose objects are plain settings; carried as they are.
constexpr auto kInert = std::to_array<std::string_view>({
    "argparse.Namespace",
    "types.SimpleNamespace",
    "builtins.list",
    "builtins.dict",
    "builtins.tuple",
    "builtins.int",
    "builtins.float",
    "builtins.bool",
    "builtins.str",
    "builtins.object",
    "builtins.type",
    "builtins.slice",
    "builtins.range",
    "builtins.getattr",
    "collections.deque",
    "copyreg._reconstructor",
    "datetime.date",
    "datetime.datetime",
    "datetime.time",
    "datetime.timedelta",
    "datetime.timezone",
    "decimal.Decimal",
    "fractions.Fraction",
    "uuid.UUID",
    "pathlib.Path",
    "pathlib.PosixPath",
    "pathlib.PurePath",
    "pathlib.PurePosixPath",
    "pathlib.PureWindowsPath",
    "pathlib.WindowsPath",
    "pathlib._local.PosixPath",
    "pathlib._local.PurePosixPath",
    "pathlib._local.WindowsPath",
    "pathlib._local.PureWindowsPath",
    "typing.Any",
    "numpy._core.numeric._frombuffer",
    "numpy.core.numeric._frombuffer",
    "numpy.ndarray",
    "numpy.matrix",
    "joblib.numpy_pickle.NumpyArrayWrapper",
    "sklearn.externals.joblib.numpy_pickle.NumpyArrayWrapper",
    "numpy.bool",
    "numpy.bool_",
    "numpy.int8",
    "numpy.int16",
    "numpy.int32",
    "numpy.int64",
    "numpy.uint8",
    "numpy.uint16",
    "numpy.uint32",
    "numpy.uint64",
    "numpy.float16",
    "numpy.float32",
    "numpy.float64",
    "numpy.complex64",
    "numpy.complex128",
    "numpy.str_",
    "numpy.bytes_",
    "numpy.datetime64",
    "numpy.timedelta64",
    "torch.per_tensor_affine",
    "torch.per_tensor_symmetric",
    "torch.per_channel_affine",
    "torch.per_channel_symmetric",
    "torch.per_channel_affine_float_qparams",
    "torch.strided",
    "torch.sparse_coo",
    "torch.sparse_csr",
    "torch.sparse_csc",
    "torch.sparse_bsr",
    "torch.sparse_bsc",
    "torch.jagged",
    "torch.contiguous_format",
    "torch.preserve_format",
    "torch.channels_last",
    "torch.channels_last_3d",
    "torch.storage.TypedStorage",
    "torch.jit._pickle.build_boollist",
    "torch.jit._pickle.build_doublelist",
    "torch.jit._pickle.build_intlist",
    "torch.jit._pickle.build_tensorlist",
    "torch.jit._pickle.restore_type_tag",
    "torch.distributed.checkpoint.metadata.Metadata",
    "torch.distributed.checkpoint.metadata.TensorStorageMetadata",
    "torch.distributed.checkpoint.metadata.BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata.TensorProperties",
    "torch.distributed.checkpoint.metadata.MetadataIndex",
    "torch.distributed.checkpoint.metadata.StorageMeta",
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.filesystem._StorageInfo",
    "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.api.ShardedTensor",
    "torch.distributed._shard.sharded_tensor.api.ShardedTensor.ProcessGroupState",
    "torch.distributed._shard.sharded_tensor.metadata.ShardedTensorMetadata",
    "torch.distributed._shard.sharded_tensor.shard.Shard",
    "torch.distributed._shard.metadata.ShardMetadata",
    "torch.distributed._shard.sharding_spec.api.EnumerableShardingSpec",
    "torch.distributed._shard.sharding_spec.chunk_sharding_spec.ChunkShardingSpec",
    "torch.distributed.remote_device._remote_device",
    "torch.distributed.tensor.DTensor",
    "torch.distributed.tensor._api.DTensor",
    "torch.distributed.tensor._dtensor_spec.DTensorSpec",
    "torch.distributed.tensor._dtensor_spec.TensorMeta",
    "torch.distributed.tensor._dtensor_spec.ShardOrderEntry",
    "torch.distributed.tensor.placement_types.Shard",
    "torch.distributed.tensor.placement_types._StridedShard",
    "torch.distributed.tensor.placement_types.Replicate",
    "torch.distributed.tensor.placement_types.Partial",
    "torch.distributed._tensor.DTensor",
    "torch.distributed._tensor.api.DTensor",
    "torch.distributed._tensor.placement_types.DTensorSpec",
    "torch.distributed._tensor.placement_types.TensorMeta",
    "torch.distributed._tensor.placement_types.Shard",
    "torch.distributed._tensor.placement_types.Replicate",
    "torch.distributed._tensor.placement_types._Partial",
    "torch.distributed._mesh_layout._MeshLayout",
    "torch.distributed._mesh_layout._FlatLayout",
    "torch.distributed.device_mesh.DeviceMesh",
    "pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint",
    "pytorch_lightning.callbacks.early_stopping.EarlyStopping",
    "pytorch_lightning.utilities.parsing.AttributeDict",
    "lightning_fabric.utilities.data.AttributeDict",
    "lightning.fabric.utilities.data.AttributeDict",
    "lightning.pytorch.callbacks.model_checkpoint.ModelCheckpoint",
    "omegaconf.base.ContainerMetadata",
    "omegaconf.base.Metadata",
    "omegaconf.base.Node",
    "omegaconf.base.UnionNode",
    "omegaconf.dictconfig.DictConfig",
    "omegaconf.listconfig.ListConfig",
    "omegaconf.nodes.AnyNode",
    "omegaconf.nodes.BooleanNode",
    "omegaconf.nodes.BytesNode",
    "omegaconf.nodes.EnumNode",
    "omegaconf.nodes.FloatNode",
    "omegaconf.nodes.IntegerNode",
    "omegaconf.nodes.PathNode",
    "omegaconf.nodes.StringNode",
    "mmengine.config.config.ConfigDict",
    "mmengine.logging.history_buffer.HistoryBuffer",
    "easydict.EasyDict",
    "yacs.config.CfgNode",
    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
    "deepspeed.runtime.zero.config.ZeroStageEnum",
    "deepspeed.utils.tensor_fragment.fragment_address",
    "transformers.training_args.TrainingArguments",
    "transformers.training_args.OptimizerNames",
    "transformers.trainer_utils.HubStrategy",
    "transformers.trainer_utils.IntervalStrategy",
    "transformers.trainer_utils.SaveStrategy",
    "transformers.trainer_utils.SchedulerType",
    "accelerate.state.PartialState",
    "accelerate.utils.dataclasses.DistributedType",
});

/// What torch.load(weights_only=True) lets a pickle name, apart from storage classes, dtypes and quantisation schemes.
constexpr auto kWeightsOnly = std::to_array<std::string_view>({
    "collections.OrderedDict",
    "collections.Counter",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
    "torch.serialization._get_layout",
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "_codecs.encode",
    "builtins.bytearray",
    "builtins.set",
    "builtins.complex",
    "torch.storage.TypedStorage",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_meta_tensor_no_storage",
    "torch._utils._rebuild_wrapper_subclass",
    "torch._utils._rebuild_device_tensor_from_numpy",
    "torch._utils._rebuild_device_tensor_from_cpu_tensor",
    "torch._tensor._rebuild_from_type_v2",
});

/// Never carried, whatever the caller allows: they name functions of the interpreter and the operating system.
constexpr auto kForbiddenModules = std::to_array<std::string_view>(
    {"os", "posix", "nt", "sys", "builtins", "subprocess", "importlib", "runpy", "ckpt"});

struct StorageClass {
  std::string_view name;
  DType dtype;
};
constexpr auto kStorageClasses = std::to_array<StorageClass>({
    {"DoubleStorage", DType::f64},
    {"FloatStorage", DType::f32},
    {"HalfStorage", DType::f16},
    {"LongStorage", DType::i64},
    {"IntStorage", DType::i32},
    {"ShortStorage", DType::i16},
    {"CharStorage", DType::i8},
    {"ByteStorage", DType::u8},
    {"BoolStorage", DType::boolean},
    {"BFloat16Storage", DType::bf16},
    {"ComplexDoubleStorage", DType::c128},
    {"ComplexFloatStorage", DType::c64},
    {"QInt8Storage", DType::qint8},
    {"QInt32Storage", DType::qint32},
    {"QUInt8Storage", DType::quint8},
    {"QUInt4x2Storage", DType::quint4x2},
    {"QUInt2x4Storage", DType::quint2x4},
});

struct Renamed {
  std::string_view old_name;
  std::string_view name;
};
constexpr auto kModules = std::to_array<Renamed>({
    {"__builtin__", "builtins"},
    {"copy_reg", "copyreg"},
    {"torch.tensor", "torch._tensor"},
});
constexpr auto kBuiltins = std::to_array<Renamed>({{"long", "int"}, {"unicode", "str"}, {"xrange", "range"}});

template <class Table>
bool holds(const Table& table, std::string_view name) {
  return std::find(table.begin(), table.end(), name) != table.end();
}

/// What stands behind "torch." or "torch.cuda.", or "".
std::string_view torch_class(std::string_view symbol) {
  for (std::string_view prefix : {"torch.cuda.", "torch."}) {
    if (symbol.starts_with(prefix)) return symbol.substr(prefix.size());
  }
  return {};
}

std::optional<DType> class_dtype(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  name.remove_suffix(ending.size());
  for (const StorageClass& c : kStorageClasses) {
    if (c.name.substr(0, c.name.size() - std::string_view("Storage").size()) == name) return c.dtype;
  }
  return std::nullopt;
}

SymbolRole find_role(std::string_view module, std::string_view full) {
  if (holds(kValueSymbols, full)) return SymbolRole::value;
  if (holds(kDictClasses, full)) return SymbolRole::dict_class;
  if (holds(kStateful, full) || tensor_class_dtype(full)) return SymbolRole::stateful;
  if (holds(kInert, full)) return SymbolRole::inert;
  if (storage_class_dtype(full) || dtype_symbol(full)) return SymbolRole::value;
  return holds(kForbiddenModules, module) ? SymbolRole::forbidden : SymbolRole::foreign;
}

}  // namespace

PickleSymbol make_symbol(std::string_view module, std::string_view name) {
  PickleSymbol symbol;
  symbol.name = name;
  std::string_view current = module;
  for (const Renamed& r : kModules) {
    if (module == r.old_name) current = r.name;
  }
  if (current == "builtins") {
    for (const Renamed& r : kBuiltins) {
      if (name == r.old_name) symbol.name = r.name;
    }
  }
  symbol.full = std::string(current) + "." + symbol.name;
  // A name with dots reaches inside an object, which protocol 2 cannot write back and no table lists. The one that is
  // let through stands in each file of FSDP's ranks, which are joined and never written back.
  constexpr std::string_view kInside = "torch.distributed._shard.sharded_tensor.api.ShardedTensor.ProcessGroupState";
  bool nested = symbol.name.find('.') != std::string::npos && symbol.full != kInside;
  symbol.role = nested ? SymbolRole::forbidden : find_role(current, symbol.full);
  return symbol;
}

std::optional<DType> storage_class_dtype(std::string_view symbol) {
  if (is_untyped_storage(symbol)) return DType::u8;
  return class_dtype(torch_class(symbol), "Storage");
}

bool is_dtensor_class(std::string_view symbol) {
  return symbol == "torch.distributed.tensor.DTensor" || symbol == "torch.distributed.tensor._api.DTensor" ||
         symbol == "torch.distributed._tensor.api.DTensor" || symbol == "torch.distributed._tensor.DTensor";
}

bool is_untyped_storage(std::string_view symbol) {
  return symbol == "torch.storage.UntypedStorage" || symbol == "torch.storage._UntypedStorage" ||
         symbol == "torch.UntypedStorage";
}

std::string_view storage_class_name(DType dtype) {
  for (const StorageClass& c : kStorageClasses) {
    if (c.dtype == dtype) return c.name;
  }
  return {};
}

std::optional<DType> dtype_symbol(std::string_view symbol) {
  if (!symbol.starts_with("torch.")) return std::nullopt;
  std::optional<DType> dtype = core::try_parse_dtype(symbol);
  return dtype && core::name(*dtype) == symbol.substr(6) ? dtype : std::nullopt;
}

std::optional<DType> tensor_class_dtype(std::string_view symbol) {
  return class_dtype(torch_class(symbol), "Tensor");
}

bool weights_only_knows(std::string_view symbol) {
  if (storage_class_dtype(symbol) || dtype_symbol(symbol) || tensor_class_dtype(symbol)) return true;
  return holds(kWeightsOnly, symbol) || symbol.starts_with("torch.per_");
}

SymbolParts protocol2_parts(std::string_view symbol) {
  std::size_t dot = symbol.rfind('.');
  SymbolParts parts;
  if (dot != std::string_view::npos) parts.module = symbol.substr(0, dot);
  parts.name = symbol.substr(dot + 1);
  if (parts.module == "builtins") {
    for (const Renamed& r : kBuiltins) {
      if (parts.name == r.name) parts.name = r.old_name;
    }
  }
  if (parts.module == "builtins" || parts.module == "copyreg") {
    parts.module = parts.module == "builtins" ? "__builtin__" : "copy_reg";
  }
  return parts;
}

}  // namespace ckpt
