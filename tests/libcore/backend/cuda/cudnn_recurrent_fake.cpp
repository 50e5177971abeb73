#include "tests/libcore/backend/cuda/cudnn_recurrent_fake.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/libcore/backend/cuda/cudnn_layer_formulas.h"

namespace test {

using core::gpu::CudnnLayerApi;

namespace {

constexpr int kBadParam = 2000;

struct Handle {
  std::atomic<bool> is_busy{false};
  void* stream = nullptr;
};
struct TensorDescriptor {
  int type = -1;
  std::vector<int> sizes, strides;
};
struct DropoutDescriptor {
  bool is_set = false;
};
struct StepsDescriptor {
  int type = -1, steps = 0, batch = 0, width = 0;
};
struct LayerDescriptor {
  int type = -1;
  FakeLayer layer{};
};

FakeCudnnLayers* current = nullptr;

bool rule(bool is_kept, const char* text) {
  if (!is_kept) ADD_FAILURE() << "cuDNN: " << text;
  return is_kept;
}

/// Descriptors stay, as those of cuDNN do that nobody destroys.
template <class Descriptor>
int make(void** out) {
  static auto* all = new std::vector<std::unique_ptr<Descriptor>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  all->push_back(std::make_unique<Descriptor>());
  *out = all->back().get();
  return 0;
}

template <class Descriptor>
Descriptor& of(void* descriptor) {
  return *static_cast<Descriptor*>(descriptor);
}

std::size_t element_bytes(int type) {
  return type == 1 ? 8 : type == 0 ? 4 : 2;
}

}  // namespace

/// The calls. Each counts itself and may be made to fail.
struct FakeCudnnCalls {
  static int status_of(const char* call) {
    const std::lock_guard lock(current->mutex_);
    ++current->calls_[call];
    const auto found = current->failures_.find(call);
    return found == current->failures_.end() ? 0 : found->second;
  }
  static void launch(void* handle, std::function<void()> work) {
    if (current->launch_) return current->launch_(of<Handle>(handle).stream, std::move(work));
    work();
  }
  static std::size_t gap() { return current->gap_; }
  static void note(const FakeCudnnLayers::Described& described) {
    const std::lock_guard lock(current->mutex_);
    current->described_ = described;
  }
};

namespace {

/// One call at a time with a handle.
class Busy {
 public:
  explicit Busy(void* handle) : handle_(of<Handle>(handle)) {
    rule(!handle_.is_busy.exchange(true), "two threads use a handle at once");
  }
  ~Busy() { handle_.is_busy = false; }

