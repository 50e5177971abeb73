#include "libcore/module/loss.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core {

void TripletMarginWithDistanceLoss::check() const {
  if (options.margin > 0) return;
  throw Error(ErrorCode::value, "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got " +
                                    python_float(options.margin) + " instead");
}

template class ModuleOf<CrossEntropyLoss>;
template class ModuleOf<NLLLoss>;
template class ModuleOf<MSELoss>;
template class ModuleOf<L1Loss>;
template class ModuleOf<SmoothL1Loss>;
template class ModuleOf<HuberLoss>;
template class ModuleOf<BCELoss>;
template class ModuleOf<BCEWithLogitsLoss>;
template class ModuleOf<KLDivLoss>;
template class ModuleOf<PoissonNLLLoss>;
template class ModuleOf<GaussianNLLLoss>;
template class ModuleOf<SoftMarginLoss>;
template class ModuleOf<MultiLabelMarginLoss>;
template class ModuleOf<HingeEmbeddingLoss>;
template class ModuleOf<MarginRankingLoss>;
template class ModuleOf<CosineEmbeddingLoss>;
template class ModuleOf<TripletMarginLoss>;
template class ModuleOf<TripletMarginWithDistanceLoss>;
template class ModuleOf<MultiMarginLoss>;
template class ModuleOf<MultiLabelSoftMarginLoss>;
template class ModuleOf<CTCLoss>;

}  // namespace core
