#pragma once
// Everything of libcore in one include.

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/device_registry.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"
#include "libcore/tensor/tensor.h"