 private:
  Handle& handle_;
};

// --- Descriptors

int set_stream(void* handle, void* stream) {
  of<Handle>(handle).stream = stream;
  return FakeCudnnCalls::status_of("set_stream");
}

int set_tensor(void* descriptor, int type, int dims, const int* sizes, const int* strides) {
  of<TensorDescriptor>(descriptor) = {type, {sizes, sizes + dims}, {strides, strides + dims}};
  return FakeCudnnCalls::status_of("set_tensor");
}

int get_tensor(void* descriptor, int most, int* type, int* dims, int* sizes, int* strides) {
  const auto& d = of<TensorDescriptor>(descriptor);
  *type = d.type;
  *dims = static_cast<int>(d.sizes.size());
  std::copy_n(d.sizes.begin(), std::min(most, *dims), sizes);
  std::copy_n(d.strides.begin(), std::min(most, *dims), strides);
  return FakeCudnnCalls::status_of("get_tensor");
}

int set_dropout(void* descriptor, void* handle, float p, void* states, std::size_t bytes, unsigned long long) {
  if (!rule(handle != nullptr && p == 0 && states == nullptr && bytes == 0, "no dropout without states")) {
    return kBadParam;
  }
  of<DropoutDescriptor>(descriptor).is_set = true;
  return FakeCudnnCalls::status_of("set_dropout");
}

int set_layer(void* descriptor, int algorithm, int cell, int bias, int direction, int input_mode, int type,
              int sum_type, int math, std::int32_t input, std::int32_t hidden, std::int32_t projection,
              std::int32_t layers, void* dropout, std::uint32_t flags) {
  const bool known = direction == 0 && input_mode == 0 && layers == 1 && flags == 0 && (bias == 0 || bias == 2);
  const bool types = type == 1 ? sum_type == 1 : sum_type == 0;  // bf16 sums are refused, found by trying
  rule(of<DropoutDescriptor>(dropout).is_set, "the dropout descriptor is not set");
  if (!rule(known && types && projection == hidden && input > 0 && hidden > 0, "a layer that it cannot do")) {
    return kBadParam;
  }
  of<LayerDescriptor>(descriptor) = {type, {static_cast<FakeCell>(cell), bias == 2, input, hidden, 0, 0}};
  FakeCudnnCalls::note({algorithm, type, sum_type, math});
  const int status = FakeCudnnCalls::status_of("set_layer");
  return status != 0 ? status : FakeCudnnCalls::status_of(algorithm == 0 ? "set_standard" : "set_persistent");
}

int set_steps(void* descriptor, int type, int layout, int steps, int batch, int width, const int* lengths,
              void* padding) {
  bool full = layout == 1 && padding == nullptr;
  for (int i = 0; i < batch; ++i) full = full && lengths[i] == steps;
  if (!rule(full, "packed steps of full length")) return kBadParam;
  of<StepsDescriptor>(descriptor) = {type, steps, batch, width};
  return FakeCudnnCalls::status_of("set_steps");
}

// --- Weights

/// Where the parts of the weights begin, in bytes: matrices of the input, of the state, then the biases.
struct WeightLayout {
  std::vector<std::size_t> matrices, biases;
  std::size_t bytes = 0;

