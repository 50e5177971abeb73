#!/usr/bin/env bash
# Checks who includes whom: the table of layers, one rule a line: folder : prefixes that it may include : what it may not.
# A file obeys the longest folder that holds it. System headers count only where a rule names them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rules='
libcore/base        : libcore/base
libcore/tensor      : libcore/base libcore/tensor libcore/ops libcore/backend libcore/autograd
libcore/backend     : libcore/base libcore/backend
libcore/autograd    : libcore/base libcore/tensor libcore/ops libcore/backend libcore/autograd
libcore/ops         : libcore/base libcore/tensor libcore/ops libcore/backend libcore/autograd
libcore/module      : libcore/base libcore/tensor libcore/ops libcore/backend libcore/autograd libcore/module
libcore/optim       : libcore/base libcore/tensor libcore/ops libcore/backend libcore/autograd libcore/module libcore/optim
libcore/data        : libcore/base libcore/tensor libcore/ops libcore/backend libcore/data
libcore/parallel    : libcore/base libcore/tensor libcore/ops libcore/backend libcore/autograd libcore/module libcore/parallel
libcore/distributions.h : libcore/distributions/
libcore/distributions : libcore/base libcore/tensor libcore/ops libcore/backend libcore/autograd libcore/distributions/
libcore/profiler    : libcore/base libcore/tensor libcore/backend libcore/profiler/
libcore/dist.h      : libcore/dist/
libcore/dist        : libcore/base libcore/tensor libcore/ops libcore/backend libcore/autograd libcore/module libcore/optim libcore/data libcore/parallel libcore/dist
libcore/tensorboard.h : libcore/tensorboard/
libcore/tensorboard : libcore/base libcore/tensor libcore/ops libcore/backend libcore/autograd libcore/module libcore/tensorboard/
libcore             : libcore
libckpt/io          : libcore/base libcore/backend/cpu/isa.h libckpt/io libckpt/hint.h libckpt/limits.h libckpt/report.h
libckpt/blocks      : libcore/base libcore/backend/cpu/isa.h libckpt/io libckpt/blocks libckpt/MODEL
libckpt/transform   : libcore/base libcore/backend/cpu/isa.h libckpt/io libckpt/blocks libckpt/transform libckpt/MODEL
libckpt/analyze     : libcore/base libcore/backend/cpu/isa.h libckpt/io libckpt/blocks libckpt/transform libckpt/analyze libckpt/format/format.h libckpt/MODEL
libckpt/format/torch        : libcore/base libckpt/io libckpt/format/torch/ libckpt/format/format.h libckpt/MODEL
libckpt/format/torch_zip    : libcore/base libckpt/io libckpt/format/torch/ libckpt/format/torch_zip/ libckpt/format/format.h libckpt/format/save_file.h libckpt/MODEL
libckpt/format/torch_legacy : libcore/base libckpt/io libckpt/format/torch/ libckpt/format/torch_legacy/ libckpt/format/format.h libckpt/MODEL
libckpt/format/torchscript  : libcore/base libckpt/io libckpt/format/torch/ libckpt/format/torchscript/ libckpt/format/format.h libckpt/MODEL
libckpt/format/dcp          : libcore/base libckpt/io libckpt/format/torch/ libckpt/format/dcp/ libckpt/format/torch_zip/keepable.h libckpt/format/folder.h libckpt/format/corrupt.h libckpt/format/format.h libckpt/MODEL
libckpt/format/parts        : libcore/base libckpt/io libckpt/format/parts/ libckpt/format/dcp/ libckpt/format/folder.h libckpt/format/corrupt.h libckpt/format/format.h libckpt/MODEL
libckpt/format/torch_sharded: libcore/base libckpt/io libckpt/format/torch_sharded/ libckpt/format/shard_index.h libckpt/format/format.h libckpt/MODEL
libckpt/format/safetensors  : libcore/base libckpt/io libckpt/format/safetensors/ libckpt/format/shard_index.h libckpt/format/corrupt.h libckpt/format/format.h libckpt/format/save_file.h libckpt/MODEL
libckpt/format/native       : libcore/base libckpt/io libckpt/format/native/ libckpt/format/format.h libckpt/format/save_file.h libckpt/MODEL
libckpt/hdf5        : libcore/base libckpt/io libckpt/hdf5 libckpt/MODEL
libckpt/hdf5/helper : libcore/base libckpt/io/packed.h libckpt/io/byte_cursor.h libckpt/hdf5/wire.h libckpt/hdf5/helper
libckpt/format/hdf5_write   : libcore/base libckpt/io libckpt/hdf5/describ libckpt/hdf5/wire.h libckpt/format/hdf5_write/ libckpt/format/format.h libckpt/MODEL
libckpt/format/hdf5_foreign : libcore/base libckpt/io libckpt/hdf5 libckpt/format/hdf5_write/ libckpt/format/hdf5_foreign/ libckpt/format/content_kind.h libckpt/format/unused_space.h libckpt/format/format.h libckpt/format/save_file.h libckpt/MODEL
libckpt/format/native       : libcore/base libckpt/io libckpt/hdf5 libckpt/format/hdf5_write/ libckpt/format/native/ libckpt/format/shared_tensors.h libckpt/format/unused_space.h libckpt/format/format.h libckpt/format/save_file.h libckpt/MODEL
libckpt/format/npz  : libcore/base libckpt/io libckpt/format/npz/ libckpt/format/flat_state.h libckpt/format/format.h libckpt/format/save_file.h libckpt/MODEL
libckpt/format/onnx : libcore/base libckpt/io libckpt/format/onnx/ libckpt/format/verify_reading.h libckpt/format/corrupt.h libckpt/format/folder.h libckpt/format/format.h libckpt/MODEL
libckpt/format/flax : libcore/base libckpt/io libckpt/format/flax/ libckpt/format/verify_reading.h libckpt/format/corrupt.h libckpt/format/format.h libckpt/MODEL
libckpt/format/pickle_arrays : libcore/base libckpt/io libckpt/transform/tree_map.h libckpt/format/torch/ libckpt/format/pickle_arrays/ libckpt/format/verify_reading.h libckpt/format/corrupt.h libckpt/format/format.h libckpt/MODEL
libckpt/format/deepspeed : libcore/base libckpt/io libckpt/transform/cast_values.h libckpt/format/deepspeed/ libckpt/format/corrupt.h libckpt/format/torch_part.h libckpt/format/format.h libckpt/MODEL
libckpt/format/fsdp : libcore/base libckpt/io libckpt/format/torch/ libckpt/format/dcp/ libckpt/format/fsdp/ libckpt/format/corrupt.h libckpt/format/folder.h libckpt/format/torch_part.h libckpt/format/format.h libckpt/MODEL
libckpt/format/megatron : libcore/base libckpt/io libckpt/transform/same_values.h libckpt/format/megatron/ libckpt/format/corrupt.h libckpt/format/torch_part.h libckpt/format/format.h libckpt/MODEL
libckpt/format/pt2 : libcore/base libckpt/io libckpt/format/pt2/ libckpt/format/corrupt.h libckpt/format/format.h libckpt/MODEL
libckpt/format/gguf : libcore/base libckpt/io libckpt/format/gguf/ libckpt/format/verify_reading.h libckpt/format/flat_state.h libckpt/format/folder.h libckpt/format/format.h libckpt/format/save_file.h libckpt/MODEL
libckpt/format      : libcore/base libckpt/io libckpt/format libckpt/MODEL
libckpt/hub         : libcore/base libckpt/io libckpt/analyze/spectral.h libckpt/transform libckpt/format/gguf/ libckpt/hub libckpt/MODEL
libckpt/keras       : libcore/base libckpt/io libckpt/analyze/pasteable.h libckpt/transform libckpt/keras/ libckpt/MODEL
libckpt/delta       : libcore/base libckpt/io libckpt/transform libckpt/analyze libckpt/format/read_checkpoint.h libckpt/delta libckpt/MODEL
libckpt/run         : libcore/base libckpt/io libckpt/run/ libckpt/transform libckpt/format/folder.h libckpt/format/format.h libckpt/format/shared_tensors.h libckpt/format/shard_index.h libckpt/MODEL
libckpt/remote      : libcore/base libckpt/io libckpt/remote
libckpt/bridge      : libcore libckpt/io libckpt/bridge libckpt/transform libckpt/analyze libckpt/MODEL
libckpt/bridge.h    : libckpt/bridge libckpt/ckpt.h
libckpt/onnx        : libcore libckpt/io libckpt/onnx/ libckpt/MODEL
libckpt/onnx.h      : libckpt/onnx/
libckpt/dist        : libcore libckpt/io libckpt/bridge libckpt/transform libckpt/format/dcp/ libckpt/format/parts/ libckpt/dist/ libckpt/MODEL
libckpt/dist.h      : libckpt/dist/
libckpt/c_api_remote.cpp    : libckpt/c_api libcore/base libckpt/remote/remote.h libckpt/MODEL
libckpt             : libckpt/c_api libcore/base libckpt/io libckpt/format/format.h libckpt/format/content_kind.h libckpt/format/in_place.h libckpt/format/read_checkpoint.h libckpt/format/scan_file.h libckpt/format/shared_tensors.h libckpt/delta libckpt/hub libckpt/keras/family_rules.h libckpt/keras/keras_rules.h libckpt/run/ libckpt/transform libckpt/analyze libckpt/MODEL
zoo                 : libcore libckpt/io libckpt/analyze libckpt/bridge libckpt/MODEL zoo
zoo/rules           : libcore/base libckpt/transform libckpt/MODEL zoo/rules
zoo/manifest        : libcore/base libckpt/io libckpt/analyze libckpt/MODEL zoo/manifest
tools               : libcore/base libckpt/io libckpt/remote/remote.h libckpt/delta libckpt/hub libckpt/keras/family_rules.h libckpt/keras/keras_rules.h libckpt/run/ libckpt/transform libckpt/analyze libckpt/MODEL libckpt/format/folder.h libckpt/format/format.h libckpt/format/in_place.h libckpt/format/spread.h libckpt/format/tensor_codec.h libckpt/format/unused_space.h libckpt/format/virtual_file.h zoo/manifest zoo/rules tools
tools/run           : libcore libckpt/io libckpt/bridge libckpt/hub/gguf_model.h libckpt/transform/quantize.h libckpt/onnx.h libckpt/MODEL zoo tools
tools/demo          : libcore/base libcore/backend tools
tools/support       : libcore/base zoo/data tools/support
samples             : libcore libckpt/io libckpt/bridge libckpt/transform libckpt/analyze libckpt/format/format.h libckpt/c_api.h libckpt/MODEL zoo samples tools/support
tools/train         : libcore libckpt/io libckpt/bridge libckpt/transform libckpt/MODEL zoo tools/support tools/train
'
# System headers and the only folders that may name them.
system_rules='
cuda      : libcore/backend/cuda
cublas    : libcore/backend/cuda
dnnl      : libcore/backend/cpu
kissfft   : libcore/backend/cpu
oneapi    : libcore/backend/cpu
cblas     : libcore/backend/cpu
hdf5      : libckpt/hdf5/helper
H5        : libckpt/hdf5/helper
CLI/      : tools samples
curl/     : libckpt/remote
nanobind  : tools/python
gloo/     : libcore/dist
mpi.h     : libcore/dist
zstd      : libckpt/io
isa-l     : libckpt/io libcore/tensorboard
zlib      : libckpt/io
xxhash    : libckpt/io
nettle    : libckpt/io tests/support
libdeflate: libckpt/io zoo/data
simdjson  : libckpt/io tests/support
png.h     : zoo/data libcore/tensorboard
jpeglib   : zoo/data
sndfile   : tools/support
samplerate: tools/support
jerror    : zoo/data
re2/      : libckpt/transform
pcre2     : zoo/text
utf8proc  : zoo/text
sentencepiece : zoo/text
toml++    : libckpt/transform
Eigen/    : libckpt/analyze
curses    : tools/ckpt/view
'

