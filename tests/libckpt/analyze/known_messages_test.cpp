// Messages that name no key: each alone gives a cause and what to do.

#include <gmock/gmock.h>

#include "libckpt/analyze/why.h"
#include "libcore/base/error.h"

namespace {

using ckpt::CauseKind;
using ::testing::HasSubstr;

struct Told {
  const char* message;
  CauseKind kind;
  const char* advice;
};

TEST(KnownMessages, EachGivesACauseAndWhatToDo) {
  const Told kTold[] = {
      {"_pickle.UnpicklingError: invalid load key, 'v'.", CauseKind::lfs_pointer, "git lfs pull"},
      {"UnpicklingError: invalid load key, '<'.", CauseKind::web_page, "curl -L -o FILE URL"},
      {"UnpicklingError: invalid load key, '\\x1f'.", CauseKind::not_a_checkpoint, "gunzip"},
      {"RuntimeError: Invalid magic number; corrupt file?", CauseKind::corrupt, "ckpt why FILE"},
      {"RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
       CauseKind::truncated, "curl -L -C -"},
      {"RuntimeError: unexpected EOF, expected 4 more bytes. The file might be corrupted.", CauseKind::truncated,
       "curl"},
      {"_pickle.UnpicklingError: pickle data was truncated", CauseKind::truncated, "curl"},
      {"RuntimeError: storage has wrong byte size: expected 4 got 8", CauseKind::truncated, "curl"},
      {"OSError: Unable to load weights from pytorch checkpoint file for '/x' at '/x/pytorch_model.bin'.",
       CauseKind::corrupt, "ckpt why FILE"},
      {"KeyError: 'state_dict'", CauseKind::nested_dict, "ckpt info FILE"},
      {"KeyError: 'model_state_dict'", CauseKind::nested_dict, "ckpt info FILE"},
      {"AttributeError: 'collections.OrderedDict' object has no attribute 'eval'", CauseKind::program,
       "model.load_state_dict"},
      {"AttributeError: 'dict' object has no attribute 'to'", CauseKind::program, "model.load_state_dict"},
      {"TypeError: 'OrderedDict' object is not callable", CauseKind::program, "model.load_state_dict"},
      {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", CauseKind::program,
       "map_location='cpu'"},
      {"RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory",
       CauseKind::program, "mmap=True"},
      {"UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte", CauseKind::program,
       "torch.load"},
      {"ModuleNotFoundError: No module named 'models'", CauseKind::foreign_globals, "ckpt fix FILE"},
      {"AttributeError: Can't get attribute 'Net' on <module '__main__'>", CauseKind::foreign_globals, "ckpt fix FILE"},
      {"_pickle.UnpicklingError: Weights only load failed. In PyTorch 2.6", CauseKind::foreign_globals,
       "ckpt fix FILE"},
      {"SafetensorError: Error while deserializing header: HeaderTooLarge", CauseKind::corrupt, "ckpt why FILE"},
      {"SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
       CauseKind::truncated, "curl"},
  };
  for (const Told& told : kTold) {
    ckpt::Diagnosis diagnosis = ckpt::why_message({.error = told.message});
    ASSERT_EQ(diagnosis.causes.size(), 1U) << told.message;
    EXPECT_EQ(diagnosis.causes[0].kind, told.kind) << told.message;
    EXPECT_THAT(diagnosis.causes[0].advice, HasSubstr(told.advice)) << told.message;
    EXPECT_FALSE(diagnosis.loads());
  }
}

TEST(KnownMessages, AnyOtherTextIsRefused) {
  EXPECT_THROW(ckpt::why_message({.error = "no module named numpy"}), core::Error);
}

}  // namespace