  explicit WeightLayout(const LayerDescriptor& d) {
    const auto hidden = static_cast<std::size_t>(d.layer.hidden), element = element_bytes(d.type);
    const int gates = d.layer.gates();
    const auto add = [&](std::vector<std::size_t>& to, std::size_t count) {
      to.push_back(bytes);
      bytes += count * element + FakeCudnnCalls::gap();
    };
    for (int i = 0; i < gates; ++i) add(matrices, hidden * static_cast<std::size_t>(d.layer.input));
    for (int i = 0; i < gates; ++i) add(matrices, hidden * hidden);
    for (int i = 0; i < 2 * gates && d.layer.has_bias; ++i) add(biases, hidden);
  }
};

int weight_bytes(void* handle, void* layer, std::size_t* bytes) {
  const Busy busy(handle);
  *bytes = WeightLayout(of<LayerDescriptor>(layer)).bytes;
  return FakeCudnnCalls::status_of("weight_bytes");
}

int weight_place(void* handle, void* layer, std::int32_t pseudo_layer, std::size_t bytes, const void* weights,
                 std::int32_t part, void* matrix_descriptor, void** matrix, void* bias_descriptor, void** bias) {
  const Busy busy(handle);
  const auto& d = of<LayerDescriptor>(layer);
  const WeightLayout at(d);
  const auto index = static_cast<std::size_t>(part);
  if (!rule(pseudo_layer == 0 && bytes == at.bytes && index < at.matrices.size(), "a part of the weights")) {
    return kBadParam;
  }
  auto* start = static_cast<char*>(const_cast<void*>(weights));
  const int columns = part < d.layer.gates() ? d.layer.input : d.layer.hidden;
  of<TensorDescriptor>(matrix_descriptor) = {d.type, {1, d.layer.hidden, columns}, {1, columns, 1}};
  of<TensorDescriptor>(bias_descriptor) = {d.type, {1, d.layer.hidden, 1}, {1, 1, 1}};
  *matrix = start + at.matrices[index];
  *bias = d.layer.has_bias ? start + at.biases[index] : nullptr;
  return FakeCudnnCalls::status_of("weight_place");
}

/// Reads or writes the weights in a buffer, in cuDNN's order of parts.
void read_weights(const LayerDescriptor& d, const void* from, FakeWeights& out) {
  const WeightLayout at(d);
  const auto* bytes = static_cast<const char*>(from);
  for (std::size_t part = 0; part < at.matrices.size(); ++part) {
    const auto count = out.matrices[part].size();
    for (std::size_t i = 0; i < count; ++i) out.matrices[part][i] = load(d.type, bytes + at.matrices[part], i);
    for (std::size_t i = 0; d.layer.has_bias && i < out.biases[part].size(); ++i) {
      out.biases[part][i] = load(d.type, bytes + at.biases[part], i);
    }
  }
}
void add_weights(const LayerDescriptor& d, const FakeWeights& from, void* to) {
  const WeightLayout at(d);
  auto* bytes = static_cast<char*>(to);
  const auto add = [&](char* part, const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) store(d.type, part, i, load(d.type, part, i) + values[i]);
  };
  for (std::size_t part = 0; part < at.matrices.size(); ++part) {
    add(bytes + at.matrices[part], from.matrices[part]);
    if (d.layer.has_bias) add(bytes + at.biases[part], from.biases[part]);
  }
}

// --- The three calls

/// What is left in the reserve space: who wrote it last, then numbers of each step, row and unit.
constexpr std::uint64_t kOfForward = 0xF0F0, kOfDataGrad = 0xD0D0;
constexpr std::size_t kReserveHead = 64;

FakeLayer sized(const LayerDescriptor& d, const StepsDescriptor& x) {
  FakeLayer layer = d.layer;
  layer.steps = x.steps;
  layer.batch = x.batch;
  return layer;
}

struct Spaces {
  std::size_t work, reserve;
};
Spaces spaces_of(const FakeLayer& s, bool training) {
  const std::size_t units = s.states() * sizeof(double);
  return {128 + units * 2, training ? kReserveHead + static_cast<std::size_t>(s.steps) * units * kTraceWidth : 0};
}

int work_bytes(void* handle, void* layer, int mode, void* x, std::size_t* work, std::size_t* reserve) {
  const Busy busy(handle);
  const Spaces spaces = spaces_of(sized(of<LayerDescriptor>(layer), of<StepsDescriptor>(x)), mode == 1);
  *work = spaces.work;
  *reserve = spaces.reserve;
  return FakeCudnnCalls::status_of("work_bytes");
}

struct Given {
  void *layer, *x_steps, *y_steps, *h_tensor, *c_tensor;
  const void* lengths;
  std::size_t weight_bytes, work_bytes, reserve_bytes;
  void *work, *reserve;
  bool training;
};

/// What all three calls have in common. Fills the work space with what no result may hang on.
bool keeps_rules(const Given& g) {
  const auto& d = of<LayerDescriptor>(g.layer);
  const auto &x = of<StepsDescriptor>(g.x_steps), &y = of<StepsDescriptor>(g.y_steps);
  const Spaces spaces = spaces_of(sized(d, x), g.training);
  const std::vector<int> state{1, x.batch, d.layer.hidden}, dense{x.batch * d.layer.hidden, d.layer.hidden, 1};
  const auto& h = of<TensorDescriptor>(g.h_tensor);
  const bool types = x.type == d.type && y.type == d.type && h.type == d.type;
  const bool arrays = x.width == d.layer.input && y.width == d.layer.hidden && x.steps == y.steps && x.batch == y.batch;
  const bool states = h.sizes == state && h.strides == dense &&
                      (d.layer.cell == FakeCell::lstm ? g.c_tensor == g.h_tensor : g.c_tensor == nullptr);
  const bool buffers = g.weight_bytes == WeightLayout(d).bytes && g.work_bytes >= spaces.work && g.work != nullptr &&
                       g.reserve_bytes == spaces.reserve && (g.reserve != nullptr) == (spaces.reserve > 0);
  return rule(g.lengths == nullptr, "no lengths on the device") && rule(types, "one type") &&
         rule(arrays, "arrays of the layer's sizes") && rule(states, "dense states") &&
         rule(buffers, "buffers of the sizes that were asked for");
}

void spoil(void* work, std::size_t bytes) {
  std::memset(work, 0xEE, bytes);
}

std::uint64_t& head_of(void* reserve) {
  return *static_cast<std::uint64_t*>(reserve);
}
double* trace_of(void* reserve) {
  return reinterpret_cast<double*>(static_cast<char*>(reserve) + kReserveHead);
}

std::vector<double> loaded(int type, const void* from, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; from != nullptr && i < count; ++i) values[i] = load(type, from, i);
  return values;
}
void stored(int type, void* to, const std::vector<double>& values) {
  for (std::size_t i = 0; to != nullptr && i < values.size(); ++i) store(type, to, i, values[i]);
}