git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' | grep -v '^tests/' |
  xargs awk -v rules="$rules" -v system_rules="$system_rules" '
  function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
  BEGIN {
    n = split(rules, lines, "\n")
    for (i = 1; i <= n; i++) if (split(lines[i], part, ":") >= 2) allowed[trim(part[1])] = trim(part[2])
    n = split(system_rules, lines, "\n")
    for (i = 1; i <= n; i++) if (split(lines[i], part, ":") >= 2) only[trim(part[1])] = trim(part[2])
    m = split("checkpoint.h children.h damage.h entry.h boxed.h objects.h sequence_of.h gather.h hint.h value.h nearest_path.h value_path.h integer_text.h view_key.h late_texts.h limits.h budget.h report.h scan.h rescue.h obstacle.h options.h open_save.h origin.h state_dicts.h wrappers.h tensor_row.h reindex.h run.h ckpt.h bridge.h", model, " ")
  }
  function rule_for(file,   folder, best) {
    best = ""
    for (folder in allowed)
      if ((index(file, folder "/") == 1 || file == folder) && length(folder) > length(best)) best = folder
    return best
  }
  function may(folder, header,   count, list, i, j) {
    count = split(allowed[folder], list, " ")
    for (i = 1; i <= count; i++) {
      if (list[i] == "libckpt/MODEL") { for (j = 1; j <= m; j++) if (header == "libckpt/" model[j]) return 1 }
      else if (index(header, list[i]) == 1) return 1
    }
    return 0
  }
  function may_system(file, word,   count, list, i) {
    count = split(only[word], list, " ")
    for (i = 1; i <= count; i++) if (index(file, list[i] "/") == 1) return 1
    return 0
  }
  /^#include "/ {
    split($0, quoted, "\"")
    folder = rule_for(FILENAME)
    if (folder != "" && !may(folder, quoted[2])) { print FILENAME ":" FNR ": must not include \"" quoted[2] "\""; bad++ }
  }
  /^#include </ {
    header = $0; sub(/^#include </, "", header)
    for (word in only)
      if (index(header, word) == 1 && !may_system(FILENAME, word)) { print FILENAME ":" FNR ": must not include <" header; bad++ }
  }
  END { if (bad) { print bad " forbidden includes"; exit 1 } print "includes: all allowed" }'
