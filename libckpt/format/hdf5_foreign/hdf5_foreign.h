#pragma once
// HDF5 files of other programs: plain h5py files, Keras weights (legacy ".h5", ".weights.h5") and ".keras" archives.
// Their structure comes from the helper program, their bytes are read here. Plain ".h5" files are also written. Thread
// safety: constants. Use: the table of formats (registry.cpp) lists kHdf5 and kKerasZip.

#include "libckpt/format/format.h"

namespace ckpt::detail {

extern const Format kHdf5;
extern const Format kKerasZip;

bool detect_hdf5(const Input& input);
Checkpoint read_hdf5(const Input& input, const OpenOptions& options);
VerifyResult verify_hdf5(const Input& input, const OpenOptions& options, const Progress& progress);
std::vector<Obstacle> hdf5_obstacles(const Checkpoint& checkpoint, const SaveOptions& options);
void write_hdf5_file(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options);

bool detect_keras_zip(const Input& input);
Checkpoint read_keras_zip(const Input& input, const OpenOptions& options);
VerifyResult verify_keras_zip(const Input& input, const OpenOptions& options, const Progress& progress);

}  // namespace ckpt::detail