FakeWeights weights_of(const LayerDescriptor& d, const void* from) {
  FakeWeights weights(d.layer);
  read_weights(d, from, weights);
  return weights;
}

int forward(void* handle, void* layer, int mode, const std::int32_t* lengths, void* x_steps, const void* x,
            void* y_steps, void* y, void* h_tensor, const void* h0, void* h, void* c_tensor, const void* c0, void* c,
            std::size_t weights_bytes, const void* weights, std::size_t work_size, void* work,
            std::size_t reserve_bytes, void* reserve) {
  const Busy busy(handle);
  if (!keeps_rules({layer, x_steps, y_steps, h_tensor, c_tensor, lengths, weights_bytes, work_size, reserve_bytes, work,
                    reserve, mode == 1})) {
    return kBadParam;
  }
  if (const int status = FakeCudnnCalls::status_of("forward"); status != 0) return status;
  FakeCudnnCalls::launch(handle, [=] {
    const auto& d = of<LayerDescriptor>(layer);
    const FakeLayer s = sized(d, of<StepsDescriptor>(x_steps));
    spoil(work, work_size);
    FakeStates start{loaded(d.type, h0, s.states()), loaded(d.type, c0, s.states())};
    std::vector<double> trace;
    const std::vector<double> out =
        fake_forward(s, weights_of(d, weights), loaded(d.type, x, s.inputs()), start, trace);
    stored(d.type, y, out);
    stored(d.type, h, start.h);
    stored(d.type, c, start.c);
    if (reserve == nullptr) return;
    head_of(reserve) = kOfForward;
    std::copy(trace.begin(), trace.end(), trace_of(reserve));
  });
  return 0;
}

int data_grad(void* handle, void* layer, const std::int32_t* lengths, void* y_steps, const void* y, const void* y_grad,
              void* x_steps, void* x_grad, void* h_tensor, const void* h0, const void* h_grad, void* h0_grad,
              void* c_tensor, const void* c0, const void* c_grad, void* c0_grad, std::size_t weights_bytes,
              const void* weights, std::size_t work_size, void* work, std::size_t reserve_bytes, void* reserve) {
  const Busy busy(handle);
  if (!keeps_rules({layer, x_steps, y_steps, h_tensor, c_tensor, lengths, weights_bytes, work_size, reserve_bytes, work,
                    reserve, true}) ||
      !rule(y != nullptr && y_grad != nullptr && x_grad != nullptr, "arrays of the data's gradient")) {
    return kBadParam;
  }
  if (const int status = FakeCudnnCalls::status_of("data_grad"); status != 0) return status;
  FakeCudnnCalls::launch(handle, [=] {
    const auto& d = of<LayerDescriptor>(layer);
    const FakeLayer s = sized(d, of<StepsDescriptor>(x_steps));
    spoil(work, work_size);
    rule(head_of(reserve) == kOfForward, "the reserve space is what forward left");
    head_of(reserve) = kOfDataGrad;
    FakeStates grads{loaded(d.type, h_grad, s.states()), loaded(d.type, c_grad, s.states())};
    const std::size_t outputs = static_cast<std::size_t>(s.steps) * s.states();
    stored(d.type, x_grad,
           fake_data_grad(s, weights_of(d, weights), loaded(d.type, y_grad, outputs), grads, trace_of(reserve)));
    stored(d.type, h0_grad, grads.h);
    stored(d.type, c0_grad, grads.c);
  });
  return (h0 != nullptr && (c0 != nullptr) == (c_tensor != nullptr)) ? 0 : kBadParam;
}

