#pragma once
// Targets that read bytes as a file of one format, walk over all that is in it, and save it again.
// Use: {"npz", run_npz, ...} in targets.cpp.

#include "libcore/base/bytes.h"

namespace fuzz {

void run_safetensors(core::Bytes bytes);
void run_safetensors_index(core::Bytes bytes);
void run_torch_zip(core::Bytes bytes);
void run_torch_pickle(core::Bytes bytes);
void run_torch_legacy(core::Bytes bytes);
void run_torch_tar(core::Bytes bytes);
void run_native_index(core::Bytes bytes);
void run_npy(core::Bytes bytes);
void run_npz(core::Bytes bytes);
void run_gguf(core::Bytes bytes);
void run_flax(core::Bytes bytes);
void run_pickle_arrays(core::Bytes bytes);
void run_pt2(core::Bytes bytes);
void run_onnx(core::Bytes bytes);
void run_torchscript(core::Bytes bytes);
/// `.metadata` of a folder without data.
void run_dcp_metadata(core::Bytes bytes);
/// data.pkl of the files that FSDP's ranks wrote, with kBetweenFiles between them.
void run_fsdp_ranks(core::Bytes bytes);
/// The scanner for code in files of every kind.
void run_scan(core::Bytes bytes);
/// What the helper program says about an HDF5 file.
void run_hdf5_answer(core::Bytes bytes);
/// What it answers when a file is written.
void run_hdf5_image(core::Bytes bytes);
/// A chunk of an HDF5 dataset: the first byte chooses its filters.
void run_hdf5_chunk(core::Bytes bytes);
/// Any format: strip a prefix, save, open again, compare.
void run_strip_reread(core::Bytes bytes);

/// data.pkl of a PyTorch archive, nothing for other files.
core::ByteVector pickle_of(core::Bytes file);
/// The index of the native file that holds the same checkpoint.
core::ByteVector native_index_of(core::Bytes file);
/// One of a file with trimmed chunks.
std::vector<std::string_view> native_indexes();

/// The helper program's description of a file without tensors; nothing where there is no helper.
core::ByteVector hdf5_image_of(core::Bytes file);
/// What the helper program says about this file; nothing where there is no helper.
core::ByteVector hdf5_answer_of(core::Bytes file);

}  // namespace fuzz
