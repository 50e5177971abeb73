#include "tests/libcore/backend/cuda/simulated_cudnn.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>

#include "libcore/backend/cuda/kernels/elements.h"

namespace test {
namespace {

// Numbers of cudnn_graph_v9.h and cudnn_ops_v9.h.
constexpr int kOk = 0, kBadParam = 2000, kMisaligned = 2003, kTooSmall = 2006, kShapes = 2008;
constexpr int kNotSupported = 3000, kLayout = 3004, kTypes = 3003;
constexpr int kNhwc = 1, kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 9;
constexpr int kPrecompGemm = 1, kIdentity = 5, kDefaultMath = 0, kTensorOps = 1;
constexpr std::size_t kWorkspace = 64;

/// Of any kind.
struct Descriptor {
  int format = 0, type = 0;
  std::array<std::int64_t, 4> sizes{};  // n, c, h, w
  int pad[2] = {}, stride[2] = {}, dilation[2] = {}, compute = 0, groups = 1, math = 0, activation = 0;

  std::int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  std::int64_t place(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    if (format == kNhwc) return ((n * sizes[2] + h) * sizes[3] + w) * sizes[1] + c;
    return ((n * sizes[1] + c) * sizes[2] + h) * sizes[3] + w;
  }
};
std::deque<Descriptor> descriptors;
CudnnLog log_of_calls;

Descriptor& of(void* descriptor) {
  return *static_cast<Descriptor*>(descriptor);
}

int make(void** out) {
  *out = &descriptors.emplace_back();
  return kOk;
}
int set_sizes(Descriptor& d, int format, int type, const std::array<std::int64_t, 4>& sizes) {
  for (const std::int64_t size : sizes) {
    if (size < 1) return kBadParam;
  }
  d.format = format, d.type = type, d.sizes = sizes;
  return kOk;
}

template <class T>
void load(const void* from, std::vector<double>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = core::emulated_kernels::widen(static_cast<const T*>(from)[i]);
}
template <class T>
void store(const std::vector<double>& from, void* to) {
  using Wide = core::emulated_kernels::Computed<T>;
  for (std::size_t i = 0; i < from.size(); ++i) {
    static_cast<T*>(to)[i] = core::emulated_kernels::narrow<T>(static_cast<Wide>(from[i]));
  }
}

std::vector<double> loaded(const Descriptor& d, const void* data) {
  std::vector<double> out(static_cast<std::size_t>(d.count()));
  if (d.type == kFloat) load<float>(data, out);
  if (d.type == kDouble) load<double>(data, out);
  if (d.type == kHalf) load<core::Half>(data, out);
  if (d.type == kBfloat16) load<core::BFloat16>(data, out);
  return out;
}
void put(const Descriptor& d, const std::vector<double>& values, void* data) {
  if (d.type == kFloat) store<float>(values, data);
  if (d.type == kDouble) store<double>(values, data);
  if (d.type == kHalf) store<core::Half>(values, data);
  if (d.type == kBfloat16) store<core::BFloat16>(values, data);
}

struct Problem {
  const Descriptor &image, &weight, &output, &conv;

  /// Why not, or 0.
  int refusal() const {
    if (image.type != weight.type || image.type != output.type) return kTypes;
    if (image.format != weight.format || image.format != output.format) return kLayout;
    if (image.format == kNhwc && image.type == kDouble) return kLayout;
    const bool channels = image.sizes[1] == weight.sizes[1] * conv.groups && output.sizes[1] == weight.sizes[0];
    if (!channels || image.sizes[0] != output.sizes[0]) return kShapes;
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t window = conv.dilation[d] * (weight.sizes[d + 2] - 1) + 1;
      if ((image.sizes[d + 2] + 2 * conv.pad[d] - window) / conv.stride[d] + 1 != output.sizes[d + 2]) return kShapes;
    }
    return kOk;
  }

  /// visit(image's place, weight's, output's) for every product.
  template <class Visit>
  void each(Visit visit) const {
    const std::int64_t group_out = weight.sizes[0] / conv.groups, group_in = weight.sizes[1];
    for (std::int64_t n = 0; n < output.sizes[0]; ++n) {
      for (std::int64_t k = 0; k < output.sizes[1]; ++k) {
        for (std::int64_t c = 0; c < group_in; ++c) {
          each_tap([&](std::int64_t y, std::int64_t x, std::int64_t r, std::int64_t s, std::int64_t h, std::int64_t w) {
            visit(image.place(n, k / group_out * group_in + c, h, w), weight.place(k, c, r, s),
                  output.place(n, k, y, x));
          });
        }
      }
    }
  }