int weight_grad(void* handle, void* layer, int mode, const std::int32_t* lengths, void* x_steps, const void* x,
                void* h_tensor, const void* h0, void* y_steps, const void* y, std::size_t weights_bytes,
                void* weights_grad, std::size_t work_size, void* work, std::size_t reserve_bytes, void* reserve) {
  const Busy busy(handle);
  const auto& d = of<LayerDescriptor>(layer);
  void* c_tensor = d.layer.cell == FakeCell::lstm ? h_tensor : nullptr;
  if (!keeps_rules({layer, x_steps, y_steps, h_tensor, c_tensor, lengths, weights_bytes, work_size, reserve_bytes, work,
                    reserve, true}) ||
      !rule(mode == 0, "gradients of weights are added")) {
    return kBadParam;
  }
  if (const int status = FakeCudnnCalls::status_of("weight_grad"); status != 0) return status;
  FakeCudnnCalls::launch(handle, [=] {
    const auto& described = of<LayerDescriptor>(layer);
    const FakeLayer s = sized(described, of<StepsDescriptor>(x_steps));
    spoil(work, work_size);
    rule(head_of(reserve) == kOfDataGrad, "the gradient of weights comes after that of data");
    const int type = described.type;
    const std::size_t outputs = static_cast<std::size_t>(s.steps) * s.states();
    add_weights(described,
                fake_weight_grad(s, loaded(type, x, s.inputs()), loaded(type, h0, s.states()), loaded(type, y, outputs),
                                 trace_of(reserve)),
                weights_grad);
  });
  return 0;
}

}  // namespace

FakeCudnnLayers::FakeCudnnLayers(std::size_t gap) : gap_(gap) {
  current = this;
}
FakeCudnnLayers::~FakeCudnnLayers() {
  current = nullptr;
}

const CudnnLayerApi& FakeCudnnLayers::api() const {
  static const CudnnLayerApi api{set_stream,
                                 make<TensorDescriptor>,
                                 set_tensor,
                                 get_tensor,
                                 make<DropoutDescriptor>,
                                 set_dropout,
                                 make<LayerDescriptor>,
                                 set_layer,
                                 make<StepsDescriptor>,
                                 set_steps,
                                 weight_bytes,
                                 weight_place,
                                 work_bytes,
                                 forward,
                                 data_grad,
                                 weight_grad};
  return api;
}

std::shared_ptr<core::gpu::CudnnHandles> FakeCudnnLayers::handles(const core::gpu::CudaApi* runtime) const {
  const auto create = [](void** handle) {
    const int status = FakeCudnnCalls::status_of("create");
    return status != 0 ? status : make<Handle>(handle);
  };
  return std::make_shared<core::gpu::CudnnHandles>(create, runtime);
}

void FakeCudnnLayers::fail(const std::string& call, int status) {
  const std::lock_guard lock(mutex_);
  failures_[call] = status;
}

int FakeCudnnLayers::calls(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(name);
  return found == calls_.end() ? 0 : found->second;
}

void FakeCudnnLayers::set_launch(std::function<void(void*, std::function<void()>)> launch) {
  launch_ = std::move(launch);
}

FakeCudnnLayers::Described FakeCudnnLayers::described() const {
  const std::lock_guard lock(mutex_);
  return described_;
}

}  // namespace test
