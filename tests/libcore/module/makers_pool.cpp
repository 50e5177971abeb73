// Pooling.
#include "libcore/module/conv.h"
#include "libcore/module/pooling.h"
#include "tests/libcore/module/module_makers.h"

namespace test {
namespace {

using core::AnyModule;
using core::Size2;

std::vector<std::optional<std::int64_t>> optional_sizes(Json value) {
  if (!value.is_array()) return {integer(value)};
  std::vector<std::optional<std::int64_t>> sizes;
  for (const Json item : value.get_array()) {
    sizes.push_back(is_null(item) ? std::nullopt : std::optional<std::int64_t>(integer(item)));
  }
  return sizes;
}

core::AdaptiveSize adaptive_size(Json value) {
  const auto sizes = optional_sizes(value);
  return sizes.size() == 1 ? core::AdaptiveSize(*sizes[0]) : core::AdaptiveSize(sizes.at(0), sizes.at(1));
}

AnyModule make_maxpool2d(Arguments& a) {
  const Size2 kernel = a.size2(0, "kernel_size"), stride = a.size2(1, "stride");
  const Size2 padding = a.size2(2, "padding", 0), dilation = a.size2(3, "dilation", 1);
  return core::MaxPool2d(kernel, {stride, padding, dilation, a.flag(5, "ceil_mode", false)});
}

AnyModule make_avgpool2d(Arguments& a) {
  const Size2 kernel = a.size2(0, "kernel_size"), stride = a.size2(1, "stride");
  const Size2 padding = a.size2(2, "padding", 0);
  const bool ceil_mode = a.flag(3, "ceil_mode", false);
  return core::AvgPool2d(kernel, {stride, padding, ceil_mode, a.flag(4, "count_include_pad", true), {}});
}

template <class M>
AnyModule max_pool(Arguments& a) {
  const core::Shape kernel = a.sizes(0, "kernel_size");
  core::MaxPoolOptions o;
  o.stride = a.sizes(1, "stride");
  o.padding = a.sizes(2, "padding");
  o.dilation = a.sizes(3, "dilation");
  o.ceil_mode = a.flag(5, "ceil_mode", false);
  return M(kernel, o);
}

template <class M>
AnyModule avg_pool(Arguments& a) {
  const core::Shape kernel = a.sizes(0, "kernel_size");
  core::AvgPoolOptions o;
  o.stride = a.sizes(1, "stride");
  o.padding = a.sizes(2, "padding");
  o.ceil_mode = a.flag(3, "ceil_mode", false);
  o.count_include_pad = a.flag(4, "count_include_pad", true);
  return M(kernel, o);
}

template <class M>
AnyModule lp_pool(Arguments& a) {
  const core::Scalar p = a.scalar(0, "norm_type", 2);
  const core::Shape kernel = a.sizes(1, "kernel_size");
  return M(p, kernel);
}

template <class M>
AnyModule adaptive(Arguments& a) {
  return M(optional_sizes(*a.get(0, "output_size")));
}

template <class M>
AnyModule adaptive_line(Arguments& a) {
  return M(a.integer(0, "output_size"));
}

}  // namespace

void add_pool_makers(Makers& makers) {
  makers["MaxPool1d"] = max_pool<core::MaxPool1d>;
  makers["MaxPool2d"] = make_maxpool2d;
  makers["MaxPool3d"] = max_pool<core::MaxPool3d>;
  makers["AvgPool1d"] = avg_pool<core::AvgPool1d>;
  makers["AvgPool2d"] = make_avgpool2d;
  makers["AvgPool3d"] = avg_pool<core::AvgPool3d>;
  makers["LPPool1d"] = lp_pool<core::LPPool1d>;
  makers["LPPool2d"] = lp_pool<core::LPPool2d>;
  makers["LPPool3d"] = lp_pool<core::LPPool3d>;
  makers["AdaptiveAvgPool1d"] = adaptive_line<core::AdaptiveAvgPool1d>;
  makers["AdaptiveAvgPool2d"] = [](Arguments& a) -> AnyModule {
    return core::AdaptiveAvgPool2d(adaptive_size(*a.get(0, "output_size")));
  };
  makers["AdaptiveAvgPool3d"] = adaptive<core::AdaptiveAvgPool3d>;
  makers["AdaptiveMaxPool1d"] = adaptive_line<core::AdaptiveMaxPool1d>;
  makers["AdaptiveMaxPool2d"] = adaptive<core::AdaptiveMaxPool2d>;
  makers["AdaptiveMaxPool3d"] = adaptive<core::AdaptiveMaxPool3d>;
}

}  // namespace test