 private:
  template <class Visit>
  void each_tap(Visit visit) const {
    const std::int64_t taps = weight.sizes[2] * weight.sizes[3];
    for (std::int64_t i = 0; i < output.sizes[2] * output.sizes[3] * taps; ++i) {
      const std::int64_t y = i / taps / output.sizes[3], x = i / taps % output.sizes[3];
      const std::int64_t r = i % taps / weight.sizes[3], s = i % taps % weight.sizes[3];
      const std::int64_t h = y * conv.stride[0] - conv.pad[0] + r * conv.dilation[0];
      const std::int64_t w = x * conv.stride[1] - conv.pad[1] + s * conv.dilation[1];
      if (h >= 0 && h < image.sizes[2] && w >= 0 && w < image.sizes[3]) visit(y, x, r, s, h, w);
    }
  }
};

/// From the order in which a pass takes descriptors or arrays.
template <int kPass, class T>
std::array<T, 3> image_weight_output(T first, T second, T result) {
  if constexpr (kPass == 0) return {first, second, result};
  if constexpr (kPass == 1) return {result, first, second};
  return {first, result, second};
}

template <int kPass>
int choose(void*, void* first, void* second, void* conv, void* result, int wanted, int* found,
           core::gpu::CudnnChoice* out) {
  ++log_of_calls.heuristics;
  const auto d = image_weight_output<kPass>(first, second, result);
  const int refusal = Problem{of(d[0]), of(d[1]), of(d[2]), of(conv)}.refusal();
  if (refusal != kOk) return refusal;
  *found = wanted < 1 ? 0 : 1;
  const bool refuses = log_of_calls.no_choice_for_last && of(d[0]).format == kNhwc;
  out[0] = {kPrecompGemm, refuses ? kNotSupported : kOk, 1.0F, kWorkspace, 1, of(conv).math, {}};
  return kOk;
}

int refusal_of_arrays(std::initializer_list<const void*> arrays, std::size_t workspace_bytes) {
  for (const void* array : arrays) {
    if (array == nullptr) return kBadParam;
    if (reinterpret_cast<std::uintptr_t>(array) % 16 != 0) return kMisaligned;
  }
  return workspace_bytes < kWorkspace ? kTooSmall : kOk;
}

struct Bias {
  const Descriptor& shape;
  const void* data;
};

template <int kPass>
int run(const Problem& p, std::array<const void*, 3> arrays, std::size_t workspace_bytes, const Bias* bias) {
  if (const int refusal = p.refusal(); refusal != kOk) return refusal;
  if (const int refusal = refusal_of_arrays({arrays[0], arrays[1], arrays[2]}, workspace_bytes)) return refusal;
  if (log_of_calls.no_run || (log_of_calls.no_run_of_last && p.image.format == kNhwc)) return kNotSupported;
  log_of_calls.runs.push_back({kPass, p.image.format == kNhwc, bias != nullptr, p.conv.math});
  std::vector<double> image = loaded(p.image, arrays[0]), weight = loaded(p.weight, arrays[1]),
                      output = loaded(p.output, arrays[2]);
  std::vector<double>* const results[] = {&output, &image, &weight};
  std::fill(results[kPass]->begin(), results[kPass]->end(), 0.0);
  p.each([&](std::int64_t at_image, std::int64_t at_weight, std::int64_t at_output) {
    double &x = image[static_cast<std::size_t>(at_image)], &w = weight[static_cast<std::size_t>(at_weight)];
    double& y = output[static_cast<std::size_t>(at_output)];
    if (kPass == 0) y += x * w;
    if (kPass == 1) x += y * w;
    if (kPass == 2) w += x * y;
  });
  if (bias != nullptr) {
    const std::vector<double> values = loaded(bias->shape, bias->data);
    const auto& s = p.output.sizes;
    for (std::int64_t i = 0; i < p.output.count(); ++i) {
      const std::int64_t c = i / (s[2] * s[3]) % s[1];
      const std::int64_t at = p.output.place(i / (s[1] * s[2] * s[3]), c, i / s[3] % s[2], i % s[3]);
      output[static_cast<std::size_t>(at)] += values[static_cast<std::size_t>(c)];
    }
  }
  const Descriptor* const shapes[] = {&p.output, &p.image, &p.weight};
  put(*shapes[kPass], *results[kPass], const_cast<void*>(arrays[(kPass + 2) % 3]));
  return kOk;
}

template <int kPass>
int run_plain(void*, const void*, void* first_descriptor, const void* first, void* second_descriptor,
              const void* second, void* conv, int, void*, std::size_t workspace_bytes, const void*, void* descriptor,
              void* result) {
  const auto d = image_weight_output<kPass>(first_descriptor, second_descriptor, descriptor);
  const auto arrays = image_weight_output<kPass, const void*>(first, second, result);
  return run<kPass>({of(d[0]), of(d[1]), of(d[2]), of(conv)}, arrays, workspace_bytes, nullptr);
}

int run_with_bias(void*, const void*, void* image_descriptor, const void* image, void* weight_descriptor,
                  const void* weight, void* conv, int algorithm, void*, std::size_t workspace_bytes,
                  const void* addend_factor, void*, const void*, void* bias_descriptor, const void* bias,
                  void* activation, void* output_descriptor, void* output) {
  const Descriptor& shape = of(bias_descriptor);
  if (algorithm != kPrecompGemm || of(activation).activation != kIdentity) return kNotSupported;
  if (*static_cast<const float*>(addend_factor) != 0) return kNotSupported;
  if (shape.sizes != std::array<std::int64_t, 4>{1, of(output_descriptor).sizes[1], 1, 1}) return kShapes;
  if (const int refusal = refusal_of_arrays({bias}, kWorkspace)) return refusal;
  const Bias added{shape, bias};
  return run<0>({of(image_descriptor), of(weight_descriptor), of(output_descriptor), of(conv)}, {image, weight, output},
                workspace_bytes, &added);
}

int set_convolution(void* descriptor, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w,
                    int mode, int compute) {
  if (mode != 1 || pad_h < 0 || pad_w < 0) return kBadParam;
  Descriptor& d = of(descriptor);
  d.pad[0] = pad_h, d.pad[1] = pad_w, d.stride[0] = stride_h, d.stride[1] = stride_w;
  d.dilation[0] = dilation_h, d.dilation[1] = dilation_w, d.compute = compute;
  return kOk;
}

}  // namespace

