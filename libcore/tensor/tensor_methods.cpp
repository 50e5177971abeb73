// The methods of Tensor that are functions of ops/ under another spelling.
#include <optional>
#include <string>
#include <vector>

#include "libcore/ops/activation.h"
#include "libcore/ops/bitwise.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/ops/synonyms.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace core {

#define CORE_DEFINES_METHODS
#include "libcore/tensor/methods.inc"

}  // namespace core
