#include "libcore/module/loss.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core {

void TripletMarginWithDistanceLoss::check() const {
  if (options.margin > 0) return;
  throw Error(ErrorCode::value, "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got " +
                                    python_float(options.margin) + " instead");
}

}  // namespace core
