#pragma once
// torch.utils.tensorboard as core::tensorboard: event files that TensorBoard shows. Link ckpt::tensorboard.
// Thread safety: see each header. Use: core::tensorboard::SummaryWriter writer("runs/first"); writer.add_scalar("loss",
// 0.5, 1);

#include "libcore/tensorboard/summary_writer.h"