std::string CudnnLog::text() const {
  static constexpr const char* kPasses[] = {" forward", " input_grad", " weight_grad"};
  std::string text;
  for (const CudnnRun& run : runs) {
    text += (text.empty() ? "" : ", ") + std::string(run.is_last ? "last" : "first") + kPasses[run.pass] +
            (run.has_bias ? " with bias" : "");
  }
  return text;
}

CudnnLog& cudnn_log() {
  return log_of_calls;
}

core::gpu::CudnnApi simulated_cudnn() {
  log_of_calls = {};
  core::gpu::CudnnApi api{};
  api.create = api.create_tensor = api.create_filter = api.create_convolution = api.create_activation = make;
  api.set_stream = [](void*, void*) { return kOk; };
  api.set_tensor = [](void* d, int format, int type, int n, int c, int h, int w) {
    return set_sizes(of(d), format, type, {n, c, h, w});
  };
  api.set_filter = [](void* d, int type, int format, int out, int in, int h, int w) {
    return set_sizes(of(d), format, type, {out, in, h, w});
  };
  api.set_convolution = set_convolution;
  api.set_groups = [](void* d, int groups) {
    of(d).groups = groups;
    return groups < 1 ? kBadParam : kOk;
  };
  api.set_math = [](void* d, int math) {
    of(d).math = math;
    return kOk;
  };
  api.set_activation = [](void* d, int mode, int, double) {
    of(d).activation = mode;
    return kOk;
  };
  api.choose = {choose<0>, choose<1>, choose<2>};
  api.run = {run_plain<0>, run_plain<1>, run_plain<2>};
  api.run_with_bias = run_with_bias;
  return api;
}

}  // namespace test
