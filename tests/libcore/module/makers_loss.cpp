// Losses.
#include "libcore/module/loss.h"
#include "tests/libcore/module/module_makers.h"

namespace test {
namespace {

using core::AnyModule;

core::Reduction reduction(Arguments& a) {
  return core::parse_reduction(a.word(99, "reduction", "mean"));
}

AnyModule make_cross_entropy(Arguments& a) {
  core::CrossEntropyOptions o;
  o.ignore_index = a.integer(2, "ignore_index", o.ignore_index);
  o.reduction = core::parse_reduction(a.word(4, "reduction", "mean"));
  o.label_smoothing = a.number(5, "label_smoothing", 0);
  return core::CrossEntropyLoss(o);
}

template <class M>
AnyModule plain(Arguments& a) {
  return M(reduction(a));
}

template <class M>
AnyModule with_options(Arguments& a) {
  M made;
  made.options.reduction = reduction(a);
  return made;
}

}  // namespace

void add_loss_makers(Makers& makers) {
  makers["CrossEntropyLoss"] = make_cross_entropy;
  makers["MSELoss"] = plain<core::MSELoss>;
  makers["L1Loss"] = plain<core::L1Loss>;
  makers["SoftMarginLoss"] = plain<core::SoftMarginLoss>;
  makers["MultiLabelMarginLoss"] = plain<core::MultiLabelMarginLoss>;
  makers["NLLLoss"] = with_options<core::NLLLoss>;
  makers["SmoothL1Loss"] = with_options<core::SmoothL1Loss>;
  makers["HuberLoss"] = with_options<core::HuberLoss>;
  makers["BCELoss"] = with_options<core::BCELoss>;
  makers["BCEWithLogitsLoss"] = with_options<core::BCEWithLogitsLoss>;
  makers["KLDivLoss"] = with_options<core::KLDivLoss>;
  makers["PoissonNLLLoss"] = with_options<core::PoissonNLLLoss>;
  makers["GaussianNLLLoss"] = with_options<core::GaussianNLLLoss>;
  makers["HingeEmbeddingLoss"] = with_options<core::HingeEmbeddingLoss>;
  makers["MarginRankingLoss"] = with_options<core::MarginRankingLoss>;
  makers["CosineEmbeddingLoss"] = with_options<core::CosineEmbeddingLoss>;
  makers["TripletMarginLoss"] = with_options<core::TripletMarginLoss>;
  makers["MultiMarginLoss"] = with_options<core::MultiMarginLoss>;
  makers["MultiLabelSoftMarginLoss"] = with_options<core::MultiLabelSoftMarginLoss>;
  makers["CTCLoss"] = with_options<core::CTCLoss>;
}

}  // namespace test
