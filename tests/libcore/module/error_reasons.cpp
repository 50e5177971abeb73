// Situations of errors.json that C++, or this project, cannot get into.
#include "tests/libcore/module/error_cases.h"

namespace test {

const std::map<std::string, std::string>& situations_without_equivalent() {
  static const std::map<std::string, std::string> kReasons = {
      {"device_string/cuda:128", "the index would wrap around to another device in PyTorch; here it is an error"},
      {"device_string/cuda:313", "the index would wrap around to another device in PyTorch; here it is an error"},
      {"shape/tensor_string", "does not compile in C++"},
      {"rng/seed_high", "does not compile in C++"},
      {"rng/seed_low", "does not compile in C++"},
      {"factory/from_numpy_type", "does not compile in C++"},
      {"module/param_type", "does not compile in C++"},
      {"module/param_assign", "does not compile in C++"},
      {"module/buffer_type", "does not compile in C++"},
      {"module/buffer_assign", "does not compile in C++"},
      {"module/module_type", "does not compile in C++"},
      {"module/module_assign", "does not compile in C++"},
      {"module/args", "does not compile in C++"},
      {"module/attr", "does not compile in C++"},
      {"module/train_mode", "does not compile in C++"},
      {"module/seq_type", "does not compile in C++"},
      {"module/param_string", "does not compile in C++"},
      {"data/random_replacement", "does not compile in C++"},
      {"data/collate_type", "does not compile in C++"},
      {"data/not_implemented", "does not compile in C++"},
      {"data/batch_sampler_drop", "does not compile in C++"},
      {"optim/tensor", "does not compile in C++"},
      {"optim/int", "does not compile in C++"},
      {"optim/set", "does not compile in C++"},
      {"optim/add_group_type", "does not compile in C++"},
      {"sched/type", "does not compile in C++"},
      {"save/state_list", "does not compile in C++"},
      {"warn/load_order", "does not compile in C++"},
      {"autograd/numpy", "there is no NumPy here"},
      {"module/before_init", "members are struct fields, which are there before any constructor runs"},
      {"module/param_before_init", "members are struct fields, which are there before any constructor runs"},
      {"module/buffer_before_init", "members are struct fields, which are there before any constructor runs"},
      {"module/param_nonleaf", "a replica of DataParallel holds parameters that are no leaves"},
      {"warn/size_average", "the deprecated arguments size_average and reduce are not here"},
      {"warn/no_param_dtype", "no operation takes out="},
      {"save/missing_file", "files have errors of their own, which name the file and what is wrong in it"},
      {"save/empty", "files have errors of their own, which name the file and what is wrong in it"},
      {"save/garbage", "files have errors of their own, which name the file and what is wrong in it"},
      {"save/truncated", "files have errors of their own, which name the file and what is wrong in it"},
      {"save/weights_only", "files have errors of their own, which name the file and what is wrong in it"},
      {"dp/functional", "without devices data_parallel() is a plain call, as DataParallel is"},
      {"dp/functional_ids", "without devices data_parallel() is a plain call, as DataParallel is"},
      {"dp/ddp_no_group", "distributed training comes later"},
      {"dp/world_size", "distributed training comes later"},
      {"dp/all_reduce", "distributed training comes later"},
      {"dp/init_env_rank", "distributed training comes later"},
      {"dp/init_env_world", "distributed training comes later"},
      {"dp/init_env_addr", "distributed training comes later"},
      {"dp/init_backend", "distributed training comes later"},
      {"dp/init_nccl", "distributed training comes later"},
  };
  return kReasons;
}

}  // namespace test
