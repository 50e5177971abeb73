// In place of the emulated kernels where a build for another processor has golden programs: they compute on its CPU
// there, and the kernels are a third of what would be compiled for them.
#include "libcore/base/error.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"

namespace test {

const core::OpTables& emulated_tables() {
  throw core::Error(core::ErrorCode::unsupported,
                    "the kernels of CUDA devices are not emulated in a build for another processor");
}

}  // namespace test
