#pragma once
// Byte order of storages; see io/byte_swap.h, which array formats share. Thread safety and use: as there.

#include "libckpt/io/byte_swap.h"
