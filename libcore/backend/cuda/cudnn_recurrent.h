#pragma once
// Recurrent layers by cuDNN 9 (cudnn_library.h): one direction of an LSTM, GRU or plain layer over all its steps, from
// the first to the last, and its gradient. cuDNN's gates stand in PyTorch's order (LSTM: input, forget, cell, output;
// GRU: reset, update, new, the reset gate behind the product), but it wants all weights in one buffer: they are copied
// there for each call. f32 is computed in f32 (in TF32 where core::cudnn::set_allow_tf32 said so), f16 and bf16 on
// tensor cores with sums in f32. The algorithms are deterministic.
// Thread safety: all functions. Use: WholeLayerPlan plan; if (layers.plan(layer, gpu, plan)) layers.run(params,
// stream);

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "libcore/backend/cuda/cuda_api.h"
#include "libcore/backend/cuda/cudnn_library.h"
#include "libcore/backend/recurrent_table.h"

namespace core::gpu {

/// The calls of cuDNN; numbers of cudnnStatus_t, 0 is success. `lengths` on the device are null: all steps count.
struct CudnnLayerApi {
  int (*set_stream)(void* handle, void* stream);
  int (*create_tensor)(void** descriptor);
  int (*set_tensor)(void* descriptor, int type, int dims, const int* sizes, const int* strides);
  int (*get_tensor)(void* descriptor, int most_dims, int* type, int* dims, int* sizes, int* strides);
  int (*create_dropout)(void** descriptor);
  int (*set_dropout)(void* descriptor, void* handle, float p, void* states, std::size_t bytes, unsigned long long seed);
  int (*create_layer)(void** descriptor);
  /// cudnnSetRNNDescriptor_v8
  int (*set_layer)(void* descriptor, int algorithm, int cell, int bias, int direction, int input_mode, int type,
                   int sum_type, int math, std::int32_t input, std::int32_t hidden, std::int32_t projection,
                   std::int32_t layers, void* dropout, std::uint32_t flags);
  int (*create_steps)(void** descriptor);
  /// cudnnSetRNNDataDescriptor
  int (*set_steps)(void* descriptor, int type, int layout, int steps, int batch, int width, const int* lengths,
                   void* padding);
  int (*weight_bytes)(void* handle, void* layer, std::size_t* bytes);
  /// cudnnGetRNNWeightParams
  int (*weight_place)(void* handle, void* layer, std::int32_t pseudo_layer, std::size_t bytes, const void* weights,
                      std::int32_t part, void* matrix_descriptor, void** matrix, void* bias_descriptor, void** bias);
  /// cudnnGetRNNTempSpaceSizes
  int (*work_bytes)(void* handle, void* layer, int mode, void* x, std::size_t* work, std::size_t* reserve);
  int (*forward)(void* handle, void* layer, int mode, const std::int32_t* lengths, void* x_steps, const void* x,
                 void* y_steps, void* y, void* h_tensor, const void* h0, void* h, void* c_tensor, const void* c0,
                 void* c, std::size_t weight_bytes, const void* weights, std::size_t work_bytes, void* work,
                 std::size_t reserve_bytes, void* reserve);
  /// cudnnRNNBackwardData_v8
  int (*data_grad)(void* handle, void* layer, const std::int32_t* lengths, void* y_steps, const void* y,
                   const void* y_grad, void* x_steps, void* x_grad, void* h_tensor, const void* h0, const void* h_grad,
                   void* h0_grad, void* c_tensor, const void* c0, const void* c_grad, void* c0_grad,
                   std::size_t weight_bytes, const void* weights, std::size_t work_bytes, void* work,
                   std::size_t reserve_bytes, void* reserve);
  /// cudnnRNNBackwardWeights_v8
  int (*weight_grad)(void* handle, void* layer, int mode, const std::int32_t* lengths, void* x_steps, const void* x,
                     void* h_tensor, const void* h0, void* y_steps, const void* y, std::size_t weight_bytes,
                     void* weights_grad, std::size_t work_bytes, void* work, std::size_t reserve_bytes, void* reserve);
};

class CudnnLayers {
 public:
  /// `handles` and `runtime` live as long as this.
  CudnnLayers(const CudnnLayerApi& api, const CudaApi& runtime, std::shared_ptr<CudnnHandles> handles);
  ~CudnnLayers();
  CudnnLayers(const CudnnLayers&) = delete;
  CudnnLayers& operator=(const CudnnLayers&) = delete;

  /// How cuDNN does the layer on `device`, the current one; false where it cannot, or once refused. It is asked once a
  /// layer; what it gave is valid as long as this lives.
  bool plan(const WholeLayer& layer, int device, WholeLayerPlan& out);
  /// Starts the layer, or its gradient, on a stream of the plan's device.
  void run(WholeLayerParams& params, StreamHandle stream);
  void run(WholeLayerGradParams& params, StreamHandle stream);

 private:
  struct Plan;
  using Key = std::array<std::int64_t, 9>;
  std::unique_ptr<Plan> make(const WholeLayer& layer, int device, bool tf32);
  bool describe(void* handle, int algorithm, int math, Plan& plan);
  bool describe_arrays(Plan& plan);
  int fast_algorithm(const WholeLayer& layer, int device) const;
  template <class Body>
  bool call(Plan& plan, StreamHandle stream, const Body& body);
  bool find_places(void* handle, Plan& plan, const void* weights);
  bool add_place(Plan& plan, int source, int gate, const void* weights, const void* place, void* descriptor);
  bool pack(void* handle, Plan& plan, const std::array<const void*, 4>& from, void* weights, StreamHandle stream);
  bool unpack(const Plan& plan, const void* weights, const std::array<void*, 4>& to, StreamHandle stream);
  bool forward(void* handle, const Plan& plan, const WholeLayerParams& p);
  bool data_grad(void* handle, const Plan& plan, const WholeLayerGradParams& p);
  bool weight_grad(void* handle, const Plan& plan, const WholeLayerGradParams& p, StreamHandle stream);

  const CudnnLayerApi api_;
  const CudaApi& runtime_;
  const std::shared_ptr<CudnnHandles> handles_;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Plan>> plans_;  // null: cannot be done
};

/// What the table has for whole layers, computed on CudaBackend::active(); no plan where cuDNN 9 is not installed.
void fill_whole_layers(RecurrentTable& table);

}  // namespace core::gpu
